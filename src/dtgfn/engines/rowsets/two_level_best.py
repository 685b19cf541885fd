"""The best tree with two levels left on a row set, its equal second cuts counted on their own side.

The sums over pairs know a second cut by its thresholds on the whole row set. On one side of a first
cut fewer rows are left, so several of these cuts may part them alike: one tree to a reader. Nothing
is lost to a sum, but its greatest term is too small. A feature's sum bounds it from above, so only
the cuts that may still be the best are looked at again, row by row.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.numbered_cuts import Pairs, make_pairs
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.engines.rowsets.two_levels import load_set

SLACK = 1.0 + 1e-11  # what rounding may add to a bound


@njit(cache=True, nogil=True)
def best_two_levels(
    first: int, last: int, bits: UInt64s, max_cuts: int, depth: int, loops: Loops, out: Floats
) -> None:
    """Log P(best tree, with all that part the rows alike) of row sets first..last-1 [K].

    Every feature must be a group of its own.
    """
    pairs = make_pairs(loops, max_cuts, loops.ranks.shape[0])
    members = np.empty(loops.ranks.shape[1], np.int32)
    split = math.exp(loops.log_split[depth])
    for k in range(first, last):
        s, total, n_cuts = load_set(bits[k], loops, pairs, True)
        z = loops.table.value[total]
        for u in range(n_cuts):
            left = loops.table.value[pairs.prefix[u]]
            right = loops.table.value[total - pairs.prefix[u]]
            for g in range(pairs.left.shape[0]):
                left += split * pairs.left[g, u]
                right += split * pairs.right[g, u]
            z += pairs.multiplicity[u] * split * left * right
        out[k] = math.log(greatest_weight(s, total, split, members, loops, pairs) / z)


@njit(**INNER)
def greatest_weight(
    s: int, total: int, split: float, members: Int32s, loops: Loops, pairs: Pairs
) -> float:
    """Weight of the best tree on the loaded row set."""
    value = loops.table.value
    best, first, of_first = value[total], -1, 0
    for f in range(loops.ranks.shape[0]):
        for u in range(pairs.offset[f], pairs.offset[f + 1]):
            left = max(value[pairs.prefix[u]], split * pairs.best_left[u])
            right = max(value[total - pairs.prefix[u]], split * pairs.best_right[u])
            counted = pairs.multiplicity[u] * split * left * right
            if counted > best:
                best, first, of_first = counted, u, f
    # The higher the best is to begin with, the fewer cuts come into question.
    if first >= 0:
        best = max(
            best, weight_through(first, of_first, s, total, split, 0.0, members, loops, pairs)
        )
    for f in range(loops.ranks.shape[0]):
        for u in range(pairs.offset[f], pairs.offset[f + 1]):
            if u != first and not loops.halted[0]:
                found = weight_through(u, f, s, total, split, best, members, loops, pairs)
                best = max(best, found)
    return best


@njit(**INNER)
def weight_through(
    u: int,
    f: int,
    s: int,
    total: int,
    split: float,
    known: float,
    members: Int32s,
    loops: Loops,
    pairs: Pairs,
) -> float:
    """Weight of the best tree that begins with cut u of feature f; 0 if not above ``known``."""
    value, low = loops.table.value, pairs.prefix[u]
    times = pairs.multiplicity[u] * split
    left, right = value[low], value[total - low]
    for g in range(pairs.left.shape[0]):
        left = max(left, split * pairs.left[g, u])
        right = max(right, split * pairs.right[g, u])
    at = u - pairs.offset[f]
    for side in range(2):
        bound = times * left * right
        if bound <= known * SLACK:
            return 0.0
        sums, upper, of_side = pairs.left, left, low
        if side == 1:
            sums, upper, of_side = pairs.right, right, total - low
        if upper == value[of_side]:
            continue
        n = 0
        for i in range(s):
            if (pairs.position[f, i] > at) == (side == 1):
                members[n] = i
                n += 1
        least = known * upper / bound  # what this side must weigh to matter
        found = side_weight(u, n, of_side, split, least, members, sums, loops, pairs)
        if side == 0:
            left = found
        else:
            right = found
    return times * left * right


@njit(**INNER)
def side_weight(
    u: int,
    n: int,
    total: int,
    split: float,
    least: float,
    members: Int32s,
    sums: Floats,
    loops: Loops,
    pairs: Pairs,
) -> float:
    """Weight of the best tree with one level left on a side of cut u, if it is above ``least``.

    ``members`` [n] are the positions of its rows, ``sums`` [F, U] those over its second cuts.
    """
    value, packed, counts = loops.table.value, loops.table.packed, pairs.column
    best = value[total]
    for g in range(loops.ranks.shape[0]):
        if split * sums[g, u] * SLACK <= max(best, least):
            continue
        a, b = pairs.offset[g], pairs.offset[g + 1]
        for h in range(b - a + 1):
            counts[h] = 0
        for j in range(n):
            counts[pairs.position[g, members[j]]] += packed[pairs.rows[members[j]]]
        below, times = 0, 0.0
        for h in range(a, b):
            if counts[h - a] != 0:  # else this cut parts these rows as the one before
                below, times = below + counts[h - a], 0.0
            times += pairs.multiplicity[h]
            # An empty part weighs 0.
            best = max(best, split * times * (value[below] * value[total - below]))
    return best
