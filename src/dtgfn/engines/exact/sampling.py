"""Independent trees drawn from the exact posterior, level by level."""

from __future__ import annotations

import numpy as np
from numba import njit

from dtgfn.engines.exact.budget import run_here
from dtgfn.engines.exact.graph import Edges, Longs, expand
from dtgfn.engines.exact.inside import tail_values
from dtgfn.engines.exact.one_level import list_cuts, make_cuts
from dtgfn.engines.exact.problem import Loops, Problem, Words
from dtgfn.engines.exact.support import SupportLevel, step_probabilities
from dtgfn.kernels import Floats, Ints
from dtgfn.trees import TreeBatch, empty_batch


def sample_trees(
    problem: Problem, support: list[SupportLevel], n_trees: int, rng: np.random.Generator
) -> TreeBatch:
    """Draw independent trees from the posterior.

    All open nodes of all trees decide before the next level's do.
    """
    max_depth = problem.score.max_depth
    trees = empty_batch(n_trees, 2 * min(2**max_depth, problem.n_rows) - 1)
    tree, slot, row_set = np.arange(n_trees), np.zeros(n_trees, int), np.zeros(n_trees, int)
    last = support[-1].level
    for depth in range(max_depth - 1):
        if depth < len(support) - 1:
            here = support[depth]
            edges, stop, probability = here.edges, here.stop, here.probability
        else:
            # The two-level sum did not build these children: only those drawn from are needed.
            sets, row_set = np.unique(row_set, return_inverse=True)
            level = last.take(sets)
            edges, last = expand(problem, level, run_here)
            below = tail_values(problem, last, 1, run_here, with_columns=False).log_z
            stop, probability = step_probabilities(
                problem, level, edges, below, support[-1].log_z[sets], depth
            )
        chosen = draw_edges(edges, stop, probability, row_set, rng.random(len(row_set)))
        tree, slot, chosen = tree[chosen >= 0], slot[chosen >= 0], chosen[chosen >= 0]
        span = edges.high[chosen] - edges.low[chosen]
        cut = edges.low[chosen] + np.floor(rng.random(len(chosen)) * span).astype(np.int32)
        feature = problem.feature[edges.feature[chosen]]
        tree, slot = _split(trees, tree, slot, feature, cut)
        row_set = np.stack([edges.left[chosen], edges.right[chosen]], axis=1).ravel()
    if max_depth > 0:
        uniform = rng.random((len(row_set), 2))
        order = np.argsort(row_set, kind="stable")
        feature, cut = np.full(len(row_set), -1, np.int32), np.zeros(len(row_set), np.int32)
        given = (last.bits, max_depth - 1, problem.loops, row_set.astype(np.int64), order, uniform)
        draw_last_splits(*given, feature, cut)
        split = feature >= 0
        _split(trees, tree[split], slot[split], problem.feature[feature[split]], cut[split])
    return trees


def _split(
    trees: TreeBatch, tree: Longs, slot: Longs, feature: Ints, cut: Ints
) -> tuple[Longs, Longs]:
    """Split leaves in place; return tree and slot of the new leaves, left and right in turn."""
    # ``tree`` ascends; several leaves of a tree may split at once, each into the next free pair.
    left = trees.n_nodes[tree] + 2 * (np.arange(len(tree)) - np.searchsorted(tree, tree))
    trees.feature[tree, slot] = feature
    trees.cut[tree, slot] = cut
    trees.left[tree, slot] = left
    np.add.at(trees.n_nodes, tree, 2)
    return np.repeat(tree, 2), np.stack([left, left + 1], axis=1).ravel()


@njit(cache=True, nogil=True)
def draw_edges(
    edges: Edges, stop: Floats, probability: Floats, row_set: Longs, uniform: Floats
) -> Longs:
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


@njit(cache=True, nogil=True)
def draw_last_splits(
    bits: Words,
    depth: int,
    loops: Loops,
    row_set: Longs,
    order: Longs,
    uniform: Floats,
    feature: Ints,
    cut: Ints,
) -> None:
    """Draw stop (feature -1) or (feature, cut) for each open node; ``order`` sorts the row sets."""
    cuts = make_cuts(loops, loops.rank_code.size)
    listed = -1
    n_cuts, stop, total = 0, 0.0, 0.0
    for position in range(order.shape[0]):
        i = order[position]
        if row_set[i] != listed:
            listed = row_set[i]
            n_cuts, stop, _, _ = list_cuts(bits[listed], depth, loops, cuts, False)
            total = stop
            for u in range(n_cuts):
                total += cuts.weight[u]
        remaining = uniform[i, 0] * total - stop
        if remaining < 0.0:
            continue
        for u in range(n_cuts):
            feature[i] = cuts.feature[u]
            cut[i] = cuts.low[u] + int(uniform[i, 1] * (cuts.high[u] - cuts.low[u]))
            remaining -= cuts.weight[u]
            if remaining < 0.0:
                break
