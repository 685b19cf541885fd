"""The cuts of one row set, numbered feature after feature, and room for sums over their pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.cut_bits import LANES, CutBits, SetBits, make_set_bits
from dtgfn.engines.rowsets.problem import Loops


class Pairs(NamedTuple):
    """Scratch for one row set with U cuts, numbered feature after feature."""

    offset: Int32s  # [F + 1] first cut of each feature
    position: Int32s  # [F, P] index of a row among the distinct codes of the feature
    prefix: Int64s  # [U] packed counts left of the cut
    multiplicity: Floats  # [U] thresholds that make the cut
    left: Floats  # [G, U] sum over second cuts in the left child, by column of the second cut
    right: Floats  # [G, U]
    best_left: Floats  # [U] the greatest of its terms
    best_right: Floats  # [U]
    z_left: Floats  # [U] sum over all trees on the left side of a first cut (see value_sides)
    z_right: Floats  # [U]
    joint: Int32s  # [R * R] joint histogram of two features
    column: Int32s  # [R]
    corner: Int32s  # [R]
    seen: Int32s  # [R]
    rows: Int32s  # [P]
    source: Int32s  # [U] the cut of all rows that each cut is, the first of those that are the same
    into_left: Floats  # [U] terms of one first cut's left side, by second cut
    into_right: Floats  # [U]
    set_bits: SetBits


@njit(**INNER)
def make_pairs(loops: Loops, max_cuts: int, n_groups: int) -> Pairs:
    """Return scratch for any row set with at most ``max_cuts`` cuts."""
    n_features, n_rows = loops.ranks.shape
    width, room = loops.rank_code.shape[1], max_cuts + LANES
    return Pairs(
        np.empty(n_features + 1, np.int32),
        np.empty((n_features, n_rows), np.int32),
        np.empty(room, np.int64),
        np.empty(room),
        np.empty((n_groups, room)),
        np.empty((n_groups, room)),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(room),
        np.empty(width * width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.zeros(width, np.int32),
        np.empty(n_rows, np.int32),
        np.empty(room, np.int32),
        np.empty(room),
        np.empty(room),
        make_set_bits(loops.bits),
    )


@njit(**INNER)
def number_cuts(s: int, loops: Loops, pairs: Pairs) -> int:
    """Number the cuts of the row set in ``pairs.rows[:s]``; return how many there are."""
    n_features = loops.ranks.shape[0]
    rows, seen, prefix = pairs.rows, pairs.seen, pairs.prefix
    n_cuts = 0
    for f in range(n_features):
        pairs.offset[f] = n_cuts
        lowest, highest = loops.rank_code.shape[1], -1
        for i in range(s):
            rank = loops.ranks[f, rows[i]]
            seen[rank] = 1
            lowest, highest = min(lowest, rank), max(highest, rank)
        index, previous = -1, -1
        for rank in range(lowest, highest + 1):
            if seen[rank] == 0:
                continue
            if previous >= 0:
                gap = loops.rank_code[f, rank] - loops.rank_code[f, previous]
                pairs.multiplicity[n_cuts + index] = gap
                prefix[n_cuts + index] = 0
            index += 1
            seen[rank] = index
            previous = rank
        for i in range(s):
            row_index = seen[loops.ranks[f, rows[i]]]
            pairs.position[f, i] = row_index
            if row_index < index:
                prefix[n_cuts + row_index] += loops.table.packed[rows[i]]
        for rank in range(lowest, highest + 1):
            seen[rank] = 0
        for u in range(n_cuts + 1, n_cuts + index):
            prefix[u] += prefix[u - 1]
        n_cuts += index
    pairs.offset[n_features] = n_cuts
    return n_cuts


@njit(**INNER)
def number_cuts_by_bits(s: int, bits: CutBits, pairs: Pairs) -> int:
    """As ``number_cuts``, from counts of the set's rows left of the cuts of all rows."""
    here, n_cuts = pairs.set_bits, 0
    for f in range(bits.offset.shape[0] - 1):
        pairs.offset[f] = n_cuts
        before = 0
        for c in range(bits.offset[f], bits.offset[f + 1]):
            n_left = here.n_left[c]
            if n_left == s:
                break
            if n_left > before:
                pairs.source[n_cuts] = c
                pairs.prefix[n_cuts] = here.packed[c]
                pairs.multiplicity[n_cuts] = 0.0
                n_cuts += 1
                before = n_left
            if n_left > 0:
                pairs.multiplicity[n_cuts - 1] += bits.multiplicity[c]
    pairs.offset[bits.offset.shape[0] - 1] = n_cuts
    return n_cuts


@njit(**INNER)
def write_positions(s: int, loops: Loops, pairs: Pairs) -> None:
    """Write each row's place among the cuts that ``number_cuts_by_bits`` found."""
    index, bits = pairs.seen, loops.bits
    for f in range(loops.ranks.shape[0]):
        u, last = pairs.offset[f], pairs.offset[f + 1]
        for rank in range(bits.offset[f + 1] - bits.offset[f] + 1):
            while u < last and pairs.source[u] - bits.offset[f] < rank:
                u += 1
            index[rank] = u - pairs.offset[f]
        for i in range(s):
            pairs.position[f, i] = index[loops.ranks[f, pairs.rows[i]]]
        for rank in range(bits.offset[f + 1] - bits.offset[f] + 1):
            index[rank] = 0


@njit(**INNER)
def keep_low_rows(n_cuts: int, bits: CutBits, pairs: Pairs) -> None:
    """Write the set's rows left of each of its cuts as bits; room after them is empty."""
    here = pairs.set_bits
    pairs.prefix[n_cuts : n_cuts + LANES] = 0
    pairs.multiplicity[n_cuts : n_cuts + LANES] = 0.0
    for w in range(here.own.shape[0]):
        own, low, below = here.own[w], here.low[w], bits.below[w]
        if own != 0:
            for u in range(n_cuts):
                low[u] = own & below[pairs.source[u]]
            low[n_cuts : n_cuts + LANES] = 0
