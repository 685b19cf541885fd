"""Classes that the training rows lack: what a classifier of the seen ones says of them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import TrainingRows


class Estimator(Protocol):
    """What is fitted on the seen classes, coded 0..k-1."""

    def predict_proba(self, X: Floats) -> Any:
        """Probabilities [n, k] of the seen classes."""


def spread(probability: Floats, seen_classes: Int64s, n_classes: int) -> Floats:
    """Probabilities [n, n_classes] from those of the seen classes [n, k]; the others get zero.

    Rows are made to sum to one, which libraries of single precision miss by 1e-7.
    """
    spread_out = np.zeros((len(probability), n_classes))
    spread_out[:, seen_classes] = probability
    return spread_out / spread_out.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class OverAllClasses:
    """An estimator of the seen classes as the benchmark's classifier."""

    estimator: Estimator
    seen_classes: Int64s
    n_classes: int
    nodes: float | None

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, n_classes]."""
        probability = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        return spread(probability, self.seen_classes, self.n_classes)

    def size(self) -> float | None:
        """Mean number of nodes per tree; None without trees."""
        return self.nodes


class OneClass:
    """What there is to say after rows of a single class, which many libraries refuse."""

    def predict_proba(self, X: Floats) -> Floats:
        """Ones [n, 1]."""
        return np.ones((len(X), 1))


def fit_seen(
    rows: TrainingRows,
    fit: Callable[[Floats, Int64s], Any],
    nodes_per_tree: Callable[[Any], float] | None = None,
) -> OverAllClasses:
    """Fit ``fit(X, codes)`` on the classes seen, coded without gaps.

    ``nodes_per_tree`` counts the fitted estimator's mean nodes per tree; None without trees.
    """
    seen_classes, codes = np.unique(rows.y, return_inverse=True)
    if len(seen_classes) == 1:
        nodes = None if nodes_per_tree is None else 1.0
        return OverAllClasses(OneClass(), seen_classes, rows.n_classes, nodes)
    estimator = fit(rows.X, codes.astype(np.int64))
    nodes = None if nodes_per_tree is None else nodes_per_tree(estimator)
    return OverAllClasses(estimator, seen_classes, rows.n_classes, nodes)
