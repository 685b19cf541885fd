"""Predictions of all trees with two levels left, from pairs of cuts and for all queries at once.

What a query gets from two cuts depends only on which of the four corners it falls into, that is on
its place among the cuts of either feature. So for each pair of features a table G over pairs of
places is summed once (two-dimensional cumulative sums), and each query reads one entry of it, or
interpolates between four where it lies inside the gap of a cut.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dtgfn.engines.exact.graph import Longs, Words, rows_of
from dtgfn.engines.exact.problem import Loops
from dtgfn.engines.exact.two_levels import Pairs, make_pairs, number_cuts, sum_pairs
from dtgfn.kernels import Floats, Ints


class Places(NamedTuple):
    """Where each query [Q] stands among the cuts of each feature [F] of a row set, and sums.

    A query is right of cuts 0..place-1, and of the share ``inside`` of the thresholds of cut
    ``place``.
    """

    place: Ints  # [F, Q]
    inside: Floats  # [F, Q]
    z_left: Floats  # [U] sum over all trees on the left side of a first cut
    z_right: Floats  # [U]
    table: Floats  # [C, (R + 1) * (R + 1)] the table G of a pair of features
    step: Floats  # [C, R + 1] differences of a one-dimensional table, or of G's first row
    edge: Floats  # [C, R + 1] differences of G's first column


@njit(cache=True, nogil=True)
def make_places(loops: Loops, max_cuts: int, n_queries: int) -> Places:
    """Return scratch for any row set with at most ``max_cuts`` cuts."""
    n_classes, width = loops.stats.shape[1], loops.rank_code.shape[1] + 1
    return Places(
        np.empty((loops.ranks.shape[0], n_queries), np.int32),
        np.empty((loops.ranks.shape[0], n_queries)),
        np.empty(max_cuts),
        np.empty(max_cuts),
        np.empty((n_classes, width * width)),
        np.empty((n_classes, width)),
        np.empty((n_classes, width)),
    )


@njit(cache=True, nogil=True)
def find_places(
    s: int, loops: Loops, queries: Ints, order: Longs, pairs: Pairs, places: Places
) -> None:
    """Find each query's place among the cuts of the row set in ``pairs.rows[:s]``."""
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
            places.place[f, q] = u
            places.inside[f, q] = 0.0
            if u < n_cuts and queries[f, q] > low:
                gap = pairs.multiplicity[pairs.offset[f] + u]
                places.inside[f, q] = (queries[f, q] - low) / gap


@njit(cache=True, nogil=True)
def add_single_feature(
    f: int,
    total: int,
    split: float,
    factor: Floats,
    loops: Loops,
    pairs: Pairs,
    places: Places,
    out: Floats,
) -> None:
    """Add first cuts on f whose child stops, and pairs of cuts that are both on f."""
    value, mean, n_classes = loops.table.value, loops.table.mean, out.shape[1]
    a, b = pairs.offset[f], pairs.offset[f + 1]
    prefix, times = pairs.prefix, pairs.multiplicity
    start = np.zeros(n_classes)
    step = places.step
    step[:, : b - a + 1] = 0.0
    for i in range(a, b):
        below_i, above_i = prefix[i], total - prefix[i]
        left = times[i] * split * value[below_i] * places.z_right[i]
        right = times[i] * split * value[above_i] * places.z_left[i]
        for c in range(n_classes):
            start[c] += left * mean[below_i, c]
            step[c, i - a] += right * mean[above_i, c] - left * mean[below_i, c]
        for h in range(a, i):
            between = below_i - prefix[h]
            both = times[i] * times[h] * split * split * value[between]
            under_i = both * value[prefix[h]] * places.z_right[i]
            over_h = both * value[above_i] * places.z_left[h]
            for c in range(n_classes):
                low, high = under_i * mean[prefix[h], c], over_h * mean[above_i, c]
                middle = (under_i + over_h) * mean[between, c]
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
        place, inside = places.place[f, q], places.inside[f, q]
        for c in range(n_classes):
            reading = step[c, place]
            if inside > 0.0:
                reading += inside * (step[c, place + 1] - reading)
            out[q, c] += factor[q] * reading


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def tabulate_pair(
    f: int, g: int, total: int, split: float, loops: Loops, pairs: Pairs, places: Places
) -> None:
    """Fill G for features f and g from the joint histogram in ``pairs.joint``.

    G[A, B] is what a query right of the first A cuts of f and the first B cuts of g gets; its mixed
    differences are the corners' contributions ll - lr - rl + rr.
    """
    value, mean, n_classes = loops.table.value, loops.table.mean, loops.stats.shape[1]
    a, b, c0, d = pairs.offset[f], pairs.offset[f + 1], pairs.offset[g], pairs.offset[g + 1]
    n = d - c0
    places.step[:, : n + 1] = 0.0
    places.edge[:, : b - a + 1] = 0.0
    start = np.zeros(n_classes)
    column = pairs.column
    column[:n] = 0
    for i in range(a, b):
        running = 0
        row, below = (i - a) * (n + 1), (i - a + 1) * (n + 1)
        for h in range(n):
            column[h] += pairs.joint[row + h]
            running += column[h]
            u = c0 + h
            ll, lr, rl = running, pairs.prefix[i] - running, pairs.prefix[u] - running
            rr = total - pairs.prefix[i] - rl
            v_ll, v_lr, v_rl, v_rr = value[ll], value[lr], value[rl], value[rr]
            both = pairs.multiplicity[i] * pairs.multiplicity[u] * split * split
            left_i, right_i = both * places.z_left[i], both * places.z_right[i]
            left_u, right_u = both * places.z_left[u], both * places.z_right[u]
            w_ll = v_ll * (v_lr * right_i + v_rl * right_u)
            w_lr = v_lr * (v_ll * right_i + v_rr * left_u)
            w_rl = v_rl * (v_rr * left_i + v_ll * right_u)
            w_rr = v_rr * (v_rl * left_i + v_lr * left_u)
            for c in range(n_classes):
                x_ll, x_lr = w_ll * mean[ll, c], w_lr * mean[lr, c]
                x_rl, x_rr = w_rl * mean[rl, c], w_rr * mean[rr, c]
                places.table[c, below + h + 1] = x_ll - x_lr - x_rl + x_rr
                start[c] += x_ll
                places.step[c, h] += x_lr - x_ll
                places.edge[c, i - a] += x_rl - x_ll
    for c in range(n_classes):
        table = places.table[c]
        table[0] = start[c]
        for h in range(n):
            table[h + 1] = table[h] + places.step[c, h]
        for i in range(b - a):
            row, below = i * (n + 1), (i + 1) * (n + 1)
            table[below] = table[row] + places.edge[c, i]
            for h in range(n):
                table[below + h + 1] += table[row + h + 1] + table[below + h] - table[row + h]


@njit(cache=True, nogil=True)
def read_pair(f: int, g: int, width: int, factor: Floats, places: Places, out: Floats) -> None:
    """Add to each query its entry of G, interpolated where it lies inside a gap."""
    for q in range(out.shape[0]):
        if factor[q] == 0.0:
            continue
        at = places.place[f, q] * width + places.place[g, q]
        x, y = places.inside[f, q], places.inside[g, q]
        for c in range(out.shape[1]):
            table = places.table[c]
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
    bits: Words,
    depth: int,
    may_split: bool,
    loops: Loops,
    queries: Ints,
    order: Longs,
    mass: Floats,
    out: Floats,
) -> None:
    """Add the predictions of all trees with at most two levels, for each query's mass [K, Q].

    ``queries`` [F, Q] are codes, ``order`` [F, Q] sorts them by each feature's code.
    """
    n_features, max_cuts = loops.ranks.shape[0], loops.rank_code.size
    n_groups = 1 + loops.group.max() if n_features > 0 else 1
    pairs = make_pairs(loops, max_cuts, n_groups)
    places = make_places(loops, max_cuts, queries.shape[1])
    split = math.exp(loops.log_split[depth])
    factor = np.empty(queries.shape[1])
    for k in range(bits.shape[0]):
        s = rows_of(bits[k], pairs.rows)
        total = 0
        for i in range(s):
            total += loops.table.packed[pairs.rows[i]]
        n_cuts = number_cuts(s, loops, pairs)
        sum_pairs(s, total, n_cuts, loops, pairs)
        z = loops.table.value[total]
        for u in range(n_cuts):
            left, right = pairs.left[:, u].sum(), pairs.right[:, u].sum()
            places.z_left[u] = loops.table.value[pairs.prefix[u]] + split * left
            places.z_right[u] = loops.table.value[total - pairs.prefix[u]] + split * right
            z += pairs.multiplicity[u] * split * places.z_left[u] * places.z_right[u]
        for q in range(queries.shape[1]):
            factor[q] = mass[k, q] / z
            for c in range(out.shape[1]):
                out[q, c] += factor[q] * loops.table.value[total] * loops.table.mean[total, c]
        find_places(s, loops, queries, order, pairs, places)
        for f in range(n_features):
            a, b = pairs.offset[f], pairs.offset[f + 1]
            if a == b:
                continue
            add_single_feature(f, total, split, factor, loops, pairs, places, out)
            for g in range(f + 1, n_features):
                width = pairs.offset[g + 1] - pairs.offset[g] + 1
                if width == 1:
                    continue
                pairs.joint[: (b - a + 1) * width] = 0
                for i in range(s):
                    cell = pairs.position[f, i] * width + pairs.position[g, i]
                    pairs.joint[cell] += loops.table.packed[pairs.rows[i]]
                tabulate_pair(f, g, total, split, loops, pairs, places)
                read_pair(f, g, width, factor, places, out)
