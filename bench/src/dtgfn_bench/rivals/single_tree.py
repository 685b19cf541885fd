"""One classification tree: its splits, and the training rows' class frequencies in its leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import TrainingRows


@dataclass(frozen=True)
class Split:
    """Rows with ``feature`` <= ``threshold`` go below, others above; None there is a leaf."""

    feature: int
    threshold: float
    below: Split | None = None
    above: Split | None = None


class SingleTree:
    """The tree under ``root`` (None: one leaf), with leaves filled from ``rows``.

    A leaf answers (count + mass) / (rows + classes * mass) per class; ``mass`` 0 gives plain
    frequencies.  A leaf that no training row reaches answers as its parent would.
    """

    def __init__(self, root: Split | None, rows: TrainingRows, mass: float = 0.0) -> None:
        self._root = root
        self._mass = mass
        self._n_classes = rows.n_classes
        self._leaves: dict[int, Floats] = {}
        self._size = 0
        self._fill(root, rows.X, rows.y, np.ones(rows.n_classes), 1)

    def size(self) -> float:
        """Number of splits and leaves."""
        return float(self._size)

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, n_classes]."""
        answer = np.empty((len(X), self._n_classes))
        self._answer(self._root, X, np.arange(len(X)), answer, 1)
        return answer

    # Nodes are numbered as in a heap: the children of node i are 2i and 2i + 1.
    def _fill(
        self, split: Split | None, X: Floats, y: Int64s, above_counts: Floats, node: int
    ) -> None:
        self._size += 1
        counts = np.bincount(y, minlength=self._n_classes).astype(np.float64)
        if len(y) == 0:
            counts = above_counts
        if split is None:
            smoothed = counts + self._mass
            self._leaves[node] = smoothed / smoothed.sum()
            return
        below = X[:, split.feature] <= split.threshold
        self._fill(split.below, X[below], y[below], counts, 2 * node)
        self._fill(split.above, X[~below], y[~below], counts, 2 * node + 1)

    def _answer(
        self, split: Split | None, X: Floats, index: Int64s, answer: Floats, node: int
    ) -> None:
        if split is None:
            answer[index] = self._leaves[node]
            return
        below = X[index, split.feature] <= split.threshold
        self._answer(split.below, X, index[below], answer, 2 * node)
        self._answer(split.above, X, index[~below], answer, 2 * node + 1)
