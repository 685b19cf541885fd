"""Detectors that scikit-learn has: isolation forest, distance to the k-th neighbour, LOF."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.scaling import Standardiser


@dataclass(frozen=True)
class FittedIsolationForest:
    """Scores by how few random cuts set a row apart."""

    forest: Any
    X: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        return -self.forest.score_samples(X)

    def training_scores(self) -> Floats:
        """The training rows through the same trees."""
        return self.score(self.X)

    def size(self) -> float:
        """Mean nodes per tree."""
        return float(np.mean([tree.tree_.node_count for tree in self.forest.estimators_]))


def fit_isolation_forest(rows: TrainingRows, seed: int, n_trees: int) -> FittedIsolationForest:
    """Isolation forest on samples of 256 rows (all rows of a smaller table)."""
    from sklearn.ensemble import IsolationForest

    forest = IsolationForest(n_estimators=n_trees, random_state=seed, n_jobs=1).fit(rows.X)
    return FittedIsolationForest(forest, rows.X)


@dataclass(frozen=True)
class FittedNeighbours:
    """Scores by a function of neighbours; the training rows' scores leave each row itself out."""

    scale: Callable[[Floats], Floats]
    distance: Callable[[Floats], Floats]
    own: Floats

    def score(self, X: Floats) -> Floats:
        """Score [n] of rows; the higher, the more anomalous."""
        return self.distance(self.scale(X))

    def training_scores(self) -> Floats:
        """Scores of the training rows among the others."""
        return self.own

    def size(self) -> None:
        """There are no trees."""
        return None


def _scale(X: Floats, standardise: bool) -> Callable[[Floats], Floats]:
    return Standardiser.of(X) if standardise else np.asarray


def fit_knn(rows: TrainingRows, seed: int, k: int, standardise: bool) -> FittedNeighbours:
    """Euclidean distance to the k-th nearest training row."""
    from sklearn.neighbors import NearestNeighbors

    scale = _scale(rows.X, standardise)
    search = NearestNeighbors(n_neighbors=min(k, len(rows.X) - 1), n_jobs=1).fit(scale(rows.X))

    def distance(X: Floats) -> Floats:
        return search.kneighbors(X)[0][:, -1]

    return FittedNeighbours(scale, distance, search.kneighbors()[0][:, -1])


def fit_lof(rows: TrainingRows, seed: int, k: int, standardise: bool) -> FittedNeighbours:
    """Local outlier factor: a row's sparsity beside that of its k neighbours."""
    from sklearn.neighbors import LocalOutlierFactor

    scale = _scale(rows.X, standardise)
    factor = LocalOutlierFactor(n_neighbors=min(k, len(rows.X) - 1), novelty=True, n_jobs=1)
    with warnings.catch_warnings():  # of repeated rows; their factors are finite all the same
        warnings.simplefilter("ignore", UserWarning)
        factor.fit(scale(rows.X))

    def distance(X: Floats) -> Floats:
        return -factor.score_samples(X)

    return FittedNeighbours(scale, distance, -factor.negative_outlier_factor_)


METHODS: tuple[Method, ...] = (
    Method(
        name="isolation-forest",
        label="IForest",
        fit=fit_isolation_forest,
        detects=True,
        note="scikit-learn's isolation forest with its defaults (100 trees of 256 rows).",
        settings={"n_trees": 100},
    ),
    Method(
        name="knn",
        label="KNN",
        fit=fit_knn,
        detects=True,
        note="Distance to the fifth neighbour on columns standardised by the training rows.",
        settings={"k": 5, "standardise": True},
    ),
    Method(
        name="knn-raw",
        label="KNN (raw columns)",
        fit=fit_knn,
        detects=True,
        note="Distance to the fifth neighbour on the table's own values, the protocol's wording.",
        settings={"k": 5, "standardise": False},
    ),
    Method(
        name="lof",
        label="LOF",
        fit=fit_lof,
        detects=True,
        note="Local outlier factor of 20 neighbours, standardised columns; not in the paper.",
        settings={"k": 20, "standardise": True},
    ),
)
