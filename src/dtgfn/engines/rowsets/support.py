"""The part of the graph that holds the posterior mass, with the probability of every step in it.

Walking down from the root, a row set's mass is the posterior probability that it is a node of the
tree. Sets that together hold less than ``NEGLIGIBLE`` are dropped, so whatever is computed on the
support differs from the exact answer by less than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn.engines.rowsets.graph import Edges, RowSets, Run, no_edges, take_edges
from dtgfn.engines.rowsets.inside import Values, edge_log_weights, log_stop_weights
from dtgfn.engines.rowsets.problem import Problem

NEGLIGIBLE = 1e-10
EDGES_AT_ONCE = 100_000  # checked, so that the row sets on both sides stay a few megabytes


@dataclass(frozen=True)
class Graph:
    """The solved graph: levels from the root down, the edges between them and their values."""

    levels: list[RowSets]
    edges: list[Edges]
    values: list[Values]


@dataclass(frozen=True)
class SupportLevel:
    """Row sets that matter, with one number of levels left.

    ``stop`` [K] is P(stop | set) and ``probability`` [E] is P(cut | set), all thresholds of the
    edge together. The last level has neither: its trees are summed again when they are needed.
    """

    bits: UInt64s
    stop: Floats
    edges: Edges
    probability: Floats


def build_support(problem: Problem, graph: Graph, run: Run) -> list[SupportLevel]:
    """Walk down from the root and keep what carries mass."""
    allowance = NEGLIGIBLE / max(len(graph.edges), 1)
    kept, mass = np.zeros(1, dtype=np.int64), np.ones(1)
    support = []
    for depth, all_edges in enumerate(graph.edges):
        level, log_z = graph.levels[depth].take(kept), graph.values[depth].log_z[kept]
        edges, children = take_edges(all_edges, kept), graph.values[depth + 1].log_z
        stop, probability = step_probabilities(problem, level, edges, children, log_z, depth, run)
        child_mass = np.zeros(len(children))
        pass_mass(edges, probability, mass, child_mass)
        kept = carriers(child_mass, allowance)
        support.append(_drop(level.bits, stop, edges, probability, kept, len(children)))
        mass = child_mass[kept]
    bits = graph.levels[-1].bits[kept]
    support.append(SupportLevel(bits, np.empty(0), no_edges(len(bits)), np.empty(0)))
    return support


def step_probabilities(
    problem: Problem,
    level: RowSets,
    edges: Edges,
    child_log_z: Floats,
    log_z: Floats,
    depth: int,
    run: Run,
) -> tuple[Floats, Floats]:
    """P(stop | set) [K] and P(cut | set) [E] of a level whose children's log Z is known."""
    weight = np.empty(edges.feature.size)
    given = (edges, child_log_z, depth, problem.loops, weight)
    run(lambda first, last: edge_log_weights(first, last, *given), len(level))
    owner = _owners(edges)
    probability = np.exp(weight - log_z[owner]) * (edges.high - edges.low)
    log_stop = log_stop_weights(problem, level, depth, np.diff(edges.start) > 0, run)
    return np.exp(log_stop - log_z), probability


@njit(cache=True, nogil=True)
def pass_mass(edges: Edges, probability: Floats, mass: Floats, child_mass: Floats) -> None:
    """Pass each set's mass on to both children of each cut."""
    for k in range(mass.shape[0]):
        for e in range(edges.start[k], edges.start[k + 1]):
            child_mass[edges.left[e]] += mass[k] * probability[e]
            child_mass[edges.right[e]] += mass[k] * probability[e]


def carriers(mass: Floats, allowance: float) -> Int64s:
    """Positions of the sets to keep, so that those left out hold at most ``allowance`` together."""
    order = np.argsort(mass)
    first = int(np.searchsorted(np.cumsum(mass[order]), allowance, side="right"))
    return np.sort(order[first:])


def _drop(
    bits: UInt64s,
    stop: Floats,
    edges: Edges,
    probability: Floats,
    kept: Int64s,
    n_children: int,
) -> SupportLevel:
    """Drop edges to children that were dropped, renumber the rest, let each set sum to one."""
    number = np.full(n_children, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    left, right = number[edges.left], number[edges.right]
    alive = (left >= 0) & (right >= 0)
    owner = _owners(edges)[alive]
    lengths = np.bincount(owner, minlength=len(bits))
    remaining = Edges(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        edges.feature[alive],
        edges.low[alive],
        edges.high[alive],
        left[alive],
        right[alive],
    )
    total = stop + np.bincount(owner, probability[alive], minlength=len(bits))
    # A set whose every cut was dropped holds next to no mass: let it stop.
    stop, total = np.where(total > 0, stop, 1.0), np.where(total > 0, total, 1.0)
    return SupportLevel(bits, stop / total, remaining, probability[alive] / total[owner])


def check_support(problem: Problem, support: list[SupportLevel]) -> None:
    """Refuse arrays that do not describe a support of this problem.

    Files come from strangers, and the compiled loops do not check bounds. Below the root a level
    may be empty: where nearly all mass stops, or rows cannot be told apart, nothing goes on.
    """
    last_levels = problem.score.max_depth - (len(support) - 1)
    summed = min(problem.score.max_depth, 2 if problem.two_levels_at_once else 1)
    if not support or not min(summed, 1) <= last_levels <= summed:
        raise ValueError("the support has the wrong number of levels")
    if len(support[0].bits) != 1 or (support[0].bits != problem.root_bits).any():
        raise ValueError("the support has no root")
    for here in support:
        if (here.bits & ~problem.root_bits).any() or not here.bits.any(axis=1).all():
            raise ValueError("a row set of the support is empty or holds rows that do not exist")
    for here, below in pairwise(support):
        _check_edges(problem, here, below.bits)
        _check_probabilities(here)
    last = support[-1]
    if last.stop.size or last.probability.size or any(column.size for column in last.edges[1:]):
        raise ValueError("the support goes on below its last level")


def _check_edges(problem: Problem, here: SupportLevel, children: UInt64s) -> None:
    """Refuse edges that do not cut their row set into two of the next level."""
    edges, n_sets = here.edges, len(here.bits)
    if {column.shape for column in edges[1:]} != {here.probability.shape}:
        raise ValueError("the support's edges differ in length")
    if edges.start.shape != (n_sets + 1,) or edges.start[0] != 0:
        raise ValueError("the support's edges differ in length")
    if (np.diff(edges.start) < 0).any() or edges.start[-1] != edges.feature.size:
        raise ValueError("the support's edges are out of order")
    n_features, n_children = problem.feature.size, len(children)
    for index, limit in ((edges.feature, n_features), (edges.left, n_children)):
        if ((index < 0) | (index >= limit)).any():
            raise ValueError("an edge of the support leads nowhere")
    if ((edges.right < 0) | (edges.right >= n_children)).any():
        raise ValueError("an edge of the support leads nowhere")
    highest = problem.loops.rank_code.max(axis=1, initial=0)
    if ((edges.low < 0) | (edges.high <= edges.low)).any():
        raise ValueError("a cut of the support is out of range")
    if (edges.high > highest[edges.feature]).any():
        raise ValueError("a cut of the support is out of range")
    owner = _owners(edges)
    for first in range(0, len(owner), EDGES_AT_ONCE):
        part = slice(first, first + EDGES_AT_ONCE)
        left, right = children[edges.left[part]], children[edges.right[part]]
        if (left & right).any() or ((left | right) != here.bits[owner[part]]).any():
            raise ValueError("a cut of the support does not part the rows of its set")


def _check_probabilities(here: SupportLevel) -> None:
    n_sets = len(here.bits)
    if here.stop.shape != (n_sets,):
        raise ValueError("the support's stops differ in length")
    total = here.stop + np.bincount(_owners(here.edges), here.probability, minlength=n_sets)
    below_zero = (here.probability < 0).any() or (here.stop < 0).any()
    if below_zero or not (np.abs(total - 1) < 1e-6).all():
        raise ValueError("the support's probabilities do not sum to one")


def _owners(edges: Edges) -> Int64s:
    """Row set that each edge leaves [E]."""
    return np.repeat(np.arange(len(edges.start) - 1), np.diff(edges.start))
