"""CPU seconds of sums of trees next to boosters: a fit, and a row predicted, on one thread.

1000 rows of 20 columns, two classes. CatBoost has 500 iterations, LightGBM its defaults, ours its
defaults. Loops are compiled before; each figure is the least of three runs, all in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sklearn.datasets import make_classification

from dtgfn._support.arrays import Floats
from dtgfn.estimators import DTGFNClassifier
from dtgfn_bench.studies.reporting import Report

N_ROWS, N_COLUMNS, N_PREDICTED, REPEATS = 1000, 20, 20_000, 3


def makers() -> dict[str, Callable[[], Any]]:
    """Unfitted models by name."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier

    quiet = {"verbose": 0, "allow_writing_files": False}
    return {
        "dtgfn, sums": lambda: DTGFNClassifier(random_state=0, n_jobs=1),
        "CatBoost, 500 iterations": lambda: CatBoostClassifier(500, thread_count=1, **quiet),
        "LightGBM": lambda: LGBMClassifier(n_jobs=1, verbose=-1),
    }


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
    X, y = make_classification(N_ROWS, N_COLUMNS, n_informative=8, flip_y=0.05, random_state=0)
    new, _ = make_classification(N_PREDICTED, N_COLUMNS, random_state=1)
    DTGFNClassifier(random_state=0, n_jobs=1).fit(X, y).predict_proba(new[:10])  # compiles
    made = makers()
    fitted = {name: make().fit(X, y) for name, make in made.items()}
    fit = least_seconds({name: partial(fit_new, make, X, y) for name, make in made.items()})
    predict = least_seconds({n: partial(model.predict_proba, new) for n, model in fitted.items()})
    report.head("model", "CPU seconds of a fit", "microseconds of a predicted row")
    for name in made:
        report.row(name, f"{fit[name]:.2f}", f"{1e6 * predict[name] / N_PREDICTED:.2f}")
    ratio = fit["dtgfn, sums"] / fit["CatBoost, 500 iterations"]
    report.say(f"A fit of ours takes {ratio:.1f} times as long as CatBoost's.")
