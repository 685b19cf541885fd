"""Predictions of all trees with two levels left, from pairs of cuts and for all queries at once.

What a query gets from two cuts depends only on which of the four corners it falls into, that is on
its position among the cuts of either feature. So for each pair of features a table G over pairs of
positions is summed once (two-dimensional cumulative sums), and each query reads one entry of it, or
interpolates between four where it lies inside the gap of a cut.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.numbered_cuts import Pairs, make_pairs
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.engines.rowsets.two_levels import count_jointly, load_set, value_sides


class QueryPositions(NamedTuple):
    """Where each query [Q] stands among the cuts of each feature [F] of a row set, and sums.

    A query is right of cuts 0..cut-1, and of the share ``inside`` of the thresholds of cut
    ``cut``. All but the last of the classes are summed, C' = C - 1: the last one has the rest.
    """

    cut: Int32s  # [F, Q]
    inside: Floats  # [F, Q]
    weighted: Floats  # [C', entries] leaf weight times predictive probability of each class
    table: Floats  # [C', (R + 1) * (R + 1)] the table G of a pair of features
    start: Floats  # [C'] its first entry
    step: Floats  # [C', R + 1] differences of a one-dimensional table, or of G's first row
    corners: Floats  # [4, R + 1] weights of the four corners along a row of G


@njit(**INNER)
def make_positions(loops: Loops, n_queries: int) -> QueryPositions:
    """Return scratch for any row set of the problem."""
    n_classes, width = loops.sums.shape[1] - 1, loops.rank_code.shape[1] + 1
    weighted = np.empty((n_classes, loops.table.value.shape[0]))
    for c in range(n_classes):
        for entry in range(weighted.shape[1]):
            weighted[c, entry] = loops.table.value[entry] * loops.table.mean[entry, c]
    return QueryPositions(
        np.empty((loops.ranks.shape[0], n_queries), np.int32),
        np.empty((loops.ranks.shape[0], n_queries)),
        weighted,
        np.empty((n_classes, width * width)),
        np.empty(n_classes),
        np.empty((n_classes, width)),
        np.empty((4, width)),
    )


@njit(**INNER)
def find_positions(
    s: int, loops: Loops, queries: Int32s, order: Int64s, pairs: Pairs, positions: QueryPositions
) -> None:
    """Find each query's position among the cuts of the row set in ``pairs.rows[:s]``."""
    for f in range(loops.ranks.shape[0]):
        low = loops.rank_code[f, loops.ranks[f, pairs.rows[0]]]
        for i in range(1, s):
            low = min(low, loops.rank_code[f, loops.ranks[f, pairs.rows[i]]])
        n_cuts = pairs.offset[f + 1] - pairs.offset[f]
        u = 0
        for position in range(order.shape[1]):
            q = order[f, position]
            while u < n_cuts and low + pairs.multiplicity[pairs.offset[f] + u] <= queries[f, q]:
                low += int(pairs.multiplicity[pairs.offset[f] + u])
                u += 1
            positions.cut[f, q] = u
            positions.inside[f, q] = 0.0
            if u < n_cuts and queries[f, q] > low:
                gap = pairs.multiplicity[pairs.offset[f] + u]
                positions.inside[f, q] = (queries[f, q] - low) / gap


@njit(**INNER)
def add_single_feature(
    f: int,
    total: int,
    split: float,
    factor: Floats,
    loops: Loops,
    pairs: Pairs,
    positions: QueryPositions,
    out: Floats,
) -> None:
    """Add first cuts on f whose child stops, and pairs of cuts that are both on f."""
    value, weighted, n_classes = loops.table.value, positions.weighted, positions.table.shape[0]
    a, b = pairs.offset[f], pairs.offset[f + 1]
    prefix, times = pairs.prefix, pairs.multiplicity
    start, step = positions.start, positions.step
    for c in range(n_classes):
        start[c] = 0.0
        for i in range(b - a + 1):
            step[c, i] = 0.0
    for i in range(a, b):
        below_i, above_i = prefix[i], total - prefix[i]
        left, right = times[i] * split * pairs.z_right[i], times[i] * split * pairs.z_left[i]
        for c in range(n_classes):
            start[c] += left * weighted[c, below_i]
            step[c, i - a] += right * weighted[c, above_i] - left * weighted[c, below_i]
        for h in range(a, i):
            between = below_i - prefix[h]
            both = times[i] * times[h] * split * split
            under_i, over_h = both * pairs.z_right[i], both * pairs.z_left[h]
            outer = under_i * value[prefix[h]] + over_h * value[above_i]
            for c in range(n_classes):
                low = under_i * value[between] * weighted[c, prefix[h]]
                high = over_h * value[between] * weighted[c, above_i]
                middle = outer * weighted[c, between]
                start[c] += low
                step[c, h - a] += middle - low
                step[c, i - a] += high - middle
    for c in range(n_classes):
        running = start[c]
        for i in range(b - a + 1):
            change = step[c, i]
            step[c, i] = running
            running += change
    for q in range(out.shape[0]):
        if factor[q] == 0.0:
            continue
        cut, inside = positions.cut[f, q], positions.inside[f, q]
        for c in range(n_classes):
            reading = step[c, cut]
            if inside > 0.0:
                reading += inside * (step[c, cut + 1] - reading)
            out[q, c] += factor[q] * reading


@njit(**INNER, fastmath={"reassoc", "nsz", "contract"})
def tabulate_pair(
    f: int, g: int, total: int, split: float, loops: Loops, pairs: Pairs, positions: QueryPositions
) -> None:
    """Fill G for features f and g from the joint histogram in ``pairs.joint``.

    G[A, B] is what a query right of the first A cuts of f and the first B cuts of g gets; its mixed
    differences are the corners' contributions ll - lr - rl + rr, which are summed row by row.
    """
    value = loops.table.value
    a, b, c, d = pairs.offset[f], pairs.offset[f + 1], pairs.offset[g], pairs.offset[g + 1]
    n = d - c
    prefix, times = pairs.prefix[c:d], pairs.multiplicity[c:d]
    z_left, z_right = pairs.z_left[c:d], pairs.z_right[c:d]
    column, corner = pairs.column[:n], pairs.corner[:n]
    for h in range(n):
        column[h] = 0
    w_ll, w_lr, w_rl, w_rr = (
        positions.corners[0],
        positions.corners[1],
        positions.corners[2],
        positions.corners[3],
    )
    n_classes = positions.table.shape[0]
    for k in range(n_classes):
        positions.start[k] = 0.0
        for h in range(n + 1):
            positions.step[k, h] = 0.0
    for i in range(a, b):
        joint = pairs.joint[(i - a) * (n + 1) : (i - a) * (n + 1) + n]
        running = 0
        for h in range(n):
            column[h] += joint[h]
            running += column[h]
            corner[h] = running
        left_of_i, beyond_i = pairs.prefix[i], total - pairs.prefix[i]
        both = pairs.multiplicity[i] * split * split
        left_i, right_i = both * pairs.z_left[i], both * pairs.z_right[i]
        for h in range(n):
            ll, below_h = corner[h], prefix[h]
            v_ll, v_lr = value[ll], value[left_of_i - ll]
            v_rl, v_rr = value[below_h - ll], value[beyond_i - below_h + ll]
            left_h, right_h = both * z_left[h], both * z_right[h]
            w_ll[h] = times[h] * (v_lr * right_i + v_rl * right_h)
            w_lr[h] = times[h] * (v_ll * right_i + v_rr * left_h)
            w_rl[h] = times[h] * (v_rr * left_i + v_ll * right_h)
            w_rr[h] = times[h] * (v_rl * left_i + v_lr * left_h)
        for k in range(n_classes):
            weighted = positions.weighted[k]
            table = positions.table[k, (i - a + 1) * (n + 1) : (i - a + 2) * (n + 1)]
            step = positions.step[k]
            start, edge = 0.0, 0.0
            for h in range(n):
                ll, below_h = corner[h], prefix[h]
                x_ll = w_ll[h] * weighted[ll]
                x_lr = w_lr[h] * weighted[left_of_i - ll]
                x_rl = w_rl[h] * weighted[below_h - ll]
                x_rr = w_rr[h] * weighted[beyond_i - below_h + ll]
                table[h + 1] = x_ll - x_lr - x_rl + x_rr
                start += x_ll
                step[h] += x_lr - x_ll
                edge += x_rl - x_ll
            positions.start[k] += start
            table[0] = edge
    for k in range(n_classes):
        table = positions.table[k]
        table[0] = positions.start[k]
        for h in range(n):
            table[h + 1] = table[h] + positions.step[k, h]
        for i in range(b - a):
            row, below = table[i * (n + 1) :], table[(i + 1) * (n + 1) :]
            # Entry 0 holds the change of the first column; running sums of changes come on top.
            change = below[0]
            below[0] = row[0] + change
            for h in range(n):
                change += below[h + 1]
                below[h + 1] = row[h + 1] + change


@njit(**INNER)
def read_pair(
    f: int, g: int, width: int, factor: Floats, positions: QueryPositions, out: Floats
) -> None:
    """Add to each query its entry of G, interpolated where it lies inside a gap."""
    for q in range(out.shape[0]):
        if factor[q] == 0.0:
            continue
        at = positions.cut[f, q] * width + positions.cut[g, q]
        x, y = positions.inside[f, q], positions.inside[g, q]
        for c in range(positions.table.shape[0]):
            table = positions.table[c]
            reading = table[at]
            if x > 0.0:
                reading += x * (table[at + width] - table[at])
            if y > 0.0:
                across = table[at + 1] - table[at]
                if x > 0.0:
                    across += x * (table[at + width + 1] - table[at + width] - across)
                reading += y * across
            out[q, c] += factor[q] * reading


@njit(cache=True, nogil=True)
def average_two_levels(
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    may_split: bool,
    loops: Loops,
    queries: Int32s,
    order: Int64s,
    mass: Floats,
    out: Floats,
) -> None:
    """Add the predictions of all trees with at most two levels, for each query's mass [K, Q].

    ``queries`` [F, Q] are codes, ``order`` [F, Q] sorts them by each feature's code. All features
    must count as column 0.
    """
    before = out.copy()
    n_features = loops.ranks.shape[0]
    pairs = make_pairs(loops, max_cuts, 1)
    positions = make_positions(loops, queries.shape[1])
    split = math.exp(loops.log_split[depth])
    factor = np.empty(queries.shape[1])
    for k in range(bits.shape[0]):
        s, total, n_cuts = load_set(bits[k], loops, pairs, True)
        z = value_sides(total, n_cuts, split, loops, pairs)
        for q in range(queries.shape[1]):
            factor[q] = mass[k, q] / z
            out[q, out.shape[1] - 1] += mass[k, q]
            for c in range(out.shape[1] - 1):
                out[q, c] += factor[q] * positions.weighted[c, total]
        find_positions(s, loops, queries, order, pairs, positions)
        for f in range(n_features):
            a, b = pairs.offset[f], pairs.offset[f + 1]
            if a == b or loops.halted[0]:
                continue
            add_single_feature(f, total, split, factor, loops, pairs, positions, out)
            for g in range(f + 1, n_features):
                width = pairs.offset[g + 1] - pairs.offset[g] + 1
                if width == 1:
                    continue
                count_jointly(s, f, g, b - a + 1, width, loops, pairs)
                tabulate_pair(f, g, total, split, loops, pairs, positions)
                read_pair(f, g, width, factor, positions, out)
    # The classes share each query's mass; what the others did not get is the last one's.
    last = out.shape[1] - 1
    for q in range(out.shape[0]):
        for c in range(last):
            out[q, last] -= out[q, c] - before[q, c]
