"""A trained policy as a posterior keeps it: draws more trees, and tells how probable trees are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.forks import was_forked
from dtgfn.trees.batch import TreeBatch

if TYPE_CHECKING:
    from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy
    from dtgfn.engines.gfn.sampler import Sampler
    from dtgfn.engines.gfn.state import TrainState


@dataclass(frozen=True)
class TrainedPolicy:
    """A trained sampler: draws more trees, weighs given ones, and trains on (``state``).

    One that was not trained (zero-shot) has no state; training begins anew after it.
    ``fingerprint`` names the table and the score it was trained for.
    """

    sampler: Sampler | FixedPolicy
    state: TrainState | None
    fingerprint: str
    n_jobs: int  # threads of torch

    @property
    def network(self) -> Any:
        """The trained torch module; of a zero-shot fit, what guesses flows without torch."""
        if self.state is None:
            return cast("FixedPolicy", self.sampler).flows.network
        return cast("Sampler", self.sampler).network

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees from the policy; they are not weighted."""
        with torch_threads(self.n_jobs):
            return self.sampler.draw(n_trees, rng).trees

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees; -inf for one it can never draw, nan if it does not know."""
        with torch_threads(self.n_jobs):
            return self.sampler.log_prob(trees)

    def most_probable(self, n_trees: int) -> TreeBatch | None:
        """The most probable trees of those known in order, each for all that part the rows alike.

        None in free order, where nothing is known of trees that were not drawn.
        """
        return self.sampler.most_probable(n_trees)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Let torch use so many threads, one in a forked process, and give back what it had."""
    if "torch" not in sys.modules:  # nothing that runs needs it
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if was_forked() else n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
