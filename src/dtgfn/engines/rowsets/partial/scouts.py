"""Exploration that finds the mass: scouts go where trees would pass children nobody has expanded.

A scout walks down from the root. At a node it takes a cut with probability proportional to
P(cut) * open(cut), where open is the probability that a tree taking the cut passes an unknown
child; at the first cut with an unknown child it stops and has the children looked at. Scouts that
meet at a node take different cuts, the most probable first, so many of them widen the known part
of the graph in the order of the mass it is expected to hold.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.flows import LEAST_OPEN, cut_open
from dtgfn.engines.rowsets.partial.graph import PartialGraph


def send_scouts(
    graph: PartialGraph, n_scouts: int, rng: np.random.Generator
) -> tuple[list[tuple[int, Int64s, Int64s]], list[Int64s]]:
    """Return the frontier, (depth, nodes, cuts) per depth, and the nodes passed at each depth."""
    frontier, passed = [], []
    nodes, scouts = np.zeros(1, np.int64), np.full(1, n_scouts, np.int64)
    for depth in range(graph.n_upper):
        level, below = graph.levels[depth], graph.levels[depth + 1]
        passed.append(nodes)
        given = (level.start, level.n_cuts, level.cuts, level.flow, below.flow, below.open)
        uniform = rng.random((nodes.size, 2))
        at, cuts, children, followers = spread(nodes, scouts, *given, uniform)
        frontier.append((depth, at, cuts))
        nodes, member = np.unique(children, return_inverse=True)
        scouts = np.bincount(member.ravel(), weights=followers, minlength=nodes.size).astype(int)
        if nodes.size == 0:
            break
    return frontier, passed


def next_to_pair(graph: PartialGraph, done: list[set[int]]) -> tuple[int, int] | None:
    """Return depth and node of the likeliest known row set that is not ``done`` at its depth.

    From the root on, always the likelier side of the likeliest cut; None if all of these are done.
    """
    node = 0
    for depth in range(graph.n_upper):
        level, below = graph.levels[depth], graph.levels[depth + 1]
        if np.isnan(level.flow[node]):
            return None
        if node not in done[depth]:
            return depth, node
        first, number = int(level.start[node]), int(level.n_cuts[node])
        if number == 0:
            return None
        children = level.cuts.child[
            first + int(np.argmax(level.cuts.logit[first : first + number]))
        ]
        children = [int(c) for c in children if c >= 0 and not np.isnan(below.flow[c])]
        fresh = [c for c in children if depth + 1 < graph.n_upper and c not in done[depth + 1]]
        if fresh:
            return depth + 1, fresh[0]
        if not children:
            return None
        node = max(children, key=lambda c: float(below.sums[c].sum()))
    return None


@njit(cache=True, nogil=True)
def spread(
    nodes: Int64s,
    scouts: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    flow: Floats,
    below_flow: Floats,
    below_open: Floats,
    uniform: Floats,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Send the scouts at each node on: new cuts (with their node), and children with followers."""
    total = scouts.sum()
    at, found = np.empty(total, np.int64), np.empty(total, np.int64)
    child, followers = np.empty(2 * total, np.int64), np.empty(2 * total, np.int64)
    n_found, n_children = 0, 0
    mass = np.empty(n_cuts.max() + 1)
    for i in range(nodes.shape[0]):
        node, first = nodes[i], start[nodes[i]]
        number = n_cuts[node]
        given = (first, number, flow[node], cuts, below_flow, below_open)
        unknown, known = weigh_cuts(*given, mass)
        if unknown + known <= 0.0:
            continue
        n_new = int(scouts[i] * unknown / (unknown + known) + uniform[i, 0])
        for _ in range(min(n_new, scouts[i])):
            u = int(np.argmin(mass[:number]))
            if mass[u] > -1.0:
                break
            at[n_found], found[n_found] = node, first + u
            n_found += 1
            mass[u] = 0.0
        n_left = scouts[i] - min(n_new, scouts[i])
        if n_left <= 0 or known <= 0.0:
            continue
        # Systematic: the j-th follower stands at (j + uniform) / n_left of the known open mass.
        step, reached, taken = known / n_left, 0.0, 0
        for u in range(number):
            if mass[u] <= 0.0:
                continue
            reached += mass[u]
            n_here = 0
            while taken < n_left and (taken + uniform[i, 1]) * step < reached:
                taken += 1
                n_here += 1
            if n_here == 0:
                continue
            left, right = cuts.child[first + u, 0], cuts.child[first + u, 1]
            both = below_open[left] + below_open[right]
            n_first = int(n_here * below_open[left] / both + uniform[i, 0])
            if n_first > 0:
                child[n_children], followers[n_children] = left, n_first
                n_children += 1
            if n_here > n_first:
                child[n_children], followers[n_children] = right, n_here - n_first
                n_children += 1
    return at[:n_found], found[:n_found], child[:n_children], followers[:n_children]


@njit(**INNER)
def weigh_cuts(
    first: int,
    number: int,
    flow: float,
    cuts: CutTable,
    below_flow: Floats,
    below_open: Floats,
    mass: Floats,
) -> tuple[float, float]:
    """Write the open mass of a node's cuts, -1 less where a child is unknown; return both sums."""
    unknown, known = 0.0, 0.0
    for u in range(number):
        e = first + u
        opening = cut_open(e, cuts, below_flow, below_open)
        mass[u] = math.exp(cuts.logit[e] - flow) * opening
        if opening > 0.0:
            mass[u] = max(mass[u], LEAST_OPEN)
        if opening == 1.0 and is_unknown(e, cuts, below_flow):
            unknown += mass[u]
            mass[u] = -1.0 - mass[u]  # marks the frontier
        else:
            known += mass[u]
    return unknown, known


@njit(**INNER)
def is_unknown(e: int, cuts: CutTable, below_flow: Floats) -> bool:
    """Whether one of the cut's children has not been looked at."""
    for side in range(2):
        child = cuts.child[e, side]
        if child < 0 or math.isnan(below_flow[child]):
            return True
    return False
