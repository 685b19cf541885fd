"""The exact model average: each query's mass walks down the support.

A query has mass 1 at the root. At a row set, the share P(stop) of its mass meets the leaf's
probabilities; the rest goes on to the side of each cut that the query falls on. The last level is
summed by loops that serve all queries at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Interruptible, Runner, Work, run_at_once
from dtgfn.data.binning import as_codes, distinct_codes
from dtgfn.engines.exact.averaging_pairs import average_two_levels
from dtgfn.engines.exact.inside_outside import NEGLIGIBLE
from dtgfn.engines.rowsets.graph import Edges, expand, expansion_bytes, make_row_sets, sum_rows
from dtgfn.engines.rowsets.one_level import CutBuffer, list_cuts, make_cut_buffer
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.support import SupportLevel, carriers, step_probabilities
from dtgfn.engines.rowsets.tails import tail_values
from dtgfn.trees.leaf_models import write_outputs

# Mass of a query at a row set below this cannot change a printed probability.
NO_MASS = 1e-18
MASS_BYTES = 1 << 27
MOST_BLOCKS = 64
# What one call of a compiled loop may look at: some tenths of a second, for Ctrl-C waits for it.
CALL_CELLS = 1 << 27


def average_predictions(
    problem: Problem, support: list[SupportLevel], codes: Codes, run: Runner
) -> Floats:
    """Posterior mean of what leaves predict [n, J] for rows of codes [n, d]."""
    codes = as_codes(codes, int(problem.feature.max(initial=-1)) + 1)
    if codes.shape[0] == 0:
        return np.zeros((0, problem.score.leaf.n_outputs))
    varying = codes[:, problem.feature]
    chosen, member = distinct_codes(varying)
    distinct = varying[chosen]
    n_distinct = distinct.shape[0]
    chunk = queries_at_once(problem, support, n_distinct)
    out = np.empty((n_distinct, problem.score.leaf.n_outputs))
    for first in range(0, n_distinct, chunk):
        queries = np.ascontiguousarray(distinct[first : first + chunk].T.astype(np.int32))
        out[first : first + chunk] = _average_chunk(problem, support, queries, run)
    return problem.score.leaf.normalise(out)[member]


def queries_at_once(problem: Problem, support: list[SupportLevel], n_queries: int) -> int:
    """How many queries' mass and predictions fit into memory, and into calls that are not long."""
    widest = max(len(here.bits) for here in support)
    n_blocks = min(MOST_BLOCKS, len(support[-1].bits))
    bytes_each = 8 * max(widest, n_blocks * problem.score.leaf.n_outputs)
    levels_left = problem.score.max_depth - (len(support) - 1)
    fitting = min(MASS_BYTES // bytes_each, CALL_CELLS // _cells_per_query(problem, levels_left))
    return int(np.clip(fitting, 1, n_queries))


def _cells_per_query(problem: Problem, levels_left: int) -> int:
    """What a query looks at in one row set with so many levels left."""
    n_features = max(problem.feature.size, 1)
    return int(problem.score.leaf.n_outputs * n_features ** max(levels_left, 1))


def _average_chunk(
    problem: Problem, support: list[SupportLevel], queries: Int32s, run: Runner
) -> Floats:
    """Predictions [Q, J] for distinct rows given as code columns [F, Q]."""
    n_queries, n_outputs = queries.shape[1], problem.score.leaf.n_outputs
    stopped = np.zeros((n_queries, n_outputs))
    mass = np.ones((1, n_queries))
    for here, below in pairwise(support):
        mass = _pass_level(problem, here, len(below.bits), queries, mass, stopped, run)
    kept = carriers(mass.max(axis=1), NEGLIGIBLE)
    bits, mass, depth = support[-1].bits[kept], mass[kept], len(support) - 1
    if problem.two_levels_by_logs and problem.score.max_depth - depth == 2:
        return stopped + _average_cut_again(problem, bits, depth, queries, mass, stopped, run)
    return stopped + _average_last(problem, bits, depth, queries, mass, run)


def _average_cut_again(
    problem: Problem,
    bits: UInt64s,
    depth: int,
    queries: Int32s,
    mass: Floats,
    stopped: Floats,
    run: Runner,
) -> Floats:
    """Predictions of trees with two levels left, whose row sets are cut again, some at a time."""
    out = np.zeros_like(stopped)
    bytes_each = expansion_bytes(problem, problem.max_cuts)
    bytes_each += 16.0 * problem.max_cuts * queries.shape[1]
    at_once = max(1, int(MASS_BYTES // bytes_each))
    for begin in range(0, len(bits), at_once):
        sets = make_row_sets(problem, bits[begin : begin + at_once])
        log_z = tail_values(problem, sets, 2, run).log_z
        edges, children = expand(problem, sets, run_at_once)
        child_log_z = tail_values(problem, children, 1, run).log_z
        steps = step_probabilities(problem, sets, edges, child_log_z, log_z, depth, run)
        here = SupportLevel(sets.bits, steps[0], edges, steps[1])
        part = mass[begin : begin + at_once]
        child_mass = _pass_level(problem, here, len(children), queries, part, stopped, run)
        kept = carriers(child_mass.max(axis=1), NEGLIGIBLE)
        given = (children.bits[kept], depth + 1, queries, child_mass[kept])
        out += _average_last(problem, *given, run)
    return out


def _average_last(
    problem: Problem, bits: UInt64s, depth: int, queries: Int32s, mass: Floats, run: Runner
) -> Floats:
    """Predictions [Q, J] of the last levels, for each query's mass [K, Q] at row sets [K, W]."""
    n_queries, n_outputs = queries.shape[1], problem.score.leaf.n_outputs
    order = np.argsort(queries, axis=1, kind="stable")
    levels_left = problem.score.max_depth - depth
    loop = average_two_levels if levels_left == 2 else average_one_level
    # Predictions do not ask which column a cut is on, so all may count as one.
    loops = problem.loops.with_own_flag()._replace(group=np.zeros_like(problem.loops.group))
    # Blocks do not depend on the threads, so neither do the sums; big and small sets alternate.
    n_blocks = min(MOST_BLOCKS, len(bits))
    blocks = np.zeros((n_blocks, n_queries, n_outputs))
    cells = problem.n_rows * problem.feature.size + n_outputs * problem.max_cuts**levels_left
    cells += n_queries * _cells_per_query(problem, levels_left)
    per_call = max(1, CALL_CELLS // cells)

    def from_set(begin: int) -> Work:
        def work(first: int, last: int) -> None:
            for b in range(first, last):
                part = slice(b + begin * n_blocks, (begin + per_call) * n_blocks, n_blocks)
                given = (np.ascontiguousarray(bits[part]), problem.max_cuts, depth, levels_left > 0)
                part_mass = np.ascontiguousarray(mass[part])
                loop(*given, loops, queries, order, part_mass, blocks[b])

        return Interruptible(work, loops.halted)

    for begin in range(0, -(-len(bits) // MOST_BLOCKS), per_call):
        run(from_set(begin), n_blocks)
    return np.asarray(blocks.sum(axis=0))


def _pass_level(
    problem: Problem,
    here: SupportLevel,
    n_children: int,
    queries: Int32s,
    mass: Floats,
    stopped: Floats,
    run: Runner,
) -> Floats:
    """Mass [children, Q] that goes on from a level; what stops is added to ``stopped`` [Q, J]."""
    child_mass = np.zeros((n_children, queries.shape[1]))
    steps = (here.stop, here.edges, here.probability)
    at_once = max(1, MASS_BYTES // (8 * stopped.shape[1]))
    for begin in range(0, len(here.bits), at_once):
        means = _means(problem, here.bits[begin : begin + at_once], run)
        given = (begin, *steps, queries, mass, means, child_mass, stopped)
        run(partial(_call, pass_down, given), queries.shape[1])
    return child_mass


def _means(problem: Problem, bits: UInt64s, run: Runner) -> Floats:
    """What row sets [K, W] predict as leaves [K, J]."""
    means = np.empty((len(bits), problem.score.leaf.n_outputs))
    run(partial(_call, leaf_means, (bits, problem.loops, means)), len(bits))
    return means


def _call(loop: Callable[..., None], given: tuple[Any, ...], first: int, last: int) -> None:
    loop(first, last, *given)


@njit(cache=True, nogil=True)
def leaf_means(first: int, last: int, bits: UInt64s, loops: Loops, means: Floats) -> None:
    """Write what row sets first..last-1 predict as leaves [K, J]."""
    rows = np.empty(loops.sums.shape[0], np.int32)
    total = np.empty(loops.sums.shape[1])
    for k in range(first, last):
        sum_rows(bits[k], loops, rows, total)
        write_outputs(total, loops.leaf, means[k])


@njit(cache=True, nogil=True)
def pass_down(
    first: int,
    last: int,
    begin: int,
    stop: Floats,
    edges: Edges,
    probability: Floats,
    queries: Int32s,
    mass: Floats,
    means: Floats,
    child_mass: Floats,
    out: Floats,
) -> None:
    """Pass queries first..last-1 on from the sets ``begin`` and on, whose leaves say ``means``.

    The mass [K, Q] of a query goes to the side of each cut it falls on, and what stops to ``out``.
    A query between the training codes on both sides of a cut goes left for the thresholds at or
    above it and right for the others.
    """
    for k in range(begin, begin + means.shape[0]):
        mean = means[k - begin]
        for q in range(first, last):
            for c in range(mean.shape[0]):
                out[q, c] += mass[k, q] * stop[k] * mean[c]
        for e in range(edges.start[k], edges.start[k + 1]):
            low, high, f = edges.low[e], edges.high[e], edges.feature[e]
            left, right = child_mass[edges.left[e]], child_mass[edges.right[e]]
            p_threshold = probability[e] / (high - low)
            for q in range(first, last):
                going_left = min(max(high - queries[f, q], 0), high - low)
                left[q] += mass[k, q] * p_threshold * going_left
                right[q] += mass[k, q] * p_threshold * (high - low - going_left)


@njit(cache=True, nogil=True)
def average_one_level(
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    may_split: bool,
    loops: Loops,
    queries: Int32s,
    order: Int64s,
    mass: Floats,
    out: Floats,
) -> None:
    """Add the predictions of all trees with at most one more split, for each query's mass [K, Q].

    ``order`` [F, Q] sorts the queries by their code of each feature.
    """
    n_outputs = out.shape[1]
    cuts = make_cut_buffer(loops, max_cuts)
    below, above = np.empty((max_cuts + 1, n_outputs)), np.empty((max_cuts + 1, n_outputs))
    for k in range(bits.shape[0]):
        n_cuts, stop, _, _ = list_cuts(bits[k], depth, loops, cuts, True)
        if not may_split:
            n_cuts, stop = 0, 1.0
        total = stop
        for u in range(n_cuts):
            total += cuts.weight[u]
        for q in range(queries.shape[1]):
            for c in range(n_outputs):
                out[q, c] += mass[k, q] * stop / total * cuts.mean_stop[c]
        first = 0
        while first < n_cuts:
            f = cuts.feature[first]
            after = first
            while after < n_cuts and cuts.feature[after] == f:
                after += 1
            accumulate_cuts(first, after, total, cuts, below, above)
            add_feature(first, after, queries[f], order[f], cuts, below, above, mass[k], out)
            first = after


@njit(**INNER)
def accumulate_cuts(
    first: int, after: int, total: float, cuts: CutBuffer, below: Floats, above: Floats
) -> None:
    """below[u]: right leaves of the cuts before u, summed; above[u]: left leaves from u on."""
    n_outputs = below.shape[1]
    for c in range(n_outputs):
        below[first, c], above[after, c] = 0.0, 0.0
    for u in range(first, after):
        for c in range(n_outputs):
            below[u + 1, c] = below[u, c] + cuts.weight[u] / total * cuts.mean_right[u, c]
    for u in range(after - 1, first - 1, -1):
        for c in range(n_outputs):
            above[u, c] = above[u + 1, c] + cuts.weight[u] / total * cuts.mean_left[u, c]


@njit(**INNER)
def add_feature(
    first: int,
    after: int,
    codes: Int32s,
    order: Int64s,
    cuts: CutBuffer,
    below: Floats,
    above: Floats,
    mass: Floats,
    out: Floats,
) -> None:
    """Add one feature's cuts: a query takes right leaves of cuts below it, left ones above."""
    u = first
    for position in range(order.shape[0]):
        q = order[position]
        while u < after and cuts.high[u] <= codes[q]:
            u += 1
        if mass[q] < NO_MASS:
            continue
        to_right = 0.0
        if u < after and codes[q] > cuts.low[u]:
            # Inside the gap of cut u, only the thresholds at or above the query send it left.
            to_right = (codes[q] - cuts.low[u]) / (cuts.high[u] - cuts.low[u])
        for c in range(out.shape[1]):
            value = below[u, c] + above[u, c]
            if to_right > 0.0:
                step = (below[u + 1, c] - below[u, c]) - (above[u, c] - above[u + 1, c])
                value += to_right * step
            out[q, c] += mass[q] * value
