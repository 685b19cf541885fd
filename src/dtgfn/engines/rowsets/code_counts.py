"""Class counts of a row set by code, where rows are many: one whole number counts all classes.

A pass over the rows adds one number for a cell, whatever the classes, and goes through them in
blocks that stay in the cache for all features. Counts are whole, so they are those of the sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt32s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.problem import Loops, Ranks

WORDS_AT_ONCE = 64  # 4096 rows


class CountScratch(NamedTuple):
    """What counting a row set writes into; all of it is empty where rows are not counted so."""

    offset: Int64s  # [F + 1] first code of each feature
    packed: Int64s  # [codes] count of each code
    rows: UInt32s  # [4096] a block of rows,
    weight: Int64s  # [4096] and how often they count


@njit(cache=True, nogil=True)
def make_count_scratch(loops: Loops) -> CountScratch:
    """Return room for any row set of the problem."""
    n_features, n_ranks = loops.rank_code.shape
    if loops.counts.packed.shape[0] == 0:
        nothing = np.zeros(0, np.int64)
        return CountScratch(nothing, nothing, np.zeros(0, np.uint32), nothing)
    offset = np.zeros(n_features + 1, np.int64)
    for f in range(n_features):
        width = 1  # codes of a feature ascend up to the padding
        while width < n_ranks and loops.rank_code[f, width] > loops.rank_code[f, width - 1]:
            width += 1
        offset[f + 1] = offset[f] + width
    n_rows = 64 * WORDS_AT_ONCE
    codes = np.zeros(offset[n_features], np.int64)
    return CountScratch(offset, codes, np.empty(n_rows, np.uint32), np.empty(n_rows, np.int64))


@njit(cache=True, nogil=True)
def count_codes(bits: UInt64s, loops: Loops, scratch: CountScratch) -> int:
    """Count the rows of a set [W] by code of every feature; return the count of all of them."""
    scratch.packed[:], total = 0, 0
    for first in range(0, bits.shape[0], WORDS_AT_ONCE):
        n = load_block(bits, first, loops, scratch)
        if n == 0:
            continue
        for r in range(n):
            total += int(scratch.weight[r])
        for f in range(loops.ranks.shape[0]):
            add_block(n, loops.ranks[f], scratch, scratch.offset[f], scratch.offset[f + 1])
    return total


@njit(**INNER)
def load_block(bits: UInt64s, first: int, loops: Loops, scratch: CountScratch) -> int:
    """Write the rows of some words and their weights; return how many there are."""
    n, one = 0, np.uint64(1)
    for w in range(first, min(first + WORDS_AT_ONCE, bits.shape[0])):
        word, row = bits[w], np.uint32(64 * w)
        while word != 0:
            # No branch on a row: whether it is there is chance.
            scratch.rows[n] = row
            n += int(word & one)
            word >>= one
            row += np.uint32(1)
    for r in range(n):
        scratch.weight[r] = loops.counts.packed[scratch.rows[r]]
    return n


@njit(**INNER)
def add_block(n: int, ranks: Ranks, scratch: CountScratch, begin: int, end: int) -> None:
    """Add a block of rows to the counts of one feature's codes."""
    rows, weight = scratch.rows, scratch.weight
    if end - begin == 2:  # as indicators of categories have
        high, total = np.int64(0), np.int64(0)
        for r in range(n):
            high += weight[r] * np.int64(ranks[rows[r]])
            total += weight[r]
        scratch.packed[begin] += total - high
        scratch.packed[begin + 1] += high
        return
    codes = scratch.packed[begin:end]
    for r in range(n):
        codes[ranks[rows[r]]] += weight[r]


@njit(**INNER)
def unpack(packed: int, loops: Loops, out: Floats) -> None:
    """Write a packed count as counts of classes [C]."""
    mask = (np.int64(1) << np.int64(loops.counts.shift)) - np.int64(1)
    for c in range(out.shape[0]):
        out[c] = (packed >> np.int64(loops.counts.shift * c)) & mask


@njit(**INNER)
def take_codes(
    f: int, loops: Loops, scratch: CountScratch, seen: Int32s, bucket: Floats
) -> tuple[int, int]:
    """Write the sums of a feature's codes [R, C], mark those there; return lowest and highest."""
    begin, end = scratch.offset[f], scratch.offset[f + 1]
    lowest, highest = bucket.shape[0], -1
    for rank in range(end - begin):
        packed = scratch.packed[begin + rank]
        if packed != 0:
            seen[rank] = 1
            unpack(packed, loops, bucket[rank])
            lowest, highest = min(lowest, rank), rank
    return lowest, highest
