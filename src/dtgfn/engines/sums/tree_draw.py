"""Draw one summed tree from its conditional posterior: a proposal by look-ahead, and an exact step.

``walk_tree`` goes through a tree from a node down, either drawing it or only weighing it, and adds
up log (R / P_F), R its prior x marginal likelihood and P_F the probability of drawing it. Since a
node's weights are relative to m(node), that is simply the sum of the nodes' ``log_total`` plus, at
the first node, log m: the better one level of look-ahead knows what is below, the closer all trees
come to the same number, and acceptance to one.

Only some columns are looked at: those that the current tree uses, and any other with probability
``q``. Drawing them is part of the step's own randomness, so the target becomes R x q^-(columns
used) and every cut of the proposal is worth 1 / q more; a column used twice pays it back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, UInt32s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.sums.node_choice import (
    COUNT,
    PRECISION,
    PULL,
    STOP,
    Active,
    Choice,
    SumTable,
    count_pulls,
    count_rows,
    draw_choice,
    log_marginal,
    subtract_cells,
    weigh_node,
)

LEAF = -1
ROOT = 0  # slot of the cells of the node that walks begin at
NOWHERE = -1  # slot of a node that will not be asked


class GrownTree(NamedTuple):
    """One tree with the rows at its nodes; node 0 is the root, children come after parents."""

    size: Int32s  # [1] nodes in use
    feature: Int32s  # [N] or LEAF
    cut: Int32s  # [N] code <= cut goes left
    left: Int32s  # [N] left child, the right one is next to it
    depth: Int32s  # [N]
    begin: Int32s  # [N] its rows are order[begin:end]
    end: Int32s  # [N]
    sums: Floats  # [N, 3] count, precision, precision x residual
    order: UInt32s  # [n] rows


class Scratch(NamedTuple):
    """Memory of one chain's walks."""

    active: Active
    known: Floats  # precisions of the cells of all rows, or nothing if there are too many
    cells: Floats  # [S, 2, C] of the first node and of nodes that are waiting
    root_choice: Choice  # what the first node may do, which is the same for all walks
    choice: Choice
    waiting: Int32s  # [S] nodes
    slot: Int32s  # [S] cells of each
    free: Int32s  # [S] slots that nobody uses
    flag: Int32s  # [columns] zero between uses


@njit(**INNER)
def activate(column: int, log_tilt: float, room: int, table: SumTable, active: Active) -> bool:
    """Look at the features of a column, too; False if there is no memory for them."""
    n = active.used[0]
    for k in range(table.begin[column], table.begin[column + 1]):
        f = table.by_column[k]
        end = active.first[n] + table.n_codes[f]
        if n == active.share.shape[0] or end > room:
            return False
        active.feature[n] = f
        active.first[n + 1] = end
        active.share[n] = math.exp(table.log_feature[f] + log_tilt)
        n += 1
    active.used[0] = n
    return True


@njit(**INNER)
def choose_features(
    tree: GrownTree, share: float, table: SumTable, scratch: Scratch, rng: np.random.Generator
) -> bool:
    """Make the features active of all columns that a tree uses, and of others by chance.

    Returns False if they are more than there is memory for, which is so for all trees of them.
    """
    flag, active = scratch.flag, scratch.active
    active.used[0] = active.first[0] = 0
    log_tilt = -math.log(min(share, 1.0))
    room, fits = scratch.choice.weight.shape[0], True
    for node in range(tree.size[0]):
        if tree.feature[node] != LEAF:
            column = table.column[tree.feature[node]]
            if flag[column] == 0:
                flag[column] = 1
                fits &= activate(column, log_tilt, room, table, active)
    c = -1
    while True:
        skipped = 0.0 if share >= 1.0 else math.log(1.0 - rng.random()) / math.log1p(-share)
        if skipped >= flag.shape[0] - 1 - c:
            break
        c += 1 + int(skipped)
        if flag[c] == 0:
            fits &= activate(c, log_tilt, room, table, active)
    for node in range(tree.size[0]):
        if tree.feature[node] != LEAF:
            flag[table.column[tree.feature[node]]] = 0
    return fits


@njit(**INNER)
def part_rows(tree: GrownTree, node: int, table: SumTable) -> None:
    """Bring the rows that go left at a split to the front of its segment; place its children."""
    order, feature, cut = tree.order, np.uint32(tree.feature[node]), tree.cut[node]
    middle = tree.begin[node]
    for r in range(tree.begin[node], tree.end[node]):
        row = order[r]
        order[r] = order[middle]
        order[middle] = row
        middle += table.codes[row, feature] <= cut
    left = tree.left[node]
    tree.begin[left], tree.end[left] = tree.begin[node], middle
    tree.begin[left + 1], tree.end[left + 1] = middle, tree.end[node]
    tree.depth[left] = tree.depth[left + 1] = tree.depth[node] + 1


@njit(**INNER)
def count_children(
    tree: GrownTree,
    node: int,
    slot: int,
    n_free: int,
    row_state: Floats,
    table: SumTable,
    scratch: Scratch,
) -> tuple[int, int]:
    """Cells of both children: of the smaller one from its rows, of the other what is left.

    Returns the slots of left and right.
    """
    left = tree.left[node]
    if tree.depth[left] >= table.max_depth:
        return NOWHERE, NOWHERE
    sizes = tree.end[left] - tree.begin[left], tree.end[left + 1] - tree.begin[left + 1]
    small = left + int(sizes[1] < sizes[0])
    mine, others = scratch.free[n_free - 1], scratch.free[n_free - 2]
    cells, active = scratch.cells, scratch.active
    rows = tree.order[tree.begin[small] : tree.end[small]]
    count_rows(table.codes, rows, active, row_state, cells[mine])
    n_cells = active.first[active.used[0]]
    subtract_cells(cells[slot], cells[mine], n_cells, cells[others])
    return (mine, others) if small == left else (others, mine)


@njit(**INNER)
def split_node(
    tree: GrownTree, node: int, at: int, cut: int, cells: Floats, active: Active
) -> None:
    """Give a node its split and two children, whose sums its cells know."""
    left = tree.size[0]
    tree.feature[node], tree.cut[node], tree.left[node] = active.feature[at], cut, left
    tree.size[0] = left + 2
    cell = active.first[at] + np.uint32(cut)
    for k in range(2):
        tree.sums[left, PRECISION + k] = cells[k, cell]
        tree.sums[left + 1, PRECISION + k] = tree.sums[node, PRECISION + k] - cells[k, cell]


@njit(**INNER)
def walk_tree(
    tree: GrownTree,
    start: int,
    drawing: bool,
    variance: float,
    row_state: Floats,
    table: SumTable,
    scratch: Scratch,
    rng: np.random.Generator,
) -> float:
    """Weigh the subtree at ``start``, or draw a new one there; return its log (R / P_F).

    The cells of slot ``ROOT`` and ``root_choice`` are those of ``start``. A tree that is drawn has
    no nodes below ``start`` yet.
    """
    n_free = scratch.free.shape[0]
    for s in range(n_free):
        scratch.free[s] = n_free - s  # all but ROOT
    scratch.waiting[0], scratch.slot[0] = start, ROOT
    n_waiting = 1
    value = log_marginal(tree.sums[start, PRECISION], tree.sums[start, PULL], variance)
    while n_waiting > 0:
        n_waiting -= 1
        node, slot = scratch.waiting[n_waiting], scratch.slot[n_waiting]
        choice = scratch.root_choice
        if node != start:
            choice = scratch.choice
            weigh_node(
                scratch.cells[max(slot, ROOT)], scratch.active, tree.sums[node], tree.depth[node],
                variance, table, choice,
            )  # fmt: skip
        value += choice.total[0]
        if drawing:
            at, cut = draw_choice(scratch.active, choice, rng)
            if at != STOP:
                if tree.size[0] + 2 > tree.feature.shape[0]:
                    return -np.inf  # a tree of so many nodes is never accepted
                split_node(tree, node, at, cut, scratch.cells[slot], scratch.active)
                part_rows(tree, node, table)
                left = tree.left[node]
                for child in range(left, left + 2):
                    tree.feature[child] = LEAF
                    tree.sums[child, COUNT] = tree.end[child] - tree.begin[child]
        if tree.feature[node] != LEAF:
            slots = count_children(tree, node, slot, n_free, row_state, table, scratch)
            if slots[0] != NOWHERE:
                n_free -= 2
            for side in range(2):
                scratch.waiting[n_waiting] = tree.left[node] + side
                scratch.slot[n_waiting] = slots[side]
                n_waiting += 1
        if slot > ROOT:
            scratch.free[n_free] = slot
            n_free += 1
    return value


@njit(**INNER)
def n_columns_used(tree: GrownTree, table: SumTable, flag: Int32s) -> int:
    """How many columns a tree uses; ``flag`` [columns] is zero before and after."""
    count = 0
    for turn in range(2):
        for node in range(tree.size[0]):
            if tree.feature[node] != LEAF:
                column = table.column[tree.feature[node]]
                count += (1 - flag[column]) * (1 - turn)
                flag[column] = 1 - turn
    return count


@njit(**INNER)
def copy_without(tree: GrownTree, pruned: int, out: GrownTree) -> int:
    """Copy a tree, but nothing below node ``pruned``; return where that node is in the copy."""
    where = 0
    out.size[0] = 1
    # ``out.left`` of a node that is not visited yet holds the node it is a copy of.
    out.left[0] = 0
    node = 0
    while node < out.size[0]:
        source = out.left[node]
        out.depth[node], out.begin[node], out.end[node] = (
            tree.depth[source], tree.begin[source], tree.end[source],
        )  # fmt: skip
        for k in range(3):
            out.sums[node, k] = tree.sums[source, k]
        out.feature[node], out.cut[node], out.left[node] = LEAF, 0, -1
        if source == pruned:
            where = node
        elif tree.feature[source] != LEAF:
            out.feature[node], out.cut[node] = tree.feature[source], tree.cut[source]
            first = out.size[0]
            out.left[node] = first
            out.left[first], out.left[first + 1] = tree.left[source], tree.left[source] + 1
            out.size[0] += 2
        node += 1
    for r in range(tree.order.shape[0]):
        out.order[r] = tree.order[r]
    return where


@njit(**INNER)
def locate_rows(tree: GrownTree, table: SumTable) -> None:
    """Bring the rows of a tree's splits into its segments, whatever tree was there before."""
    n = tree.order.shape[0]
    for row in range(n):
        tree.order[row] = row
    tree.begin[0], tree.end[0], tree.depth[0] = 0, n, 0
    for node in range(tree.size[0]):
        if tree.feature[node] != LEAF:
            part_rows(tree, node, table)


@njit(**INNER)
def redraw_tree(
    tree: GrownTree,
    fresh: GrownTree,
    twig: bool,
    share: float,
    variance: float,
    row_state: Floats,
    table: SumTable,
    scratch: Scratch,
    rng: np.random.Generator,
) -> bool:
    """Propose a new tree, or a new subtree at some node below the root; return whether it is taken.

    Then ``fresh`` is the new state, else ``tree`` is. Rows and sums of ``tree`` are known.
    """
    start = 0
    if twig:
        if tree.size[0] == 1:
            return False
        start = 1 + int(rng.random() * (tree.size[0] - 1))
    if not choose_features(tree, share, table, scratch, rng):
        return False
    cells = scratch.cells[ROOT]
    if start == 0 and scratch.known.shape[0] > 0:
        count_pulls(table, scratch.active, row_state[1], scratch.known, cells)
    else:
        rows = tree.order[tree.begin[start] : tree.end[start]]
        count_rows(table.codes, rows, scratch.active, row_state, cells)
    weigh_node(
        cells, scratch.active, tree.sums[start], tree.depth[start], variance, table,
        scratch.root_choice,
    )  # fmt: skip
    begun = copy_without(tree, start, fresh)
    gain = 0.0
    for drawing in range(2):
        ratio = walk_tree(
            fresh if drawing else tree, begun if drawing else start, drawing == 1, variance,
            row_state, table, scratch, rng,
        )  # fmt: skip
        gain += ratio if drawing else -ratio
    if gain == -np.inf:
        return False
    # R / P_F has every cut's tilt in P_F; the target has one for each column.
    spent_before = (tree.size[0] - 1) // 2 - n_columns_used(tree, table, scratch.flag)
    spent_after = (fresh.size[0] - 1) // 2 - n_columns_used(fresh, table, scratch.flag)
    gain += math.log(min(share, 1.0)) * (spent_after - spent_before)
    if twig:
        gain += math.log((tree.size[0] - 1) / (fresh.size[0] - 1))
    return math.log(max(rng.random(), 1e-300)) < gain
