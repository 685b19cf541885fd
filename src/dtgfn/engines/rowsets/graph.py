"""The graph of sub-problems: row sets level by sets, each stored once (hash-consing)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner
from dtgfn.engines.rowsets.problem import Loops, Problem


@dataclass(frozen=True)
class RowSets:
    """K distinct row sets: bits [K, W] and their two-word keys [K, 2]."""

    bits: UInt64s
    keys: UInt64s

    def __len__(self) -> int:
        return int(self.bits.shape[0])

    def take(self, index: Int64s) -> RowSets:
        """Keep the row sets at these positions."""
        return RowSets(self.bits[index], self.keys[index])


class Edges(NamedTuple):
    """The cuts of K row sets; cut e of set k has start[k] <= e < start[k + 1].

    All thresholds j with low <= j < high cut the set's rows the same way: they are one edge with
    multiplicity high - low. ``feature`` [E] counts the problem's features; ``left`` and ``right``
    [E] are positions in the next level. Edges of a set ascend by feature, then by cut.
    """

    start: Int64s
    feature: Int32s
    low: Int32s
    high: Int32s
    left: Int32s
    right: Int32s


class RowSetTable(NamedTuple):
    """Where the children of a level gather: an open-addressing table over their keys."""

    slots: Int32s
    bits: UInt64s
    keys: UInt64s
    used: Int32s  # [1] how many there are


def root_row_set(problem: Problem) -> RowSets:
    """Return the set of all rows, alone."""
    return make_row_sets(problem, problem.root_bits[None, :].copy())


def make_row_sets(problem: Problem, bits: UInt64s) -> RowSets:
    """Return these row sets, with their keys made again."""
    keys = np.zeros((bits.shape[0], 2), dtype=np.uint64)
    name_sets(bits, problem.keys, keys)
    return RowSets(bits, keys)


def no_edges(n_sets: int) -> Edges:
    """Return the edges of sets that have none."""
    return Edges(np.zeros(n_sets + 1, np.int64), *(np.zeros(0, np.int32) for _ in range(5)))


def take_edges(edges: Edges, sets: Int64s) -> Edges:
    """Return the edges of some sets only."""
    lengths = np.diff(edges.start)[sets]
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    chosen = np.repeat(edges.start[sets] - start[:-1], lengths) + np.arange(start[-1])
    return Edges(start, *(column[chosen] for column in edges[1:]))


@njit(cache=True, nogil=True)
def rows_of(bits: UInt64s, rows: Int32s) -> int:
    """Write the row numbers in a bitset [W] and return how many there are."""
    n = 0
    one = np.uint64(1)
    for w in range(bits.shape[0]):
        word = bits[w]
        row = w * 64
        while word != 0:
            if word & one:
                rows[n] = row
                n += 1
            word >>= one
            row += 1
    return n


@njit(cache=True, nogil=True)
def sum_rows(bits: UInt64s, loops: Loops, rows: Int32s, total: Floats) -> None:
    """Write the leaf model's sums [K] of a row set; ``rows`` [P] is scratch."""
    s = rows_of(bits, rows)
    for c in range(total.shape[0]):
        total[c] = 0.0
    for i in range(s):
        for c in range(loops.span[rows[i], 0], loops.span[rows[i], 1]):
            total[c] += loops.sums[rows[i], c]


@njit(cache=True, nogil=True)
def name_sets(bits: UInt64s, row_keys: UInt64s, keys: UInt64s) -> None:
    """Xor the keys of the rows in each set [K, 2]."""
    rows = np.empty(row_keys.shape[0], np.int32)
    for k in range(bits.shape[0]):
        for i in range(rows_of(bits[k], rows)):
            keys[k, 0] ^= row_keys[rows[i], 0]
            keys[k, 1] ^= row_keys[rows[i], 1]


@njit(cache=True, nogil=True)
def count_cuts(first: int, last: int, bits: UInt64s, loops: Loops, counts: Int32s) -> None:
    """Count the distinct cuts of row sets first..last-1."""
    n_features, n_rows = loops.ranks.shape
    rows = np.empty(n_rows, np.int32)
    stamp = np.full(loops.rank_code.shape[1], -1, np.int64)
    width = np.ones(n_features, np.int32)  # codes of a feature, which ascend up to the padding
    for f in range(n_features):
        while width[f] < loops.rank_code.shape[1]:
            if loops.rank_code[f, width[f]] <= loops.rank_code[f, width[f] - 1]:
                break
            width[f] += 1
    for k in range(first, last):
        s = rows_of(bits[k], rows)
        total = 0
        for f in range(n_features):
            mark = np.int64(k) * n_features + f
            distinct = 0
            for i in range(s):
                rank = loops.ranks[f, rows[i]]
                if stamp[rank] != mark:
                    stamp[rank] = mark
                    distinct += 1
                    if distinct == width[f]:  # most row sets show all codes long before the end
                        break
            total += distinct - 1
        counts[k] = total


@njit(cache=True, nogil=True)
def find_or_add(key0: np.uint64, key1: np.uint64, bits: UInt64s, table: RowSetTable) -> int:
    """Position of a row set among the children, which it joins if it is new."""
    mask = np.uint64(table.slots.shape[0] - 1)
    slot = key0 & mask
    while table.slots[slot] >= 0:
        child = table.slots[slot]
        if table.keys[child, 0] == key0 and table.keys[child, 1] == key1:
            return child
        slot = (slot + np.uint64(1)) & mask
    child = table.used[0]
    table.slots[slot] = child
    table.used[0] = child + 1
    table.keys[child, 0] = key0
    table.keys[child, 1] = key1
    for w in range(bits.shape[0]):
        table.bits[child, w] = bits[w]
    return child


@njit(cache=True, nogil=True)
def fill_edges(
    first: int,
    last: int,
    bits: UInt64s,
    keys: UInt64s,
    row_keys: UInt64s,
    loops: Loops,
    edges: Edges,
    table: RowSetTable,
) -> None:
    """Write the edges of row sets first..last-1 and gather their children."""
    n_features, n_rows = loops.ranks.shape
    n_ranks, n_words = loops.rank_code.shape[1], bits.shape[1]
    rows, following = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    bucket = np.full(n_ranks, -1, np.int32)
    left_bits, right_bits = np.empty(n_words, np.uint64), np.empty(n_words, np.uint64)
    for k in range(first, last):
        s = rows_of(bits[k], rows)
        e = edges.start[k]
        for f in range(n_features):
            lowest, highest = n_ranks, -1
            for i in range(s):
                rank = loops.ranks[f, rows[i]]
                following[rows[i]] = bucket[rank]
                bucket[rank] = rows[i]
                lowest, highest = min(lowest, rank), max(highest, rank)
            for w in range(n_words):
                left_bits[w] = 0
            left0, left1 = np.uint64(0), np.uint64(0)
            previous = -1
            for rank in range(lowest, highest + 1):
                if bucket[rank] < 0:
                    continue
                if previous >= 0:
                    for w in range(n_words):
                        right_bits[w] = bits[k, w] & ~left_bits[w]
                    right0, right1 = keys[k, 0] ^ left0, keys[k, 1] ^ left1
                    edges.feature[e] = f
                    edges.low[e] = loops.rank_code[f, previous]
                    edges.high[e] = loops.rank_code[f, rank]
                    edges.left[e] = find_or_add(left0, left1, left_bits, table)
                    edges.right[e] = find_or_add(right0, right1, right_bits, table)
                    e += 1
                previous = rank
                row = bucket[rank]
                bucket[rank] = -1
                while row >= 0:
                    left_bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
                    left0 ^= row_keys[row, 0]
                    left1 ^= row_keys[row, 1]
                    row = following[row]


def count_edges(problem: Problem, sets: RowSets, run: Runner) -> Int32s:
    """Count the distinct cuts of each row set of a level [K]."""
    counts = np.empty(len(sets), dtype=np.int32)
    run(lambda i, j: count_cuts(i, j, sets.bits, problem.loops, counts), len(sets))
    return counts


def expansion_bytes(problem: Problem, n_edges: float) -> float:
    """Memory that ``expand`` may touch for this many edges (one at least): columns, children."""
    return max(n_edges, 1.0) * (20 + 2 * (8 * problem.n_words + 16) + 32)


def expand(
    problem: Problem, sets: RowSets, run: Runner, counts: Int32s | None = None
) -> tuple[Edges, RowSets]:
    """Cut every row set of a level in all distinct ways; return the edges and the next level.

    ``run(work, n)`` calls ``work(first, last)`` over 0..n in chunks, in order, one at a time;
    ``counts`` may bring the number of cuts of each set.
    """
    counts = count_edges(problem, sets, run) if counts is None else counts
    start = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    n_edges = int(start[-1])
    edges = Edges(start, *(np.empty(n_edges, np.int32) for _ in range(5)))
    table = RowSetTable(
        slots=np.full(1 << max(4, (2 * n_edges).bit_length() + 1), -1, np.int32),
        # Never more children than edge ends; pages that are not used are not touched.
        bits=np.empty((2 * n_edges, problem.n_words), np.uint64),
        keys=np.empty((2 * n_edges, 2), np.uint64),
        used=np.zeros(1, np.int32),
    )
    tables = (sets.bits, sets.keys, problem.keys, problem.loops, edges, table)
    run(lambda first, last: fill_edges(first, last, *tables), len(sets))
    used = int(table.used[0])
    return edges, RowSets(table.bits[:used].copy(), table.keys[:used].copy())
