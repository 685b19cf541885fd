"""The sum over all trees with two levels left on a row set, from pairs of cuts.

MurTree's last-two-levels idea with sums: two cuts make four corners, whose packed class counts come
from the bits that they share or, where cuts are many, from a joint histogram of two features, and
whose weights come from the leaf table. Every pair is looked at once and serves both orders, so a
row set costs (number of cuts)^2 / 2 look-ups.
"""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Floats, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.cut_bits import (
    LANES,
    count_all_cuts,
    count_with,
    load_cells,
    whole_vectors,
)
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.numbered_cuts import (
    Pairs,
    keep_low_rows,
    number_cuts,
    number_cuts_by_bits,
    write_positions,
)
from dtgfn.engines.rowsets.problem import Loops

# What a word of a pair of cuts costs, beside a row of a pair of features.
WORD_WORK = 0.3


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


@njit(**INNER)
def sum_pairs(s: int, total: int, n_cuts: int, loops: Loops, pairs: Pairs) -> None:
    """Fill the sums over second cuts for every first cut, from joint histograms of columns."""
    n_features = loops.ranks.shape[0]
    value = loops.table.value
    for f in range(n_features):
        a, b = pairs.offset[f], pairs.offset[f + 1]
        if a == b or loops.halted[0]:
            continue
        pair_same_feature(a, b, total, loops.group[f], value, pairs)
        for g in range(f + 1, n_features):
            c, d = pairs.offset[g], pairs.offset[g + 1]
            if c == d:
                continue
            width = d - c + 1
            count_jointly(s, f, g, b - a + 1, width, loops, pairs)
            pair_two_features(a, b, c, d, total, loops.group[f], loops.group[g], value, pairs)


@njit(**INNER, fastmath={"reassoc", "nsz", "contract"})
def pair_with_later(u: int, n_cuts: int, total: int, own: int, value: Floats, pairs: Pairs) -> None:
    """Add cut u (column ``own``) against all later ones, counts from ``pairs.set_bits.packed``.

    As second cuts of u the terms are left in ``into_left`` and ``into_right``, from u + 1 on.
    """
    last = whole_vectors(u + 1, n_cuts)
    both, prefix = pairs.set_bits.packed[u + 1 : last], pairs.prefix[u + 1 : last]
    multiplicity = pairs.multiplicity[u + 1 : last]
    left, right = pairs.left[own, u + 1 : last], pairs.right[own, u + 1 : last]
    low, high = pairs.best_left[u + 1 : last], pairs.best_right[u + 1 : last]
    into_left, into_right = pairs.into_left[u + 1 : last], pairs.into_right[u + 1 : last]
    left_of_u, times = np.int64(pairs.prefix[u]), pairs.multiplicity[u]
    beyond_u = total - left_of_u
    best_left, best_right = pairs.best_left[u], pairs.best_right[u]
    for h in range(both.shape[0]):
        ll, left_of_h = both[h], np.int64(prefix[h])
        v_ll, v_lr = value[ll], value[left_of_u - ll]
        v_rl, v_rr = value[left_of_h - ll], value[beyond_u - left_of_h + ll]
        left_cut, right_cut = multiplicity[h] * (v_ll * v_lr), multiplicity[h] * (v_rl * v_rr)
        low_cut, high_cut = times * (v_ll * v_rl), times * (v_lr * v_rr)
        into_left[h], into_right[h] = left_cut, right_cut
        best_left, best_right = max(best_left, left_cut), max(best_right, right_cut)
        left[h] += low_cut
        right[h] += high_cut
        low[h] = max(low[h], low_cut)
        high[h] = max(high[h], high_cut)
    pairs.best_left[u], pairs.best_right[u] = best_left, best_right


@njit(**INNER)
def sum_by_column(u: int, f: int, loops: Loops, pairs: Pairs) -> None:
    """Add what ``pair_with_later`` left of cut u, on feature f, to the columns of second cuts."""
    for g in range(f, loops.ranks.shape[0]):
        below, above = 0.0, 0.0
        for h in range(max(pairs.offset[g], u + 1), pairs.offset[g + 1]):
            below += pairs.into_left[h]
            above += pairs.into_right[h]
        pairs.left[loops.group[g], u] += below
        pairs.right[loops.group[g], u] += above


@njit(**INNER)
def sum_pairs_by_bits(total: int, n_cuts: int, n_cells: int, loops: Loops, pairs: Pairs) -> None:
    """As ``sum_pairs``, from the bits that two cuts have in common."""
    for f in range(loops.ranks.shape[0]):
        if loops.halted[0]:
            return
        for u in range(pairs.offset[f], pairs.offset[f + 1]):
            count_with(u, n_cuts, n_cells, pairs.set_bits)
            pair_with_later(u, n_cuts, total, loops.group[f], loops.table.value, pairs)
            sum_by_column(u, f, loops, pairs)


@njit(**INNER)
def work_by_rows(s: int, loops: Loops, pairs: Pairs) -> float:
    """Rows that joint histograms of all pairs of features would look at."""
    n_varying = 0
    for f in range(loops.ranks.shape[0]):
        n_varying += 1 if pairs.offset[f + 1] > pairs.offset[f] else 0
    return 0.5 * s * n_varying * (n_varying - 1.0)


@njit(**INNER)
def load_set(
    bits: UInt64s, loops: Loops, pairs: Pairs, with_positions: bool
) -> tuple[int, int, int]:
    """Number a row set's cuts and sum over their pairs; return its rows, packed count and cuts.

    Positions are written where they are asked for.
    """
    s = rows_of(bits, pairs.rows)
    total, n_cells, by_bits = 0, 0, loops.bits.place.shape[0] > 0
    for i in range(s):
        total += loops.table.packed[pairs.rows[i]]
    if by_bits:
        n_cells = load_cells(s, pairs.rows, loops.bits, pairs.set_bits)
        count_all_cuts(n_cells, loops.bits, pairs.set_bits)
        n_cuts = number_cuts_by_bits(s, loops.bits, pairs)
        words = 0.5 * n_cuts * n_cuts * n_cells
        by_bits = WORD_WORK * words < work_by_rows(s, loops, pairs)
        if with_positions or not by_bits:
            write_positions(s, loops, pairs)
    else:
        n_cuts = number_cuts(s, loops, pairs)
    room = n_cuts + LANES
    pairs.best_left[:room], pairs.best_right[:room] = 0.0, 0.0
    pairs.left[:, :room], pairs.right[:, :room] = 0.0, 0.0
    if by_bits:
        keep_low_rows(n_cuts, loops.bits, pairs)
        sum_pairs_by_bits(total, n_cuts, n_cells, loops, pairs)
    else:
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
) -> tuple[float, float, float]:
    """Sum over the first cut; write size [4] and absent [G].

    Returns Z, the best weight, and what it is at most with second cuts that part a side alike.
    """
    n_groups = absent.shape[0]
    stop = loops.table.value[total]
    z, best, most = stop, stop, stop
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
            s_left, s_right, most_left, most_right = 0.0, 0.0, 0.0, 0.0
            for g in range(n_groups):
                s_left += pairs.left[g, u]
                s_right += pairs.right[g, u]
                most_left = max(most_left, pairs.left[g, u])
                most_right = max(most_right, pairs.right[g, u])
            s_left, s_right = split * s_left, split * s_right
            most_left, most_right = max(m_left, split * most_left), max(m_right, split * most_right)
            times = pairs.multiplicity[u] * split
            z_left, z_right = m_left + s_left, m_right + s_right
            z += times * z_left * z_right
            size[1] += times * m_left * m_right
            size[2] += times * (m_left * s_right + s_left * m_right)
            size[3] += times * s_left * s_right
            best_left = max(m_left, split * pairs.best_left[u])
            best_right = max(m_right, split * pairs.best_right[u])
            best = max(best, times * best_left * best_right)
            most = max(most, times * most_left * most_right)
            for g in range(n_groups):
                if g != own:
                    without_left = max(z_left - split * pairs.left[g, u], m_left)
                    without_right = max(z_right - split * pairs.right[g, u], m_right)
                    absent[g] += times * without_left * without_right
    for k in range(4):
        size[k] /= z
    for g in range(n_groups):
        absent[g] = min(absent[g] / z, 1.0)
    return z, best, most
