"""The inside pass: log Z, best weight, sizes and columns of row sets from those of their children.

``tails`` has the recursion, and its lowest levels. Size and column use are kept as probabilities
given a row set, so only log Z and the best weight need logs.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner
from dtgfn.engines.rowsets.graph import Edges, RowSets
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.tails import Values, edge_log_weights, empty_values, log_stop_weights


def level_values(
    problem: Problem, sets: RowSets, edges: Edges, children: Values, levels_left: int, run: Runner
) -> Values:
    """Values of a level whose children are known."""
    depth = problem.score.max_depth - levels_left
    values = empty_values(problem, len(sets), levels_left)
    stop = log_stop_weights(problem, sets, depth, np.diff(edges.start) > 0, run)
    weight, best_weight = np.empty(edges.feature.size), np.empty(edges.feature.size)
    loops = problem.loops

    def work(first: int, last: int) -> None:
        edge_log_weights(first, last, edges, children.log_z, depth, loops, weight)
        edge_log_weights(first, last, edges, children.log_max, depth, loops, best_weight)
        given = (edges, loops, stop, weight, best_weight, children.size, children.absent)
        out = (values.log_z, values.log_max, values.size, values.absent)
        combine_level(first, last, *given, *out)

    run(work, len(sets))
    return values


@njit(cache=True, nogil=True)
def combine_level(
    first: int,
    last: int,
    edges: Edges,
    loops: Loops,
    stop: Floats,
    weight: Floats,
    best_weight: Floats,
    child_size: Floats,
    child_absent: Floats,
    log_z: Floats,
    log_max: Floats,
    size: Floats,
    absent: Floats,
) -> None:
    """Values of row sets first..last-1 from their edges' log weights and their children."""
    n_groups, n_sizes, n_child = absent.shape[1], size.shape[1], child_size.shape[1]
    for k in range(first, last):
        peak, best = stop[k], stop[k]
        begin, end = edges.start[k], edges.start[k + 1]
        for e in range(begin, end):
            peak = max(peak, weight[e])
            best = max(best, best_weight[e] + math.log(edges.high[e] - edges.low[e]))
        total = math.exp(stop[k] - peak)
        for e in range(begin, end):
            total += (edges.high[e] - edges.low[e]) * math.exp(weight[e] - peak)
        log_z[k] = peak + math.log(total)
        log_max[k] = best
        stop_share = math.exp(stop[k] - log_z[k])
        for i in range(n_sizes):
            size[k, i] = 0.0
        size[k, 0] = stop_share
        for g in range(n_groups):
            absent[k, g] = stop_share
        for e in range(begin, end):
            p = (edges.high[e] - edges.low[e]) * math.exp(weight[e] - log_z[k])
            left, right, own = edges.left[e], edges.right[e], loops.group[edges.feature[e]]
            for g in range(n_groups):
                if g != own:
                    absent[k, g] += p * child_absent[left, g] * child_absent[right, g]
            for i in range(min(n_child, n_sizes - 1)):
                share = p * child_size[left, i]
                for j in range(min(n_child, n_sizes - 1 - i)):
                    size[k, i + j + 1] += share * child_size[right, j]
