"""The most probable tree, read off the solved graph."""

from __future__ import annotations

import numpy as np

from dtgfn.engines.exact.graph import Edges, Level, Run, expand, take_edges
from dtgfn.engines.exact.inside import Values, edge_log_weights, log_stop_weights, tail_values
from dtgfn.engines.exact.problem import Problem
from dtgfn.engines.exact.support import Graph
from dtgfn.trees import TreeBatch, from_splits


def best_tree(problem: Problem, graph: Graph, in_order: Run, anyhow: Run) -> TreeBatch:
    """Return the tree of highest posterior probability; ties go to fewer splits, middle cuts."""
    splits: dict[tuple[int, ...], tuple[int, int]] = {}

    def grow(path: tuple[int, ...], level: Level, position: int, in_graph: bool) -> None:
        depth = len(path)
        if depth == problem.score.max_depth:
            return
        this = level.take(np.array([position]))
        if in_graph and depth < len(graph.edges):
            edges = take_edges(graph.edges[depth], np.array([position]))
            children, values = graph.levels[depth + 1], graph.values[depth + 1]
        else:
            in_graph = False
            edges, children = expand(problem, this, in_order)
            levels_left = problem.score.max_depth - depth - 1
            values = tail_values(problem, children, levels_left, anyhow, with_columns=False)
        chosen = _best_edge(problem, this, edges, values, depth)
        if chosen is None:
            return
        cut = (int(edges.low[chosen]) + int(edges.high[chosen]) - 1) // 2
        splits[path] = (int(problem.feature[edges.feature[chosen]]), cut)
        grow((*path, 0), children, int(edges.left[chosen]), in_graph)
        grow((*path, 1), children, int(edges.right[chosen]), in_graph)

    grow((), graph.levels[0], 0, True)
    return from_splits([splits])


def _best_edge(
    problem: Problem, level: Level, edges: Edges, children: Values, depth: int
) -> int | None:
    """Return the edge of one row set with the best weight, or None where stopping is no worse."""
    if edges.feature.size == 0:
        return None
    weight = np.empty(edges.feature.size)
    edge_log_weights(0, 1, edges, children.log_max, depth, problem.loops, weight)
    stop = log_stop_weights(problem, level, depth, np.array([True]))[0]
    best = int(np.argmax(weight))
    # Rounding must not turn a tie into a needless split.
    return best if weight[best] > stop + 1e-12 * abs(stop) else None
