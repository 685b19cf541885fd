"""The tails of trees: all that may stand on a row set with at most two levels left.

Their sum and the best of them. With S a row set, k levels left, m the tempered leaf
marginal and the prior's node terms::

    Z(S, 0) = m(S)
    Z(S, k) = stop m(S) + sum over cuts  multiplicity split Z(left, k-1) Z(right, k-1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Interruptible, Runner, run_at_once
from dtgfn.engines.rowsets.graph import Edges, RowSets, expand, sum_rows
from dtgfn.engines.rowsets.numbered_cuts import make_pairs
from dtgfn.engines.rowsets.one_level import CutBuffer, list_cuts, make_cut_buffer
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.two_levels import load_set, sum_first_cuts
from dtgfn.engines.rowsets.two_levels_by_logs import sum_two_levels_by_logs
from dtgfn.trees.leaf_models import log_marginal

Splits = dict[tuple[int, ...], tuple[int, int]]


@dataclass(frozen=True)
class Values:
    """What is known of K row sets with the same number of levels left.

    log_z [K]; log_max [K]: log weight of the most probable tree, with all that part the rows alike
    (a cut weighs as many as its thresholds, as it does in the sum); of two levels at once it may
    be more, but not more than log_most [K] (``two_level_best``). size [K, L]: P(number of splits);
    absent [K, G]: P(column is not used).
    """

    log_z: Floats
    log_max: Floats
    log_most: Floats
    size: Floats
    absent: Floats


def empty_values(
    problem: Problem, n_sets: int, levels_left: int, with_columns: bool = True
) -> Values:
    """Return room for the values of a level."""
    return Values(
        np.empty(n_sets),
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
    return 8.0 * n_sets * (3 + n_sizes(problem, levels_left) + problem.n_groups)


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
        values.log_z[:], values.log_max[:], values.log_most[:] = stop, stop, stop
        values.size[:], values.absent[:] = 1.0, 1.0
        return values
    two = sum_two_levels_by_logs if problem.two_levels_by_logs else sum_two_levels
    loop = two if levels_left == 2 else sum_one_level
    loops = problem.loops.with_own_flag()
    given = (sets.bits, problem.max_cuts, depth, loops)
    out = (values.log_z, values.log_max, values.log_most, values.size, values.absent)

    def work(first: int, last: int) -> None:
        loop(first, last, *given, *out)

    run(Interruptible(work, loops.halted) if levels_left == 2 else work, len(sets))
    return values


@njit(cache=True, nogil=True)
def sum_one_level(
    first: int,
    last: int,
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    loops: Loops,
    log_z: Floats,
    log_max: Floats,
    log_most: Floats,
    size: Floats,
    absent: Floats,
) -> None:
    """Sum over all trees with at most one split on row sets first..last-1 of a level.

    Writes log Z and the best log weight [K], P(0 or 1 splits) [K, 2] and P(column not used) [K, G].
    """
    cuts = make_cut_buffer(loops, max_cuts)
    for k in range(first, last):
        n_cuts, stop, best, reference = list_cuts(bits[k], depth, loops, cuts, False)
        total = stop
        for u in range(n_cuts):
            total += cuts.weight[u]
        log_z[k] = reference + math.log(total)
        log_max[k] = log_most[k] = reference + math.log(best)
        size[k, 0] = stop / total
        size[k, 1] = 1.0 - size[k, 0]
        if absent.shape[1] == 0:
            continue
        for g in range(absent.shape[1]):
            absent[k, g] = 1.0
        for u in range(n_cuts):
            absent[k, loops.group[cuts.feature[u]]] -= cuts.weight[u] / total
        for g in range(absent.shape[1]):
            absent[k, g] = max(absent[k, g], 0.0)


@njit(cache=True, nogil=True)
def sum_two_levels(
    first: int,
    last: int,
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    loops: Loops,
    log_z: Floats,
    log_max: Floats,
    log_most: Floats,
    size: Floats,
    absent: Floats,
) -> None:
    """Sum over all trees with at most two levels on row sets first..last-1 of a level.

    Writes log Z, the best log weight as it is counted here and what it is at most [K], P(0..3
    splits) [K, 4] and P(column not used) [K, G].
    The leaf table stands only for priors whose split term is the same at every depth.
    """
    pairs = make_pairs(loops, max_cuts, absent.shape[1])
    split = math.exp(loops.log_split[depth])
    for k in range(first, last):
        s, total, _ = load_set(bits[k], loops, pairs, False)
        weight = 0.0
        for i in range(s):
            weight += loops.table.row_weight[pairs.rows[i]]
        z, best, most = sum_first_cuts(total, split, loops, pairs, size[k], absent[k])
        log_z[k] = math.log(z) - loops.table.scale * weight
        log_max[k] = math.log(best) - loops.table.scale * weight
        log_most[k] = math.log(most) - loops.table.scale * weight


def scratch_bytes(problem: Problem) -> float:
    """Memory that ``make_pairs`` takes, by its largest parts."""
    joint = 4.0 * problem.loops.rank_code.shape[1] ** 2
    of_logs = 32.0 * problem.max_cuts**2 if problem.two_levels_by_logs else 0.0
    of_cuts = 16.0 * problem.n_groups * problem.max_cuts
    return of_cuts + of_logs + joint + problem.loops.bits.below.nbytes


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
    if levels_left == 0:
        last = best_last_split(problem, this, depth)
        splits |= {} if last is None else {path: last}
        return
    edges, children = expand(problem, this, serial)
    values = tail_values(problem, children, levels_left, parallel, with_columns=False)
    chosen = best_edge(problem, this, edges, values, depth)
    if chosen is not None:
        splits[path] = middle_split(problem, edges, chosen)
        for side, child in enumerate((edges.left[chosen], edges.right[chosen])):
            below = children.take(np.array([child]))
            add_best_splits(problem, below, (*path, side), splits, serial, parallel)


def best_last_split(problem: Problem, this: RowSets, depth: int) -> tuple[int, int] | None:
    """Return the best split of one row set whose children are leaves, None if it should stop.

    No row sets are made of the children, which on a long table with many cuts take gigabytes.
    """
    given = (this.bits[0], depth, problem.max_cuts, problem.loops)
    cuts, number, stop, reference = list_last_cuts(*given)
    if number == 0:
        return None
    with np.errstate(divide="ignore"):  # what is nothing beside the best may be zero
        weight, stop = reference + np.log(cuts.weight[:number]), reference + float(np.log(stop))
    best = first_best(weight)
    if weight[best] <= stop + 1e-12 * abs(stop):
        return None
    cut = (int(cuts.low[best]) + int(cuts.high[best]) - 1) // 2
    return int(problem.feature[cuts.feature[best]]), cut


@njit(cache=True, nogil=True)
def list_last_cuts(
    bits: UInt64s, depth: int, max_cuts: int, loops: Loops
) -> tuple[CutBuffer, int, float, float]:
    """List the cuts of a row set whose children are leaves; see ``list_cuts``."""
    cuts = make_cut_buffer(loops, max_cuts)
    number, stop, _, reference = list_cuts(bits, depth, loops, cuts, False)
    return cuts, number, stop, reference


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
    weight += np.log(edges.high - edges.low)
    stop = log_stop_weights(problem, sets, depth, np.array([True]), run_at_once)[0]
    best = first_best(weight)
    # Rounding must not turn a tie into a needless split.
    return best if weight[best] > stop + 1e-12 * abs(stop) else None


def first_best(weight: Floats) -> int:
    """Return the first of the largest weights: rounding must not decide between equals."""
    top = float(weight.max())
    return int(np.argmax(weight >= top - 1e-10 * max(abs(top), 1.0)))
