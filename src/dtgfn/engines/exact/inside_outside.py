"""Inside: log Z of every sub-problem, from the tails up. Outside: their mass, from the root.

The inside pass (``rowsets.inside``) sums over all trees. Walking down again, a row set's mass is
the posterior probability that it is a node of the tree. Sets that together hold less than
``NEGLIGIBLE`` are dropped; the rest is the support, and whatever is computed on it differs from the
exact answer by less than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner
from dtgfn.engines.exact.budget import Budget
from dtgfn.engines.rowsets.graph import (
    Edges,
    RowSets,
    count_edges,
    expand,
    expansion_bytes,
    no_edges,
    root_row_set,
    take_edges,
)
from dtgfn.engines.rowsets.inside import level_values
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import (
    Splits,
    Values,
    add_best_splits,
    best_edge,
    draw_first_of_two,
    draw_last,
    draw_splits,
    edge_log_weights,
    log_stop_weights,
    middle_split,
    split_leaves,
    tail_values,
    values_bytes,
)
from dtgfn.trees.batch import TreeBatch, empty_batch, from_splits

NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class SolvedGraph:
    """The solved graph: levels from the root down, the edges between them and their values."""

    levels: list[RowSets]
    edges: list[Edges]
    values: list[Values]


def solve(problem: Problem, tail_levels: int, budget: Budget) -> SolvedGraph:
    """Build the graph from the root down, then value it from the tails up."""
    max_depth = problem.score.max_depth
    levels: list[RowSets] = [root_row_set(problem)]
    edges: list[Edges] = []
    for _ in range(max_depth - tail_levels):
        counts = count_edges(problem, levels[-1], budget.parallel("counting cuts"))
        n_edges = int(counts.sum(dtype=np.int64))
        budget.check_memory(expansion_bytes(problem, n_edges), f"{n_edges:,} cuts")
        run = budget.serial("finding row sets")
        new_edges, children = expand(problem, levels[-1], run, counts)
        edges.append(new_edges)
        levels.append(children)
    for depth, sets in enumerate(levels):
        n_bytes = values_bytes(problem, len(sets), max_depth - depth)
        budget.check_memory(n_bytes, f"{len(sets):,} sub-problems")
    run = budget.parallel("summing over trees")
    values: list[Values] = [tail_values(problem, levels[-1], tail_levels, run)]
    for depth in range(len(edges) - 1, -1, -1):
        run = budget.parallel("combining sub-problems")
        levels_left = max_depth - depth
        here = level_values(problem, levels[depth], edges[depth], values[0], levels_left, run)
        values.insert(0, here)
    return SolvedGraph(levels, edges, values)


def best_tree(problem: Problem, graph: SolvedGraph, serial: Runner, parallel: Runner) -> TreeBatch:
    """Return the tree of highest posterior probability; ties go to fewer splits, middle cuts."""
    splits: Splits = {}

    def grow(path: tuple[int, ...], position: int) -> None:
        depth = len(path)
        this = graph.levels[depth].take(np.array([position]))
        if depth == len(graph.edges):
            add_best_splits(problem, this, path, splits, serial, parallel)
            return
        edges = take_edges(graph.edges[depth], np.array([position]))
        chosen = best_edge(problem, this, edges, graph.values[depth + 1], depth)
        if chosen is not None:
            splits[path] = middle_split(problem, edges, chosen)
            grow((*path, 0), int(edges.left[chosen]))
            grow((*path, 1), int(edges.right[chosen]))

    grow((), 0)
    return from_splits([splits])


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


def build_support(problem: Problem, graph: SolvedGraph, run: Runner) -> list[SupportLevel]:
    """Walk down from the root and keep what carries mass."""
    allowance = NEGLIGIBLE / max(len(graph.edges), 1)
    kept, mass = np.zeros(1, dtype=np.int64), np.ones(1)
    support = []
    for depth, all_edges in enumerate(graph.edges):
        sets, log_z = graph.levels[depth].take(kept), graph.values[depth].log_z[kept]
        edges, children = take_edges(all_edges, kept), graph.values[depth + 1].log_z
        stop, probability = step_probabilities(problem, sets, edges, children, log_z, depth, run)
        child_mass = np.zeros(len(children))
        pass_mass(edges, probability, mass, child_mass)
        kept = carriers(child_mass, allowance)
        support.append(_drop(sets.bits, stop, edges, probability, kept, len(children)))
        mass = child_mass[kept]
    bits = graph.levels[-1].bits[kept]
    support.append(SupportLevel(bits, np.empty(0), no_edges(len(bits)), np.empty(0)))
    return support


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


def sample_trees(
    problem: Problem,
    support: list[SupportLevel],
    n_trees: int,
    rng: np.random.Generator,
    run: Runner,
) -> TreeBatch:
    """Draw independent trees from the posterior.

    All open nodes of all trees decide before the next level's do.
    """
    max_depth = problem.score.max_depth
    trees = empty_batch(n_trees, 2 * min(2**max_depth, problem.n_rows) - 1)
    tree, slot, row_set = np.arange(n_trees), np.zeros(n_trees, int), np.zeros(n_trees, int)
    for here in support[:-1]:
        edges = here.edges
        chosen = draw_edges(edges, here.stop, here.probability, row_set, rng.random(len(row_set)))
        tree, slot, chosen = tree[chosen >= 0], slot[chosen >= 0], chosen[chosen >= 0]
        span = edges.high[chosen] - edges.low[chosen]
        cut = edges.low[chosen] + np.floor(rng.random(len(chosen)) * span).astype(np.int32)
        feature = problem.feature[edges.feature[chosen]]
        tree, slot = split_leaves(trees, tree, slot, feature, cut)
        row_set = np.stack([edges.left[chosen], edges.right[chosen]], axis=1).ravel()
    bits = support[-1].bits[row_set]
    for depth in range(len(support) - 1, max_depth):
        # What is below the support is drawn set by set, each looked at once for all its draws.
        bits, row_set = np.unique(bits, axis=0, return_inverse=True)
        row_set = row_set.ravel()
        draw = draw_first_of_two if max_depth - depth == 2 else draw_last
        uniform = rng.random((len(row_set), 2))
        feature, cut, sides = draw_splits(problem, draw, depth, bits, row_set, uniform, run)
        split = feature >= 0
        tree, slot = split_leaves(
            trees, tree[split], slot[split], problem.feature[feature[split]], cut[split]
        )
        bits = sides[split].reshape(-1, problem.n_words)
    return trees


@njit(cache=True, nogil=True)
def draw_edges(
    edges: Edges, stop: Floats, probability: Floats, row_set: Int64s, uniform: Floats
) -> Int64s:
    """Draw stop (-1) or an edge for each open node."""
    chosen = np.empty(row_set.shape[0], np.int64)
    for i in range(row_set.shape[0]):
        k = row_set[i]
        remaining = uniform[i] - stop[k]
        pick = -1
        if remaining >= 0.0:
            for e in range(edges.start[k], edges.start[k + 1]):
                pick = e
                remaining -= probability[e]
                if remaining < 0.0:
                    break
        chosen[i] = pick
    return chosen
