"""Equivalent cuts: other thresholds that part the training rows at a node in the same way.

Several candidate thresholds often lie between two neighbouring values. Trees that differ only in
which of them they take have the same score, so a posterior of a thousand trees may hold hundreds of
copies of what a reader takes for one tree. Here such trees are found and counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn.trees.batch import TreeBatch, canonical_keys


class EquivalentCuts(NamedTuple):
    """First and last cut [B, N] that parts the rows at each split alike; elsewhere the cut."""

    first: Int32s
    last: Int32s


def equivalent_cuts(trees: TreeBatch, codes: Codes) -> EquivalentCuts:
    """Find the cuts that could take each split's place without moving a row of ``codes`` [n, d].

    Examples
    --------
    >>> from dtgfn.trees.batch import from_splits
    >>> rows = np.array([[0], [2], [7]], dtype=np.uint16)
    >>> found = equivalent_cuts(from_splits([{(): (0, 3)}]), rows)
    >>> int(found.first[0, 0]), int(found.last[0, 0])
    (2, 6)

    """
    first, last = trees.cut.copy(), trees.cut.copy()
    for b in range(len(trees)):
        waiting = [(0, np.arange(len(codes)))]
        while waiting:
            node, rows = waiting.pop()
            feature = int(trees.feature[b, node])
            if feature < 0:
                continue
            values = codes[rows, feature]
            right = values > trees.cut[b, node]
            if right.any() and not right.all():
                first[b, node] = values[~right].max()
                last[b, node] = int(values[right].min()) - 1
            child = int(trees.left[b, node])
            waiting += [(child, rows[~right]), (child + 1, rows[right])]
    return EquivalentCuts(first, last)


def equivalence_keys(trees: TreeBatch, cuts: EquivalentCuts) -> list[bytes]:
    """One key per tree, equal exactly when two trees differ in equivalent cuts only."""
    return canonical_keys(TreeBatch(trees.feature, cuts.first, trees.left, trees.n_nodes))


def log_n_equivalent(cuts: EquivalentCuts) -> Floats:
    """Log of the number of trees equivalent to each tree [B], itself included."""
    return np.asarray(np.log(cuts.last - cuts.first + 1.0).sum(axis=1))
