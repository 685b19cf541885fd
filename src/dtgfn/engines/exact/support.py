"""The part of the graph that holds the posterior mass, with the probability of every step in it.

Walking down from the root, a row set's mass is the posterior probability that it is a node of the
tree. Sets that together hold less than ``NEGLIGIBLE`` are dropped, so whatever is computed on the
support differs from the exact answer by less than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from dtgfn.engines.exact.graph import Edges, Level, Longs, Run, no_edges, take_edges
from dtgfn.engines.exact.inside import Values, edge_log_weights, log_stop_weights
from dtgfn.engines.exact.problem import Problem, Words
from dtgfn.kernels import Floats

NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class Graph:
    """The solved graph: levels from the root down, the edges between them and their values."""

    levels: list[Level]
    edges: list[Edges]
    values: list[Values]


@dataclass(frozen=True)
class SupportLevel:
    """Row sets that matter, with one number of levels left.

    ``stop`` [K] is P(stop | set) and ``probability`` [E] is P(cut | set), all thresholds of the
    edge together. The last level has neither: its trees are summed again when they are needed.
    """

    bits: Words
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
    level: Level,
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
    owner = np.repeat(np.arange(len(level)), np.diff(edges.start))
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


def carriers(mass: Floats, allowance: float) -> Longs:
    """Positions of the sets to keep, so that those left out hold at most ``allowance`` together."""
    order = np.argsort(mass)
    first = int(np.searchsorted(np.cumsum(mass[order]), allowance, side="right"))
    return np.sort(order[first:])


def _drop(
    bits: Words,
    stop: Floats,
    edges: Edges,
    probability: Floats,
    kept: Longs,
    n_children: int,
) -> SupportLevel:
    """Drop edges to children that were dropped, renumber the rest, let each set sum to one."""
    number = np.full(n_children, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    left, right = number[edges.left], number[edges.right]
    alive = (left >= 0) & (right >= 0)
    owner = np.repeat(np.arange(len(bits)), np.diff(edges.start))[alive]
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

    Files come from strangers, and the compiled loops do not check bounds.
    """
    n_rows, n_features = problem.n_rows, problem.feature.size
    last_levels = problem.score.max_depth - (len(support) - 1)
    if last_levels != min(problem.score.max_depth, 2 if problem.two_levels_at_once else 1):
        raise ValueError("the support has the wrong number of levels")
    for here, n_children in zip(support, [*(len(s.bits) for s in support[1:]), 0], strict=True):
        bits, edges, n_sets = here.bits, here.edges, len(here.bits)
        if bits.shape[1:] != problem.root_bits.shape or n_sets == 0:
            raise ValueError("the support's row sets do not fit the rows")
        if (bits & ~problem.root_bits).any() or not bits.any(axis=1).all():
            raise ValueError("a row set of the support is empty or holds rows that do not exist")
        sizes = {edges.feature.size, *(column.size for column in edges[1:])}
        if sizes != {here.probability.size} or edges.start.shape != (n_sets + 1,):
            raise ValueError("the support's edges differ in length")
        if edges.start[0] != 0 or (np.diff(edges.start) < 0).any():
            raise ValueError("the support's edges are out of order")
        if edges.start[-1] != edges.feature.size:
            raise ValueError("the support's edges are incomplete")
        for index, limit in (
            (edges.feature, n_features),
            (edges.left, n_children),
            (edges.right, n_children),
        ):
            if ((index < 0) | (index >= limit)).any():
                raise ValueError("an edge of the support leads nowhere")
        if ((edges.low < 0) | (edges.high <= edges.low) | (edges.high > 65_535)).any():
            raise ValueError("a cut of the support is out of range")
        if here.stop.shape != ((n_sets,) if n_children else (0,)):
            raise ValueError("the support's stops differ in length")
        if n_children:
            owner = np.repeat(np.arange(n_sets), np.diff(edges.start))
            total = here.stop + np.bincount(owner, here.probability, minlength=n_sets)
            if not (np.abs(total - 1) < 1e-6).all() or (here.probability < 0).any():
                raise ValueError("the support's probabilities do not sum to one")
    if len(support[0].bits) != 1 or n_rows < 1:
        raise ValueError("the support has no root")
