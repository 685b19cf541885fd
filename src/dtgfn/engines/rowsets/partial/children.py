"""From a node to the nodes of its cuts' children: reaching new ones, linking known ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn.engines.rowsets.graph import RowSetTable, find_or_add, rows_of, sum_rows
from dtgfn.engines.rowsets.partial.lookahead import Cuts
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaves import log_marginal


@njit(cache=True, nogil=True)
def set_stop(nodes: Int64s, sums: Floats, log_prior: float, loops: Loops, stop: Floats) -> None:
    """Set the log flow of stopping: m(S)^(1/temperature) and the prior of a stop."""
    for k in nodes:
        stop[k] = stop_flow(sums[k], log_prior, loops)


@njit(cache=True, nogil=True)
def stop_flow(sums: Floats, log_prior: float, loops: Loops) -> float:
    """Log flow of stopping at sums [K]."""
    value = log_marginal(sums, loops.leaf)
    return value / loops.temperature + log_prior


@njit(cache=True, nogil=True)
def reach_children(
    nodes: Int64s,
    chosen: Int64s,
    nursery: RowSetTable,
    cuts: Cuts,
    row_keys: UInt64s,
    loops: Loops,
    below: RowSetTable,
    sums: Floats,
    look: Floats,
    log_prior: float,
    stop: Floats,
) -> None:
    """Link each chosen cut to the nodes of its two sides, which join the next level if new."""
    n_words = nursery.bits.shape[1]
    rows = np.empty(loops.ranks.shape[1], np.int32)
    members = np.empty(loops.ranks.shape[1], np.int32)
    side_bits = np.empty((2, n_words), np.uint64)
    for i in range(nodes.shape[0]):
        node, e = nodes[i], chosen[i]
        if cuts.child[e, 0] >= 0 and cuts.child[e, 1] >= 0:
            continue
        left0, left1 = np.uint64(0), np.uint64(0)
        for w in range(n_words):
            side_bits[0, w] = 0
        f = cuts.feature[e]
        for r in range(rows_of(nursery.bits[node], rows)):
            row = rows[r]
            if loops.rank_code[f, loops.ranks[f, row]] <= cuts.low[e]:
                side_bits[0, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
                left0 ^= row_keys[row, 0]
                left1 ^= row_keys[row, 1]
        for w in range(n_words):
            side_bits[1, w] = nursery.bits[node, w] & ~side_bits[0, w]
        right0, right1 = nursery.keys[node, 0] ^ left0, nursery.keys[node, 1] ^ left1
        for side in range(2):
            before = below.used[0]
            if side == 0:
                child = find_or_add(left0, left1, side_bits[0], below)
            else:
                child = find_or_add(right0, right1, side_bits[1], below)
            if child == before:
                look[child] = cuts.look[e, side]
                # Not the cut's sums: they are single precision, and flows must not be.
                sum_rows(side_bits[side], loops, members, sums[child])
                stop[child] = stop_flow(sums[child], log_prior, loops)
            cuts.child[e, side] = child


@njit(cache=True, nogil=True)
def link_children(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    nursery: RowSetTable,
    cuts: Cuts,
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
        s = rows_of(nursery.bits[node], rows)
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
                    right0, right1 = nursery.keys[node, 0] ^ left0, nursery.keys[node, 1] ^ left1
                    cuts.child[e, 1] = find(right0, right1, below)
                    e += 1
                previous = rank
                left0 ^= bucket[rank, 0]
                left1 ^= bucket[rank, 1]
                stamp[rank] = 0
                bucket[rank, 0], bucket[rank, 1] = 0, 0


@njit(cache=True, nogil=True)
def find(key0: np.uint64, key1: np.uint64, nursery: RowSetTable) -> int:
    """Position of a row set among the nodes of a level, -1 if it is not there."""
    mask = np.uint64(nursery.slots.shape[0] - 1)
    slot = key0 & mask
    while nursery.slots[slot] >= 0:
        node = nursery.slots[slot]
        if nursery.keys[node, 0] == key0 and nursery.keys[node, 1] == key1:
            return node
        slot = (slot + np.uint64(1)) & mask
    return -1
