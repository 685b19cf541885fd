"""Which drawn trees keep demands that the rows of a node do not tell: of paths, and of predictions.

A tree rises with a column if no two leaves that differ in nothing but that column (their boxes meet
in all others) have the lower one predict more. Only leaves that part at a split on the column can.
"""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.data.demands import Demands
from dtgfn.trees.batch import TreeBatch, node_sums
from dtgfn.trees.leaf_models import DirichletLeaf, outputs_of
from dtgfn.trees.score import Rows, Score

HIGHEST = 1 << 20  # above every code


def kept_demands(
    trees: TreeBatch, demands: Demands, column: Int32s, rows: Rows, score: Score, n_cuts: Int64s
) -> Bools:
    """Whether each tree [B] keeps what is demanded of paths and predictions.

    ``column`` [d] is the source column of each feature, ``n_cuts`` [d] how many thresholds of
    numbers it has: the cut behind them tells what is missing, which has no order.
    """
    kept = np.ones(len(trees), np.bool_)
    for upper, lower in demands.below.items():
        kept &= keeps_below(
            trees.feature, trees.left, column == upper, np.isin(column, np.array(lower))
        )
    if demands.monotone:
        value = leaf_values(trees, rows, score)
        for c, direction in demands.monotone.items():
            (feature,) = np.flatnonzero(column == c)
            arrays = trees.feature, trees.cut, trees.left
            kept &= is_monotone(*arrays, direction * value, int(feature), int(n_cuts[feature]))
    return kept


def leaf_values(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """What every node predicts [B, N]: a number, or the probability of the second class of two."""
    leaf = score.leaf
    if isinstance(leaf, DirichletLeaf) and leaf.n_classes != 2:
        raise ValueError(
            f"monotone needs an order, but there are {leaf.n_classes} classes; it is for two "
            "classes and for numbers."
        )
    sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, leaf)
    flat = sums.reshape(-1, sums.shape[-1])
    outputs = np.zeros((len(flat), leaf.n_outputs))
    outputs_of(flat, leaf.terms(rows.weight), outputs)
    shown = 1 if isinstance(leaf, DirichletLeaf) else 0
    return outputs[:, shown].reshape(trees.feature.shape)


@njit(cache=True, nogil=True)
def keeps_below(feature: Int32s, left: Int32s, upper: Bools, lower: Bools) -> Bools:
    """Whether no split on a lower feature stands below one on an upper feature."""
    n_trees, width = feature.shape
    kept = np.ones(n_trees, np.bool_)
    below = np.zeros(width, np.bool_)
    for b in range(n_trees):
        below[:] = False
        for node in range(width):  # children come after parents
            f = feature[b, node]
            if f < 0:
                continue
            if below[node] and lower[f]:
                kept[b] = False
            child = left[b, node]
            below[child] = below[child + 1] = below[node] or upper[f]
    return kept


@njit(cache=True, nogil=True)
def is_monotone(
    feature: Int32s, cut: Int32s, left: Int32s, value: Floats, chosen: int, n_cuts: int
) -> Bools:
    """Whether each tree's leaves never fall along a feature."""
    n_trees, width = feature.shape
    kept = np.ones(n_trees, np.bool_)
    parent = np.empty(width, np.int64)
    for b in range(n_trees):
        parent[:] = -1
        for node in range(width):
            if feature[b, node] >= 0:
                parent[left[b, node]] = parent[left[b, node] + 1] = node
        for low in range(width):
            for high in range(width):
                if kept[b] and feature[b, low] < 0 and feature[b, high] < 0 and low != high:
                    falls = value[b, low] > value[b, high] + 1e-12
                    tree = feature[b], cut[b], left[b], parent
                    if falls and _is_below(tree, low, high, chosen, n_cuts):
                        kept[b] = False
    return kept


@njit(cache=True, nogil=True)
def _is_below(
    tree: tuple[Int32s, Int32s, Int32s, Int64s], low: int, high: int, chosen: int, n_cuts: int
) -> bool:
    """Whether two leaves of a tree meet in all features but one, in which the first lies lower."""
    feature, cut, left, parent = tree
    above = _common(parent, low, high)
    if above < 0 or feature[above] != chosen or cut[above] >= n_cuts:
        return False
    if _came_left(left, parent, low, above) != 1 or _only_missing(tree, high, chosen, n_cuts):
        return False
    node = low
    while parent[node] != above:  # no other feature may keep the two apart
        up = parent[node]
        f = feature[up]
        if f != chosen:
            first, last = _interval(tree, high, above, f)
            if node == left[up]:
                if first > cut[up]:
                    return False
            elif last <= cut[up]:
                return False
        node = up
    return True


@njit(cache=True, nogil=True)
def _common(parent: Int64s, one: int, other: int) -> int:
    """The lowest node above two nodes; -1 if one of them is not in the tree."""
    while one != other:
        if one > other:
            one = parent[one]
        else:
            other = parent[other]
        if one < 0 or other < 0:
            return -1
    return one


@njit(cache=True, nogil=True)
def _came_left(left: Int32s, parent: Int64s, node: int, above: int) -> int:
    """1 if the way from a node above leads left first, else 0."""
    while parent[node] != above:
        node = parent[node]
    return 1 if left[above] == node else 0


@njit(cache=True, nogil=True)
def _interval(
    tree: tuple[Int32s, Int32s, Int32s, Int64s], node: int, above: int, f: int
) -> tuple[int, int]:
    """Lowest and highest code of a feature at a node, by the splits below another one."""
    feature, cut, left, parent = tree
    first, last = 0, HIGHEST
    while node != above and parent[node] >= 0:
        up = parent[node]
        if feature[up] == f and up != above:
            if node == left[up]:
                last = min(last, cut[up])
            else:
                first = max(first, cut[up] + 1)
        node = up
    return first, last


@njit(cache=True, nogil=True)
def _only_missing(
    tree: tuple[Int32s, Int32s, Int32s, Int64s], node: int, f: int, n_cuts: int
) -> bool:
    """Whether no present value of a feature comes to a node."""
    return _interval(tree, node, -1, f)[0] > n_cuts
