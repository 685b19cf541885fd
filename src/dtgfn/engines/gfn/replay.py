"""ReplayBuffer: the best distinct trees seen so far.

Trees are replayed uniformly, whatever their reward. The buffer is there so that a good tree is not
forgotten once the policy has drifted away from it; drawing in proportion to R would replay little
but the very best tree, which the policy draws often enough by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats
from dtgfn.trees.batch import TreeBatch, canonical_keys, check_trees, empty_batch, stack_trees


class ReplayBuffer:
    """At most ``capacity`` distinct trees, best first.

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
