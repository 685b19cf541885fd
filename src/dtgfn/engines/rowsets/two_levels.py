"""The sum over all trees with two levels left on a row set, from pairs of cuts.

MurTree's last-two-levels idea with sums: two cuts make four corners, whose packed class counts come
from a joint histogram and whose weights from the leaf table. Every pair is looked at once and
serves both orders, so a row set costs (number of cuts)^2 / 2 look-ups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.problem import Loops

# Packed counts that rows may have for pairs of two-valued features to be counted by bits.
PLANES = 4


class Pairs(NamedTuple):
    """Scratch for one row set with U cuts, numbered feature after feature."""

    offset: Int32s  # [F + 1] first cut of each feature
    position: Int32s  # [F, P] index of a row among the distinct codes of the feature
    prefix: Int32s  # [U] packed counts left of the cut
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
    low: UInt64s  # [F, W] rows left of the cut of a feature that has just one, as bits
    plane: UInt64s  # [PLANES, W] rows with one packed count each
    plane_value: Int32s  # [PLANES]


@njit(**INNER)
def make_pairs(loops: Loops, max_cuts: int, n_groups: int) -> Pairs:
    """Return scratch for any row set with at most ``max_cuts`` cuts."""
    n_features, n_rows = loops.ranks.shape
    width = loops.rank_code.shape[1]
    return Pairs(
        np.empty(n_features + 1, np.int32),
        np.empty((n_features, n_rows), np.int32),
        np.empty(max_cuts, np.int32),
        np.empty(max_cuts),
        np.empty((n_groups, max_cuts)),
        np.empty((n_groups, max_cuts)),
        np.empty(max_cuts),
        np.empty(max_cuts),
        np.empty(max_cuts),
        np.empty(max_cuts),
        np.empty(width * width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.zeros(width, np.int32),
        np.empty(n_rows, np.int32),
        np.empty((n_features, (n_rows + 63) // 64), np.uint64),
        np.empty((PLANES, (n_rows + 63) // 64), np.uint64),
        np.empty(PLANES, np.int32),
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


@njit(**INNER, fastmath={"reassoc", "nsz", "contract"})
def pair_same_feature(a: int, b: int, total: int, own: int, value: Floats, pairs: Pairs) -> None:
    """Add the second cuts on the feature of the first: cuts a..b-1 against each other."""
    prefix, multiplicity = pairs.prefix, pairs.multiplicity
    left, right = pairs.left[own], pairs.right[own]
    for i in range(a, b):
        right_of_i = value[total - prefix[i]]
        into, best = 0.0, 0.0
        for h in range(a, i):
            between = value[prefix[i] - prefix[h]]
            inner = multiplicity[h] * (value[prefix[h]] * between)
            outer = multiplicity[i] * (between * right_of_i)
            into += inner
            best = max(best, inner)
            right[h] += outer
            pairs.best_right[h] = max(pairs.best_right[h], outer)
        left[i] += into
        pairs.best_left[i] = max(pairs.best_left[i], best)


@njit(**INNER, fastmath={"reassoc", "nsz", "contract"})
def pair_two_features(
    a: int, b: int, c: int, d: int, total: int, f: int, g: int, value: Floats, pairs: Pairs
) -> None:
    """Add cuts a..b-1 (column f) against cuts c..d-1 (column g), in both orders.

    An empty corner weighs 0, so a second cut that does not split its side drops out by itself.
    """
    prefix, multiplicity = pairs.prefix[c:d], pairs.multiplicity[c:d]
    left_g, right_g = pairs.left[f, c:d], pairs.right[f, c:d]
    best_left_g, best_right_g = pairs.best_left[c:d], pairs.best_right[c:d]
    n = d - c
    column, corner = pairs.column[:n], pairs.corner[:n]
    for h in range(n):
        column[h] = 0
    for i in range(a, b):
        joint = pairs.joint[(i - a) * (n + 1) : (i - a) * (n + 1) + n]
        running = 0
        for h in range(n):
            column[h] += joint[h]
            running += column[h]
            corner[h] = running
        left_of_i, beyond_i = pairs.prefix[i], total - pairs.prefix[i]
        times = pairs.multiplicity[i]
        into_left, into_right, best_left, best_right = 0.0, 0.0, 0.0, 0.0
        for h in range(n):
            ll = corner[h]
            v_ll, v_lr = value[ll], value[left_of_i - ll]
            v_rl, v_rr = value[prefix[h] - ll], value[beyond_i - prefix[h] + ll]
            left_cut, right_cut = multiplicity[h] * (v_ll * v_lr), multiplicity[h] * (v_rl * v_rr)
            low_cut, high_cut = times * (v_ll * v_rl), times * (v_lr * v_rr)
            into_left += left_cut
            into_right += right_cut
            best_left = max(best_left, left_cut)
            best_right = max(best_right, right_cut)
            left_g[h] += low_cut
            right_g[h] += high_cut
            best_left_g[h] = max(best_left_g[h], low_cut)
            best_right_g[h] = max(best_right_g[h], high_cut)
        pairs.left[g, i] += into_left
        pairs.right[g, i] += into_right
        pairs.best_left[i] = max(pairs.best_left[i], best_left)
        pairs.best_right[i] = max(pairs.best_right[i], best_right)


@njit(**INNER)
def count_jointly(
    s: int, f: int, g: int, height: int, width: int, loops: Loops, pairs: Pairs
) -> None:
    """Joint histogram [height, width] of packed counts over the indices on features f and g."""
    for cell in range(height * width):
        pairs.joint[cell] = 0
    for i in range(s):
        cell = pairs.position[f, i] * width + pairs.position[g, i]
        pairs.joint[cell] += loops.table.packed[pairs.rows[i]]


@njit(cache=True, nogil=True)
def write_planes(s: int, loops: Loops, pairs: Pairs) -> int:
    """Write the loaded rows as bits, by packed count and by side of the features with one cut.

    Returns how many packed counts there are, 0 if these are too many or no two features have one
    cut.
    """
    n_single = 0
    for f in range(loops.ranks.shape[0]):
        n_single += 1 if pairs.offset[f + 1] - pairs.offset[f] == 1 else 0
    if n_single < 2:
        return 0
    n_planes, one = 0, np.uint64(1)
    for i in range(s):
        packed = loops.table.packed[pairs.rows[i]]
        v = 0
        while v < n_planes and pairs.plane_value[v] != packed:
            v += 1
        if v == n_planes:
            if n_planes == PLANES:
                return 0
            pairs.plane_value[v] = packed
            pairs.plane[v, : (s + 63) // 64] = 0
            n_planes += 1
        pairs.plane[v, i >> 6] |= one << np.uint64(i & 63)
    for f in range(loops.ranks.shape[0]):
        if pairs.offset[f + 1] - pairs.offset[f] == 1:
            pairs.low[f, : (s + 63) // 64] = 0
            for i in range(s):
                is_low = np.uint64(1 if pairs.position[f, i] == 0 else 0)
                pairs.low[f, i >> 6] |= is_low << np.uint64(i & 63)
    return n_planes


@njit(cache=True, nogil=True)
def count_by_bits(n_planes: int, n_words: int, g: int, both: UInt64s, pairs: Pairs) -> int:
    """Packed count of the rows left of the cut of g among those in ``both`` [planes, W]."""
    total = 0
    for v in range(n_planes):
        n_rows = 0
        for w in range(n_words):
            n_rows += count_ones(both[v, w] & pairs.low[g, w])
        total += n_rows * pairs.plane_value[v]
    return total


@njit(cache=True, nogil=True)
def count_ones(word: np.uint64) -> int:
    """Bits of a word that are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, nogil=True)
def pair_single_cuts(
    i: int, h: int, ll: int, total: int, f: int, g: int, value: Floats, pairs: Pairs
) -> None:
    """As ``pair_two_features`` for one cut each, i (column f) and h (column g).

    ``ll`` is the packed count of the rows left of both.
    """
    left_of_i, left_of_h = pairs.prefix[i], pairs.prefix[h]
    v_ll, v_lr = value[ll], value[left_of_i - ll]
    v_rl, v_rr = value[left_of_h - ll], value[total - left_of_i - left_of_h + ll]
    of_i, of_h = pairs.multiplicity[i], pairs.multiplicity[h]
    left_cut, right_cut = of_h * (v_ll * v_lr), of_h * (v_rl * v_rr)
    low_cut, high_cut = of_i * (v_ll * v_rl), of_i * (v_lr * v_rr)
    pairs.left[f, h] += low_cut
    pairs.right[f, h] += high_cut
    pairs.left[g, i] += left_cut
    pairs.right[g, i] += right_cut
    pairs.best_left[i] = max(pairs.best_left[i], left_cut)
    pairs.best_right[i] = max(pairs.best_right[i], right_cut)
    pairs.best_left[h] = max(pairs.best_left[h], low_cut)
    pairs.best_right[h] = max(pairs.best_right[h], high_cut)


@njit(**INNER)
def sum_pairs(s: int, total: int, n_cuts: int, loops: Loops, pairs: Pairs) -> None:
    """Fill the sums over second cuts for every first cut of the row set."""
    n_features = loops.ranks.shape[0]
    for u in range(n_cuts):
        pairs.best_left[u], pairs.best_right[u] = 0.0, 0.0
    for g in range(pairs.left.shape[0]):
        for u in range(n_cuts):
            pairs.left[g, u], pairs.right[g, u] = 0.0, 0.0
    value = loops.table.value
    n_planes, n_words = write_planes(s, loops, pairs), (s + 63) // 64
    both = np.empty((PLANES, n_words), np.uint64)
    for f in range(n_features):
        a, b = pairs.offset[f], pairs.offset[f + 1]
        if a == b or loops.halted[0]:
            continue
        pair_same_feature(a, b, total, loops.group[f], value, pairs)
        by_bits = b - a == 1 and n_planes > 0
        if by_bits:
            for v in range(n_planes):
                for w in range(n_words):
                    both[v, w] = pairs.plane[v, w] & pairs.low[f, w]
        for g in range(f + 1, n_features):
            c, d = pairs.offset[g], pairs.offset[g + 1]
            if c == d:
                continue
            if by_bits and d - c == 1:
                ll = count_by_bits(n_planes, n_words, g, both, pairs)
                pair_single_cuts(a, c, ll, total, loops.group[f], loops.group[g], value, pairs)
                continue
            width = d - c + 1
            count_jointly(s, f, g, b - a + 1, width, loops, pairs)
            pair_two_features(a, b, c, d, total, loops.group[f], loops.group[g], value, pairs)


@njit(**INNER)
def load_set(bits: UInt64s, loops: Loops, pairs: Pairs) -> tuple[int, int, int]:
    """Number a row set's cuts and sum over their pairs; return its rows, packed count and cuts."""
    s = rows_of(bits, pairs.rows)
    total = 0
    for i in range(s):
        total += loops.table.packed[pairs.rows[i]]
    n_cuts = number_cuts(s, loops, pairs)
    sum_pairs(s, total, n_cuts, loops, pairs)
    return s, total, n_cuts


@njit(**INNER)
def value_sides(total: int, n_cuts: int, split: float, loops: Loops, pairs: Pairs) -> float:
    """Fill Z of both sides of every first cut and return Z of the set; one column only."""
    z = loops.table.value[total]
    for u in range(n_cuts):
        below = pairs.prefix[u]
        pairs.z_left[u] = loops.table.value[below] + split * pairs.left[0, u]
        pairs.z_right[u] = loops.table.value[total - below] + split * pairs.right[0, u]
        z += pairs.multiplicity[u] * split * pairs.z_left[u] * pairs.z_right[u]
    return z


@njit(**INNER)
def sum_first_cuts(
    total: int, split: float, loops: Loops, pairs: Pairs, size: Floats, absent: Floats
) -> tuple[float, float]:
    """Sum over the first cut; return Z and the best weight, write size [4] and absent [G]."""
    n_groups = absent.shape[0]
    stop = loops.table.value[total]
    z, best = stop, stop
    for k in range(4):
        size[k] = 0.0
    size[0] = stop
    for g in range(n_groups):
        absent[g] = stop
    for f in range(loops.ranks.shape[0]):
        own = loops.group[f]
        for u in range(pairs.offset[f], pairs.offset[f + 1]):
            m_left = loops.table.value[pairs.prefix[u]]
            m_right = loops.table.value[total - pairs.prefix[u]]
            s_left, s_right = 0.0, 0.0
            for g in range(n_groups):
                s_left += pairs.left[g, u]
                s_right += pairs.right[g, u]
            s_left, s_right = split * s_left, split * s_right
            times = pairs.multiplicity[u] * split
            z_left, z_right = m_left + s_left, m_right + s_right
            z += times * z_left * z_right
            size[1] += times * m_left * m_right
            size[2] += times * (m_left * s_right + s_left * m_right)
            size[3] += times * s_left * s_right
            best_left = max(m_left, split * pairs.best_left[u])
            best_right = max(m_right, split * pairs.best_right[u])
            best = max(best, times * best_left * best_right)
            for g in range(n_groups):
                if g != own:
                    without_left = max(z_left - split * pairs.left[g, u], m_left)
                    without_right = max(z_right - split * pairs.right[g, u], m_right)
                    absent[g] += times * without_left * without_right
    for k in range(4):
        size[k] /= z
    for g in range(n_groups):
        absent[g] = min(absent[g] / z, 1.0)
    return z, best
