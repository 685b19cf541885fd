"""Rows on the sides of a cut, a word of 64 rows at a time."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Bools, Int32s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.problem import Loops, Ranks


@njit(cache=True, nogil=True)
def narrow(feature: Int32s, low: Int32s, left: Bools, loops: Loops, bits: UInt64s) -> None:
    """Take from a row set [W] the rows that are not on one side of each of some cuts."""
    n_rows = loops.ranks.shape[1]
    for k in range(feature.shape[0]):
        ranks = loops.ranks[feature[k]]
        most = rank_below(feature[k], low[k], loops)
        for w in range(bits.shape[0]):
            if bits[w] == 0:
                continue
            word = word_below(ranks, 64 * w, min(64 * w + 64, n_rows), most)
            bits[w] &= word if left[k] else ~word


@njit(**INNER)
def rank_below(f: int, low: int, loops: Loops) -> int:
    """Highest rank of a feature whose code is at most ``low``; there is one."""
    codes, rank = loops.rank_code[f], 0
    while rank + 1 < codes.shape[0] and codes[rank] < codes[rank + 1] <= low:
        rank += 1
    return rank


@njit(**INNER)
def word_below(ranks: Ranks, first: int, last: int, most: int) -> np.uint64:
    """Rows first..last-1, of one word, whose rank is at most ``most``."""
    word = np.uint64(0)
    for row in range(first, last):
        word |= np.uint64(ranks[row] <= most) << np.uint64(row - first)
    return word
