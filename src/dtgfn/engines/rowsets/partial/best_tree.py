"""The best tree that a partial graph knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn._support.parallel import run_at_once
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.tails import Splits, add_best_splits, first_best
from dtgfn.trees.batch import TreeBatch, from_splits


def best_known_tree(graph: PartialGraph, expand: Callable[[int, Int64s], object]) -> TreeBatch:
    """Follow the best cut of every node down; a batch of one.

    ``expand`` makes the flows of nodes of a depth known; where it does not, the tree ends.
    """
    splits: Splits = {}
    problem = graph.problem

    def grow(path: tuple[int, ...], node: int) -> None:
        depth = len(path)
        level = graph.levels[depth]
        expand(depth, np.array([node]))
        if np.isnan(level.flow[node]):
            return
        if depth == graph.n_upper:
            this = graph.row_sets(depth, np.array([node]))
            add_best_splits(problem, this, path, splits, run_at_once, graph.run)
            return
        first, number = int(level.start[node]), int(level.n_cuts[node])
        value = best_through(graph, depth, np.arange(first, first + number))
        if number == 0 or value.max() <= level.stop[node]:
            return
        cut = first + first_best(value)
        threshold = (int(level.cuts.low[cut]) + int(level.cuts.high[cut]) - 1) // 2
        splits[path] = int(problem.feature[level.cuts.feature[cut]]), threshold
        for side, child in enumerate(graph.reach(depth, np.array([node]), np.array([cut]))[0]):
            grow((*path, side), int(child))

    grow((), 0)
    return from_splits([splits])


def best_through(graph: PartialGraph, depth: int, cuts: Int64s) -> Floats:
    """Log weight of the best tree through each cut, all its thresholds, as far as it is known."""
    here, below = graph.levels[depth].cuts, graph.levels[depth + 1]
    child = here.child[cuts]
    known = (child >= 0) & ~np.isnan(below.flow[np.maximum(child, 0)])
    sides = np.where(known, below.best[np.maximum(child, 0)], here.best[cuts])
    return np.asarray(here.prior[cuts] + sides.sum(axis=1))
