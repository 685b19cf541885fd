"""SummedTrees: draws of sums of trees, each leaf with its own number, made to add up fast.

A draw is one state of a chain: S sums of M trees (one sum for numbers and for two classes, else
one for each class). What a draw says of a row is the sum of its leaves' numbers.
"""

# numba's decorators are untyped; the loops' own signatures are still checked.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Threads
from dtgfn.data.binning import as_codes
from dtgfn.trees.batch import TreeBatch, trim
from dtgfn.trees.flat_trees import NEVER, FlatTrees, flatten, reach_leaves

ROWS_AT_ONCE = 256
FEW_SPLITS = 3  # of a tree whose questions are all asked at once


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


class FastSums(NamedTuple):
    """Sums made to add up fast: a tree of few splits asks all its questions at once.

    Its answers are the bits of a number, and what it says is looked up there: nothing waits for
    the question before. Trees of more splits are descended.

    Attributes
    ----------
    feature, cut : int32, uint16 [A, 3]
        Questions of each small tree, code > cut; one that is not asked has a cut above all codes.
    answer : float64 [A, 8]
        What it says.
    owner : int64 [A]
        The sum, 0..K x S - 1, that it belongs to.
    trees : FlatTrees
        The B larger trees.
    value : float64 [L]
        The number at each of their leaves.
    larger_owner : int64 [B]
        The sum that each of them belongs to.

    """

    feature: Int32s
    cut: npt.NDArray[np.uint16]
    answer: Floats
    owner: Int64s
    trees: FlatTrees
    value: Floats
    larger_owner: Int64s


def make_fast(summed: SummedTrees) -> FastSums:
    """Make sums ready to be added up."""
    batch = summed.batch
    owner = np.arange(len(batch)) // summed.n_summed
    small = np.flatnonzero((batch.n_splits > 0) & (batch.n_splits <= FEW_SPLITS))
    alone = np.flatnonzero(batch.n_splits == 0)
    asked = np.concatenate([alone, small])
    some = batch[asked]
    feature = np.zeros((len(asked), FEW_SPLITS), dtype=np.int32)
    cut = np.full((len(asked), FEW_SPLITS), NEVER, dtype=np.uint16)
    answer = np.empty((len(asked), 2**FEW_SPLITS))
    write_answers(
        some.feature, some.cut, some.left, some.n_nodes, summed.value[asked], feature, cut, answer
    )
    large = np.flatnonzero(batch.n_splits > FEW_SPLITS)
    others, numbers = batch[large], summed.value[large]
    leaf = (np.arange(numbers.shape[1])[None, :] < others.n_nodes[:, None]) & (others.feature < 0)
    return FastSums(
        feature=feature,
        cut=cut,
        answer=answer,
        owner=owner[asked].astype(np.int64),
        trees=flatten(others),
        value=np.ascontiguousarray(numbers[leaf]),
        larger_owner=owner[large].astype(np.int64),
    )


@njit(cache=True, nogil=True)
def write_answers(
    feature: Int32s,
    cut: Int32s,
    left: Int32s,
    n_nodes: Int32s,
    value: Floats,
    asked: Int32s,
    above: npt.NDArray[np.uint16],
    answer: Floats,
) -> None:
    """Number the splits of each tree [A, N] and write what it says for all answers to them."""
    bit = np.empty(feature.shape[1], dtype=np.int64)
    for b in range(feature.shape[0]):
        n_asked = 0
        for node in range(n_nodes[b]):
            if feature[b, node] >= 0:
                asked[b, n_asked], above[b, n_asked] = feature[b, node], cut[b, node]
                bit[node] = n_asked
                n_asked += 1
        for answers in range(answer.shape[1]):
            node = 0
            while feature[b, node] >= 0:
                node = left[b, node] + ((answers >> bit[node]) & 1)
            answer[b, answers] = value[b, node]


@njit(**INNER)
def add_small(fast: FastSums, columns: Codes, out: Floats, n: int) -> None:
    """Add the small trees to out [K x S, R] for the first n rows of codes [d, R]."""
    for a in range(fast.owner.shape[0]):
        first, second, third = fast.feature[a]
        p, q, r = fast.cut[a]
        x, y, z = columns[first], columns[second], columns[third]
        answer, sums = fast.answer[a], out[fast.owner[a]]
        for i in range(n):
            sums[i] += answer[int(x[i] > p) + 2 * int(y[i] > q) + 4 * int(z[i] > r)]


@njit(cache=True, nogil=True)
def add_sums(fast: FastSums, codes: Codes, out: Floats, first: int, last: int) -> None:
    """Add up all trees of each sum in out [n, K x S], rows first..last-1."""
    found = np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    columns = np.empty((codes.shape[1], ROWS_AT_ONCE), dtype=np.uint16)
    sums = np.empty((out.shape[1], ROWS_AT_ONCE))
    for start in range(first, last, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, last)
        for i in range(start, end):
            for f in range(codes.shape[1]):
                columns[f, i - start] = codes[i, f]
        for s in range(sums.shape[0]):
            for i in range(ROWS_AT_ONCE):
                sums[s, i] = 0.0
        add_small(fast, columns, sums, end - start)
        for b in range(fast.larger_owner.shape[0]):
            reach_leaves(fast.trees, b, codes, start, end, found)
            s = fast.larger_owner[b]
            for i in range(end - start):
                sums[s, i] += fast.value[found[i]]
        for i in range(start, end):
            for s in range(out.shape[1]):
                out[i, s] = sums[s, i - start]


def sum_draws(
    fast: FastSums, summed: SummedTrees, codes: Codes, n_jobs: int | None = None
) -> Floats:
    """What each draw's sums say of rows of codes [n, d] -> [n, K, S]; ``fast`` is its own."""
    highest = int(summed.batch.feature.max(initial=-1))
    codes = as_codes(codes, highest + 1)
    if codes.shape[1] == 0:  # no column, no question; the loops read one all the same
        codes = np.zeros((len(codes), 1), dtype=np.uint16)
    out = np.empty((len(codes), summed.n_draws * summed.n_sums))
    Threads(n_jobs)(lambda first, last: add_sums(fast, codes, out, first, last), len(codes))
    return out.reshape(len(codes), summed.n_draws, summed.n_sums)
