"""The upward pass: log Z, best weight, size and column use of every sub-problem of the graph.

With S a row set, k levels left, m the tempered leaf marginal and the prior's node terms::

    Z(S, 0) = m(S)
    Z(S, k) = stop m(S) + sum over cuts  multiplicity split Z(left, k-1) Z(right, k-1)

Size and column use are kept as probabilities given S, so only log Z and the best weight need logs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn._support.arrays import Floats, UInt64s
from dtgfn._support.threads import Halting
from dtgfn.engines.rowsets.graph import Edges, RowSets, Run, sum_rows
from dtgfn.engines.rowsets.one_level import sum_one_level
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.two_levels import sum_two_levels
from dtgfn.trees.leaves import log_marginal


@dataclass(frozen=True)
class Values:
    """What is known of K row sets with the same number of levels left.

    log_z, log_max [K]; size [K, L]: P(number of splits); absent [K, G]: P(column is not used).
    """

    log_z: Floats
    log_max: Floats
    size: Floats
    absent: Floats


def empty_values(
    problem: Problem, n_sets: int, levels_left: int, with_columns: bool = True
) -> Values:
    """Return room for the values of a level."""
    return Values(
        np.empty(n_sets),
        np.empty(n_sets),
        np.empty((n_sets, n_sizes(problem, levels_left))),
        np.empty((n_sets, problem.n_groups if with_columns else 0)),
    )


def n_sizes(problem: Problem, levels_left: int) -> int:
    """How many numbers of splits a tree may have; the tails write all of theirs."""
    return max(min(2**levels_left, problem.n_rows), 2 ** min(levels_left, 2))


def values_bytes(problem: Problem, n_sets: float, levels_left: int) -> float:
    """Memory that the values of a level take."""
    return 8.0 * n_sets * (2 + n_sizes(problem, levels_left) + problem.n_groups)


def tail_values(
    problem: Problem, level: RowSets, levels_left: int, run: Run, with_columns: bool = True
) -> Values:
    """Values of the lowest level of a graph: at most two levels left with a table, else one.

    Without columns the use of columns is left out, which saves memory on wide tables.
    """
    depth = problem.score.max_depth - levels_left
    values = empty_values(problem, len(level), levels_left, with_columns)
    if levels_left == 0:
        stop = log_stop_weights(problem, level, depth, np.zeros(len(level), dtype=np.bool_), run)
        values.log_z[:], values.log_max[:] = stop, stop
        values.size[:], values.absent[:] = 1.0, 1.0
        return values
    loop = sum_two_levels if levels_left == 2 else sum_one_level
    loops = problem.loops.hearing()
    given = (level.bits, problem.max_cuts, depth, loops)
    out = (values.log_z, values.log_max, values.size, values.absent)

    def work(first: int, last: int) -> None:
        loop(first, last, *given, *out)

    run(Halting(work, loops.halted) if levels_left == 2 else work, len(level))
    return values


@njit(cache=True, nogil=True)
def leaf_log_marginals(first: int, last: int, bits: UInt64s, loops: Loops, out: Floats) -> None:
    """Log m of row sets first..last-1 [K]."""
    rows = np.empty(loops.sums.shape[0], np.int32)
    total = np.empty(loops.sums.shape[1])
    for k in range(first, last):
        sum_rows(bits[k], loops, rows, total)
        out[k] = log_marginal(total, loops.leaf)


def log_stop_weights(
    problem: Problem, level: RowSets, depth: int, can_split: npt.NDArray[np.bool_], run: Run
) -> Floats:
    """Tempered log weight of stopping at each row set of a level [K]."""
    out = np.empty(len(level))
    given = (level.bits, problem.loops, out)
    run(lambda first, last: leaf_log_marginals(first, last, *given), len(level))
    forced = problem.score.uniform_rules & ~can_split
    prior = np.where(forced, 0.0, problem.loops.log_stop[depth])
    return np.asarray(out / problem.score.temperature + prior)


@njit(cache=True, nogil=True)
def edge_log_weights(
    first: int, last: int, edges: Edges, child: Floats, depth: int, loops: Loops, out: Floats
) -> None:
    """Log weight of one threshold of each edge: split term plus both children's ``child``."""
    start = edges.start
    for k in range(first, last):
        n_varying = 0
        for e in range(start[k], start[k + 1]):
            out[e] = loops.log_split[depth] + child[edges.left[e]] + child[edges.right[e]]
            if e == start[k] or edges.feature[e] != edges.feature[e - 1]:
                n_varying += 1
        if not loops.uniform_rules:
            continue
        e = start[k]
        while e < start[k + 1]:
            after = e
            while after < start[k + 1] and edges.feature[after] == edges.feature[e]:
                after += 1
            # Edges of a feature ascend, so its valid cuts span the first low to the last high.
            n_cuts = edges.high[after - 1] - edges.low[e]
            share = (math.log(n_varying) + math.log(n_cuts)) / loops.temperature
            for i in range(e, after):
                out[i] -= share
            e = after


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
            best = max(best, best_weight[e])
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


def level_values(
    problem: Problem, level: RowSets, edges: Edges, children: Values, levels_left: int, run: Run
) -> Values:
    """Values of a level whose children are known."""
    depth = problem.score.max_depth - levels_left
    values = empty_values(problem, len(level), levels_left)
    stop = log_stop_weights(problem, level, depth, np.diff(edges.start) > 0, run)
    weight, best_weight = np.empty(edges.feature.size), np.empty(edges.feature.size)
    loops = problem.loops

    def work(first: int, last: int) -> None:
        edge_log_weights(first, last, edges, children.log_z, depth, loops, weight)
        edge_log_weights(first, last, edges, children.log_max, depth, loops, best_weight)
        given = (edges, loops, stop, weight, best_weight, children.size, children.absent)
        out = (values.log_z, values.log_max, values.size, values.absent)
        combine_level(first, last, *given, *out)

    run(work, len(level))
    return values
