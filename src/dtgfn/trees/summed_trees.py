"""SummedTrees: draws of sums of trees, each leaf with its own number, made to add up fast.

A draw is one state of a chain: S sums of M trees (one sum for numbers and for two classes, else
one for each class), with straight lines beside the trees or without. What a draw says of a row is
the sum of its leaves' numbers and of what the lines say.
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
from dtgfn.trees.summed_lines import SummedLines

ROWS_AT_ONCE = 256
LINES_AT_ONCE = 4
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
    lines : SummedLines or None
        What is added beside the trees.

    """

    batch: TreeBatch
    value: Floats
    n_draws: int
    n_sums: int
    n_summed: int
    lines: SummedLines | None = None

    def __post_init__(self) -> None:
        wanted = self.n_draws * self.n_sums * self.n_summed
        if len(self.batch) != wanted or self.value.shape != self.batch.feature.shape:
            raise ValueError(
                f"{self.n_draws} draws of {self.n_sums} sums of {self.n_summed} trees do not go "
                f"with {len(self.batch)} trees and values of the shape {self.value.shape}."
            )
        if self.lines is not None and self.lines.slope.shape[:2] != (self.n_draws, self.n_sums):
            raise ValueError(
                f"{self.n_draws} draws of {self.n_sums} sums do not go with slopes of the shape "
                f"{self.lines.slope.shape}."
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
    line_feature, line_score : int32 [D], float64 [D, L]
        Features that have a line, and what their codes stand for; some lines say nothing, so that D
        is a multiple of ``LINES_AT_ONCE``.
    slope : float64 [K x S, D]
        The lines of each sum.

    """

    feature: Int32s
    cut: npt.NDArray[np.uint16]
    answer: Floats
    owner: Int64s
    trees: FlatTrees
    value: Floats
    larger_owner: Int64s
    line_feature: Int32s
    line_score: Floats
    slope: Floats


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
    line_feature, line_score, slope = _padded_lines(summed)
    return FastSums(
        feature=feature,
        cut=cut,
        answer=answer,
        owner=owner[asked].astype(np.int64),
        trees=flatten(others),
        value=np.ascontiguousarray(numbers[leaf]),
        larger_owner=owner[large].astype(np.int64),
        line_feature=line_feature,
        line_score=line_score,
        slope=slope,
    )


def _padded_lines(summed: SummedTrees) -> tuple[Int32s, Floats, Floats]:
    """Features [D], scores [D, L] and slopes [K x S, D] of the lines, and of empty ones."""
    n_owners, lines = summed.n_draws * summed.n_sums, summed.lines
    if lines is None:
        return np.zeros(0, dtype=np.int32), np.zeros((0, 1)), np.zeros((n_owners, 0))
    empty = -len(lines.feature) % LINES_AT_ONCE
    slope = lines.slope.reshape(n_owners, -1)
    return (
        np.pad(lines.feature, (0, empty)),
        np.pad(lines.score, ((0, empty), (0, 0))),
        np.pad(slope, ((0, 0), (0, empty))),
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


@njit(**INNER)
def add_lines(fast: FastSums, columns: Codes, score: Floats, out: Floats, n: int) -> None:
    """Add the lines to out [K x S, R] for the first n rows of codes [d, R].

    ``score`` [LINES_AT_ONCE, R] is room; so many lines are added in one pass over ``out``.
    """
    last = fast.line_score.shape[1] - 1
    for first in range(0, fast.line_feature.shape[0], LINES_AT_ONCE):
        for k in range(LINES_AT_ONCE):
            table, column = fast.line_score[first + k], columns[fast.line_feature[first + k]]
            for i in range(n):
                score[k, i] = table[min(column[i], last)]
        one, two, three, four = score
        for s in range(out.shape[0]):
            sums, slope = out[s], fast.slope[s, first : first + LINES_AT_ONCE]
            a, b, c, d = slope[0], slope[1], slope[2], slope[3]
            for i in range(n):
                sums[i] += (a * one[i] + b * two[i]) + (c * three[i] + d * four[i])


@njit(cache=True, nogil=True)
def add_sums(fast: FastSums, codes: Codes, out: Floats, first: int, last: int) -> None:
    """Add up all trees of each sum in out [n, K x S], rows first..last-1."""
    found = np.empty(ROWS_AT_ONCE, dtype=np.uint32)
    columns = np.empty((codes.shape[1], ROWS_AT_ONCE), dtype=np.uint16)
    sums, score = np.empty((out.shape[1], ROWS_AT_ONCE)), np.empty((LINES_AT_ONCE, ROWS_AT_ONCE))
    for start in range(first, last, ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, last)
        for i in range(start, end):
            for f in range(codes.shape[1]):
                columns[f, i - start] = codes[i, f]
        for s in range(sums.shape[0]):
            for i in range(ROWS_AT_ONCE):
                sums[s, i] = 0.0
        add_small(fast, columns, sums, end - start)
        add_lines(fast, columns, score, sums, end - start)
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
    highest = max(summed.batch.feature.max(initial=-1), fast.line_feature.max(initial=-1))
    codes = as_codes(codes, int(highest) + 1)
    if codes.shape[1] == 0:  # no column, no question; the loops read one all the same
        codes = np.zeros((len(codes), 1), dtype=np.uint16)
    out = np.empty((len(codes), summed.n_draws * summed.n_sums))
    Threads(n_jobs)(lambda first, last: add_sums(fast, codes, out, first, last), len(codes))
    return out.reshape(len(codes), summed.n_draws, summed.n_sums)
