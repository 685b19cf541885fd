"""One row set, all its cuts, and what their children are worth as far as one can see at once.

With K = 2 tail levels (a leaf table exists) the sums over pairs of cuts give Z(child, 1) of both
children of every cut; with K = 1 the histogram gives m(child). Either is a lower bound of
Z(child, k): the look-ahead that the policy starts from.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from dtgfn._support.arrays import Bools, Float32s, Floats, Int32s, Int64s, UInt64s
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.engines.rowsets.two_levels import Pairs, load_set, make_pairs, value_sides
from dtgfn.trees.leaves import log_marginal


class Cuts(NamedTuple):
    """The cuts of many row sets, E in all; columns a side holds are [E, 2], left then right."""

    feature: Int32s  # [E]
    low: Int32s  # [E] thresholds low <= j < high cut alike
    high: Int32s  # [E]
    prior: Floats  # [E] tempered log prior of the split, all its thresholds together
    look: Float32s  # [E, 2] log of the look-ahead value of the child
    best: Float32s  # [E, 2] log weight of the child's best tree within the look-ahead
    sums: Float32s  # [E, 2, K] the leaf model's, of the child
    child: Int32s  # [E, 2] the child's node, -1 while nobody went there
    ceiling: Float32s  # [E, 2] what the child can be worth at most, see ceilings.py
    residual: Float32s  # [E, 2] what the network adds to ``look``
    logit: Floats  # [E] log of the flow through the cut


def empty_cuts(n_cuts: int, n_sums: int) -> Cuts:
    """Return room for cuts."""
    return Cuts(
        np.empty(n_cuts, np.int32),
        np.empty(n_cuts, np.int32),
        np.empty(n_cuts, np.int32),
        np.empty(n_cuts),
        np.empty((n_cuts, 2), np.float32),
        np.empty((n_cuts, 2), np.float32),
        np.empty((n_cuts, 2, n_sums), np.float32),
        np.empty((n_cuts, 2), np.int32),
        np.empty((n_cuts, 2), np.float32),
        np.zeros((n_cuts, 2), np.float32),
        np.empty(n_cuts),
    )


@njit(cache=True, nogil=True)
def look_ahead_by_table(
    first: int,
    last: int,
    nodes: Int64s,
    bits: UInt64s,
    depth: int,
    start: Int64s,
    max_cuts: int,
    loops: Loops,
    cuts: Cuts,
) -> None:
    """Fill the cuts of nodes[first:last], children valued with one level; one column only."""
    pairs = make_pairs(loops, max_cuts, 1)
    split = math.exp(loops.log_split[depth])
    for i in range(first, last):
        node = nodes[i]
        s, total, n_cuts = load_set(bits[node], loops, pairs)
        value_sides(total, n_cuts, split, loops, pairs)
        write_cuts(start[node], s, total, split, depth, loops, pairs, cuts)


@njit(cache=True, nogil=True)
def write_cuts(
    at: int, s: int, total: int, split: float, depth: int, loops: Loops, pairs: Pairs, cuts: Cuts
) -> None:
    """Write the loaded set's cuts from position ``at`` on, as logs without the table's scale."""
    table, rows = loops.table, pairs.rows
    n_sums = loops.sums.shape[1]
    below, whole, all_rows = np.zeros(n_sums), np.zeros(n_sums), 0.0
    for i in range(s):
        all_rows += table.row_weight[rows[i]]
        for c in range(n_sums):
            whole[c] += loops.sums[rows[i], c]
    for f in range(loops.ranks.shape[0]):
        a, b = pairs.offset[f], pairs.offset[f + 1]
        if a == b:
            continue
        # Rows by place: cumulative sums and weight left of each cut.
        for u in range(a, b):
            e = at + u
            cuts.residual[e, 0], cuts.residual[e, 1] = 0.0, 0.0
            for c in range(n_sums):
                cuts.sums[e, 0, c] = 0.0
            cuts.look[e, 0] = 0.0  # holds the weight of the place until the next loop
            cuts.low[e], cuts.high[e] = -1, 1 << 30
        for i in range(s):
            place = pairs.position[f, i]
            code = loops.rank_code[f, loops.ranks[f, rows[i]]]
            if a + place < b:
                e = at + a + place
                cuts.low[e] = code
                cuts.look[e, 0] += table.row_weight[rows[i]]
                for c in range(n_sums):
                    cuts.sums[e, 0, c] += loops.sums[rows[i], c]
            if place > 0:
                cuts.high[at + a + place - 1] = code
        weight = 0.0
        for c in range(n_sums):
            below[c] = 0.0
        for u in range(a, b):
            e = at + u
            weight += cuts.look[e, 0]
            for c in range(n_sums):
                below[c] += cuts.sums[e, 0, c]
                cuts.sums[e, 0, c] = below[c]
                cuts.sums[e, 1, c] = whole[c] - below[c]
            low_shift = table.scale * weight
            high_shift = table.scale * (all_rows - weight)
            packed = pairs.prefix[u]
            best_left = max(table.value[packed], split * pairs.best_left[u])
            best_right = max(table.value[total - packed], split * pairs.best_right[u])
            cuts.feature[e] = f
            cuts.prior[e] = loops.log_split[depth] + math.log(cuts.high[e] - cuts.low[e])
            cuts.look[e, 0] = math.log(pairs.z_left[u]) - low_shift
            cuts.look[e, 1] = math.log(pairs.z_right[u]) - high_shift
            cuts.best[e, 0] = math.log(best_left) - low_shift
            cuts.best[e, 1] = math.log(best_right) - high_shift
            cuts.child[e, 0], cuts.child[e, 1] = -1, -1


@njit(cache=True, nogil=True)
def find_two_codes(loops: Loops) -> Bools:
    """Tell which features [F] have two codes only, as indicators of categories do."""
    n_features, n_ranks = loops.rank_code.shape
    found = np.zeros(n_features, np.bool_)
    for f in range(n_features):
        third = n_ranks > 2 and loops.rank_code[f, 2] > loops.rank_code[f, 1]
        found[f] = n_ranks > 1 and not third
    return found


@njit(cache=True, nogil=True)
def sum_two_codes(
    f: int, s: int, rows: Int32s, whole: Floats, loops: Loops, bucket: Floats, seen: Int32s
) -> tuple[int, int]:
    """Sum the rows of the higher code, which are few; the others are the rest of ``whole``.

    Returns the lowest and the highest rank, and marks the two in ``seen``.
    """
    n_high, n_sums = 0, whole.shape[0]
    for r in range(s):
        if loops.ranks[f, rows[r]] == 1:
            n_high += 1
            for c in range(n_sums):
                bucket[1, c] += loops.sums[rows[r], c]
    lowest, highest = 0 if n_high < s else 1, 1 if n_high > 0 else 0
    seen[lowest], seen[highest] = 1, 1
    if lowest == 0:
        for c in range(n_sums):
            bucket[0, c] = whole[c] - bucket[1, c]
    return lowest, highest


@njit(cache=True, nogil=True)
def look_ahead_by_formula(
    first: int,
    last: int,
    nodes: Int64s,
    bits: UInt64s,
    depth: int,
    start: Int64s,
    max_cuts: int,
    loops: Loops,
    cuts: Cuts,
) -> None:
    """Fill the cuts of nodes[first:last], children valued as leaves; works for every score."""
    n_features, n_rows = loops.ranks.shape
    n_ranks, n_sums = loops.rank_code.shape[1], loops.sums.shape[1]
    rows, seen = np.empty(n_rows, np.int32), np.zeros(n_ranks, np.int32)
    bucket, whole = np.zeros((n_ranks, n_sums)), np.zeros(n_sums)
    left, right = np.zeros(n_sums), np.zeros(n_sums)
    two_codes = find_two_codes(loops)
    for i in range(first, last):
        node = nodes[i]
        s = rows_of(bits[node], rows)
        for c in range(n_sums):
            whole[c] = 0.0
            for r in range(s):
                whole[c] += loops.sums[rows[r], c]
        e, n_varying = start[node], 0
        for f in range(n_features):
            if two_codes[f]:
                lowest, highest = sum_two_codes(f, s, rows, whole, loops, bucket, seen)
            else:
                lowest, highest = n_ranks, -1
                for r in range(s):
                    rank = loops.ranks[f, rows[r]]
                    seen[rank] = 1
                    lowest, highest = min(lowest, rank), max(highest, rank)
                    for c in range(n_sums):
                        bucket[rank, c] += loops.sums[rows[r], c]
            n_varying += 1 if highest > lowest else 0
            rules = 0.0
            if loops.uniform_rules and highest > lowest:
                rules = math.log(loops.rank_code[f, highest] - loops.rank_code[f, lowest])
            previous = -1
            for c in range(n_sums):
                left[c] = 0.0
            for rank in range(lowest, highest + 1):
                if seen[rank] == 0:
                    continue
                seen[rank] = 0
                if previous >= 0:
                    cuts.feature[e] = f
                    cuts.low[e] = loops.rank_code[f, previous]
                    cuts.high[e] = loops.rank_code[f, rank]
                    cuts.prior[e] = loops.log_split[depth] - rules / loops.temperature
                    cuts.prior[e] += math.log(cuts.high[e] - cuts.low[e])
                    for c in range(n_sums):
                        right[c] = whole[c] - left[c]
                        cuts.sums[e, 0, c], cuts.sums[e, 1, c] = left[c], right[c]
                    low = log_marginal(left, loops.leaf)
                    high = log_marginal(right, loops.leaf)
                    # A leaf that could still split also pays for stopping; the child knows better.
                    cuts.look[e, 0] = low / loops.temperature + loops.log_stop[depth + 1]
                    cuts.look[e, 1] = high / loops.temperature + loops.log_stop[depth + 1]
                    cuts.best[e, 0], cuts.best[e, 1] = cuts.look[e, 0], cuts.look[e, 1]
                    cuts.child[e, 0], cuts.child[e, 1] = -1, -1
                    cuts.residual[e, 0], cuts.residual[e, 1] = 0.0, 0.0
                    e += 1
                previous = rank
                for c in range(n_sums):
                    left[c] += bucket[rank, c]
                    bucket[rank, c] = 0.0
        if loops.uniform_rules:
            share = math.log(max(n_varying, 1)) / loops.temperature
            for u in range(start[node], e):
                cuts.prior[u] -= share
