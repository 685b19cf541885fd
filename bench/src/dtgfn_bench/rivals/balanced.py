"""Rivals for shifted rows: the line, and forests and boosters whose classes weigh the same."""

from __future__ import annotations

from functools import partial
from typing import Any

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals.boosters import fit_catboost
from dtgfn_bench.rivals.forests import nodes_per_tree
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen

LEAF_ROWS = 5  # smaller leaves hold one class, and then its weight does not matter


def fit_logistic(rows: TrainingRows, seed: int, *, balanced: bool) -> OverAllClasses:
    """Logistic regression on standardised columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def fit(X: Floats, codes: Int64s) -> Any:
        line = LogisticRegression(max_iter=1000, class_weight="balanced" if balanced else None)
        return make_pipeline(StandardScaler(), line).fit(X, codes)

    return fit_seen(rows, fit)


def fit_forest(rows: TrainingRows, seed: int, *, n_trees: int, extra: bool) -> OverAllClasses:
    """Random forest or extra trees with balanced classes and leaves of at least five rows."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    kind = ExtraTreesClassifier if extra else RandomForestClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        forest = kind(
            n_trees,
            min_samples_leaf=LEAF_ROWS,
            class_weight="balanced",
            random_state=seed,
            n_jobs=1,
        )
        return forest.fit(X, codes)

    return fit_seen(rows, fit, nodes_per_tree)


METHODS: tuple[Method, ...] = (
    Method(
        name="logistic",
        label="Logistic regression",
        fit=fit_logistic,
        note="scikit-learn's defaults on standardised columns; not in the paper.",
        settings={"balanced": False},
    ),
    Method(
        name="logistic-balanced",
        label="Logistic regression, balanced",
        fit=fit_logistic,
        note="The same with balanced class weights.",
        settings={"balanced": True},
    ),
    Method(
        name="forest-balanced",
        label="Random forest, balanced",
        fit=fit_forest,
        note="scikit-learn's, balanced class weights, leaves of five rows or more.",
        settings={"n_trees": 1000, "extra": False},
        quick={"n_trees": 100},
    ),
    Method(
        name="extra-trees-balanced",
        label="Extra trees, balanced",
        fit=fit_forest,
        note="scikit-learn's, balanced class weights, leaves of five rows or more.",
        settings={"n_trees": 1000, "extra": True},
        quick={"n_trees": 100},
    ),
    Method(
        name="catboost-balanced",
        label="CatBoost, balanced",
        fit=partial(fit_catboost, class_weights="Balanced"),
        note="CatBoost's defaults with balanced class weights.",
        settings={"n_trees": 1000},
        quick={"n_trees": 50},
        needs=("catboost",),
    ),
)
