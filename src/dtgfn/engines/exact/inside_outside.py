"""Inside: log Z of every sub-problem, from the tails up. Outside: their mass, from the root.

The inside pass (``rowsets.inside``) sums over all trees. Walking down again, a row set's mass is
the posterior probability that it is a node of the tree. Sets that together hold less than
``NEGLIGIBLE`` are dropped; the rest is the support, and whatever is computed on it differs from the
exact answer by less than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn._support.compiled import njit
from dtgfn._support.parallel import Runner
from dtgfn.engines.exact.budget import Budget
from dtgfn.engines.rowsets.draws import draw_of, draw_splits, split_leaves
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
from dtgfn.engines.rowsets.ranking import best_on_support
from dtgfn.engines.rowsets.support import (
    SupportLevel,
    carriers,
    drop_edges,
    pass_mass,
    step_probabilities,
)
from dtgfn.engines.rowsets.tails import (
    Values,
    tail_values,
    values_bytes,
)
from dtgfn.trees.batch import TreeBatch, empty_batch

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


def build_support(problem: Problem, graph: SolvedGraph, run: Runner) -> list[SupportLevel]:
    """Walk down from the root and keep what carries mass."""
    return keep_carriers(problem, graph, NEGLIGIBLE, run)[0]


def keep_carriers(
    problem: Problem, graph: SolvedGraph, negligible: float, run: Runner
) -> tuple[list[SupportLevel], Int64s]:
    """Keep what carries all but a ``negligible`` mass; and which sets of the last level these are.

    The sets are positions [K] in the graph.
    """
    allowance = negligible / max(len(graph.edges), 1)
    kept, mass = np.zeros(1, dtype=np.int64), np.ones(1)
    support = []
    for depth, all_edges in enumerate(graph.edges):
        sets, log_z = graph.levels[depth].take(kept), graph.values[depth].log_z[kept]
        edges, children = take_edges(all_edges, kept), graph.values[depth + 1].log_z
        stop, probability = step_probabilities(problem, sets, edges, children, log_z, depth, run)
        child_mass = np.zeros(len(children))
        pass_mass(edges, probability, mass, child_mass)
        kept = carriers(child_mass, allowance)
        support.append(drop_edges(sets.bits, stop, edges, probability, kept, len(children)))
        mass = child_mass[kept]
    bits = graph.levels[-1].bits[kept]
    support.append(SupportLevel(bits, np.empty(0), no_edges(len(bits)), np.empty(0)))
    return support, kept


def best_tree(problem: Problem, graph: SolvedGraph, run: Runner) -> TreeBatch:
    """Return the tree of highest posterior probability; ties go to fewer splits, middle cuts."""
    negligible, tails = NEGLIGIBLE, graph.values[-1]
    while True:
        support, kept = keep_carriers(problem, graph, negligible, run)
        most = np.minimum(tails.log_most[kept] - tails.log_z[kept], 0.0)
        best, log_prob = best_on_support(problem, support, run, most)
        if log_prob > np.log(2.0 * negligible):
            return best
        # In a very flat posterior the best tree itself is negligible.
        negligible = float(np.exp(log_prob)) / 4.0


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
        draw = draw_of(problem, max_depth - depth)
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
