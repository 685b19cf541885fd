"""TrainState: everything that training goes on from, be it in memory, in a file or on more rows."""

from __future__ import annotations

import copy
import hashlib
import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dtgfn._support import clock
from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.equal_rows import LONG, CodedRows, digest_rows
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import CHANGEABLE, Settings, settings_values
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, canonical_keys, check_trees, empty_batch, stack_trees
from dtgfn.trees.score import Rows, Score, merge_rows

FOLLOWED = 0.5  # share of the time in which trees may be followed
AT_ONCE = 10


class ReplayBuffer:
    """The best distinct trees seen so far, at most ``capacity``, best first.

    Trees are replayed uniformly, whatever their reward. The buffer is there so that a good tree is
    not forgotten once the policy has drifted away from it; drawing in proportion to R would replay
    little but the very best tree, which the policy draws often enough by itself.

    Examples
    --------
    >>> from dtgfn.trees.batch import from_splits, stack_trees
    >>> buffer = ReplayBuffer(capacity=2)
    >>> trees = from_splits([{}, {(): (0, 2)}, {(): (0, 2)}, {(): (1, 4)}])
    >>> buffer.add(trees, np.array([-9.0, -3.0, -3.0, -5.0]))
    2
    >>> buffer.log_reward.tolist()
    [-3.0, -5.0]

    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.trees = empty_batch(0, 1)
        self.log_reward: Floats = np.zeros(0)
        self._keys: list[bytes] = []

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, trees: TreeBatch, log_reward: Floats) -> int:
        """Keep what is new and good enough; return how many trees were."""
        # Most of a batch fails here, before the costlier question whether a tree is new.
        promising = np.isfinite(log_reward)
        if len(self) == self.capacity:
            promising &= log_reward > self.log_reward[-1]
        position = np.flatnonzero(promising)
        known = set(self._keys)
        fresh, keys = [], []
        for b, key in zip(position.tolist(), canonical_keys(trees[position]), strict=True):
            if key not in known:
                known.add(key)
                fresh.append(b)
                keys.append(key)
        if not fresh:
            return 0
        return self._merge(trees[fresh], np.asarray(log_reward[fresh], dtype=np.float64), keys)

    def _merge(self, trees: TreeBatch, log_reward: Floats, keys: list[bytes]) -> int:
        n_before = len(self)
        value = np.concatenate([self.log_reward, log_reward])
        # Stable: of two equal trees the older one stays, so the order of arrival decides nothing.
        best = np.argsort(-value, kind="stable")[: self.capacity]
        both = self._keys + keys
        self.trees = stack_trees([self.trees, trees])[best]
        self.log_reward = value[best]
        self._keys = [both[i] for i in best.tolist()]
        return int((best >= n_before).sum())

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw distinct trees uniformly; all of them if there are not that many."""
        n_trees = min(n_trees, len(self))
        return (
            self.trees[rng.choice(len(self), n_trees, replace=False)] if n_trees else self.trees[:0]
        )

    @property
    def best(self) -> tuple[TreeBatch, float] | None:
        """The best tree seen (a batch of one) and its log R; None before there is any."""
        return (self.trees[:1], float(self.log_reward[0])) if len(self) else None

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything it holds, as arrays."""
        trees = self.trees
        return {
            "feature": trees.feature,
            "cut": np.where(trees.feature >= 0, trees.cut, 0),  # at leaves it may be anything
            "left": trees.left,
            "n_nodes": trees.n_nodes,
            "log_reward": self.log_reward,
        }


def buffer_from_arrays(
    arrays: dict[str, npt.NDArray[Any]], capacity: int, n_cuts: Codes, max_depth: int
) -> ReplayBuffer:
    """Return the buffer whose ``arrays`` these are; refuse what is no buffer."""
    names = ("feature", "cut", "left", "n_nodes")
    trees = TreeBatch(*(np.asarray(arrays[name], dtype=np.int32) for name in names))
    check_trees(trees, n_cuts, max_depth)
    log_reward = np.asarray(arrays["log_reward"], dtype=np.float64)
    if log_reward.shape != (len(trees),) or len(trees) > capacity:
        raise ValueError("the replayed trees and their rewards do not fit together")
    if not np.isfinite(log_reward).all() or (np.diff(log_reward) > 0).any():
        raise ValueError("the replayed trees are not in order")
    buffer = ReplayBuffer(capacity)
    buffer.trees, buffer.log_reward, buffer._keys = trees, log_reward, canonical_keys(trees)
    return buffer


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
        The one best tree seen. Not always one of ``replay``: a sampler whose ``complete_trees``
        is False ends its trajectories in trunks that stand for all of their continuations.
    warm_started : bool
        Whether training began with what training on other rows had learned.
    between_steps : bool
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
    warm_started: bool = False
    between_steps: bool = True

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
        optimizer=make_optimizer(sampler, settings),
        replay=ReplayBuffer(settings.replay_capacity),
        rng=rng,
        evaluation_seed=int(rng.integers(0, 1 << 32)),
    )


def network_parameters(sampler: Sampler) -> list[torch.nn.Parameter]:
    """Parameters that learn, without log Z, should the network hold that one too."""
    every = sampler.network.parameters()
    return [p for p in every if p.requires_grad and p is not sampler.log_z]


def make_optimizer(sampler: Sampler, settings: Settings) -> torch.optim.Adam:
    """Return what follows gradients; log Z has a rate of its own."""
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


def data_fingerprint(rows: Rows, score: Score) -> str:
    """Name the target: equal exactly for equal tables (in any order of rows) and equal scores."""
    return name_target(merge_rows(rows), score)


def name_target(merged: Rows, score: Score) -> str:
    """As ``data_fingerprint``, of rows that are merged."""
    digest = hashlib.sha256(repr((score, merged.codes.shape)).encode())
    if len(merged.target) >= LONG:  # which may be in any order
        digest.update(digest_rows(CodedRows(merged.codes, merged.target, merged.weight)))
        return digest.hexdigest()
    for array in (merged.codes, merged.target, merged.weight):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def warm_start(
    state: TrainState, before: TrainState | None, known: TreePosterior, seconds: float | None
) -> None:
    """Bring a fresh state to where the state ``before``, of other rows of the table, ended.

    The network goes on as it is, with its optimizer; log Z is what ``known``, trees of before
    weighed for the rows of now, say it is. Replayed trees are followed on these rows, the best of
    them first and as long as a share of ``seconds`` lasts, so that what they pass is known, and
    replayed with the rewards they have now. Steps and history begin anew.
    """
    deadline = np.inf if seconds is None else clock.monotonic() + FOLLOWED * seconds
    if before is not None:
        difference = first_difference(
            settings_values(before.settings), settings_values(state.settings)
        )
        if difference is not None:
            raise ValueError(
                f"The policy was trained on earlier rows with {difference}; "
                "set it back, or fit anew."
            )
        if state.sampler.warm_start(before.sampler):
            # A copy: Adam changes its moments in place.
            state.optimizer.load_state_dict(copy.deepcopy(before.optimizer.state_dict()))
        state.warm_started = True
        if np.isfinite(known.log_evidence):
            with torch.no_grad():
                state.sampler.log_z.fill_(known.log_evidence)
    # Or the best tree known could be forgotten.
    state.sampler.retrace(known.best_tree, state.rng)
    state.best.add(known.best_tree, np.array([known.best_log_reward]))
    replayed = before.replay.trees if before is not None else known.trees[:0]
    for first in range(0, len(replayed), AT_ONCE):
        if clock.monotonic() > deadline:
            break
        paths = state.sampler.retrace(replayed[first : first + AT_ONCE], state.rng)
        state.replay.add(paths.trees, paths.log_reward)
    state.sampler.finish()
