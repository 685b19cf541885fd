"""The exact model average: each query's mass walks down the support.

A query has mass 1 at the root. At a row set, the share P(stop) of its mass meets the leaf's
probabilities; the rest goes on to the side of each cut that the query falls on. The last level is
summed by loops that serve all queries at once.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

from dtgfn.engines.exact.averaging_pairs import average_two_levels
from dtgfn.engines.exact.graph import Edges, Longs, Run, sum_rows
from dtgfn.engines.exact.one_level import Cuts, list_cuts, make_cuts
from dtgfn.engines.exact.problem import Loops, Problem, Words
from dtgfn.engines.exact.support import NEGLIGIBLE, SupportLevel, carriers
from dtgfn.kernels import Codes, Floats, Ints, as_codes, distinct_codes
from dtgfn.leaves import write_outputs

# Mass of a query at a row set below this cannot change a printed probability.
NO_MASS = 1e-18
MASS_BYTES = 1 << 27
MOST_BLOCKS = 64


def average_predictions(
    problem: Problem, support: list[SupportLevel], codes: Codes, run: Run
) -> Floats:
    """Posterior mean of what leaves predict [n, J] for rows of codes [n, d]."""
    codes = as_codes(codes, int(problem.feature.max(initial=-1)) + 1)
    if codes.shape[0] == 0:
        return np.zeros((0, problem.score.leaf.n_outputs))
    varying = codes[:, problem.feature]
    chosen, member = distinct_codes(varying)
    distinct = varying[chosen]
    n_distinct = distinct.shape[0]
    widest = max(len(here.bits) for here in support)
    piece = int(np.clip(MASS_BYTES // (8 * widest), 1, n_distinct))
    out = np.empty((n_distinct, problem.score.leaf.n_outputs))
    for first in range(0, n_distinct, piece):
        queries = np.ascontiguousarray(distinct[first : first + piece].T.astype(np.int32))
        out[first : first + piece] = _average_piece(problem, support, queries, run)
    return problem.score.leaf.normalise(out)[member]


def _average_piece(
    problem: Problem, support: list[SupportLevel], queries: Ints, run: Run
) -> Floats:
    """Predictions [Q, J] for distinct rows given as code columns [F, Q]."""
    n_queries, n_outputs = queries.shape[1], problem.score.leaf.n_outputs
    stopped = np.zeros((n_queries, n_outputs))
    mass = np.ones((1, n_queries))
    for here, below in pairwise(support):
        child_mass = np.zeros((len(below.bits), n_queries))
        given = (here.bits, here.stop, here.edges, here.probability, problem.loops, queries)
        pass_down(*given, mass, child_mass, stopped)
        mass = child_mass
    kept = carriers(mass.max(axis=1), NEGLIGIBLE)
    bits, mass = support[-1].bits[kept], mass[kept]
    order = np.argsort(queries, axis=1, kind="stable")
    depth = len(support) - 1
    levels_left = problem.score.max_depth - depth
    loop = average_two_levels if levels_left == 2 else average_one_level
    # Predictions do not ask which column a cut is on, so all may count as one.
    loops = problem.loops._replace(group=np.zeros_like(problem.loops.group))
    # Blocks do not depend on the threads, so neither do the sums; big and small sets alternate.
    n_blocks = min(MOST_BLOCKS, len(kept))
    blocks = np.zeros((n_blocks, n_queries, n_outputs))

    def work(first: int, last: int) -> None:
        for b in range(first, last):
            part = slice(b, None, n_blocks)
            given = (np.ascontiguousarray(bits[part]), problem.max_cuts, depth, levels_left > 0)
            part_mass = np.ascontiguousarray(mass[part])
            loop(*given, loops, queries, order, part_mass, blocks[b])

    run(work, n_blocks)
    return stopped + blocks.sum(axis=0)


@njit(cache=True, nogil=True)
def pass_down(
    bits: Words,
    stop: Floats,
    edges: Edges,
    probability: Floats,
    loops: Loops,
    queries: Ints,
    mass: Floats,
    child_mass: Floats,
    out: Floats,
) -> None:
    """Pass each query's mass [K, Q] to the side of each cut it falls on; add what stops to out.

    A query between the training codes on both sides of a cut goes left for the thresholds at or
    above it and right for the others.
    """
    rows = np.empty(loops.sums.shape[0], np.int32)
    total, mean = np.empty(loops.sums.shape[1]), np.empty(out.shape[1])
    for k in range(bits.shape[0]):
        sum_rows(bits[k], loops, rows, total)
        write_outputs(total, loops.leaf, mean)
        for q in range(queries.shape[1]):
            for c in range(mean.shape[0]):
                out[q, c] += mass[k, q] * stop[k] * mean[c]
        for e in range(edges.start[k], edges.start[k + 1]):
            low, high, f = edges.low[e], edges.high[e], edges.feature[e]
            left, right = child_mass[edges.left[e]], child_mass[edges.right[e]]
            p_threshold = probability[e] / (high - low)
            for q in range(queries.shape[1]):
                going_left = min(max(high - queries[f, q], 0), high - low)
                left[q] += mass[k, q] * p_threshold * going_left
                right[q] += mass[k, q] * p_threshold * (high - low - going_left)


@njit(cache=True, nogil=True)
def average_one_level(
    bits: Words,
    max_cuts: int,
    depth: int,
    may_split: bool,
    loops: Loops,
    queries: Ints,
    order: Longs,
    mass: Floats,
    out: Floats,
) -> None:
    """Add the predictions of all trees with at most one more split, for each query's mass [K, Q].

    ``order`` [F, Q] sorts the queries by their code of each feature.
    """
    n_outputs = out.shape[1]
    cuts = make_cuts(loops, max_cuts)
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


@njit(cache=True, nogil=True)
def accumulate_cuts(
    first: int, after: int, total: float, cuts: Cuts, below: Floats, above: Floats
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


@njit(cache=True, nogil=True)
def add_feature(
    first: int,
    after: int,
    codes: Ints,
    order: Longs,
    cuts: Cuts,
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
