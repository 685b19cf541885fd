"""The cuts of a node: what their children are worth at a glance, and which nodes these are.

With K = 2 tail levels (a leaf table exists) the sums over pairs of cuts give Z(child, 1) of both
children of every cut; with K = 1 the histogram gives m(child). Either is a lower bound of
Z(child, k): the look-ahead that the policy starts from.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Float32s, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.code_counts import unpack
from dtgfn.engines.rowsets.graph import RowSetTable, find_or_add, rows_of
from dtgfn.engines.rowsets.numbered_cuts import Pairs, make_pairs
from dtgfn.engines.rowsets.partial.sides import rank_below, word_below
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.engines.rowsets.two_levels import load_set, value_sides
from dtgfn.trees.leaf_models import log_marginal

IMPOSSIBLE = -2  # a cut that a node does not have


class CutTable(NamedTuple):
    """The cuts of many row sets, E in all; columns a side holds are [E, 2], left then right."""

    feature: Int32s  # [E]
    low: Int32s  # [E] thresholds low <= j < high cut alike
    high: Int32s  # [E]
    prior: Floats  # [E] tempered log prior of the split, all its thresholds together
    lookahead: Float32s  # [E, 2] log of the look-ahead value of the child
    best: Float32s  # [E, 2] log weight of the child's best tree within the look-ahead
    sums: Float32s  # [E, 2, K] the leaf model's, of the child
    child: Int32s  # [E, 2] the child's node, -1 while nobody has been there
    ceiling: Float32s  # [E, 2] what the child can be worth at most, see flows.py
    residual: Float32s  # [E, 2] what the network adds to ``lookahead``
    logit: Floats  # [E] log of the flow through the cut


def empty_cuts(n_cuts: int, n_sums: int) -> CutTable:
    """Return room for cuts."""
    return CutTable(
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
    nodes: Int64s,
    bits: UInt64s,
    depth: int,
    start: Int64s,
    max_cuts: int,
    loops: Loops,
    cuts: CutTable,
) -> None:
    """Fill the cuts of nodes [N] of rows [N, W], children valued with one level; for one column."""
    pairs = make_pairs(loops, max_cuts, 1)
    split = math.exp(loops.log_split[depth])
    for i in range(nodes.shape[0]):
        s, total, n_cuts = load_set(bits[i], loops, pairs, True)
        value_sides(total, n_cuts, split, loops, pairs)
        write_cuts(start[nodes[i]], s, total, split, depth, loops, pairs, cuts)


@njit(**INNER)
def write_cuts(
    at: int,
    s: int,
    total: int,
    split: float,
    depth: int,
    loops: Loops,
    pairs: Pairs,
    cuts: CutTable,
) -> None:
    """Write the loaded set's cuts from position ``at`` on, as logs without the table's scale."""
    table, rows = loops.table, pairs.rows
    n_sums = loops.sums.shape[1]
    below, total_sums, all_rows = np.zeros(n_sums), np.zeros(n_sums), 0.0
    for i in range(s):
        all_rows += table.row_weight[rows[i]]
        for c in range(n_sums):
            total_sums[c] += loops.sums[rows[i], c]
    for f in range(loops.ranks.shape[0]):
        a, b = pairs.offset[f], pairs.offset[f + 1]
        if a == b:
            continue
        sum_positions(at, s, f, loops, pairs, cuts)
        weight = 0.0
        for c in range(n_sums):
            below[c] = 0.0
        for u in range(a, b):
            e = at + u
            weight += cuts.lookahead[e, 0]
            for c in range(n_sums):
                below[c] += cuts.sums[e, 0, c]
                cuts.sums[e, 0, c] = below[c]
                cuts.sums[e, 1, c] = total_sums[c] - below[c]
            low_shift = table.scale * weight
            high_shift = table.scale * (all_rows - weight)
            packed = pairs.prefix[u]
            best_left = max(table.value[packed], split * pairs.best_left[u])
            best_right = max(table.value[total - packed], split * pairs.best_right[u])
            cuts.feature[e] = f
            cuts.prior[e] = loops.log_split[depth] + math.log(cuts.high[e] - cuts.low[e])
            cuts.lookahead[e, 0] = math.log(pairs.z_left[u]) - low_shift
            cuts.lookahead[e, 1] = math.log(pairs.z_right[u]) - high_shift
            cuts.best[e, 0] = math.log(best_left) - low_shift
            cuts.best[e, 1] = math.log(best_right) - high_shift
            cuts.child[e, 0], cuts.child[e, 1] = -1, -1


@njit(**INNER)
def sum_positions(at: int, s: int, f: int, loops: Loops, pairs: Pairs, cuts: CutTable) -> None:
    """Sum the rows left of each cut of a feature, and not of the cut before; set its thresholds.

    The weight of these rows is left in ``lookahead``, where the caller takes it from.
    """
    a, b, n_sums = pairs.offset[f], pairs.offset[f + 1], loops.sums.shape[1]
    for e in range(at + a, at + b):
        cuts.residual[e, 0], cuts.residual[e, 1] = 0.0, 0.0
        for c in range(n_sums):
            cuts.sums[e, 0, c] = 0.0
        cuts.lookahead[e, 0] = 0.0
        cuts.low[e], cuts.high[e] = -1, 1 << 30
    for i in range(s):
        row, position = pairs.rows[i], pairs.position[f, i]
        code = loops.rank_code[f, loops.ranks[f, row]]
        if a + position < b:
            e = at + a + position
            cuts.low[e] = code
            cuts.lookahead[e, 0] += loops.table.row_weight[row]
            for c in range(n_sums):
                cuts.sums[e, 0, c] += loops.sums[row, c]
        if position > 0:
            cuts.high[at + a + position - 1] = code


@njit(cache=True, nogil=True)
def find_cuts(
    nodes: Int64s, feature: Int32s, threshold: Int32s, start: Int64s, n_cuts: Int32s, cuts: CutTable
) -> Int64s:
    """Find the cut of each node that a threshold of a feature makes, IMPOSSIBLE if none."""
    found = np.empty(nodes.shape[0], np.int64)
    for i in range(nodes.shape[0]):
        found[i] = IMPOSSIBLE
        first = start[nodes[i]]
        for e in range(first, first + n_cuts[nodes[i]]):
            if cuts.feature[e] == feature[i] and cuts.low[e] <= threshold[i] < cuts.high[e]:
                found[i] = e
                break
    return found


@njit(cache=True, nogil=True)
def set_stop(nodes: Int64s, sums: Floats, log_prior: float, loops: Loops, stop: Floats) -> None:
    """Set the log flow of stopping: m(S)^(1/temperature) and the prior of a stop."""
    for k in nodes:
        stop[k] = stop_flow(sums[k], log_prior, loops)


@njit(**INNER)
def stop_flow(sums: Floats, log_prior: float, loops: Loops) -> float:
    """Log flow of stopping at sums [K]."""
    value = log_marginal(sums, loops.leaf)
    return value / loops.temperature + log_prior


@njit(cache=True, nogil=True)
def reach_children(
    nodes: Int64s,
    chosen: Int64s,
    bits: UInt64s,
    where: Int64s,
    sets: RowSetTable,
    cuts: CutTable,
    row_keys: UInt64s,
    loops: Loops,
    below: RowSetTable,
    node_sums: Floats,
    sums: Floats,
    lookahead: Floats,
    log_prior: float,
    stop: Floats,
    parent: Int64s,
    origin: Int64s,
) -> None:
    """Link each chosen cut to the nodes of its two sides, which join the next level if new.

    The rows of nodes[i] are bits[where[i]]; new ones are kept if the next level keeps any.
    """
    n_words, n_sums = bits.shape[1], loops.sums.shape[1]
    counted = loops.counts.packed.shape[0] > 0
    rows = np.empty(0 if counted else loops.ranks.shape[1], np.int32)
    side_bits, n_kept = np.empty((2, n_words), np.uint64), below.bits.shape[1]
    side_sums, names = np.empty((2, n_sums)), np.empty((2, 2), np.uint64)
    s, of_node = 0, np.int64(-1)
    for i in range(nodes.shape[0]):
        node, e = nodes[i], chosen[i]
        if cuts.child[e, 0] >= 0 and cuts.child[e, 1] >= 0:
            continue
        own = bits[where[i]]
        if counted:
            count_left(own, e, cuts, row_keys, loops, side_bits[0], names[0], side_sums[0])
            for c in range(n_sums):
                side_sums[1, c] = node_sums[node, c] - side_sums[0, c]
        else:
            if node != of_node:
                s, of_node = rows_of(own, rows), node
            sum_sides(s, rows, e, cuts, row_keys, loops, side_bits[0], names[0], side_sums)
        for w in range(n_words):
            side_bits[1, w] = own[w] & ~side_bits[0, w]
        for k in range(2):
            names[1, k] = sets.keys[node, k] ^ names[0, k]
        for side in range(2):
            before = below.used[0]
            child = find_or_add(names[side, 0], names[side, 1], side_bits[side, :n_kept], below)
            if child == before:
                lookahead[child] = cuts.lookahead[e, side]
                for c in range(n_sums):  # a slice would bring its error's words along
                    sums[child, c] = side_sums[side, c]
                stop[child] = stop_flow(sums[child], log_prior, loops)
                parent[child], origin[child] = node, 2 * e + side
            cuts.child[e, side] = child


@njit(**INNER)
def sum_sides(
    s: int,
    rows: Int32s,
    e: int,
    cuts: CutTable,
    row_keys: UInt64s,
    loops: Loops,
    left: UInt64s,
    name: UInt64s,
    side_sums: Floats,
) -> None:
    """Write rows [W] and name [2] of the left side of a cut, and the sums of both [2, K]."""
    left[:], name[:], side_sums[:] = 0, 0, 0.0
    f = cuts.feature[e]
    for r in range(s):
        row = rows[r]
        side = 1
        if loops.rank_code[f, loops.ranks[f, row]] <= cuts.low[e]:
            side = 0
            left[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
            name[0] ^= row_keys[row, 0]
            name[1] ^= row_keys[row, 1]
        # Not the cut's sums: they are single precision, and flows must not be.
        for c in range(loops.span[row, 0], loops.span[row, 1]):
            side_sums[side, c] += loops.sums[row, c]


@njit(**INNER)
def count_left(
    own: UInt64s,
    e: int,
    cuts: CutTable,
    row_keys: UInt64s,
    loops: Loops,
    left: UInt64s,
    name: UInt64s,
    sums: Floats,
) -> None:
    """Write rows [W], name [2] and class counts [K] of the left side of a cut of a row set."""
    ranks, n_rows = loops.ranks[cuts.feature[e]], loops.ranks.shape[1]
    most = rank_below(cuts.feature[e], cuts.low[e], loops)
    name0, name1, packed = np.uint64(0), np.uint64(0), np.int64(0)
    for w in range(own.shape[0]):
        left[w] = own[w]
        if own[w] == 0:
            continue
        left[w] &= word_below(ranks, 64 * w, min(64 * w + 64, n_rows), most)
        word = left[w]
        for row in range(64 * w, min(64 * w + 64, n_rows)):
            # No branch on a row: whether it is there is chance.
            there = np.int64(word & np.uint64(1))
            name0 ^= row_keys[row, 0] & np.uint64(-there)
            name1 ^= row_keys[row, 1] & np.uint64(-there)
            packed += loops.counts.packed[row] & -there
            word >>= np.uint64(1)
    name[0], name[1] = name0, name1
    unpack(packed, loops, sums)


@njit(cache=True, nogil=True)
def link_children(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    sets: RowSetTable,
    cuts: CutTable,
    row_keys: UInt64s,
    loops: Loops,
    below: RowSetTable,
) -> None:
    """Link the cuts of newly listed nodes to children that are there already."""
    n_features, n_rows = loops.ranks.shape
    n_ranks = loops.rank_code.shape[1]
    rows, stamp = np.empty(n_rows, np.int32), np.zeros(n_ranks, np.int32)
    bucket = np.zeros((n_ranks, 2), np.uint64)
    for i in range(first, last):
        node, e = nodes[i], start[nodes[i]]
        s = rows_of(sets.bits[node], rows)
        for f in range(n_features):
            lowest, highest = n_ranks, -1
            for r in range(s):
                rank = loops.ranks[f, rows[r]]
                stamp[rank] = 1
                bucket[rank, 0] ^= row_keys[rows[r], 0]
                bucket[rank, 1] ^= row_keys[rows[r], 1]
                lowest, highest = min(lowest, rank), max(highest, rank)
            left0, left1, previous = np.uint64(0), np.uint64(0), -1
            for rank in range(lowest, highest + 1):
                if stamp[rank] == 0:
                    continue
                if previous >= 0:
                    cuts.child[e, 0] = find(left0, left1, below)
                    right0, right1 = sets.keys[node, 0] ^ left0, sets.keys[node, 1] ^ left1
                    cuts.child[e, 1] = find(right0, right1, below)
                    e += 1
                previous = rank
                left0 ^= bucket[rank, 0]
                left1 ^= bucket[rank, 1]
                stamp[rank] = 0
                bucket[rank, 0], bucket[rank, 1] = 0, 0


@njit(cache=True, nogil=True)
def find(key0: np.uint64, key1: np.uint64, sets: RowSetTable) -> int:
    """Position of a row set among the nodes of a level, -1 if it is not there."""
    mask = np.uint64(sets.slots.shape[0] - 1)
    slot = key0 & mask
    while sets.slots[slot] >= 0:
        node = sets.slots[slot]
        if sets.keys[node, 0] == key0 and sets.keys[node, 1] == key1:
            return node
        slot = (slot + np.uint64(1)) & mask
    return -1
