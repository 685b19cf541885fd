"""Rows and cuts as bits: what two cuts have in common is counted 64 rows at a time.

Rows stand in an order of their own here, class by class, so that a word mostly holds rows of one
class and is counted once. A row that counts several times (equal rows, whole weights) is counted
once for each binary digit of how often it counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit

MOST_BYTES = 1 << 28  # of all cuts as bits; beyond, rows are counted one by one


# Loops over cuts run a little into room where nothing is, since the rest of a vector is slow.
LANES = 8
AT_ONCE = 4  # cells


class CutBits(NamedTuple):
    """The C cuts of all rows, feature after feature, and W words of rows.

    All arrays are empty where cuts are not counted by bits.
    """

    place: Int32s  # [P] the bit of each distinct row
    offset: Int32s  # [F + 1] first cut of each feature
    multiplicity: Floats  # [C] thresholds that make the cut
    below: UInt64s  # [W, C] rows left of the cut
    cell_word: Int32s  # [M] a word of rows,
    cell_rows: UInt64s  # [M] those of its rows that count,
    cell_value: Int64s  # [M] and what each of them adds to a packed count


def no_cut_bits() -> CutBits:
    """Return the arrays of a problem whose cuts are not counted by bits."""
    return CutBits(
        place=np.zeros(0, np.int32),
        offset=np.zeros(0, np.int32),
        multiplicity=np.zeros(0),
        below=np.zeros((0, 0), np.uint64),
        cell_word=np.zeros(0, np.int32),
        cell_rows=np.zeros(0, np.uint64),
        cell_value=np.zeros(0, np.int64),
    )


def make_cut_bits(
    ranks: npt.NDArray[np.uint16], rank_code: Int32s, units: Floats, step: Int64s
) -> CutBits:
    """Write rows of ranks [F, P] that count ``units`` [P, C] times in each class as bits."""
    n_rows = ranks.shape[1]
    n_cuts = (ranks.max(axis=1, initial=0)).astype(np.int64)
    n_words = (n_rows + 63) // 64
    if 8 * n_words * int(n_cuts.sum()) > MOST_BYTES:
        return no_cut_bits()
    order = class_by_class(ranks, units)
    place = np.empty(n_rows, np.int32)
    place[order] = np.arange(n_rows, dtype=np.int32)
    offset = np.concatenate([[0], np.cumsum(n_cuts)]).astype(np.int32)
    below = np.zeros((n_words, int(offset[-1])), np.uint64)
    for f, ranked in enumerate(ranks):
        left = ranked[order] <= np.arange(n_cuts[f])[:, None]
        below[:, offset[f] : offset[f + 1]] = as_words(left).T
    gaps = [np.diff(codes[: n + 1]) for codes, n in zip(rank_code, n_cuts, strict=True)]
    word, rows, value = cells_of(units[order].astype(np.int64), step)
    return CutBits(
        place=place,
        offset=offset,
        multiplicity=np.concatenate([np.zeros(0), *gaps]).astype(np.float64),
        below=below,
        cell_word=word,
        cell_rows=rows,
        cell_value=value,
    )


def class_by_class(ranks: npt.NDArray[np.uint16], units: Floats) -> npt.NDArray[np.intp]:
    """Order rows by class, those of several classes last, then by how often they count."""
    n_classes = (units > 0).sum(axis=1)
    leading = np.where(n_classes > 1, units.shape[1], units.argmax(axis=1))
    return np.lexsort((ranks.sum(axis=0, dtype=np.int64), -units.sum(axis=1), leading))


def as_words(rows: npt.NDArray[np.bool_]) -> UInt64s:
    """Pack rows [..., P] into words [..., W]."""
    n_rows = rows.shape[-1]
    padded = np.zeros((*rows.shape[:-1], (n_rows + 63) // 64 * 64), np.bool_)
    padded[..., :n_rows] = rows
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint64)


def cells_of(units: Int64s, step: Int64s) -> tuple[Int32s, UInt64s, Int64s]:
    """Part rows that count ``units`` [P, C] times into words of rows that count alike."""
    word, rows, value = [], [], []
    for c in range(units.shape[1]):
        for digit in range(int(units[:, c].max(initial=0)).bit_length()):
            words = as_words((units[:, c] >> digit & 1).astype(np.bool_))
            there = np.flatnonzero(words)
            word.append(there)
            rows.append(words[there])
            value.append(np.full(len(there), int(step[c]) << digit))
    return (
        np.concatenate([np.zeros(0), *word]).astype(np.int32),
        np.concatenate([np.zeros(0, np.uint64), *rows]),
        np.concatenate([np.zeros(0), *value]).astype(np.int64),
    )


class SetBits(NamedTuple):
    """Scratch: a row set and its U cuts as bits."""

    own: UInt64s  # [W] the set
    low: UInt64s  # [W, C] the first U columns: its rows left of each cut
    word: Int32s  # [M] its cells
    rows: UInt64s  # [M]
    value: Int64s  # [M]
    left_rows: UInt64s  # [M] rows of a cell left of some cut, of the cells that have any
    left_cell: Int32s  # [M]
    n_left: Int64s  # [C] rows left of each cut of all rows
    packed: Int64s  # [C] packed count of them; then, of those left of two cuts


@njit(**INNER)
def make_set_bits(bits: CutBits) -> SetBits:
    """Return room for any row set."""
    n_words, n_cuts = bits.below.shape
    n_cells = bits.cell_word.shape[0]
    return SetBits(
        np.empty(n_words, np.uint64),
        np.empty((n_words, n_cuts + LANES), np.uint64),
        np.empty(n_cells, np.int32),
        np.empty(n_cells, np.uint64),
        np.empty(n_cells, np.int64),
        np.empty(n_cells + AT_ONCE, np.uint64),
        np.empty(n_cells + AT_ONCE, np.int32),
        np.empty(n_cuts, np.int64),
        np.empty(n_cuts + LANES, np.int64),
    )


@njit(**INNER)
def whole_vectors(first: int, after: int) -> int:
    """Where a loop from ``first`` ends if it does not stop at ``after`` but fills its vectors."""
    return first + (after - first + LANES - 1) // LANES * LANES


@njit(**INNER)
def load_cells(s: int, rows: Int32s, bits: CutBits, here: SetBits) -> int:
    """Write the rows of a set as bits; return the number of its cells."""
    for w in range(here.own.shape[0]):
        here.own[w] = 0
    for i in range(s):
        place = bits.place[rows[i]]
        here.own[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
    n_cells = 0
    for m in range(bits.cell_word.shape[0]):
        some = bits.cell_rows[m] & here.own[bits.cell_word[m]]
        if some != 0:
            here.word[n_cells], here.rows[n_cells] = bits.cell_word[m], some
            here.value[n_cells] = bits.cell_value[m]
            n_cells += 1
    return n_cells


@njit(**INNER)
def count_all_cuts(n_cells: int, bits: CutBits, here: SetBits) -> None:
    """Count the set's rows left of each cut of all rows, as rows and packed."""
    n_cuts = bits.below.shape[1]
    for c in range(n_cuts):
        here.n_left[c], here.packed[c] = 0, 0
    for w in range(here.own.shape[0]):
        own, below = here.own[w], bits.below[w]
        if own != 0:
            for c in range(n_cuts):
                here.n_left[c] += count_ones(own & below[c])
    for m in range(n_cells):
        some, value, below = here.rows[m], here.value[m], bits.below[here.word[m]]
        for c in range(n_cuts):
            here.packed[c] += count_ones(some & below[c]) * value


@njit(**INNER)
def count_with(u: int, n_cuts: int, n_cells: int, here: SetBits) -> None:
    """Write the packed count of rows left of both u and each later cut into ``packed``."""
    last = whole_vectors(u + 1, n_cuts)
    both = here.packed[u + 1 : last]
    for h in range(both.shape[0]):
        both[h] = 0
    n_left = 0
    for m in range(n_cells):
        some = here.rows[m] & here.low[here.word[m], u]
        here.left_rows[n_left], here.left_cell[n_left] = some, m
        n_left += 1 if some != 0 else 0
    here.left_rows[n_left : n_left + AT_ONCE] = 0
    here.left_cell[n_left : n_left + AT_ONCE] = 0
    for m in range(0, n_left, AT_ONCE):
        x0, x1 = here.left_rows[m], here.left_rows[m + 1]
        x2, x3 = here.left_rows[m + 2], here.left_rows[m + 3]
        c0, c1 = here.left_cell[m], here.left_cell[m + 1]
        c2, c3 = here.left_cell[m + 2], here.left_cell[m + 3]
        v0, v1, v2, v3 = here.value[c0], here.value[c1], here.value[c2], here.value[c3]
        low0, low1 = here.low[here.word[c0], u + 1 : last], here.low[here.word[c1], u + 1 : last]
        low2, low3 = here.low[here.word[c2], u + 1 : last], here.low[here.word[c3], u + 1 : last]
        for h in range(both.shape[0]):
            both[h] += count_ones(x0 & low0[h]) * v0 + count_ones(x1 & low1[h]) * v1
            both[h] += count_ones(x2 & low2[h]) * v2 + count_ones(x3 & low3[h]) * v3


@njit(**INNER)
def count_ones(word: np.uint64) -> int:
    """Bits of a word that are set, in a form that compilers know."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int(np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56)))
