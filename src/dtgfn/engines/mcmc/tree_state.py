"""One chain's tree as arrays: nodes, their rows, and the sets that moves are drawn from."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.splitmix import draw_below
from dtgfn.trees.node_terms import (
    NodeTable,
    code_ranges,
    most_nodes,
    segment_log_marginal,
    stop_term,
    varies,
)

GROWABLE, PRUNABLE, SPLIT = 0, 1, 2  # the sets of nodes
NOW, TRIAL = 0, 1  # the two partitions of the rows
FIRST_CAPACITY = 31  # the random start must fit

NODE = np.dtype(
    [
        ("feature", np.int64),  # -1 at a leaf
        ("cut", np.int64),
        ("left", np.int64),  # the right child is left + 1
        ("parent", np.int64),  # -1 at the root
        ("depth", np.int64),
        ("begin", np.int64),  # rows order[NOW, begin:end]
        ("end", np.int64),
        ("n_varying", np.int64),  # features that vary, 0 while the ranges are not known
        ("value", np.float64),  # what the node adds to log R
        ("stop_value", np.float64),  # what it would add as a leaf, nan while not known
        ("trial_begin", np.int64),
        ("trial_end", np.int64),
        ("trial_value", np.float64),
        ("trial_grows", np.int64),
    ],
    align=True,
)


class Chain(NamedTuple):
    """A tree of at most K nodes (so far) on P rows with F features; everything changes in place."""

    nodes: npt.NDArray[np.void]  # [K] of NODE
    ranges: Int32s  # [K, 2, F] lowest and highest code, valid where n_varying > 0
    order: Int32s  # [2, P] row numbers, partitioned by the tree and by the tree on trial
    members: Int64s  # [3, K] each set's nodes, in no order
    position: Int64s  # [3, K] where a node is in ``members``, -1 if it is not
    size: Int64s  # [3]
    free: Int64s  # [K] stack of left slots of unused pairs
    n_free: Int64s  # [1]
    queue: Int64s  # [K] nodes of a subtree, parents first
    log_reward: Floats  # [1]
    random: UInt64s  # [1]
    scratch: Floats  # [C] class counts
    trial_ranges: Int32s  # [2, F]


def make_chain(table: NodeTable, seed: np.uint64) -> Chain:
    """Return a chain at the tree with no split."""
    n_rows, capacity = len(table.target), min(most_nodes(table), FIRST_CAPACITY)
    chain = Chain(
        nodes=np.zeros(capacity, dtype=NODE),
        ranges=np.zeros((capacity, 2, len(table.feature)), dtype=np.int32),
        order=np.tile(np.arange(n_rows, dtype=np.int32), (2, 1)),
        members=np.zeros((3, capacity), dtype=np.int64),
        position=np.full((3, capacity), -1, dtype=np.int64),
        size=np.zeros(3, dtype=np.int64),
        free=np.zeros(capacity, dtype=np.int64),
        n_free=np.zeros(1, dtype=np.int64),
        queue=np.zeros(capacity, dtype=np.int64),
        log_reward=np.zeros(1),
        random=np.array([seed], dtype=np.uint64),
        scratch=np.zeros(table.n_sums),
        trial_ranges=np.zeros((2, len(table.feature)), dtype=np.int32),
    )
    _free_pairs(chain, 1, capacity)
    _plant(chain, table)
    return chain


def enlarge(chain: Chain, table: NodeTable) -> Chain:
    """Return the same chain with room for twice as many nodes."""
    old = len(chain.nodes)
    capacity = min(most_nodes(table), 2 * old + 1)
    larger = chain._replace(
        nodes=np.zeros(capacity, dtype=NODE),
        ranges=np.zeros((capacity, 2, len(table.feature)), dtype=np.int32),
        members=np.zeros((3, capacity), dtype=np.int64),
        position=np.full((3, capacity), -1, dtype=np.int64),
        free=np.zeros(capacity, dtype=np.int64),
        queue=np.zeros(capacity, dtype=np.int64),
    )
    larger.nodes[:old], larger.ranges[:old] = chain.nodes, chain.ranges
    larger.members[:, :old], larger.position[:, :old] = chain.members, chain.position
    larger.free[:old] = chain.free
    _free_pairs(larger, old, capacity)
    return larger


def _free_pairs(chain: Chain, first: int, capacity: int) -> None:
    # The lowest slots on top, so that small trees stay in few cache lines.
    pairs = np.arange(first, capacity, 2)[::-1]
    used = chain.n_free[0]
    chain.free[used : used + len(pairs)] = pairs
    chain.n_free[0] += len(pairs)


def _plant(chain: Chain, table: NodeTable) -> None:
    """Make the root a leaf with all rows."""
    root, order = chain.nodes[0], chain.order[NOW]
    can_grow = table.max_depth > 0 and varies(order, 0, len(order), table)
    log_m = segment_log_marginal(order, 0, len(order), table, chain.scratch)
    root["feature"], root["parent"], root["end"] = -1, -1, len(order)
    root["value"] = root["stop_value"] = stop_term(log_m, 0, can_grow, table)
    chain.log_reward[0] = root["value"]
    if can_grow:
        chain.position[GROWABLE, 0] = chain.members[GROWABLE, 0] = 0
        chain.size[GROWABLE] = 1


@njit(**INNER)
def put(chain: Chain, kind: int, node: int, belongs: bool) -> None:
    """Put a node into one of the sets, or take it out."""
    at = chain.position[kind, node]
    if belongs and at < 0:
        chain.members[kind, chain.size[kind]] = node
        chain.position[kind, node] = chain.size[kind]
        chain.size[kind] += 1
    elif at >= 0 and not belongs:
        chain.size[kind] -= 1
        moved = chain.members[kind, chain.size[kind]]
        chain.members[kind, at] = moved
        chain.position[kind, moved] = at
        chain.position[kind, node] = -1


@njit(**INNER)
def learn_ranges(chain: Chain, node: int, table: NodeTable) -> None:
    """Make sure that the ranges of a node's codes are known."""
    here = chain.nodes[node]
    if here.n_varying == 0:
        here.n_varying = code_ranges(
            chain.order[NOW], here.begin, here.end, table, chain.ranges[node]
        )


@njit(**INNER)
def n_cuts(chain: Chain, node: int, feature: int) -> int:
    """Count the valid cuts of a feature at a node whose ranges are known."""
    return chain.ranges[node, 1, feature] - chain.ranges[node, 0, feature]


@njit(**INNER)
def draw_rule(chain: Chain, node: int) -> tuple[int, int]:
    """Draw a rule, q(f, j) = 1 / (varying features x valid cuts of f), at a node that can split."""
    skip = draw_below(chain.random, chain.nodes[node].n_varying)
    feature = 0
    while n_cuts(chain, node, feature) == 0 or skip > 0:
        skip -= n_cuts(chain, node, feature) > 0
        feature += 1
    below = draw_below(chain.random, n_cuts(chain, node, feature))
    return feature, chain.ranges[node, 0, feature] + below


@njit(**INNER)
def stop_value(chain: Chain, node: int, table: NodeTable) -> float:
    """What a split would add to log R if it were a leaf."""
    here = chain.nodes[node]
    if math.isnan(here.stop_value):
        log_m = segment_log_marginal(chain.order[NOW], here.begin, here.end, table, chain.scratch)
        here.stop_value = stop_term(log_m, here.depth, True, table)
    return here.stop_value


@njit(**INNER)
def list_subtree(chain: Chain, top: int) -> int:
    """Write the nodes from ``top`` down into ``queue``, parents first; return how many."""
    chain.queue[0] = top
    n = 1
    i = 0
    while i < n:
        here = chain.nodes[chain.queue[i]]
        if here.feature >= 0:
            chain.queue[n] = here.left
            chain.queue[n + 1] = here.left + 1
            n += 2
        i += 1
    return n


@njit(**INNER)
def write_tree(chain: Chain, feature: Int32s, cut: Int32s) -> None:
    """Write the tree level by level; slots [K] that are not used become leaves."""
    n = list_subtree(chain, 0)
    for i in range(feature.shape[0]):
        feature[i] = chain.nodes[chain.queue[i]].feature if i < n else -1
        cut[i] = chain.nodes[chain.queue[i]].cut if i < n else 0


@njit(**INNER)
def sum_values(chain: Chain) -> float:
    """Log R afresh, free of the rounding that a running sum collects."""
    total = 0.0
    for i in range(list_subtree(chain, 0)):
        total += chain.nodes[chain.queue[i]].value
    return total
