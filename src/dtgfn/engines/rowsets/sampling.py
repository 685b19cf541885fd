"""Independent trees drawn from the exact posterior, level by level."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.threads import Halting
from dtgfn.engines.rowsets.graph import Edges, Run
from dtgfn.engines.rowsets.one_level import list_cuts, make_cuts
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.support import SupportLevel
from dtgfn.engines.rowsets.two_levels import load_set, make_pairs, value_sides
from dtgfn.trees.batch import TreeBatch, empty_batch


def sample_trees(
    problem: Problem,
    support: list[SupportLevel],
    n_trees: int,
    rng: np.random.Generator,
    run: Run,
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


def draw_splits(
    problem: Problem,
    draw: Callable[..., None],
    depth: int,
    bits: UInt64s,
    row_set: Int64s,
    uniform: Floats,
    run: Run,
) -> tuple[Int32s, Int32s, UInt64s]:
    """Draw a feature (-1 to stop), a cut and the row sets of both sides for each open node.

    ``uniform`` [open nodes, 2] is random.
    """
    n_open = len(row_set)
    feature, cut = np.full(n_open, -1, np.int32), np.zeros(n_open, np.int32)
    sides = np.zeros((n_open, 2, problem.n_words), np.uint64)
    order = np.argsort(row_set, kind="stable")
    start = np.searchsorted(row_set[order], np.arange(len(bits) + 1))
    # Which column a cut is on does not matter here, so all may count as one.
    loops = problem.loops.hearing()._replace(group=np.zeros_like(problem.loops.group))
    given = (bits, problem.max_cuts, depth, loops, order, start, uniform)

    def work(first: int, last: int) -> None:
        draw(first, last, *given, feature, cut, sides)

    run(Halting(work, loops.halted) if draw is draw_first_of_two else work, len(bits))
    return feature, cut, sides


def split_leaves(
    trees: TreeBatch, tree: Int64s, slot: Int64s, feature: Int32s, cut: Int32s
) -> tuple[Int64s, Int64s]:
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


@njit(cache=True, nogil=True)
def draw_last(
    first: int,
    last: int,
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    loops: Loops,
    order: Int64s,
    start: Int64s,
    uniform: Floats,
    feature: Int32s,
    cut: Int32s,
    sides: UInt64s,
) -> None:
    """Draw for open nodes with one level left; the children are leaves, so ``sides`` stay empty."""
    cuts = make_cuts(loops, max_cuts)
    for k in range(first, last):
        n_cuts, stop, _, _ = list_cuts(bits[k], depth, loops, cuts, False)
        total = stop
        for u in range(n_cuts):
            total += cuts.weight[u]
        for position in range(start[k], start[k + 1]):
            i = order[position]
            u = pick(uniform[i, 0] * total - stop, n_cuts, cuts.weight)
            if u >= 0:
                feature[i] = cuts.feature[u]
                cut[i] = cuts.low[u] + int(uniform[i, 1] * (cuts.high[u] - cuts.low[u]))


@njit(cache=True, nogil=True)
def draw_first_of_two(
    first: int,
    last: int,
    bits: UInt64s,
    max_cuts: int,
    depth: int,
    loops: Loops,
    order: Int64s,
    start: Int64s,
    uniform: Floats,
    feature: Int32s,
    cut: Int32s,
    sides: UInt64s,
) -> None:
    """Draw for open nodes with two levels left, from the sums over pairs of cuts.

    All features must count as column 0.
    """
    pairs = make_pairs(loops, max_cuts, 1)
    split = math.exp(loops.log_split[depth])
    weight = np.empty(max_cuts)
    for k in range(first, last):
        s, total, n_cuts = load_set(bits[k], loops, pairs)
        z = value_sides(total, n_cuts, split, loops, pairs)
        for u in range(n_cuts):
            weight[u] = pairs.multiplicity[u] * split * pairs.z_left[u] * pairs.z_right[u]
        for position in range(start[k], start[k + 1]):
            i = order[position]
            u = pick(uniform[i, 0] * z - loops.table.value[total], n_cuts, weight)
            if u < 0:
                continue
            f = 0
            while pairs.offset[f + 1] <= u:
                f += 1
            feature[i] = f
            low = -1
            for r in range(s):
                row = pairs.rows[r]
                side = 0 if pairs.position[f, r] <= u - pairs.offset[f] else 1
                sides[i, side, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
                if side == 0:
                    low = max(low, loops.rank_code[f, loops.ranks[f, row]])
            cut[i] = low + int(uniform[i, 1] * pairs.multiplicity[u])


@njit(cache=True, nogil=True)
def pick(remaining: float, n_cuts: int, weight: Floats) -> int:
    """Return the cut where the cumulative weight passes ``remaining``, -1 (stop) if that is < 0."""
    chosen = -1
    if remaining >= 0.0:
        for u in range(n_cuts):
            chosen = u
            remaining -= weight[u]
            if remaining < 0.0:
                break
    return chosen
