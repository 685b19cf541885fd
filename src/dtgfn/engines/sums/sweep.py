"""Every tree of one sum anew, given the others and one precision per row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.sums.lines import LineState
from dtgfn.engines.sums.node_choice import COUNT, PRECISION, PULL, SumTable, count_precisions
from dtgfn.engines.sums.tree_draw import LEAF, GrownTree, Scratch, locate_rows, redraw_tree


class Forest(NamedTuple):
    """S sums of M trees of at most N nodes, and what goes with them; the state of a chain."""

    size: Int32s  # [S, M]
    feature: Int32s  # [S, M, N]
    cut: Int32s  # [S, M, N]
    left: Int32s  # [S, M, N]
    value: Floats  # [S, M, N]
    fit: Floats  # [S, n]
    lines: LineState
    numbers: Floats  # [2] NOISE, VARIANCE
    counts: Int64s  # [2, 2] proposals and acceptances of trees and twigs


NOISE, VARIANCE = 0, 1  # noise variance, leaf scale^2


class Moves(NamedTuple):
    """How trees are proposed: share of twigs, and of the columns that a proposal looks at."""

    twigs: float
    columns: float


class Workspace(NamedTuple):
    """Memory that a chain works in; nothing in it outlasts the drawing of one sum."""

    state: Floats  # [2, n] precision of each row, and precision x what one tree should be
    linear: Floats  # [n] precision x what the sum should be
    total: Floats  # [n] what the lines and the trees drawn so far say, added up
    tree: GrownTree
    fresh: GrownTree
    scratch: Scratch


@njit(**INNER)
def take_out(forest: Forest, s: int, m: int, table: SumTable, work: Workspace) -> None:
    """Load a tree, with its rows and their sums, and leave it out of the fit."""
    tree, fit, linear = work.tree, forest.fit[s], work.linear
    precision, pull = work.state[0], work.state[1]
    tree.size[0] = forest.size[s, m]
    for node in range(tree.size[0]):
        tree.feature[node] = forest.feature[s, m, node]
        tree.cut[node] = forest.cut[s, m, node]
        tree.left[node] = forest.left[s, m, node]
    locate_rows(tree, table)
    for node in range(tree.size[0] - 1, -1, -1):  # children before parents
        sums = tree.sums[node]
        sums[COUNT] = tree.end[node] - tree.begin[node]
        if tree.feature[node] != LEAF:
            one, other = tree.sums[tree.left[node]], tree.sums[tree.left[node] + 1]
            sums[PRECISION] = one[PRECISION] + other[PRECISION]
            sums[PULL] = one[PULL] + other[PULL]
            continue
        value = forest.value[s, m, node]
        p = q = 0.0
        for row in tree.order[tree.begin[node] : tree.end[node]]:
            fit[row] -= value
            pull[row] = linear[row] - precision[row] * fit[row]
            p += precision[row]
            q += pull[row]
        sums[PRECISION], sums[PULL] = p, q


@njit(**INNER)
def put_in(
    tree: GrownTree, forest: Forest, s: int, m: int, total: Floats, rng: np.random.Generator
) -> None:
    """Copy a tree back, draw the values of its leaves and add them to the fit.

    The last tree makes the fit the sum of all leaves: what rounding left behind would stay for
    ever, and stretching the leaves would let it grow.
    """
    variance, fit = forest.numbers[VARIANCE], forest.fit[s]
    forest.size[s, m] = tree.size[0]
    for node in range(tree.size[0]):
        forest.feature[s, m, node] = tree.feature[node]
        forest.cut[s, m, node] = tree.cut[node]
        forest.left[s, m, node] = tree.left[node]
        forest.value[s, m, node] = 0.0
        if tree.feature[node] != LEAF:
            continue
        spread = 1.0 + variance * tree.sums[node, PRECISION]
        mean = variance * tree.sums[node, PULL] / spread
        value = mean + math.sqrt(variance / spread) * rng.standard_normal()
        forest.value[s, m, node] = value
        for row in tree.order[tree.begin[node] : tree.end[node]]:
            fit[row] += value
            total[row] += value


@njit(cache=True, nogil=True)
def draw_trees(
    forest: Forest,
    s: int,
    first: int,
    last: int,
    moves: Moves,
    table: SumTable,
    work: Workspace,
    rng: np.random.Generator,
) -> None:
    """Draw trees first..last-1 of sum s anew, each given all others."""
    fit, total = forest.fit[s], work.total
    if first == 0:
        for i in range(total.shape[0]):
            total[i] = forest.lines.said[s, i]
        if work.scratch.known.shape[0] > 0:
            count_precisions(table, work.state[0], work.scratch.known)
    for m in range(first, last):
        take_out(forest, s, m, table, work)
        twig = rng.random() < moves.twigs
        taken = redraw_tree(
            work.tree, work.fresh, twig, moves.columns, forest.numbers[VARIANCE], work.state,
            table, work.scratch, rng,
        )  # fmt: skip
        forest.counts[int(twig), 0] += 1
        forest.counts[int(twig), 1] += int(taken)
        put_in(work.fresh if taken else work.tree, forest, s, m, total, rng)
    if last == forest.size.shape[1]:
        for i in range(total.shape[0]):
            fit[i] = total[i]
