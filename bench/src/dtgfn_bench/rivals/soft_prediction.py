"""What a sample of soft trees predicts: the average of its trees, and what each would alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals.soft_shapes import Shape
from dtgfn_bench.rivals.soft_tree import SoftTree, arrive, by_class, constrain, soft_tree


def arrivals(tree: SoftTree, q: Floats, h: float, columns: Floats) -> tuple[Floats, Floats]:
    """Chances [leaves, n] that other rows get to a leaf; the leaves' class counts [leaves, K]."""
    m, d = tree.left.shape[0], columns.shape[0]
    tau, direction = np.empty(m), np.empty((m, d))
    constrain(tree, q, tau, direction)
    at = []
    for table in (tree.columns, columns):
        n = table.shape[1]
        at.append(np.empty((2 * m + 1, n)))
        arrive(tree, table, tau, direction, h, np.empty((m, n)), at[-1])
    sums = np.concatenate([np.zeros((m + 1, 1)), np.cumsum(at[0][m:], axis=1)], axis=1)
    return at[1][m:], np.diff(sums[:, tree.first], axis=1)


def predict(tree: SoftTree, q: Floats, h: float, columns: Floats) -> Floats:
    """A tree's class probabilities [n, K] of other rows: its leaves' posterior means, softly."""
    at, count = arrivals(tree, q, h, columns)
    return at.T @ ((1.0 + count) / (1.0 + count).sum(axis=1, keepdims=True))


class UnitBox:
    """Columns scaled to [0, 1] by the training rows."""

    def __init__(self, X: Floats) -> None:
        self._low = X.min(axis=0)
        width = X.max(axis=0) - self._low
        self._width = np.where(width > 0.0, width, 1.0)

    def columns(self, X: Floats) -> Floats:
        """Columns [d, n] of rows [n, d] on that scale."""
        return np.ascontiguousarray(((X - self._low) / self._width).T)


class Draw(NamedTuple):
    """A tree of a sample: its shape, features, unconstrained parameters and weight."""

    shape: Shape
    feature: Int64s
    q: Floats
    weight: float


class SoftTrees:
    """Weighted soft trees that predict together."""

    def __init__(self, rows: TrainingRows, draws: list[Draw], h: float) -> None:
        self._box = UnitBox(rows.X)
        self._rows = by_class(self._box.columns(rows.X), rows.y, rows.n_classes)
        self._n_classes = rows.n_classes
        self._draws = draws
        self._h = h

    def predict_proba(self, X: Floats) -> Floats:
        """Weighted mean of the trees' class probabilities."""
        scaled = self._box.columns(X)
        probability = np.zeros((X.shape[0], self._n_classes))
        for draw in self._draws:
            tree = soft_tree(draw.shape, draw.feature, self._rows)
            probability += draw.weight * predict(tree, draw.q, self._h, scaled)
        return probability / probability.sum(axis=1, keepdims=True)

    def draw_accuracy(self, X: Floats, y: Int64s) -> float:
        """Weighted mean of the trees' own accuracies.

        As its authors score a tree: a row has the most frequent class of its most probable leaf.
        """
        scaled = self._box.columns(X)
        right = of_all = 0.0
        for draw in self._draws:
            tree = soft_tree(draw.shape, draw.feature, self._rows)
            at, count = arrivals(tree, draw.q, self._h, scaled)
            label = count.argmax(axis=1)[at.argmax(axis=0)]
            right += draw.weight * float((label == y).mean())
            of_all += draw.weight
        return right / of_all

    def size(self) -> float:
        """Weighted mean number of nodes."""
        weight = np.array([draw.weight for draw in self._draws])
        nodes = np.array([len(draw.shape) for draw in self._draws])
        return float(weight @ nodes / weight.sum())
