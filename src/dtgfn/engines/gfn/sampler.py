"""What the trainer asks of a GFlowNet, whichever order its leaves decide in.

Notation, as in the literature: states s, forward policy P_F, backward policy P_B, state flow F with
F(s0) = Z and F(terminal) = R^(1/temperature). A transition s -> s' is balanced when its
residual is zero::

    delta = log F(s) + log P_F(s' | s) - log F(s') - log P_B(s | s')

and every objective (see ``objectives.py``) is a function of these residuals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.trees.batch import TreeBatch, stack_trees

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Residuals:
    """Balance residuals of B trajectories with at most K transitions each.

    Attributes
    ----------
    delta : [B, K]
        Residual of each transition, with gradient; 0 where there is none. The first one of a
        trajectory holds log Z, so the sum over a row is the trajectory's residual.
    mask : bool [B, K]
        Which transitions exist.
    end : int64 [B, K] or None
        Transitions i..end-1 belong together: the part of the tree below a decision (fixed order).
        None when the trajectory is a chain and every stretch i..j belongs together (free order).

    """

    delta: Tensor
    mask: Tensor
    end: Tensor | None = None


class Trajectories(Protocol):
    """Complete trajectories, however a sampler keeps them."""

    @property
    def trees(self) -> TreeBatch:
        """What the trajectories end in [B]."""

    @property
    def log_reward(self) -> Floats:
        """Log R [B] on all training rows, before the temperature."""


@dataclass(frozen=True)
class Draws:
    """Trees drawn on-policy with what their importance weights need.

    log_weight = log R / temperature + log P_B(trajectory | tree) - log P_F(trajectory).
    ``cut_short`` [B] tells which trees had to end before they were done, for want of time.
    """

    trees: TreeBatch
    log_reward: Floats
    log_pf: Floats
    log_pb: Floats
    cut_short: npt.NDArray[np.bool_]

    def log_weight(self, temperature: float) -> Floats:
        """Log importance weights [B]; their mean weight estimates Z without bias."""
        return np.asarray(self.log_reward / temperature + self.log_pb - self.log_pf)


def draw_in_time(draw: Callable[[int], Draws], n_trees: int, n_at_once: int, ends: float) -> Draws:
    """Draw trees so many at a time until all are, or the clock passes ``ends``; some always are."""
    parts = [draw(min(n_at_once, n_trees))]
    n_drawn = min(n_at_once, n_trees)
    while n_drawn < n_trees and time.monotonic() < ends:
        size = min(n_at_once, n_trees - n_drawn)
        parts.append(draw(size))
        n_drawn += size
    return join_draws(parts)


def join_draws(parts: list[Draws]) -> Draws:
    """Put draws under one another."""
    if len(parts) == 1:
        return parts[0]
    return Draws(
        trees=stack_trees([part.trees for part in parts]),
        log_reward=np.concatenate([part.log_reward for part in parts]),
        log_pf=np.concatenate([part.log_pf for part in parts]),
        log_pb=np.concatenate([part.log_pb for part in parts]),
        cut_short=np.concatenate([part.cut_short for part in parts]),
    )


class Sampler(Protocol):
    """A GFlowNet over trees: the trainer owns the loop, the sampler everything about trees."""

    log_z: nn.Parameter  # scalar
    whole_trees: bool  # or do trajectories end in trunks that stand for all their continuations?
    ends: float  # of the monotonic clock, after which work is cut short; inf for never

    @property
    def network(self) -> nn.Module:
        """Everything learned by gradients but log Z."""

    def rollout(self, n_trees: int, epsilon: float, rng: np.random.Generator) -> Trajectories:
        """Draw trajectories from the behaviour policy, a share ``epsilon`` of actions uniform."""

    def retrace(self, trees: TreeBatch, rng: np.random.Generator) -> Trajectories:
        """Return trajectories that end in these trees, drawn backwards with P_B."""

    def residuals(self, trajectories: list[Any], with_flows: bool) -> Residuals:
        """Residuals of all trajectories, those of the first part first.

        Without flows only their sums over a row mean anything.
        """

    def learn(self, trajectories: list[Any]) -> dict[str, float]:
        """Do what is learned without gradients after a step; return numbers for the history."""

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw trees from P_F as it is now; fewer if the clock passes ``ends`` before all are."""

    def depths(self, trajectories: Any) -> Int32s:
        """Depth [B, K] of the leaf that each transition decides, -1 where there is none."""

    @property
    def best_log_reward(self) -> float:
        """Log R of the best tree that is known beyond those drawn, -inf if none is."""

    def bounds(self) -> tuple[float, float]:
        """What log Z is at least and at most, by what is known; -inf and inf without bounds."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to learn."""

    def carry(self, before: Any) -> bool:
        """Take the network of a sampler of other rows of the table; return whether it fits."""

    def settle(self) -> None:
        """Bring everything up to date when training ends."""

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays beyond the network's parameters that a checkpoint must hold."""

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``memory`` gave."""


def seeded_network(make: Callable[[], Network], seed: int) -> Network:
    """Build a network with reproducible weights, without touching torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def joined(parts: list[Residuals]) -> Residuals:
    """Put residuals under one another, so that every trajectory counts the same."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.delta.shape[1] for part in parts)

    def padded(values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(values, (0, width - values.shape[1]))

    ends: list[torch.Tensor] = []
    for part in parts:
        if part.end is not None:
            nothing = torch.arange(width, device=part.end.device)  # an empty stretch
            ends.append(torch.where(padded(part.mask), padded(part.end), nothing))
    return Residuals(
        delta=torch.cat([padded(part.delta) for part in parts]),
        mask=torch.cat([padded(part.mask) for part in parts]),
        end=torch.cat(ends) if ends else None,
    )
