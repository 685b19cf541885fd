"""Forests of independent randomised trees: random forest and extra trees, by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def nodes_per_tree(forest: Any) -> float:
    """Mean nodes of a fitted forest's trees."""
    return float(np.mean([tree.tree_.node_count for tree in forest.estimators_]))


def fit_random_forest(rows: TrainingRows, seed: int, *, n_trees: int) -> OverAllClasses:
    """Trees on bootstrapped rows, the best cut of some columns at each node."""
    from sklearn.ensemble import RandomForestClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        return RandomForestClassifier(n_trees, random_state=seed, n_jobs=1).fit(X, codes)

    return fit_seen(rows, fit, nodes_per_tree)


def fit_extra_trees(rows: TrainingRows, seed: int, *, n_trees: int) -> OverAllClasses:
    """Trees on all rows, the best of one random cut per column at each node."""
    from sklearn.ensemble import ExtraTreesClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        return ExtraTreesClassifier(n_trees, random_state=seed, n_jobs=1).fit(X, codes)

    return fit_seen(rows, fit, nodes_per_tree)


METHODS: tuple[Method, ...] = (
    Method(
        name="forest",
        label="Random forest",
        fit=fit_random_forest,
        note="scikit-learn's defaults with 1000 trees and no limit of depth, which is what the "
        "paper's node counts fit (its text says depth 5).",
        settings={"n_trees": 1000},
        quick={"n_trees": 100},
    ),
    Method(
        name="extra-trees",
        label="Extra trees",
        fit=fit_extra_trees,
        note="scikit-learn's defaults with 1000 trees and no limit of depth; not in the paper.",
        settings={"n_trees": 1000},
        quick={"n_trees": 100},
    ),
)
