"""As ``two_levels``, for counts too large for a table of all leaves: weights are kept as logs.

The log marginal of a leaf is a sum of one term for each class, so tables over single counts do. A
corner costs a look-up for each class instead of one, and its weight an exponential.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.cut_bits import LANES, count_all_cuts, count_with, load_cells
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.numbered_cuts import (
    Pairs,
    keep_low_rows,
    make_pairs,
    number_cuts_by_bits,
)
from dtgfn.engines.rowsets.problem import Loops


class PairLogs(NamedTuple):
    """Scratch for one row set with U cuts: logs of what pairs of cuts weigh."""

    counts: Int64s  # [C, U] units of each class left of a cut
    total: Int64s  # [C] of the set
    corner: Floats  # [4, U] log marginals of the corners of one cut and each later one
    n_corner: Int64s  # [4, U] units in them
    term: Floats  # [4, U, U] log of both leaves that a second cut makes, on a side of a first one
    top: Floats  # [2, U] log of the greatest weight on either side of a cut, with its split
    stop: Floats  # [2, U] log marginal of either side
    first: Floats  # [U] log weight of all trees that split first on a cut


@njit(**INNER)
def make_pair_logs(loops: Loops, max_cuts: int) -> PairLogs:
    """Return scratch for any row set of the problem."""
    room, n_classes = max_cuts + LANES, loops.logs.n_classes
    return PairLogs(
        np.zeros((n_classes, room), np.int64),
        np.zeros(n_classes, np.int64),
        np.empty((4, room)),
        np.empty((4, room), np.int64),
        np.empty((4, max_cuts, room)),
        np.empty((2, room)),
        np.empty((2, room)),
        np.empty(room),
    )


@njit(**INNER)
def log_leaf(counts: Int64s, loops: Loops) -> float:
    """Tempered log marginal of a leaf with so many units of each class."""
    value, n = 0.0, 0
    for c in range(counts.shape[0]):
        value += loops.logs.gain[counts[c]]
        n += counts[c]
    return value - loops.logs.norm[n]


@njit(**INNER)
def unpack_counts(n_cuts: int, loops: Loops, pairs: Pairs, logs: PairLogs) -> None:
    """Write the units of each class left of every cut, and log marginals of both sides."""
    shift, mask = loops.logs.shift, (1 << loops.logs.shift) - 1
    side = np.empty(logs.total.shape[0], np.int64)
    for u in range(n_cuts + LANES):
        packed = pairs.prefix[u]
        for c in range(logs.total.shape[0]):
            logs.counts[c, u] = (packed >> (shift * c)) & mask
    for u in range(n_cuts):
        for c in range(logs.total.shape[0]):
            side[c] = logs.counts[c, u]
        logs.stop[0, u] = log_leaf(side, loops)
        for c in range(logs.total.shape[0]):
            side[c] = logs.total[c] - logs.counts[c, u]
        logs.stop[1, u] = log_leaf(side, loops)


@njit(**INNER)
def log_corners(u: int, n_cuts: int, loops: Loops, pairs: Pairs, logs: PairLogs) -> None:
    """Log marginals of the corners of u and each later cut, -inf where one is empty."""
    shift, mask = loops.logs.shift, (1 << loops.logs.shift) - 1
    gain, norm = loops.logs.gain, loops.logs.norm
    both = pairs.set_bits.packed[u + 1 : n_cuts]
    corner, n_corner = logs.corner[:, u + 1 : n_cuts], logs.n_corner[:, u + 1 : n_cuts]
    corner[:] = 0.0
    n_corner[:] = 0
    for c in range(logs.total.shape[0]):
        left_of_u, left_of_h = logs.counts[c, u], logs.counts[c, u + 1 : n_cuts]
        beyond_u = logs.total[c] - left_of_u
        for h in range(both.shape[0]):
            ll = (both[h] >> (shift * c)) & mask
            lr, rl = left_of_u - ll, left_of_h[h] - ll
            rr = beyond_u - rl
            corner[0, h] += gain[ll]
            corner[1, h] += gain[lr]
            corner[2, h] += gain[rl]
            corner[3, h] += gain[rr]
            n_corner[0, h] += ll
            n_corner[1, h] += lr
            n_corner[2, h] += rl
            n_corner[3, h] += rr
    for side in range(4):
        for h in range(both.shape[0]):
            corner[side, h] -= norm[n_corner[side, h]]


@njit(**INNER)
def log_terms(u: int, n_cuts: int, log_split: float, pairs: Pairs, logs: PairLogs) -> None:
    """Write what cut u and each later one weigh as second cuts of each other, and the greatest."""
    log_u = math.log(pairs.multiplicity[u]) + log_split
    for h in range(u + 1, n_cuts):
        log_h = math.log(pairs.multiplicity[h]) + log_split
        ll, lr, rl, rr = logs.corner[0, h], logs.corner[1, h], logs.corner[2, h], logs.corner[3, h]
        logs.term[0, u, h] = log_h + ll + lr  # h left of u
        logs.term[1, u, h] = log_h + rl + rr  # h right of u
        logs.term[2, u, h] = log_u + ll + rl  # u left of h
        logs.term[3, u, h] = log_u + lr + rr  # u right of h
        logs.top[0, u] = max(logs.top[0, u], logs.term[0, u, h])
        logs.top[1, u] = max(logs.top[1, u], logs.term[1, u, h])
        logs.top[0, h] = max(logs.top[0, h], logs.term[2, u, h])
        logs.top[1, h] = max(logs.top[1, h], logs.term[3, u, h])


@njit(**INNER)
def add_terms(f: int, n_cuts: int, loops: Loops, pairs: Pairs, logs: PairLogs) -> None:
    """Add the terms of the cuts of feature f, relative to the greatest on their side."""
    own = loops.group[f]
    for u in range(pairs.offset[f], pairs.offset[f + 1]):
        for g in range(f, loops.ranks.shape[0]):
            column, below, above = loops.group[g], 0.0, 0.0
            for h in range(max(pairs.offset[g], u + 1), pairs.offset[g + 1]):
                below += math.exp(logs.term[0, u, h] - logs.top[0, u])
                above += math.exp(logs.term[1, u, h] - logs.top[1, u])
                pairs.left[own, h] += math.exp(logs.term[2, u, h] - logs.top[0, h])
                pairs.right[own, h] += math.exp(logs.term[3, u, h] - logs.top[1, h])
            pairs.left[column, u] += below
            pairs.right[column, u] += above


@njit(**INNER)
def load_set_by_logs(
    bits: UInt64s, log_split: float, loops: Loops, pairs: Pairs, logs: PairLogs
) -> tuple[int, int, float]:
    """Sum over a set's pairs of cuts; return its rows, its cuts and its log marginal."""
    s = rows_of(bits, pairs.rows)
    n_cells = load_cells(s, pairs.rows, loops.bits, pairs.set_bits)
    count_all_cuts(n_cells, loops.bits, pairs.set_bits)
    n_cuts = number_cuts_by_bits(s, loops.bits, pairs)
    logs.total[:] = 0
    for i in range(s):
        packed = loops.logs.packed[pairs.rows[i]]
        for c in range(logs.total.shape[0]):
            logs.total[c] += (packed >> (loops.logs.shift * c)) & ((1 << loops.logs.shift) - 1)
    keep_low_rows(n_cuts, loops.bits, pairs)
    unpack_counts(n_cuts, loops, pairs, logs)
    pairs.left[:, :n_cuts], pairs.right[:, :n_cuts] = 0.0, 0.0
    logs.top[:, :n_cuts] = logs.stop[:, :n_cuts]
    for u in range(n_cuts):
        if loops.halted[0]:
            break
        count_with(u, n_cuts, n_cells, pairs.set_bits)
        log_corners(u, n_cuts, loops, pairs, logs)
        log_terms(u, n_cuts, log_split, pairs, logs)
    for f in range(loops.ranks.shape[0]):
        if not loops.halted[0]:
            add_terms(f, n_cuts, loops, pairs, logs)
    return s, n_cuts, log_leaf(logs.total, loops)


@njit(**INNER)
def value_first_cuts(
    n_cuts: int, stop: float, log_split: float, n_groups: int, pairs: Pairs, logs: PairLogs
) -> float:
    """Fill Z of both sides of every first cut, relative to ``top``, and the log weight of all.

    Returns the log of Z.
    """
    peak = stop
    for u in range(n_cuts):
        z_left = math.exp(logs.stop[0, u] - logs.top[0, u])
        z_right = math.exp(logs.stop[1, u] - logs.top[1, u])
        for g in range(n_groups):
            z_left += pairs.left[g, u]
            z_right += pairs.right[g, u]
        pairs.z_left[u], pairs.z_right[u] = z_left, z_right
        both = logs.top[0, u] + math.log(z_left) + logs.top[1, u] + math.log(z_right)
        logs.first[u] = math.log(pairs.multiplicity[u]) + log_split + both
        peak = max(peak, logs.first[u])
    z = math.exp(stop - peak)
    for u in range(n_cuts):
        z += math.exp(logs.first[u] - peak)
    return peak + math.log(z)


@njit(cache=True, nogil=True)
def sum_two_levels_by_logs(
    first: int,
    last: int,
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    loops: Loops,
    log_z: Floats,
    log_max: Floats,
    log_most: Floats,
    size: Floats,
    absent: Floats,
) -> None:
    """As ``tails.sum_two_levels``, with the log weights of the best tree that it writes."""
    n_groups = absent.shape[1]
    pairs, logs = make_pairs(loops, max_cuts, n_groups), make_pair_logs(loops, max_cuts)
    log_split = loops.log_split[depth]
    for k in range(first, last):
        _, n_cuts, stop = load_set_by_logs(bits[k], log_split, loops, pairs, logs)
        z = value_first_cuts(n_cuts, stop, log_split, n_groups, pairs, logs)
        log_z[k], best, most = z, stop, stop
        size[k, :4] = 0.0
        size[k, 0] = math.exp(stop - z)
        absent[k] = size[k, 0]
        for f in range(loops.ranks.shape[0]):
            for u in range(pairs.offset[f], pairs.offset[f + 1]):
                top = logs.top[0, u] + logs.top[1, u]
                top += math.log(pairs.multiplicity[u]) + log_split
                best = max(best, top)
                most = max(most, top + most_beyond(u, n_groups, pairs, logs))
                add_first_cut(u, loops.group[f], math.exp(top - z), pairs, logs, size[k], absent[k])
        log_max[k], log_most[k] = best, most
        for g in range(n_groups):
            absent[k, g] = min(absent[k, g], 1.0)


@njit(**INNER)
def most_beyond(u: int, n_groups: int, pairs: Pairs, logs: PairLogs) -> float:
    """How much more than its top the best tree on both sides of u can weigh, in logs.

    Second cuts that part a side alike weigh no more than all of their column's together.
    """
    left = math.exp(logs.stop[0, u] - logs.top[0, u])
    right = math.exp(logs.stop[1, u] - logs.top[1, u])
    for g in range(n_groups):
        left, right = max(left, pairs.left[g, u]), max(right, pairs.right[g, u])
    return math.log(left) + math.log(right)


@njit(**INNER)
def add_first_cut(
    u: int, own: int, times: float, pairs: Pairs, logs: PairLogs, size: Floats, absent: Floats
) -> None:
    """Add a first cut to P(number of splits) and P(column not used); ``times`` its sides' tops."""
    z_left, z_right = pairs.z_left[u], pairs.z_right[u]
    m_left = math.exp(logs.stop[0, u] - logs.top[0, u])
    m_right = math.exp(logs.stop[1, u] - logs.top[1, u])
    s_left, s_right = max(z_left - m_left, 0.0), max(z_right - m_right, 0.0)
    size[1] += times * m_left * m_right
    size[2] += times * (m_left * s_right + s_left * m_right)
    size[3] += times * s_left * s_right
    for g in range(absent.shape[0]):
        if g != own:
            without_left = max(z_left - pairs.left[g, u], m_left)
            without_right = max(z_right - pairs.right[g, u], m_right)
            absent[g] += times * without_left * without_right
