"""SummedTrees: draws of sums of trees, each leaf with its own number, made to add up fast.

A draw is one state of a chain: S sums of M trees (one sum for numbers and for two classes, else
one for each class). What a draw says of a row is the sum of its leaves' numbers.
"""

# numba's decorators are untyped; the loops' own signatures are still checked.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn._support.parallel import Threads
from dtgfn.data.binning import as_codes
from dtgfn.trees.batch import TreeBatch, trim
from dtgfn.trees.flat_trees import FlatTrees, flatten, reach_leaves

ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class SummedTrees:
    """K draws of S sums of M trees.

    Attributes
    ----------
    batch : TreeBatch
        K x S x M trees, in the order of draws, sums, trees.
    value : float64 [K x S x M, N]
        The number at each node that is a leaf; 0 elsewhere.
    n_draws, n_sums, n_summed : int
        K, S and M.

    """

    batch: TreeBatch
    value: Floats
    n_draws: int
    n_sums: int
    n_summed: int

    def __post_init__(self) -> None:
        wanted = self.n_draws * self.n_sums * self.n_summed
        if len(self.batch) != wanted or self.value.shape != self.batch.feature.shape:
            raise ValueError(
                f"{self.n_draws} draws of {self.n_sums} sums of {self.n_summed} trees do not go "
                f"with {len(self.batch)} trees and values of the shape {self.value.shape}."
            )

    def flat(self) -> tuple[FlatTrees, Floats]:
        """Trees made to descend fast, and the number at each of their leaves [L]."""
        used = np.arange(self.value.shape[1])[None, :] < self.batch.n_nodes[:, None]
        leaf = used & (self.batch.feature < 0)
        return flatten(self.batch), np.ascontiguousarray(self.value[leaf])


def stack_draws(
    size: Int32s, feature: Int32s, cut: Int32s, left: Int32s, value: Floats
) -> SummedTrees:
    """Make one of arrays [K, S, M, N], with ``size`` [K, S, M] nodes in use."""
    n_draws, n_sums, n_summed, width = feature.shape
    rows = n_draws * n_sums * n_summed
    used = np.arange(width)[None, :] < size.reshape(rows, 1)
    inner = used & (feature.reshape(rows, width) >= 0)
    batch = TreeBatch(
        feature=np.where(inner, feature.reshape(rows, width), -1).astype(np.int32),
        cut=np.where(inner, cut.reshape(rows, width), 0).astype(np.int32),
        left=np.where(inner, left.reshape(rows, width), -1).astype(np.int32),
        n_nodes=size.reshape(rows).astype(np.int32),
    )
    small = trim(batch)
    numbers = np.where(used & ~inner, value.reshape(rows, width), 0.0)
    return SummedTrees(
        small, numbers[:, : small.feature.shape[1]].copy(), n_draws, n_sums, n_summed
    )


@njit(cache=True, nogil=True)
def add_draws(
    trees: FlatTrees, value: Floats, per_sum: int, codes: Codes, out: Floats, first: int, last: int
) -> None:
    """Add up the trees of each sum of each draw in out [n, K x S], rows first..last-1."""
    found = np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        for b in range(trees.root.shape[0]):
            reach_leaves(trees, b, codes, begin, end, found)
            column = b // per_sum
            for i in range(begin, end):
                out[i, column] += value[found[i - begin]]


def sum_draws(
    flat: tuple[FlatTrees, Floats], summed: SummedTrees, codes: Codes, n_jobs: int | None = None
) -> Floats:
    """What each draw's sums say of rows of codes [n, d] -> [n, K, S]; ``flat`` is its own."""
    trees, value = flat
    n_features = int(trees.feature.max(initial=0)) + 1 if trees.depth.any() else 0
    codes = as_codes(codes, n_features)
    out = np.zeros((len(codes), summed.n_draws * summed.n_sums))

    def work(first: int, last: int) -> None:
        add_draws(trees, value, summed.n_summed, codes, out, first, last)

    Threads(n_jobs)(work, len(codes))
    return out.reshape(len(codes), summed.n_draws, summed.n_sums)
