"""CPU seconds of sums of trees next to boosters: a fit, and a row predicted, on one thread.

1000 rows of 20 columns, two classes and numbers. CatBoost has 500 iterations, LightGBM its
defaults, ours its defaults. Loops are compiled before; each figure is the least of three runs, all
in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sklearn.datasets import make_classification, make_friedman1

from dtgfn._support.arrays import Floats
from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
from dtgfn_bench.studies.reporting import Report

N_ROWS, N_COLUMNS, N_PREDICTED, REPEATS = 1000, 20, 20_000, 3
OURS, CATBOOST = "dtgfn, sums", "CatBoost, 500 iterations"


def makers(kind: str) -> dict[str, Callable[[], Any]]:
    """Unfitted models by name."""
    import catboost
    import lightgbm

    quiet = {"verbose": 0, "allow_writing_files": False}
    ours = DTGFNClassifier if kind == "classes" else DTGFNRegressor
    name = "Classifier" if kind == "classes" else "Regressor"
    boosted, light = getattr(catboost, f"CatBoost{name}"), getattr(lightgbm, f"LGBM{name}")
    return {
        OURS: lambda: ours(random_state=0, n_jobs=1),
        CATBOOST: lambda: boosted(iterations=500, thread_count=1, **quiet),
        "LightGBM": lambda: light(n_jobs=1, verbose=-1),
    }


def make_rows(kind: str, n_rows: int, seed: int) -> tuple[Floats, Any]:
    """Rows of two classes, or of numbers."""
    if kind == "numbers":
        return make_friedman1(n_rows, N_COLUMNS, noise=1.0, random_state=seed)
    return make_classification(n_rows, N_COLUMNS, n_informative=8, flip_y=0.05, random_state=seed)


def fit_new(make: Callable[[], Any], X: Floats, y: Any) -> Any:
    """Make a model and fit it."""
    return make().fit(X, y)


def least_seconds(works: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """CPU seconds of the fastest of some runs of each."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            begun = time.process_time()
            work()
            taken[name].append(time.process_time() - begun)
    return {name: min(seconds) for name, seconds in taken.items()}


def run(report: Report) -> None:
    """Fit and predict by each in turn."""
    report.head("target", "model", "CPU seconds of a fit", "microseconds of a predicted row")
    ratios = {}
    for kind in ("classes", "numbers"):
        X, y = make_rows(kind, N_ROWS, 0)
        new, _ = make_rows(kind, N_PREDICTED, 1)
        made = makers(kind)
        fitted = {name: make().fit(X, y) for name, make in made.items()}
        ask = "predict_proba" if kind == "classes" else "predict"
        asked = {name: getattr(model, ask) for name, model in fitted.items()}
        for predict in asked.values():
            predict(new[:10])  # compiles
        fit = least_seconds({name: partial(fit_new, make, X, y) for name, make in made.items()})
        told = least_seconds({name: partial(predict, new) for name, predict in asked.items()})
        for name in made:
            report.row(kind, name, f"{fit[name]:.2f}", f"{1e6 * told[name] / N_PREDICTED:.2f}")
        ratios[kind] = fit[OURS] / fit[CATBOOST]
    report.say(
        f"A fit of ours takes {ratios['classes']:.1f} times as long as CatBoost's with classes, "
        f"{ratios['numbers']:.1f} times with numbers."
    )
