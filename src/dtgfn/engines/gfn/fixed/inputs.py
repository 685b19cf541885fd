"""What a network that begins from nothing sees of row sets: their sums and look-ahead."""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Float32s, Floats, Int64s
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import Level
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_marginal, row_mass

N_INPUTS = 8  # besides the sums as shares
LEVELS_LEFT = -2  # which of them tells the levels left


def node_inputs(graph: PartialGraph, depth: int, nodes: Int64s) -> Float32s:
    """Network inputs [N, F] of nodes of a depth."""
    level, levels_left = graph.levels[depth], graph.problem.score.max_depth - depth
    lookahead = np.asarray(level.lookahead[nodes], np.float64)
    given = (level.sums[nodes], lookahead, levels_left)
    return network_input(*given, graph.total_mass, graph.problem.loops)


def child_inputs(graph: PartialGraph, level: Level, cuts: Int64s) -> Float32s:
    """Network inputs [2 N, F] of both children of some cuts [N] of a level."""
    levels_left = graph.problem.score.max_depth - level.depth - 1
    sums = level.cuts.sums[cuts].reshape(-1, level.sums.shape[1])
    lookahead = level.cuts.lookahead[cuts].reshape(-1).astype(np.float64)
    given = (sums.astype(np.float64), lookahead, levels_left)
    return network_input(*given, graph.total_mass, graph.problem.loops)


@njit(cache=True, nogil=True)
def network_input(
    sums: Floats,
    lookahead: Floats,
    levels_left: int,
    everything: float,
    loops: Loops,
) -> Float32s:
    """Describe row sets by their sums [N, K] and look-ahead [N]: float32 [N, K + N_INPUTS].

    ``everything`` is the weight of all rows.
    """
    n_sets, n_sums = sums.shape
    x = np.empty((n_sets, n_sums + N_INPUTS), np.float32)
    here = np.empty(n_sums)
    for i in range(n_sets):
        largest = 0.0
        for c in range(n_sums):
            here[c] = sums[i, c]
            largest = max(largest, here[c])
        n = row_mass(here, loops.leaf)
        largest = min(largest, n)  # the commonest class, where there are classes
        leaf = log_marginal(here, loops.leaf) / loops.temperature
        gain, left = max(lookahead[i] - leaf, 0.0), max(-lookahead[i], 0.0)
        for c in range(n_sums):
            x[i, c] = here[c] / n
        x[i, n_sums] = math.log1p(n)
        x[i, n_sums + 1] = n / everything
        x[i, n_sums + 2] = largest / n
        x[i, n_sums + 3] = math.log1p(n - largest)
        x[i, n_sums + 4] = math.log1p(max(-leaf, 0.0))
        x[i, n_sums + 5] = math.log1p(gain)
        x[i, n_sums + 6] = levels_left
        x[i, n_sums + 7] = math.log1p(left)
    return x
