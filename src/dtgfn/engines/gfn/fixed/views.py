"""Views: row sets in numbers that mean the same on every table, for a policy trained on many.

A row set is seen from the node that it was first reached from. The view holds what the look at that
node said of all its cuts (the *context*), what it said of the one that leads here, and the sizes of
the table. Everything is pooled over cuts, columns and classes, so none of their orders matters,
nor does the number of any of them have a place of its own; weights in nats enter by ``tame``.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Float32s, Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.trees.leaf_models import log_marginal, log_partition_bound, row_mass

TABLE = (
    "log_rows",
    "log_columns",
    "log_classes",
    "numbers",
    "log_temperature",
    "summed_levels",
)
CONTEXT = (
    "log_mass",
    "share_of_rows",
    "leaf",
    "leaf_per_row",
    "room",
    "look_gain",
    "best_gain",
    "spread_of_cuts",
    "spread_of_columns",
    "top_column",
    "second_column",
    "third_column",
    "log_varying",
    "log_cuts",
    "log_prior",
    "mean_ratio",
    "ratio_deviation",
    "child_gain",
    "balance",
)
CHILD = (
    "levels_left",
    "last_levels",
    "child_log_mass",
    "child_share",
    "child_share_of_rows",
    "child_leaf",
    "child_leaf_per_row",
    "child_room",
    "child_look",
    "child_best",
    "cut_share",
    "cut_behind",
    "column_share",
    "sibling_log_mass",
    "sibling_leaf_per_row",
    "sibling_room",
    "sibling_look",
)
NAMES = (*TABLE, *CONTEXT, *CHILD)
N_TABLE, N_CONTEXT, N_CHILD = len(TABLE), len(CONTEXT), len(CHILD)
N_VIEW = len(NAMES)
MOST_LEVELS = 6  # levels left that a view tells apart
LEAST = -20.0  # log shares below which nothing is told apart
FEW = 1e-9


def describe_cuts(
    graph: PartialGraph,
    level: Level,
    nodes: Int64s,
    cuts: Int64s,
    member: Int64s,
    contexts: Float32s,
    columns: Floats,
) -> Float32s:
    """Views [2 N, V] of both children of cuts [N] of nodes [N], whose contexts are ``member``."""
    given = (nodes, cuts, member, contexts, columns, table_numbers(graph), graph.total_mass)
    more = (level.depth, level.cuts, level.sums, graph.problem.loops)
    return describe_children(*given, *more)


def pool_nodes(graph: PartialGraph, level: Level, nodes: Int64s) -> tuple[Float32s, Floats]:
    """Contexts and columns of nodes of a level (``pool_cuts``)."""
    given = (nodes, level.start, level.n_cuts, level.cuts, level.sums, level.stop, level.rest)
    more = (level.n_thresholds, level.depth, graph.total_mass, graph.tail_levels == 2)
    return pool_cuts(*given, *more, graph.problem.loops)


def table_numbers(graph: PartialGraph) -> Float32s:
    """What a view tells of the table as a whole [T]."""
    problem: Problem = graph.problem
    n_sums, kind = problem.score.leaf.n_sums, type(problem.score.leaf).__name__
    is_classes = kind == "DirichletLeaf"
    # Classes that no row has weigh nothing and are no news.
    there = int((problem.loops.sums.sum(axis=0) > 0).sum()) if is_classes else n_sums
    return np.array(
        [
            math.log1p(graph.total_mass),
            math.log1p(problem.feature.size),
            math.log(max(there, 1)) if is_classes else 0.0,
            float(not is_classes),
            math.log(problem.score.temperature),
            graph.tail_levels - 1.0,
        ],
        np.float32,
    )


@njit(**INNER)
def tame(nats: float) -> float:
    """Nats as a number of moderate size that keeps their sign: log(1 + x)."""
    return math.log1p(nats) if nats >= 0.0 else -math.log1p(-nats)


@njit(**INNER)
def leaf_numbers(sums: Floats, loops: Loops) -> tuple[float, float, float]:
    """Weight of the rows, log m / temperature, and nats that any partition of them could gain."""
    n = row_mass(sums, loops.leaf)
    leaf = log_marginal(sums, loops.leaf) / loops.temperature
    room = log_partition_bound(sums, loops.leaf) / loops.temperature - leaf
    if not room < math.inf:
        room = max(-leaf, 0.0)
    return n, leaf, max(room, 0.0)


@njit(cache=True, nogil=True)
def pool_cuts(
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    sums: Floats,
    stop: Floats,
    rest: Floats,
    n_thresholds: Floats,
    depth: int,
    everything: float,
    with_gains: bool,
    loops: Loops,
) -> tuple[Float32s, Floats]:
    """Contexts [N, C] of nodes whose cuts are listed, and log flow [N, F] of each feature's cuts.

    The last two columns of the second are the log of all flow and of the largest cut's.
    """
    n_features = loops.ranks.shape[0]
    contexts = np.zeros((nodes.shape[0], N_CONTEXT), np.float32)
    columns = np.full((nodes.shape[0], n_features + 2), -math.inf)
    child = np.empty(loops.sums.shape[1])
    for i in range(nodes.shape[0]):
        node, out, column = nodes[i], contexts[i], columns[i]
        first, number = start[node], n_cuts[node]
        n, leaf, room = leaf_numbers(sums[node], loops)
        top = -math.inf
        for e in range(first, first + number):
            top = max(top, cut_value(e, cuts))
        peak = max(top, max(stop[node], rest[node]))
        total, entropy, gain, balance, ratio, square = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for e in range(first, first + number):
            value = cut_value(e, cuts)
            weight = math.exp(value - top)
            total += weight
            entropy -= weight * (value - top)
            f = cuts.feature[e]
            column[f] = math.exp(value - peak) + (0.0 if column[f] == -math.inf else column[f])
            likelihood = tame(value - cuts.prior[e] - stop[node])
            ratio += likelihood
            square += likelihood**2
            left = 0.0
            for c in range(child.shape[0]):
                child[c] = cuts.sums[e, 0, c]
            left = row_mass(child, loops.leaf)
            balance += weight * min(left, n - left) / max(n, FEW)
            if with_gains and weight > 1e-4:
                gain += weight * look_gain(e, 0, cuts, child, loops)
                gain += weight * look_gain(e, 1, cuts, child, loops)
        flow = math.exp(stop[node] - peak) + math.exp(rest[node] - peak)
        flow = peak + math.log(flow + total * math.exp(top - peak))
        best, second, third, spread, varying = order_columns(column[:n_features], peak)
        columns[i, n_features], columns[i, n_features + 1] = flow, top
        out[0], out[1] = math.log1p(n), n / everything
        out[2], out[3], out[4] = tame(-leaf), -leaf / max(n, FEW), tame(room)
        out[5] = tame(flow - stop[node])
        out[12] = math.log1p(varying)
        if number == 0:
            out[6], out[14], out[15] = LEAST, LEAST, LEAST
            continue
        out[6] = tame(top - stop[node])
        out[7] = math.log(total) + entropy / total
        out[8] = spread
        out[9] = tame(best - stop[node])
        out[10] = tame(best - second) if varying > 1 else tame(-LEAST)
        out[11] = tame(best - third) if varying > 2 else tame(-LEAST)
        out[13] = math.log1p(number)
        out[14] = loops.log_split[depth] + math.log(max(n_thresholds[node], 1.0))
        out[15] = ratio / number
        out[16] = math.sqrt(max(square / number - out[15] ** 2, 0.0))
        out[17] = tame(gain / total)
        out[18] = balance / total
    return contexts, columns


@njit(**INNER)
def cut_value(e: int, cuts: CutTable) -> float:
    """Log flow of a cut as far as the look-ahead sees."""
    return cuts.prior[e] + cuts.lookahead[e, 0] + cuts.lookahead[e, 1]


@njit(**INNER)
def look_gain(e: int, side: int, cuts: CutTable, scratch: Floats, loops: Loops) -> float:
    """Nats that the look-ahead of a child is above its leaf."""
    for c in range(scratch.shape[0]):
        scratch[c] = cuts.sums[e, side, c]
    leaf = log_marginal(scratch, loops.leaf) / loops.temperature
    return max(cuts.lookahead[e, side] - leaf, 0.0)


@njit(**INNER)
def order_columns(column: Floats, peak: float) -> tuple[float, float, float, float, int]:
    """Turn sums by column into logs; return the three largest, their entropy and how many vary."""
    best, second, third = -math.inf, -math.inf, -math.inf
    varying, total, entropy = 0, 0.0, 0.0
    for f in range(column.shape[0]):
        if column[f] == -math.inf:
            continue
        varying += 1
        total += column[f]
        column[f] = peak + math.log(column[f]) if column[f] > 0.0 else peak - 745.0
        value = column[f]
        if value > best:
            best, second, third = value, best, second
        elif value > second:
            second, third = value, second
        elif value > third:
            third = value
    if total > 0.0:
        log_total = peak + math.log(total)
        for f in range(column.shape[0]):
            if column[f] > -math.inf:
                entropy -= math.exp(column[f] - log_total) * (column[f] - log_total)
    return best, second, third, entropy, varying


@njit(cache=True, nogil=True)
def describe_children(
    nodes: Int64s,
    chosen: Int64s,
    member: Int64s,
    contexts: Float32s,
    columns: Floats,
    table: Float32s,
    everything: float,
    depth: int,
    cuts: CutTable,
    sums: Floats,
    loops: Loops,
) -> Float32s:
    """Views [2 N, V] of both children of cuts [N] of nodes [N]; ``member`` finds their context."""
    out = np.empty((2 * chosen.shape[0], N_VIEW), np.float32)
    n_features, n_sums = loops.ranks.shape[0], loops.sums.shape[1]
    levels_left = loops.log_stop.shape[0] - 2 - depth
    here = np.empty((2, n_sums))
    for i in range(chosen.shape[0]):
        e, k = chosen[i], member[i]
        value, flow, top = cut_value(e, cuts), columns[k, n_features], columns[k, n_features + 1]
        n_above = row_mass(sums[nodes[i]], loops.leaf)
        for side in range(2):
            for c in range(n_sums):
                here[side, c] = cuts.sums[e, side, c]
        sides = leaf_numbers(here[0], loops), leaf_numbers(here[1], loops)
        for side in range(2):
            x, at = out[2 * i + side], N_TABLE + N_CONTEXT
            x[:N_TABLE] = table
            x[N_TABLE:at] = contexts[k]
            (n, leaf, room), (n_other, leaf_other, room_other) = sides[side], sides[1 - side]
            x[at] = min(levels_left, MOST_LEVELS)
            x[at + 1] = 1.0 / max(levels_left, 1)
            x[at + 2] = math.log1p(n)
            x[at + 3] = n / max(n_above, FEW)
            x[at + 4] = n / max(everything, FEW)
            x[at + 5], x[at + 6], x[at + 7] = tame(-leaf), -leaf / max(n, FEW), tame(room)
            x[at + 8] = tame(max(cuts.lookahead[e, side] - leaf, 0.0))
            x[at + 9] = tame(max(cuts.best[e, side] - leaf, 0.0))
            x[at + 10] = max(value - flow, LEAST)
            x[at + 11] = max(value - top, LEAST)
            x[at + 12] = max(columns[k, cuts.feature[e]] - flow, LEAST)
            x[at + 13] = math.log1p(n_other)
            x[at + 14] = -leaf_other / max(n_other, FEW)
            x[at + 15] = tame(room_other)
            x[at + 16] = tame(max(cuts.lookahead[e, 1 - side] - leaf_other, 0.0))
    return out
