"""TrainState: everything that training goes on from, be it in memory or in a file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from dtgfn.engines.gfn.replay import ReplayBuffer
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import CHANGEABLE, Settings
from dtgfn.trees.score import Score


@dataclass
class TrainState:
    """Training between two steps; callbacks see it, and training can go on from it.

    Attributes
    ----------
    sampler : Sampler
        What is trained.
    rng : Generator
        All randomness of the steps; evaluations have their own (what they look at
        in fixed order stays known, though).
    step, seconds
        Steps done and time spent, over all runs.
    epsilon : float
        Share of uniform actions in the last step.
    losses : list of float
        Loss of each step since the last evaluation.
    learned : dict
        What ``sampler.learn`` said in the last step.
    n_skipped : int
        Steps that changed nothing because loss or gradient was not finite.
    history : list of dict
        One entry per evaluation, plain JSON values; None stands for what is not finite.
    best : ReplayBuffer
        The one best tree seen. Not always one of ``replay``: a sampler whose ``whole_trees`` is
        False ends its trajectories in trees that stand for all of their continuations.
    carried : bool
        Whether training began with what training on other rows had learned.
    whole : bool
        Whether the last step, and the evaluation after it, was not broken off in its middle.

    """

    sampler: Sampler
    score: Score
    settings: Settings
    optimizer: torch.optim.Adam
    replay: ReplayBuffer
    rng: np.random.Generator
    evaluation_seed: int
    step: int = 0
    seconds: float = 0.0
    epsilon: float = math.nan
    losses: list[float] = field(default_factory=list)
    learned: dict[str, float] = field(default_factory=dict)
    n_skipped: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: ReplayBuffer = field(default_factory=lambda: ReplayBuffer(1))
    carried: bool = False
    whole: bool = True

    @property
    def loss(self) -> float:
        """Loss of the last step; nan before the first one."""
        return self.losses[-1] if self.losses else math.nan

    @property
    def evaluated(self) -> bool:
        """Whether the last entry of the history is about this very step."""
        return bool(self.history) and self.history[-1]["step"] == self.step


def start_state(
    sampler: Sampler,
    score: Score,
    settings: Settings,
    random_state: int | np.random.Generator | None = None,
) -> TrainState:
    """Return the state before the first step."""
    if isinstance(random_state, np.random.Generator):
        # Whatever its kind, ours is numpy's default, whose state is a few numbers.
        random_state = random_state.integers(0, 1 << 32, size=4)  # type: ignore[assignment]
    rng = np.random.default_rng(random_state)
    return TrainState(
        sampler=sampler,
        score=score,
        settings=settings,
        optimizer=_make_optimizer(sampler, settings),
        replay=ReplayBuffer(settings.replay_capacity),
        rng=rng,
        evaluation_seed=int(rng.integers(0, 1 << 32)),
    )


def network_parameters(sampler: Sampler) -> list[torch.nn.Parameter]:
    """Parameters that learn, without log Z, should the network hold that one too."""
    every = sampler.network.parameters()
    return [p for p in every if p.requires_grad and p is not sampler.log_z]


def _make_optimizer(sampler: Sampler, settings: Settings) -> torch.optim.Adam:
    groups = [
        {"params": network_parameters(sampler), "lr": settings.learning_rate},
        {"params": [sampler.log_z], "lr": settings.log_z_learning_rate},
    ]
    return torch.optim.Adam(groups)


def first_difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Say which setting keeps training from going on as it began, if any does."""
    for name in (f.name for f in fields(Settings)):
        if name not in CHANGEABLE and before.get(name) != now[name]:
            return f"{name}={before.get(name)!r}, not {now[name]!r}"
    return None
