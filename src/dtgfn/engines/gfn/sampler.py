"""What the trainer asks of a GFlowNet, whichever order its leaves decide in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.engines.gfn.draws import Draws
from dtgfn.engines.gfn.objectives import Residuals
from dtgfn.trees.batch import TreeBatch

Network = TypeVar("Network", bound=nn.Module)


class Trajectories(Protocol):
    """Complete trajectories, however a sampler keeps them."""

    @property
    def trees(self) -> TreeBatch:
        """What the trajectories end in [B]."""

    @property
    def log_reward(self) -> Floats:
        """Log R [B] on all training rows, before the temperature."""


class Sampler(Protocol):
    """A GFlowNet over trees: the trainer owns the loop, the sampler everything about trees."""

    log_z: nn.Parameter  # scalar
    complete_trees: bool  # or do trajectories end in trunks that stand for all continuations?
    knows_tree_probability: bool  # or only that of trajectories, many of which lead to a tree?
    large: bool  # whether the table is so long or wide that a step takes seconds
    deadline: float  # of the monotonic clock, after which work is cut short; inf for never

    @property
    def network(self) -> nn.Module:
        """Everything learned by gradients but log Z."""

    def look_first(self, most: float = math.inf) -> None:
        """Look, before the first step, at what needs no training to be worth a look."""

    def rollout(self, n_trees: int, epsilon: float, rng: np.random.Generator) -> Trajectories:
        """Draw trajectories from the behaviour policy, a share ``epsilon`` of actions uniform."""

    def retrace(self, trees: TreeBatch, rng: np.random.Generator) -> Trajectories:
        """Return trajectories that end in these trees, drawn backwards with P_B."""

    def residuals(self, trajectories: list[Any], with_flows: bool, n_update: int = 0) -> Residuals:
        """Residuals of all trajectories, those of the first part first.

        Without flows only their sums over a row mean anything. ``n_update`` counts gradients; it
        seeds whatever the sampler adds to the trajectories.
        """

    def learn(self, trajectories: list[Any]) -> dict[str, float]:
        """Do what is learned without gradients after a step; return numbers for the history."""

    def finish(self) -> None:
        """Bring everything up to date when training ends."""

    def draw(self, n_trees: int, rng: np.random.Generator) -> Draws:
        """Draw trees from P_F as it is now; fewer if the ``deadline`` passes before all are."""

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees, -inf for impossible ones; nan where nobody knows."""

    def depths(self, trajectories: Any) -> Int32s:
        """Depth [B, K] of the leaf that each transition decides, -1 where there is none."""

    def best_known(self) -> TreeBatch | None:
        """Return the most probable tree known beyond those drawn, a batch of one; None if none."""

    def most_probable(self, n_trees: int) -> TreeBatch | None:
        """Return the most probable of the trees that can be ranked; None if none can."""

    def bounds(self) -> tuple[float, float]:
        """What log Z is at least and at most, by what is known; -inf and inf without bounds."""

    @property
    def summed_levels(self) -> int:
        """How many of a tree's last levels are summed instead of drawn."""

    @property
    def exact(self) -> bool:
        """Whether P_F is proven to be the posterior."""

    @property
    def full(self) -> bool:
        """Whether the memory is used up, so that nothing more can be looked at."""

    def stop_growing(self) -> None:
        """Look at nothing more: there is no memory for it."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to learn."""

    def diagnostics(self) -> dict[str, float]:
        """Numbers of its own that tell how far it is."""

    def warm_start(self, before: Any) -> bool:
        """Take the network of a sampler of other rows of the table; return whether it fits."""

    def memory(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays beyond the network's parameters that a checkpoint must hold."""

    def restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Take back what ``memory`` gave."""


def seeded_network(make: Callable[[], Network], seed: int) -> Network:
    """Build a network with reproducible weights, without touching torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()
