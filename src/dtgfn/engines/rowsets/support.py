"""The support: the row sets that hold the mass of a posterior, and the steps between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner
from dtgfn.engines.rowsets.graph import Edges, RowSets
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import edge_log_weights, log_stop_weights


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


def step_probabilities(
    problem: Problem,
    sets: RowSets,
    edges: Edges,
    child_log_z: Floats,
    log_z: Floats,
    depth: int,
    run: Runner,
) -> tuple[Floats, Floats]:
    """P(stop | set) [K] and P(cut | set) [E] of a level whose children's log Z is known."""
    weight = np.empty(edges.feature.size)
    given = (edges, child_log_z, depth, problem.loops, weight)
    run(lambda first, last: edge_log_weights(first, last, *given), len(sets))
    owner = owners_of(edges)
    probability = np.exp(weight - log_z[owner]) * (edges.high - edges.low)
    log_stop = log_stop_weights(problem, sets, depth, np.diff(edges.start) > 0, run)
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


def drop_edges(
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
    owner = owners_of(edges)[alive]
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


def owners_of(edges: Edges) -> Int64s:
    """Row set that each edge leaves [E]."""
    return np.repeat(np.arange(len(edges.start) - 1), np.diff(edges.start))
