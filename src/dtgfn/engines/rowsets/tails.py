"""The tails of trees: all that may stand on a row set with at most two levels left.

Their sum, the best of them, and draws. With S a row set, k levels left, m the tempered leaf
marginal and the prior's node terms::

    Z(S, 0) = m(S)
    Z(S, k) = stop m(S) + sum over cuts  multiplicity split Z(left, k-1) Z(right, k-1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.parallel import Interruptible, Runner, run_at_once
from dtgfn.engines.rowsets.graph import Edges, RowSets, expand, sum_rows
from dtgfn.engines.rowsets.one_level import sum_one_level
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.two_levels import draw_first_of_two, sum_two_levels
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaves import log_marginal

Splits = dict[tuple[int, ...], tuple[int, int]]


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
    problem: Problem, sets: RowSets, levels_left: int, run: Runner, with_columns: bool = True
) -> Values:
    """Values of the lowest level of a graph: at most two levels left with a table, else one.

    Without columns the use of columns is left out, which saves memory on wide tables.
    """
    depth = problem.score.max_depth - levels_left
    values = empty_values(problem, len(sets), levels_left, with_columns)
    if levels_left == 0:
        stop = log_stop_weights(problem, sets, depth, np.zeros(len(sets), dtype=np.bool_), run)
        values.log_z[:], values.log_max[:] = stop, stop
        values.size[:], values.absent[:] = 1.0, 1.0
        return values
    loop = sum_two_levels if levels_left == 2 else sum_one_level
    loops = problem.loops.with_own_flag()
    given = (sets.bits, problem.max_cuts, depth, loops)
    out = (values.log_z, values.log_max, values.size, values.absent)

    def work(first: int, last: int) -> None:
        loop(first, last, *given, *out)

    run(Interruptible(work, loops.halted) if levels_left == 2 else work, len(sets))
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
    problem: Problem, sets: RowSets, depth: int, can_split: npt.NDArray[np.bool_], run: Runner
) -> Floats:
    """Tempered log weight of stopping at each row set of a level [K]."""
    out = np.empty(len(sets))
    given = (sets.bits, problem.loops, out)
    run(lambda first, last: leaf_log_marginals(first, last, *given), len(sets))
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


def add_best_splits(
    problem: Problem,
    this: RowSets,
    path: tuple[int, ...],
    splits: Splits,
    serial: Runner,
    parallel: Runner,
) -> None:
    """Add the best tree below ``path``, on the one row set of ``this``, with tail levels left."""
    depth = len(path)
    levels_left = problem.score.max_depth - depth - 1
    if levels_left < 0:
        return
    edges, children = expand(problem, this, serial)
    values = tail_values(problem, children, levels_left, parallel, with_columns=False)
    chosen = best_edge(problem, this, edges, values, depth)
    if chosen is not None:
        splits[path] = middle_split(problem, edges, chosen)
        for turn, child in enumerate((edges.left[chosen], edges.right[chosen])):
            below = children.take(np.array([child]))
            add_best_splits(problem, below, (*path, turn), splits, serial, parallel)


def middle_split(problem: Problem, edges: Edges, chosen: int) -> tuple[int, int]:
    """Feature and threshold in the middle of those that cut alike."""
    cut = (int(edges.low[chosen]) + int(edges.high[chosen]) - 1) // 2
    return int(problem.feature[edges.feature[chosen]]), cut


def best_edge(
    problem: Problem, sets: RowSets, edges: Edges, children: Values, depth: int
) -> int | None:
    """Return the edge of one row set with the best weight, or None where stopping is no worse."""
    if edges.feature.size == 0:
        return None
    weight = np.empty(edges.feature.size)
    edge_log_weights(0, 1, edges, children.log_max, depth, problem.loops, weight)
    stop = log_stop_weights(problem, sets, depth, np.array([True]), run_at_once)[0]
    best = first_best(weight)
    # Rounding must not turn a tie into a needless split.
    return best if weight[best] > stop + 1e-12 * abs(stop) else None


def first_best(weight: Floats) -> int:
    """Return the first of the largest weights: rounding must not decide between equals."""
    top = float(weight.max())
    return int(np.argmax(weight >= top - 1e-10 * max(abs(top), 1.0)))


def draw_splits(
    problem: Problem,
    draw: Callable[..., None],
    depth: int,
    bits: UInt64s,
    row_set: Int64s,
    uniform: Floats,
    run: Runner,
) -> tuple[Int32s, Int32s, UInt64s]:
    """Draw a feature (-1 to stop), a cut and the row sets of both sides for each open node.

    ``uniform`` [open nodes, 2] is random.
    """
    n_open = len(row_set)
    feature, cut = np.full(n_open, -1, np.int32), np.zeros(n_open, np.int32)
    sides = np.zeros((n_open, 2, problem.n_words), np.uint64)
    order = np.argsort(row_set, kind="stable")
    start = np.searchsorted(row_set[order], np.arange(len(bits) + 1))
    # Which column a cut is on does not matter here, so all may count as one.
    loops = problem.loops.with_own_flag()._replace(group=np.zeros_like(problem.loops.group))
    given = (bits, problem.max_cuts, depth, loops, order, start, uniform)

    def work(first: int, last: int) -> None:
        draw(first, last, *given, feature, cut, sides)

    run(Interruptible(work, loops.halted) if draw is draw_first_of_two else work, len(bits))
    return feature, cut, sides


def split_leaves(
    trees: TreeBatch, tree: Int64s, slot: Int64s, feature: Int32s, cut: Int32s
) -> tuple[Int64s, Int64s]:
    """Split leaves in place; return tree and slot of the new leaves, left and right in turn."""
    # ``tree`` ascends; several leaves of a tree may split at once, each into the next free pair.
    left = trees.n_nodes[tree] + 2 * (np.arange(len(tree)) - np.searchsorted(tree, tree))
    trees.feature[tree, slot] = feature
    trees.cut[tree, slot] = cut
    trees.left[tree, slot] = left
    np.add.at(trees.n_nodes, tree, 2)
    return np.repeat(tree, 2), np.stack([left, left + 1], axis=1).ravel()
