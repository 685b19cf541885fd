"""Proven bounds of log Z from a part of the graph, and where the gap between them is.

A row set nobody has expanded is worth its look-ahead at least and its ceiling at most
(``flows.py``). Both are wide where rows are mixed, so neighbours help. Let S be a set, d more rows
D, Z their sums with the same k levels left, V the thresholds that are valid in S and D together and
x = V e^(-penalty / temperature). Then, for classes and a penalty that is the same everywhere::

    Z(S and D) <= Z(S) (1 + k x)^d        Z(S) <= Z(S and D) ((C a + n) / a)^(d / temperature)

First: take one row out of a tree on S and D. Either the tree is one on S still, and no likelier
with the row than without it, or one split had the row alone on a side: at most k places on the
row's path, V thresholds each, can have had it. Second: every tree on S is one on S and D, where
each row more costs at most the least probability that a leaf of n rows gives to any class. The
sides of a feature's cuts are such a chain of sets, so what is known of one bounds the others: an
unknown side from below by a larger known one, from above by a smaller. docs/exact.md has both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.partial.flows import ROUNDING, log_add
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import PenaltyPrior

TINY = 1e-300
LEAST_SEEN = 1e-30  # weight of a row that the single precision of a cut's sums cannot lose


class Neighbours(NamedTuple):
    """What a row more or less can change, in nats; infinite where nothing is known.

    least : least weight of a distinct row
    n_rows : distinct rows in all
    alone : what a row alone in a leaf is worth at most
    concentration, n_classes, temperature : of leaves; the concentration is 0 where weights are not
    whole, and nothing is known of rows that are taken away
    """

    least: float
    n_rows: float
    alone: float
    concentration: float
    n_classes: float
    temperature: float


class Sides(NamedTuple):
    """Bounds of the children [E, 2] of all cuts of a level, and of its nodes [K]."""

    low: Floats
    high: Floats
    floor: Floats
    ceiling: Floats


@dataclass(frozen=True)
class Bounds:
    """Bounds of every known node of a graph, level by level, and of log Z."""

    sides: list[Sides]
    floor: float
    ceiling: float


def neighbours_of(graph: PartialGraph) -> Neighbours:
    """Read off a problem what is known of rows more or less."""
    score, sums = graph.problem.score, graph.problem.loops.sums
    mass = sums.sum(axis=1)
    least, n_rows = float(mass.min(initial=math.inf)), float(len(mass))
    leaf, n_classes = score.leaf, float(score.leaf.n_sums)
    by_penalty = isinstance(score.prior, PenaltyPrior)
    if not isinstance(leaf, DirichletLeaf) or least < LEAST_SEEN or not by_penalty:
        return Neighbours(0.0, 0.0, 0.0, 0.0, 1.0, float(score.temperature))
    alone = -math.log(n_classes) / score.temperature if least >= 1 else 0.0
    whole = bool((sums == np.rint(sums)).all())
    concentration = float(leaf.concentration) if whole else 0.0
    return Neighbours(least, n_rows, alone, concentration, n_classes, float(score.temperature))


def bound_graph(graph: PartialGraph) -> Bounds:
    """Bound log Z of every known node, from the bottom up."""
    neighbours = neighbours_of(graph)
    last = graph.levels[-1]
    below = last.flow, last.flow, last.flow
    sides: list[Sides] = []
    for level in graph.levels[-2::-1]:
        nodes = known_nodes(level)
        here = Sides(
            np.empty((level.n_listed, 2)),
            np.empty((level.n_listed, 2)),
            np.full(level.flow.size, np.nan),
            np.full(level.flow.size, np.nan),
        )
        rests = (level.stop, level.rest, level.rest_ceiling, level.n_thresholds, level.sums)
        given = (nodes, level.start, level.n_cuts, level.cuts, *rests, *below)
        k = graph.problem.score.max_depth - level.depth - 1
        log_split = float(graph.problem.loops.log_split[level.depth])
        how = (neighbours, k, log_split, here)
        graph.run(lambda i, j, g=given, h=how: bound_nodes(i, j, *g, *h), nodes.size)  # type: ignore[misc]
        sides.insert(0, here)
        below = level.flow, here.floor, here.ceiling
    return Bounds(sides, float(below[1][0]), float(below[2][0]))


@njit(cache=True, nogil=True)
def bound_nodes(
    first: int,
    last: int,
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    stop: Floats,
    rest: Floats,
    rest_ceiling: Floats,
    n_thresholds: Floats,
    sums: Floats,
    below_flow: Floats,
    below_floor: Floats,
    below_ceiling: Floats,
    neighbours: Neighbours,
    k: int,
    log_split: float,
    sides: Sides,
) -> None:
    """Bound nodes[first:last] and the children of their cuts, which have k levels left."""
    for i in range(first, last):
        node = nodes[i]
        at, until = start[node], start[node] + n_cuts[node]
        for e in range(at, until):
            for side in range(2):
                low, high = cuts.lookahead[e, side], np.float64(cuts.ceiling[e, side])
                low -= ROUNDING * abs(low)
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    low = max(low, below_floor[child])
                    high = min(high, below_ceiling[child])
                sides.low[e, side], sides.high[e, side] = low, max(low, high)
        if neighbours.least > 0.0:
            total = 0.0
            for c in range(sums.shape[1]):
                total += sums[node, c]
            more, less = costs_of_a_row(total, n_thresholds[node], k, log_split, neighbours)
            pass_on(at, until, more, less, neighbours, cuts, sides)
        floor = log_add(stop[node], rest[node])
        ceiling = log_add(stop[node], rest_ceiling[node])
        for e in range(at, until):
            floor = log_add(floor, cuts.prior[e] + sides.low[e, 0] + sides.low[e, 1])
            ceiling = log_add(ceiling, cuts.prior[e] + sides.high[e, 0] + sides.high[e, 1])
        sides.floor[node], sides.ceiling[node] = floor, ceiling


@njit(**INNER)
def costs_of_a_row(
    total: float, n_thresholds: float, k: int, log_split: float, neighbours: Neighbours
) -> tuple[float, float]:
    """Log of what a distinct row more can add to Z, and of what a unit of weight less can."""
    more = math.log1p(k * n_thresholds * math.exp(log_split + neighbours.alone))
    less = math.inf
    if neighbours.concentration > 0.0:
        a = neighbours.concentration
        less = math.log((neighbours.n_classes * a + total) / a) / neighbours.temperature
    return more, less


@njit(**INNER)
def pass_on(
    at: int,
    until: int,
    more: float,
    less: float,
    neighbours: Neighbours,
    cuts: CutTable,
    sides: Sides,
) -> None:
    """Let the sides of each feature's cuts bound each other: left ones grow, right ones shrink."""
    for e in range(at + 1, until):
        if cuts.feature[e] == cuts.feature[e - 1]:
            between = weight_between(e, cuts)
            up, down = more * rows_within(between, neighbours), less * between
            relate(e - 1, 0, e, 0, up, down, sides)
            relate(e, 1, e - 1, 1, up, down, sides)
    for e in range(until - 1, at, -1):
        if cuts.feature[e] == cuts.feature[e - 1]:
            between = weight_between(e, cuts)
            up, down = more * rows_within(between, neighbours), less * between
            relate(e - 1, 0, e, 0, up, down, sides)
            relate(e, 1, e - 1, 1, up, down, sides)


@njit(**INNER)
def weight_between(e: int, cuts: CutTable) -> float:
    """Weight of the rows between a cut and the one before, a little more where it is rounded."""
    between, size = 0.0, 0.0
    for c in range(cuts.sums.shape[2]):
        between += np.float64(cuts.sums[e, 0, c]) - np.float64(cuts.sums[e - 1, 0, c])
        size += np.float64(cuts.sums[e, 0, c])
    return between + ROUNDING * size


@njit(**INNER)
def rows_within(weight: float, neighbours: Neighbours) -> float:
    """Return the most distinct rows that can have a weight; a whole number may not hold it."""
    return np.floor(min(weight / neighbours.least + 0.01, neighbours.n_rows))


@njit(**INNER)
def relate(
    e: int, side: int, larger: int, its_side: int, up: float, down: float, sides: Sides
) -> None:
    """Let a set and a larger one, ``up`` and ``down`` apart, bound each other."""
    low, high = sides.low, sides.high
    high[larger, its_side] = min(high[larger, its_side], high[e, side] + up)
    low[e, side] = max(low[e, side], low[larger, its_side] - up)
    high[e, side] = min(high[e, side], high[larger, its_side] + down)
    low[larger, its_side] = max(low[larger, its_side], low[e, side] - down)


def look_at(graph: PartialGraph, depth: int, nodes: Int64s) -> int:
    """Make nodes known by what is proven of them, and return how many were not."""
    new = graph.expand(depth, nodes)
    graph.update(depth, new, remember=True, optimistic=False)
    return int(new.size)


def widest(
    graph: PartialGraph, bounds: Bounds, most: int
) -> list[tuple[int, Int64s, Int64s, Int64s]]:
    """Return unknown children to look at next: (depth, nodes, cuts, sides) per depth.

    Half of them hold most of the gap, which brings the ceiling down; the others are on the trees
    that hold most by what is known, which brings the floor up.
    """
    chosen = np.zeros(0, np.bool_)
    for by_mass, number in ((False, most - most // 2), (True, most // 2)):
        found = open_children(graph, bounds, by_mass)
        weights = np.concatenate([each[2].ravel() for each in found])
        order = np.argsort(-weights, kind="stable")[:number]
        chosen = chosen if chosen.size else np.zeros(weights.size, np.bool_)
        chosen[order[weights[order] > 0]] = True
    ends = np.cumsum([each[2].size for each in found])[:-1]
    picked = []
    for (depth, owner, _), part in zip(found, np.split(chosen, ends), strict=True):
        cuts, sides = np.nonzero(part.reshape(-1, 2))
        if cuts.size:
            picked.append((depth, owner[cuts], cuts, sides))
    return picked


def open_children(
    graph: PartialGraph, bounds: Bounds, by_mass: bool
) -> list[tuple[int, Int64s, Floats]]:
    """Share one among the unknown children, level by level: depth, owners of cuts [E], shares.

    The gap of a node is that of its cuts, and the gap of a cut is shared by its sides as their own
    logs are apart; what falls to a known child goes on to its cuts.
    """
    share, found = np.ones(1), []
    for level, below, sides in zip(graph.levels, graph.levels[1:], bounds.sides, strict=False):
        child_share = np.zeros(below.flow.size)
        open_share = np.zeros((level.n_listed, 2))
        owner = np.zeros(level.n_listed, np.int64)
        given = (known_nodes(level), level.start, level.n_cuts, level.cuts, share, below.flow)
        spread_gap(*given, by_mass, sides, child_share, open_share, owner)
        found.append((level.depth, owner, open_share))
        share = child_share
    return found


@njit(cache=True, nogil=True)
def spread_gap(
    nodes: Int64s,
    start: Int64s,
    n_cuts: Int32s,
    cuts: CutTable,
    share: Floats,
    below_flow: Floats,
    by_mass: bool,
    sides: Sides,
    child_share: Floats,
    open_share: Floats,
    owner: Int64s,
) -> None:
    """Share the gap of each node [K], or the mass of its open cuts, among its cuts' children."""
    low, high = sides.low, sides.high
    gap = np.zeros(n_cuts.max() + 1)
    for node in nodes:
        at, number, total = start[node], n_cuts[node], 0.0
        owner[at : at + number] = node  # of all cuts: another way to share may choose other ones
        if share[node] <= 0.0:
            continue
        for u in range(number):
            e = at + u
            apart = max(high[e, 0] - low[e, 0], 0.0) + max(high[e, 1] - low[e, 1], 0.0)
            top = cuts.prior[e] + high[e, 0] + high[e, 1] - sides.ceiling[node]
            known = cuts.prior[e] + low[e, 0] + low[e, 1] - sides.floor[node]
            if by_mass or math.isinf(apart):  # a leaf model of one's own has no ceiling
                gap[u] = math.exp(known) if apart > 0.0 else 0.0
            else:
                gap[u] = math.exp(top) * -math.expm1(-apart)
            total += gap[u]
        if not total > 0.0:
            continue
        for u in range(number):
            e = at + u
            of_cut = share[node] * gap[u] / total
            left, right = max(high[e, 0] - low[e, 0], 0.0), max(high[e, 1] - low[e, 1], 0.0)
            of_left = 0.5 if math.isinf(left + right) else left / max(left + right, TINY)
            for side in range(2):
                part = of_cut * (of_left if side == 0 else 1.0 - of_left)
                child = cuts.child[e, side]
                if child >= 0 and not math.isnan(below_flow[child]):
                    child_share[child] += part
                else:
                    open_share[e, side] = part
