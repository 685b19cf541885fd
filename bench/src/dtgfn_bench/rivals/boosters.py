"""Boosted trees by their libraries: XGBoost, LightGBM, CatBoost, scikit-learn's histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def fit_xgboost(rows: TrainingRows, seed: int, *, n_trees: int) -> OverAllClasses:
    """XGBoost's defaults; one tree per round, and per class when there are more than two."""
    import xgboost

    def fit(X: Floats, codes: Int64s) -> Any:
        booster = xgboost.XGBClassifier(
            n_estimators=n_trees, random_state=seed, n_jobs=1, verbosity=0
        )
        return booster.fit(X, codes)

    return fit_seen(rows, fit, xgboost_nodes)


def xgboost_nodes(fitted: Any) -> float:
    """Mean nodes per tree: a dumped tree has one line per node."""
    dumped = fitted.get_booster().get_dump()
    return float(np.mean([tree.count("\n") for tree in dumped]))


def fit_lightgbm(rows: TrainingRows, seed: int, *, n_trees: int) -> OverAllClasses:
    """LightGBM's defaults; one tree per round, and per class when there are more than two."""
    import lightgbm

    class Boosted:
        """The bare booster: scikit-learn's wrapper warns of columns without names."""

        def __init__(self, X: Floats, codes: Int64s) -> None:
            n_classes = int(codes.max()) + 1
            objective = (
                {"objective": "multiclass", "num_class": n_classes}
                if n_classes > 2
                else {"objective": "binary"}
            )
            settings = {"seed": seed, "num_threads": 1, "verbose": -1}
            data = lightgbm.Dataset(X, codes, params={"verbose": -1, "num_threads": 1})
            self.booster = lightgbm.train(objective | settings, data, num_boost_round=n_trees)

        def predict_proba(self, X: Floats) -> Floats:
            probability = np.asarray(self.booster.predict(X, num_threads=1))
            if probability.ndim == 1:
                return np.column_stack([1 - probability, probability])
            return probability

        def nodes_per_tree(self) -> float:
            trees = self.booster.dump_model()["tree_info"]
            return float(np.mean([2 * tree["num_leaves"] - 1 for tree in trees]))

    return fit_seen(rows, Boosted, Boosted.nodes_per_tree)


def fit_catboost(
    rows: TrainingRows, seed: int, *, n_trees: int, class_weights: str | None = None
) -> OverAllClasses:
    """CatBoost's defaults: oblivious trees of depth 6, shared by the classes."""
    import catboost

    def fit(X: Floats, codes: Int64s) -> Any:
        booster = catboost.CatBoostClassifier(
            iterations=n_trees,
            auto_class_weights=class_weights,
            random_seed=seed,
            thread_count=1,
            allow_writing_files=False,
            verbose=False,
        )
        return booster.fit(X, codes)

    return fit_seen(rows, fit, catboost_nodes)


def catboost_nodes(fitted: Any) -> float:
    """Mean over trees of 2 · (leaf values) − 1, a leaf of K > 2 classes holding K values."""
    leaf_values = len(fitted.get_leaf_values())
    return 2 * leaf_values / fitted.tree_count_ - 1


def fit_histograms(rows: TrainingRows, seed: int, *, n_trees: int) -> OverAllClasses:
    """scikit-learn's defaults; one tree per round, and per class when there are more than two."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def fit(X: Floats, codes: Int64s) -> Any:
        booster = HistGradientBoostingClassifier(max_iter=n_trees, random_state=seed)
        return booster.fit(X, codes)

    return fit_seen(rows, fit, histogram_nodes)


def histogram_nodes(fitted: Any) -> float:
    """Mean nodes per tree; scikit-learn shows these trees in no public attribute."""
    return float(np.mean([len(tree.nodes) for trees in fitted._predictors for tree in trees]))


METHODS: tuple[Method, ...] = (
    Method(
        name="xgboost",
        label="XGBoost",
        fit=fit_xgboost,
        note="XGBoost's defaults with 1000 rounds, as the caption of the paper's table says.",
        settings={"n_trees": 1000},
        quick={"n_trees": 100},
        needs=("xgboost",),
    ),
    Method(
        name="xgboost-100",
        label="XGBoost, 100 rounds",
        fit=fit_xgboost,
        note="XGBoost's defaults with 100 rounds: the paper's node counts are these plus one, "
        "so this is probably what it ran.",
        settings={"n_trees": 100},
        needs=("xgboost",),
    ),
    Method(
        name="lightgbm",
        label="LightGBM",
        fit=fit_lightgbm,
        note="LightGBM's defaults with 1000 rounds, as the caption of the paper's table says.",
        settings={"n_trees": 1000},
        quick={"n_trees": 100},
        needs=("lightgbm",),
    ),
    Method(
        name="lightgbm-100",
        label="LightGBM, 100 rounds",
        fit=fit_lightgbm,
        note="LightGBM's defaults with 100 rounds: the paper's node counts are these, "
        "so this is probably what it ran.",
        settings={"n_trees": 100},
        needs=("lightgbm",),
    ),
    Method(
        name="catboost",
        label="CatBoost",
        fit=fit_catboost,
        note="CatBoost's defaults (depth 6) with 1000 rounds; size is 2 · (leaf values) − 1 per "
        "tree with one value per class in a leaf when there are more than two, which is the "
        "paper's count; without the classes it is at most 127.",
        settings={"n_trees": 1000},
        quick={"n_trees": 50},
        needs=("catboost",),
    ),
    Method(
        name="hist-gradient-boosting",
        label="HistGradientBoosting",
        fit=fit_histograms,
        note="scikit-learn's defaults (100 rounds); not in the paper.",
        settings={"n_trees": 100},
        quick={"n_trees": 30},
    ),
)
