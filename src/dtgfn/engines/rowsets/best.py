"""The most probable tree, read off the solved graph."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.threads import run_here
from dtgfn.engines.rowsets.graph import Edges, RowSets, Run, expand, take_edges
from dtgfn.engines.rowsets.inside import Values, edge_log_weights, log_stop_weights, tail_values
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.support import Graph
from dtgfn.trees.batch import TreeBatch, from_splits

Splits = dict[tuple[int, ...], tuple[int, int]]


def best_tree(problem: Problem, graph: Graph, in_order: Run, anyhow: Run) -> TreeBatch:
    """Return the tree of highest posterior probability; ties go to fewer splits, middle cuts."""
    splits: Splits = {}

    def grow(path: tuple[int, ...], position: int) -> None:
        depth = len(path)
        this = graph.levels[depth].take(np.array([position]))
        if depth == len(graph.edges):
            add_best_splits(problem, this, path, splits, in_order, anyhow)
            return
        edges = take_edges(graph.edges[depth], np.array([position]))
        chosen = _best_edge(problem, this, edges, graph.values[depth + 1], depth)
        if chosen is not None:
            splits[path] = middle_split(problem, edges, chosen)
            grow((*path, 0), int(edges.left[chosen]))
            grow((*path, 1), int(edges.right[chosen]))

    grow((), 0)
    return from_splits([splits])


def add_best_splits(
    problem: Problem,
    this: RowSets,
    path: tuple[int, ...],
    splits: Splits,
    in_order: Run,
    anyhow: Run,
) -> None:
    """Add the best tree below ``path``, on the one row set of ``this``, with tail levels left."""
    depth = len(path)
    levels_left = problem.score.max_depth - depth - 1
    if levels_left < 0:
        return
    edges, children = expand(problem, this, in_order)
    values = tail_values(problem, children, levels_left, anyhow, with_columns=False)
    chosen = _best_edge(problem, this, edges, values, depth)
    if chosen is not None:
        splits[path] = middle_split(problem, edges, chosen)
        for turn, child in enumerate((edges.left[chosen], edges.right[chosen])):
            below = children.take(np.array([child]))
            add_best_splits(problem, below, (*path, turn), splits, in_order, anyhow)


def middle_split(problem: Problem, edges: Edges, chosen: int) -> tuple[int, int]:
    """Feature and threshold in the middle of those that cut alike."""
    cut = (int(edges.low[chosen]) + int(edges.high[chosen]) - 1) // 2
    return int(problem.feature[edges.feature[chosen]]), cut


def _best_edge(
    problem: Problem, level: RowSets, edges: Edges, children: Values, depth: int
) -> int | None:
    """Return the edge of one row set with the best weight, or None where stopping is no worse."""
    if edges.feature.size == 0:
        return None
    weight = np.empty(edges.feature.size)
    edge_log_weights(0, 1, edges, children.log_max, depth, problem.loops, weight)
    stop = log_stop_weights(problem, level, depth, np.array([True]), run_here)[0]
    best = first_best(weight)
    # Rounding must not turn a tie into a needless split.
    return best if weight[best] > stop + 1e-12 * abs(stop) else None


def first_best(weight: Floats) -> int:
    """Return the first of the largest weights: rounding must not decide between equals."""
    top = float(weight.max())
    return int(np.argmax(weight >= top - 1e-10 * max(abs(top), 1.0)))
