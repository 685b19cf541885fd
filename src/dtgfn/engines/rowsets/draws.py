"""Draws from the tails of trees: a cut, or a stop, for many open nodes of many row sets at once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Interruptible, Runner
from dtgfn.engines.rowsets.numbered_cuts import Pairs, make_pairs, write_positions
from dtgfn.engines.rowsets.one_level import list_cuts, make_cut_buffer
from dtgfn.engines.rowsets.problem import Loops, Problem
from dtgfn.engines.rowsets.two_levels import load_set, value_sides
from dtgfn.engines.rowsets.two_levels_by_logs import (
    load_set_by_logs,
    make_pair_logs,
    value_first_cuts,
)
from dtgfn.trees.batch import TreeBatch


def draw_of(problem: Problem, levels_left: int) -> Callable[..., None]:
    """Return the loop that draws for nodes with one or two levels left."""
    if levels_left < 2:
        return draw_last
    return draw_first_of_two_by_logs if problem.two_levels_by_logs else draw_first_of_two


def draw_splits(
    problem: Problem,
    draw: Callable[..., None],
    depth: int,
    bits: UInt64s,
    row_set: Int64s,
    uniform: Floats,
    run: Runner,
) -> tuple[Int32s, Int32s, UInt64s]:
    """Draw a feature (-1 to stop), a cut and the row sets of both sides for each open node.

    ``uniform`` [open nodes, 2] is random. Where sides are leaves they have no row sets.
    """
    n_open = len(row_set)
    feature, cut = np.full(n_open, -1, np.int32), np.zeros(n_open, np.int32)
    of_two = draw is not draw_last
    n_words = problem.n_words if of_two else 0
    sides = np.zeros((n_open, 2, n_words), np.uint64)
    order = np.argsort(row_set, kind="stable")
    start = np.searchsorted(row_set[order], np.arange(len(bits) + 1))
    # Which column a cut is on does not matter here, so all may count as one.
    loops = problem.loops.with_own_flag()._replace(group=np.zeros_like(problem.loops.group))
    given = (bits, problem.max_cuts, depth, loops, order, start, uniform)

    def work(first: int, last: int) -> None:
        draw(first, last, *given, feature, cut, sides)

    run(Interruptible(work, loops.halted) if of_two else work, len(bits))
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
    cuts = make_cut_buffer(loops, max_cuts)
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
        s, total, n_cuts = load_set(bits[k], loops, pairs, True)
        z = value_sides(total, n_cuts, split, loops, pairs)
        for u in range(n_cuts):
            weight[u] = pairs.multiplicity[u] * split * pairs.z_left[u] * pairs.z_right[u]
        stop = loops.table.value[total]
        given = (k, s, n_cuts, z, stop, weight, pairs, loops, order, start, uniform)
        take_first_cuts(*given, feature, cut, sides)


@njit(cache=True, nogil=True)
def draw_first_of_two_by_logs(
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
    """As ``draw_first_of_two``, where there is no leaf table."""
    pairs, logs = make_pairs(loops, max_cuts, 1), make_pair_logs(loops, max_cuts)
    log_split, weight = loops.log_split[depth], np.empty(max_cuts)
    for k in range(first, last):
        s, n_cuts, stop = load_set_by_logs(bits[k], log_split, loops, pairs, logs)
        z = value_first_cuts(n_cuts, stop, log_split, 1, pairs, logs)
        write_positions(s, loops, pairs)
        for u in range(n_cuts):
            weight[u] = math.exp(logs.first[u] - z)
        given = (k, s, n_cuts, 1.0, math.exp(stop - z), weight, pairs, loops, order, start, uniform)
        take_first_cuts(*given, feature, cut, sides)


@njit(**INNER)
def take_first_cuts(
    k: int,
    s: int,
    n_cuts: int,
    z: float,
    stop: float,
    weight: Floats,
    pairs: Pairs,
    loops: Loops,
    order: Int64s,
    start: Int64s,
    uniform: Floats,
    feature: Int32s,
    cut: Int32s,
    sides: UInt64s,
) -> None:
    """Draw stop or a first cut for the open nodes of row set k, whose cuts have these weights."""
    for position in range(start[k], start[k + 1]):
        i = order[position]
        u = pick(uniform[i, 0] * z - stop, n_cuts, weight)
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
