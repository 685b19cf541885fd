"""Equivalent trees: trees that part the training rows alike at every split.

Several candidate thresholds often lie between two neighbouring values of the rows at a node. Trees
that differ only in which of them they take have the same score, so a posterior of a thousand trees
may hold hundreds of copies of what a reader takes for one tree. Here such trees are found and
counted: two trees are equivalent if they have the same shape, split on the same feature at every
node, and send the same training rows to the same side there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import run_serial
from dtgfn.data.binning import as_codes
from dtgfn.trees.batch import TreeBatch, canonical_keys, n_features_of


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
    codes = as_codes(codes, n_features_of(trees))
    nothing = np.iinfo(np.int32).max
    first = np.full(trees.cut.shape, -1, dtype=np.int32)
    last = np.full(trees.cut.shape, nothing, dtype=np.int32)

    def work(begin: int, end: int) -> None:
        some = slice(begin, end)
        arrays = trees.feature[some], trees.cut[some], trees.left[some], codes
        _find_ranges(*arrays, first[some], last[some])

    run_serial(work, len(trees))
    # A split that leaves a side without rows has no others that part them alike.
    parting = (first >= 0) & (last < nothing)
    return EquivalentCuts(
        np.where(parting, first, trees.cut).astype(np.int32),
        np.where(parting, last, trees.cut).astype(np.int32),
    )


@njit(cache=True, nogil=True)
def _find_ranges(
    feature: Int32s, cut: Int32s, left: Int32s, codes: Codes, first: Int32s, last: Int32s
) -> None:
    """Write the largest code that goes left and the smallest that goes right, less one [B, N]."""
    for b in range(feature.shape[0]):
        for i in range(codes.shape[0]):
            node = 0
            while feature[b, node] >= 0:
                code = np.int32(codes[i, feature[b, node]])
                if code > cut[b, node]:
                    last[b, node] = min(last[b, node], code - 1)
                    node = left[b, node] + 1
                else:
                    first[b, node] = max(first[b, node], code)
                    node = left[b, node]


def equivalence_keys(trees: TreeBatch, cuts: EquivalentCuts) -> list[bytes]:
    """One key per tree, equal exactly when two trees are equivalent."""
    return canonical_keys(TreeBatch(trees.feature, cuts.first, trees.left, trees.n_nodes))


def log_n_equivalent(cuts: EquivalentCuts) -> Floats:
    """Log of the number of trees equivalent to each tree [B], itself included."""
    return np.asarray(np.log(cuts.last - cuts.first + 1.0).sum(axis=1))


@dataclass(frozen=True)
class EquivalentTrees:
    """Trees [B] told apart only where they part the rows differently.

    Attributes
    ----------
    leader : int64 [D]
        The first tree of each class of equivalent trees.
    member : int64 [B]
        Which class each tree is of.
    cuts : EquivalentCuts
        Of the leaders [D, N].

    """

    leader: Int64s
    member: Int64s
    cuts: EquivalentCuts

    @property
    def log_number(self) -> Floats:
        """Log of the number of trees of each class [D], whether they are in the batch or not."""
        return log_n_equivalent(self.cuts)


def group_equivalent(trees: TreeBatch, codes: Codes) -> EquivalentTrees:
    """Find the equivalent ones among trees [B], by rows of codes [n, d].

    Examples
    --------
    >>> from dtgfn.trees.batch import from_splits
    >>> rows = np.array([[0], [2], [7]], dtype=np.uint16)
    >>> found = group_equivalent(from_splits([{(): (0, 3)}, {}, {(): (0, 5)}]), rows)
    >>> found.member.tolist(), np.exp(found.log_number).round().tolist()
    ([0, 1, 0], [5.0, 1.0])

    """
    cuts = equivalent_cuts(trees, codes)
    number: dict[bytes, int] = {}
    keys = equivalence_keys(trees, cuts)
    member = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
    leader = np.unique(member, return_index=True)[1]
    return EquivalentTrees(leader, member, EquivalentCuts(*(cut[leader] for cut in cuts)))


def with_middle_cuts(trees: TreeBatch, cuts: EquivalentCuts) -> TreeBatch:
    """Move every cut to the middle of those that part the rows alike."""
    return replace(trees, cut=((cuts.first + cuts.last) // 2).astype(np.int32))
