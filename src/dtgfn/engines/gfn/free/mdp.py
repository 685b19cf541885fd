"""Partial trees that grow one split at a time, many at once: states, masks and score terms.

A state is a partial tree; every leaf l of it holds training rows, and with lo, hi the lowest and
highest code of feature f among them the valid actions are::

    stop,  or  split (l, f, j)  with  lo <= j < hi  and  depth(l) < max_depth

so at least one training row goes to each side; a rule of one's own (``hooks.ActionRule``) may take
features away. All trees of a batch are at the same step: after k
splits each one that still grows has k + 1 leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.gfn.hooks import ActionRule, NodePaths, hook_name
from dtgfn.trees.batch import LEAF, TreeBatch, empty_batch
from dtgfn.trees.leaf_models import add_row
from dtgfn.trees.score import Rows, Score, leaf_log_marginal, merge_rows

STOP = -1  # instead of the position of a leaf


class Nodes(NamedTuple):
    """The nodes of all trees of a batch, in the order in which they were made (M nodes)."""

    tree: Int64s  # [M] the tree a node belongs to
    node_index: Int64s  # [M] its index in that tree
    parent: Int64s  # [M] -1 at roots
    left: Int64s  # [M] left child (the right one is left + 1), -1 at leaves
    feature: Int32s  # [M] LEAF at leaves
    cut: Int32s  # [M]
    depth: Int32s  # [M]
    first: Int32s  # [M] the node's rows are row_order[tree, first:last]
    last: Int32s  # [M]
    lowest: Codes  # [M, d] range of codes among the node's rows
    highest: Codes  # [M, d]
    n_actions: Int64s  # [M] valid (feature, cut), 0 where the node must stay a leaf
    sums: Floats  # [M, K] the leaf model's sums
    path_feature: Int64s  # [M, D] 1 + feature of each split on the way from the root, 0: none
    path_value: npt.NDArray[np.float32]  # [M, D, 3] scaled threshold, side, present


@dataclass(frozen=True)
class Table:
    """What growing a tree needs: distinct training rows, score, grid, and what is allowed."""

    rows: Rows
    score: Score
    n_codes: Int32s  # [d] largest code of each feature
    leaf: Any  # the leaf model's numbers for compiled code
    column: Int32s  # [d] source column of each feature
    allowed: ActionRule | None = None

    @property
    def n_features(self) -> int:
        """Features d."""
        return int(self.rows.codes.shape[1])

    @property
    def n_cuts(self) -> int:
        """Cuts 0..t-1 are all that may be valid; at least 1."""
        return max(int(self.n_codes.max(initial=0)), 1)

    @property
    def path_length(self) -> int:
        """Entries D of a padded path; at least 1."""
        return max(min(self.score.max_depth, len(self.rows.target) - 1), 1)


def make_table(
    rows: Rows, score: Score, column: Int32s | None = None, allowed: ActionRule | None = None
) -> Table:
    """Merge equal rows and measure the codes."""
    if allowed is not None and score.uniform_rules:
        raise ValueError(
            f"allowed={hook_name(allowed)} takes actions away, but under this prior the cost of a "
            "split depends on how many there are; give a split_penalty that does not, or no rule."
        )
    merged = merge_rows(rows)
    n_codes = merged.codes.max(axis=0, initial=0).astype(np.int32)
    column = np.arange(len(n_codes), dtype=np.int32) if column is None else column
    return Table(merged, score, n_codes, score.leaf.terms(merged.weight), column, allowed)


class GrowingTrees:
    """Partial trees [B], grown in place by ``split``."""

    def __init__(self, table: Table, n_trees: int) -> None:
        n_rows = len(table.rows.target)
        self.table = table
        self.n_splits = 0  # of every tree that still grows
        self.n_nodes = n_trees
        self.row_order = np.tile(np.arange(n_rows, dtype=np.int32), (n_trees, 1))
        self.leaves = np.zeros((n_trees, 8), dtype=np.int64)
        self.leaves[:, 0] = np.arange(n_trees)
        self.n_parents = np.zeros(n_trees, dtype=np.int64)  # splits that can be undone
        self._pool = _empty_nodes(table, max(8 * n_trees, 64))
        _plant(table, self._pool, n_trees)
        keep_to_rule(table, self.nodes, 0)

    @property
    def nodes(self) -> Nodes:
        """All nodes so far."""
        parts: list[Any] = [part[: self.n_nodes] for part in self._pool]
        return Nodes(*parts)

    def open_leaves(self, trees: Int64s) -> Int64s:
        """Nodes [A, k + 1] that are leaves of trees that still grow [A]."""
        return self.leaves[trees, : self.n_splits + 1]

    def split(self, trees: Int64s, slot: Int64s, feature: Int64s, cut: Int64s) -> Int64s:
        """Split the leaf at ``slot`` of ``open_leaves`` of each tree [A]; return the new nodes."""
        self._reserve(2 * len(trees))
        _split_leaves(
            self.table,
            self._pool,
            (self.row_order, self.leaves, self.n_parents),
            (trees, slot, feature, cut),
            self.n_nodes,
            self.n_splits + 1,
        )
        new = np.arange(self.n_nodes, self.n_nodes + 2 * len(trees))
        self.n_nodes += len(new)
        self.n_splits += 1
        keep_to_rule(self.table, self.nodes, self.n_nodes - len(new))
        return new

    def _reserve(self, n_new: int) -> None:
        while self.n_nodes + n_new > len(self._pool.tree):
            spare = _empty_nodes(self.table, len(self._pool.tree))
            parts: list[Any] = list(zip(self._pool, spare, strict=True))
            self._pool = Nodes(*(np.concatenate(pair) for pair in parts))
        if self.n_splits + 1 >= self.leaves.shape[1]:
            self.leaves = np.concatenate([self.leaves, np.zeros_like(self.leaves)], axis=1)


def _empty_nodes(table: Table, size: int) -> Nodes:
    d, length = table.n_features, table.path_length
    return Nodes(
        tree=np.zeros(size, dtype=np.int64),
        node_index=np.zeros(size, dtype=np.int64),
        parent=np.full(size, -1, dtype=np.int64),
        left=np.full(size, -1, dtype=np.int64),
        feature=np.full(size, LEAF, dtype=np.int32),
        cut=np.zeros(size, dtype=np.int32),
        depth=np.zeros(size, dtype=np.int32),
        first=np.zeros(size, dtype=np.int32),
        last=np.zeros(size, dtype=np.int32),
        lowest=np.zeros((size, d), dtype=np.uint16),
        highest=np.zeros((size, d), dtype=np.uint16),
        n_actions=np.zeros(size, dtype=np.int64),
        sums=np.zeros((size, table.score.leaf.n_sums)),
        path_feature=np.zeros((size, length), dtype=np.int64),
        path_value=np.zeros((size, length, 3), dtype=np.float32),
    )


def _plant(table: Table, pool: Nodes, n_trees: int) -> None:
    """Make the roots."""
    rows, n_rows = table.rows, len(table.rows.target)
    lowest, highest = rows.codes.min(axis=0), rows.codes.max(axis=0)
    pool.tree[:n_trees] = np.arange(n_trees)
    pool.last[:n_trees] = n_rows
    pool.lowest[:n_trees], pool.highest[:n_trees] = lowest, highest
    if table.score.max_depth > 0:
        pool.n_actions[:n_trees] = (highest.astype(np.int64) - lowest).sum()
    for i in range(n_rows):
        add_row(pool.sums[0], rows.target[i], rows.weight[i], table.leaf)
    pool.sums[1:n_trees] = pool.sums[0]


def _split_leaves(
    table: Table,
    pool: Nodes,
    state: tuple[Int32s, Int64s, Int64s],
    action: tuple[Int64s, Int64s, Int64s, Int64s],
    n_nodes: int,
    n_leaves: int,
) -> None:
    rows, max_depth = table.rows, table.score.max_depth
    _make_children(pool, state[1], state[2], action, table.n_codes, n_nodes, n_leaves)
    given = (rows.codes, rows.target, rows.weight, table.leaf, max_depth)
    _share_rows(*given, pool, state[0], n_nodes, 2 * len(action[0]))


@njit(cache=True, nogil=True)
def _make_children(
    pool: Nodes,
    leaves: Int64s,
    n_parents: Int64s,
    action: tuple[Int64s, Int64s, Int64s, Int64s],
    n_codes: Int32s,
    n_nodes: int,
    n_leaves: int,
) -> None:
    """Turn one leaf per tree into a split with two leaves; their rows come later."""
    trees, slots, features, cuts = action
    for i in range(trees.shape[0]):
        tree, left = trees[i], n_nodes + 2 * i
        node = leaves[tree, slots[i]]
        parent = pool.parent[node]
        n_parents[tree] += 1
        # The parent could be undone if both its children were leaves; now one of them is not.
        if parent >= 0 and pool.feature[2 * pool.left[parent] + 1 - node] < 0:
            n_parents[tree] -= 1
        pool.feature[node], pool.cut[node], pool.left[node] = features[i], cuts[i], left
        leaves[tree, slots[i]], leaves[tree, n_leaves] = left, left + 1
        depth = pool.depth[node]
        for side in range(2):
            child = left + side
            pool.tree[child], pool.parent[child] = tree, node
            pool.node_index[child] = 2 * n_leaves - 1 + side
            pool.depth[child] = depth + 1
            pool.path_feature[child] = pool.path_feature[node]
            pool.path_value[child] = pool.path_value[node]
            pool.path_feature[child, depth] = features[i] + 1
            scaled = 2.0 * (cuts[i] + 1) / (n_codes[features[i]] + 1) - 1.0
            pool.path_value[child, depth, 0] = scaled
            pool.path_value[child, depth, 1] = 2 * side - 1
            pool.path_value[child, depth, 2] = 1.0


@njit(cache=True, nogil=True)
def _share_rows(
    codes: Codes,
    target: Int32s | Floats,
    weight: Floats,
    leaf: Any,
    max_depth: int,
    pool: Nodes,
    row_order: Int32s,
    n_nodes: int,
    n_new: int,
) -> None:
    """Send the rows of each split node to its two children, and look at what they hold."""
    spare = np.empty(codes.shape[0], dtype=np.int32)
    for left in range(n_nodes, n_nodes + n_new, 2):
        node = pool.parent[left]
        order = row_order[pool.tree[node]]
        feature, cut = pool.feature[node], pool.cut[node]
        middle, n_right = pool.first[node], 0
        for i in range(pool.first[node], pool.last[node]):
            row = order[i]
            if codes[row, feature] > cut:
                spare[n_right] = row
                n_right += 1
            else:
                order[middle] = row
                middle += 1
        order[middle : middle + n_right] = spare[:n_right]
        pool.first[left], pool.last[left] = pool.first[node], middle
        pool.first[left + 1], pool.last[left + 1] = middle, pool.last[node]
        for child in range(left, left + 2):
            _look(codes, target, weight, leaf, order, pool, child, pool.depth[child] < max_depth)


@njit(**INNER)
def _look(
    codes: Codes,
    target: Int32s | Floats,
    weight: Floats,
    leaf: Any,
    order: Int32s,
    pool: Nodes,
    node: int,
    may_split: bool,
) -> None:
    """Sums, code ranges and number of valid actions of one node."""
    lowest, highest = pool.lowest[node], pool.highest[node]
    lowest[:] = np.uint16(65535)
    highest[:] = np.uint16(0)
    for i in range(pool.first[node], pool.last[node]):
        row = order[i]
        add_row(pool.sums[node], target[row], weight[row], leaf)
        for f in range(codes.shape[1]):
            code = codes[row, f]
            lowest[f] = min(lowest[f], code)
            highest[f] = max(highest[f], code)
    if may_split:
        for f in range(codes.shape[1]):
            pool.n_actions[node] += np.int64(highest[f]) - np.int64(lowest[f])


def keep_to_rule(table: Table, nodes: Nodes, first: int) -> None:
    """Take away what a rule of one's own forbids of the nodes from ``first`` on.

    Their range of codes is then empty: masks, policies and retraced trees all go by that.
    """
    rule, new = table.allowed, slice(first, None)
    if rule is None or first == len(nodes.tree):
        return
    may = np.asarray(rule(node_paths(table, nodes, new)))
    wanted = nodes.highest[new].shape
    if may.shape != wanted or may.dtype != np.bool_:
        raise ValueError(
            f"allowed={hook_name(rule)} gives {may.dtype} {list(may.shape)}; it must give bool "
            f"{list(wanted)}, a row a node and a column a feature."
        )
    nodes.highest[new] = np.where(may, nodes.highest[new], nodes.lowest[new])
    left = (nodes.highest[new].astype(np.int64) - nodes.lowest[new]).sum(axis=1)
    nodes.n_actions[new] = np.where(nodes.n_actions[new] > 0, left, 0)


def node_paths(table: Table, nodes: Nodes, which: slice) -> NodePaths:
    """Return the splits above some nodes in whole numbers."""
    feature = nodes.path_feature[which] - 1
    scaled, side = nodes.path_value[which, :, 0], nodes.path_value[which, :, 1]
    n_codes = table.n_codes[np.maximum(feature, 0)] + 1
    cut = np.rint((scaled.astype(np.float64) + 1.0) / 2.0 * n_codes).astype(np.int64) - 1
    there = feature >= 0
    return NodePaths(
        feature,
        np.where(there, cut, -1),
        side.astype(np.int64),
        nodes.depth[which],
        table.column,
    )


def cuts_by_feature(nodes: Nodes, node: Int64s) -> Int64s:
    """Number of valid cuts [A, d] of each feature at some nodes [A]."""
    return np.asarray(nodes.highest[node].astype(np.int64) - nodes.lowest[node])


def cut_range(nodes: Nodes, node: Int64s, feature: Int64s) -> tuple[Int64s, Int64s]:
    """First valid cut and the one after the last [A] of a feature at some nodes [A]."""
    return (
        nodes.lowest[node, feature].astype(np.int64),
        nodes.highest[node, feature].astype(np.int64),
    )


class Terms(NamedTuple):
    """What a node adds to log R: as a leaf likelihood + stop, as a split its prior [M]."""

    likelihood: Floats
    stop: Floats
    split: Floats


def score_terms(table: Table, nodes: Nodes) -> Terms:
    """Terms of log R for every node, before the temperature."""
    log_stop, log_split = table.score.prior.node_terms(table.score.max_depth)
    stop, split = log_stop[nodes.depth], log_split[nodes.depth]
    if table.score.uniform_rules:
        stop = np.where(nodes.n_actions == 0, 0.0, stop)
        inner = np.flatnonzero(nodes.feature >= 0)
        cuts = cuts_by_feature(nodes, inner)
        chosen = cuts[np.arange(len(inner)), nodes.feature[inner]]
        split[inner] -= np.log((cuts > 0).sum(axis=1)) + np.log(chosen)
    return Terms(leaf_log_marginal(nodes.sums, table.score), stop, split)


def tree_batch(nodes: Nodes, n_trees: int) -> TreeBatch:
    """Return the trees as they are now."""
    batch = empty_batch(n_trees, int(nodes.node_index.max()) + 1)
    where = nodes.tree, nodes.node_index
    inner = nodes.feature >= 0
    batch.feature[where] = nodes.feature
    batch.cut[where] = nodes.cut
    batch.left[where] = np.where(inner, nodes.node_index[nodes.left], -1)
    batch.n_nodes[:] = np.bincount(nodes.tree, minlength=n_trees)
    return batch
