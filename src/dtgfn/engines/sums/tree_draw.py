"""Draw one summed tree from its conditional posterior: a proposal by look-ahead, and an exact step.

``walk_tree`` goes through a tree from a node down, either drawing it or only weighing it, and adds
up log (R / P_F), R its prior x marginal likelihood and P_F the probability of drawing it. Since a
node's weights are relative to m(node), that is simply the sum of the nodes' ``log_total`` plus, at
the first node, log m: the better one level of look-ahead knows what is below, the closer all trees
come to the same number, and acceptance to one.

Only some columns are looked at: those that the current tree uses, and any other with probability
``q``. Drawing them is part of the step's own randomness, so the target becomes R x q^-(columns
used) and every cut of the proposal is worth 1 / q more (``log_tilt``); a column used twice pays it
back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.sums.node_choice import (
    COUNT,
    PRECISION,
    PULL,
    STOP,
    Choice,
    SumTable,
    add_histogram,
    draw_choice,
    log_marginal,
    weigh_node,
)

LEAF = -1


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
    order: Int32s  # [n] rows


class Scratch(NamedTuple):
    """Memory of one chain's walks."""

    histogram: Floats  # [S, A, B, 3] of nodes that are waiting
    root_histogram: Floats  # [A, B, 3] of the node that walks begin at
    root_choice: Choice  # and what it may do, which is the same for all of them
    choice: Choice
    active: Int32s  # [F] features that are looked at, the first n_active
    waiting: Int32s  # [S] nodes
    slot: Int32s  # [S] histogram of each
    free: Int32s  # [S] slots that nobody uses
    flag: Int32s  # [columns]


@njit(**INNER)
def choose_features(
    feature: Int32s,
    size: int,
    share: float,
    table: SumTable,
    scratch: Scratch,
    rng: np.random.Generator,
) -> int:
    """Make the features active of all columns that a tree uses, and of others by chance.

    Returns how many, or -1 if they are more than there is memory for.
    """
    flag = scratch.flag
    for c in range(flag.shape[0]):
        flag[c] = 1 if share >= 1.0 or rng.random() < share else 0
    for node in range(size):
        if feature[node] != LEAF:
            flag[table.column[feature[node]]] = 1
    n_active = 0
    for f in range(table.column.shape[0]):
        if flag[table.column[f]] == 1 and table.log_feature[f] > -np.inf:
            if n_active == scratch.root_histogram.shape[0]:
                return -1
            scratch.active[n_active] = f
            n_active += 1
    return n_active


@njit(**INNER)
def part_rows(tree: GrownTree, node: int, table: SumTable) -> int:
    """Bring the rows that go left at a split to the front of its segment; return their end."""
    order, feature, cut = tree.order, tree.feature[node], tree.cut[node]
    middle = tree.begin[node]
    for r in range(tree.begin[node], tree.end[node]):
        row = order[r]
        order[r] = order[middle]
        order[middle] = row
        middle += table.codes[row, feature] <= cut
    return middle


@njit(**INNER)
def place_children(tree: GrownTree, node: int, middle: int) -> None:
    """Give the children of a split their rows and depth."""
    left = tree.left[node]
    tree.begin[left], tree.end[left] = tree.begin[node], middle
    tree.begin[left + 1], tree.end[left + 1] = middle, tree.end[node]
    tree.depth[left] = tree.depth[left + 1] = tree.depth[node] + 1


@njit(cache=True, nogil=True)
def add_sums(tree: GrownTree, node: int, row_precision: Floats, row_pull: Floats) -> None:
    """Add up the rows of a node."""
    count = tree.end[node] - tree.begin[node]
    precision = pull = 0.0
    for r in range(tree.begin[node], tree.end[node]):
        row = tree.order[r]
        precision += row_precision[row]
        pull += row_pull[row]
    tree.sums[node, COUNT] = count
    tree.sums[node, PRECISION] = precision
    tree.sums[node, PULL] = pull


@njit(**INNER)
def _child_histograms(
    tree: GrownTree,
    node: int,
    slot: int,
    n_active: int,
    row_precision: Floats,
    row_pull: Floats,
    table: SumTable,
    scratch: Scratch,
    n_free: int,
) -> tuple[int, int]:
    """Histograms of both children: the smaller one is counted, the other is what is left.

    Returns the slots of left and right; the node's own is used again.
    """
    left = tree.left[node]
    small = (
        left
        if tree.end[left] - tree.begin[left] <= tree.end[left + 1] - tree.begin[left + 1]
        else left + 1
    )
    fresh = scratch.free[n_free - 1]
    mine, of_node = scratch.histogram[fresh], scratch.histogram[slot]
    for a in range(n_active):
        for j in range(table.n_codes[scratch.active[a]]):
            mine[a, j, 0] = mine[a, j, 1] = mine[a, j, 2] = 0.0
    add_histogram(
        table.codes, tree.order, tree.begin[small], tree.end[small],
        scratch.active, n_active, row_precision, row_pull, mine,
    )  # fmt: skip
    for a in range(n_active):
        for j in range(table.n_codes[scratch.active[a]]):
            for k in range(3):
                of_node[a, j, k] -= mine[a, j, k]
    return (fresh, slot) if small == left else (slot, fresh)


@njit(cache=True, nogil=True)
def walk_tree(
    tree: GrownTree,
    start: int,
    drawing: bool,
    n_active: int,
    log_tilt: float,
    variance: float,
    row_precision: Floats,
    row_pull: Floats,
    table: SumTable,
    scratch: Scratch,
    rng: np.random.Generator,
) -> float:
    """Weigh the subtree at ``start``, or draw a new one there; return its log (R / P_F).

    ``scratch.root_histogram`` and ``root_choice`` are those of ``start``. A tree that is drawn has
    no nodes below ``start`` yet.
    """
    n_slots = scratch.free.shape[0]
    for s in range(n_slots - 1):
        scratch.free[s] = n_slots - 1 - s
    n_free = n_slots - 1
    root = scratch.histogram[0]
    for a in range(n_active):
        for j in range(table.n_codes[scratch.active[a]]):
            for k in range(3):
                root[a, j, k] = scratch.root_histogram[a, j, k]
    scratch.waiting[0], scratch.slot[0] = start, 0
    n_waiting = 1
    sums = tree.sums[start]
    value = log_marginal(sums[PRECISION], sums[PULL], variance)
    while n_waiting > 0:
        n_waiting -= 1
        node, slot = scratch.waiting[n_waiting], scratch.slot[n_waiting]
        depth = tree.depth[node]
        choice = scratch.root_choice
        if node != start:
            choice = scratch.choice
            weigh_node(
                scratch.histogram[slot], scratch.active, n_active, tree.sums[node], depth,
                variance, log_tilt, table, choice,
            )  # fmt: skip
        value += choice.total[0]
        if drawing:
            at, cut = draw_choice(depth, scratch.active, n_active, table, choice, rng)
            room = tree.size[0] + 2 <= tree.feature.shape[0]
            if at != STOP and not room:
                return -np.inf  # a tree of so many nodes is never accepted
            tree.feature[node] = LEAF if at == STOP else scratch.active[at]
            tree.cut[node] = cut
            if at != STOP:
                tree.left[node] = tree.size[0]
                tree.size[0] += 2
        if tree.feature[node] == LEAF:
            scratch.free[n_free] = slot
            n_free += 1
            continue
        middle = part_rows(tree, node, table) if drawing else tree.end[tree.left[node]]
        left = tree.left[node]
        if drawing:
            place_children(tree, node, middle)
            add_sums(tree, left, row_precision, row_pull)
            for k in range(3):
                tree.sums[left + 1, k] = tree.sums[node, k] - tree.sums[left, k]
        slots = _child_histograms(
            tree, node, slot, n_active, row_precision, row_pull, table, scratch, n_free
        )
        n_free -= 1
        for side in range(2):
            scratch.waiting[n_waiting], scratch.slot[n_waiting] = left + side, slots[side]
            n_waiting += 1
    return value


@njit(**INNER)
def n_columns_used(tree: GrownTree, table: SumTable, flag: Int32s) -> int:
    """How many columns a tree uses; ``flag`` [columns] is scratch."""
    flag[:] = 0
    count = 0
    for node in range(tree.size[0]):
        if tree.feature[node] != LEAF:
            column = table.column[tree.feature[node]]
            count += 1 - flag[column]
            flag[column] = 1
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


@njit(cache=True, nogil=True)
def locate_rows(tree: GrownTree, table: SumTable) -> None:
    """Bring the rows of a tree's splits into its segments, whatever tree was there before."""
    for row in range(tree.order.shape[0]):
        tree.order[row] = row
    tree.begin[0], tree.end[0], tree.depth[0] = 0, table.codes.shape[0], 0
    for node in range(tree.size[0]):
        if tree.feature[node] != LEAF:
            place_children(tree, node, part_rows(tree, node, table))


@njit(**INNER)
def redraw_tree(
    tree: GrownTree,
    fresh: GrownTree,
    twig: bool,
    share: float,
    variance: float,
    row_precision: Floats,
    row_pull: Floats,
    table: SumTable,
    scratch: Scratch,
    rng: np.random.Generator,
) -> bool:
    """Propose a new tree, or a new subtree at some node below the root; return whether it is taken.

    Then ``fresh`` is the new state, else ``tree`` is. The rows of ``tree`` are located.
    """
    for node in range(tree.size[0]):
        add_sums(tree, node, row_precision, row_pull)
    start = 0
    if twig:
        if tree.size[0] == 1:
            return False
        start = 1 + int(rng.random() * (tree.size[0] - 1))
    n_active = choose_features(tree.feature, tree.size[0], share, table, scratch, rng)
    if n_active < 0:
        return False
    log_tilt = -math.log(min(share, 1.0))
    root = scratch.root_histogram
    for a in range(n_active):
        for j in range(table.n_codes[scratch.active[a]]):
            root[a, j, 0] = root[a, j, 1] = root[a, j, 2] = 0.0
    add_histogram(
        table.codes, tree.order, tree.begin[start], tree.end[start],
        scratch.active, n_active, row_precision, row_pull, root,
    )  # fmt: skip
    weigh_node(
        root, scratch.active, n_active, tree.sums[start], tree.depth[start],
        variance, log_tilt, table, scratch.root_choice,
    )  # fmt: skip
    before = walk_tree(
        tree,
        start,
        False,
        n_active,
        log_tilt,
        variance,
        row_precision,
        row_pull,
        table,
        scratch,
        rng,
    )
    begun = copy_without(tree, start, fresh)
    after = walk_tree(
        fresh,
        begun,
        True,
        n_active,
        log_tilt,
        variance,
        row_precision,
        row_pull,
        table,
        scratch,
        rng,
    )
    if after == -np.inf:
        return False
    gain = after - before
    if log_tilt > 0.0:  # R / P_F has every cut's tilt in P_F; the target has one for each column
        spent_before = (tree.size[0] - 1) // 2 - n_columns_used(tree, table, scratch.flag)
        spent_after = (fresh.size[0] - 1) // 2 - n_columns_used(fresh, table, scratch.flag)
        gain -= log_tilt * (spent_after - spent_before)
    if twig:
        gain += math.log((tree.size[0] - 1) / (fresh.size[0] - 1))
    return math.log(max(rng.random(), 1e-300)) < gain
