"""Models of every kind with their reports, under names that attack a page."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn.report import Report

QUICK = {"max_depth": 2, "n_thresholds": 9, "n_jobs": 1, "random_state": 0}
SCRIPT = "<script>window.hacked = 1</script>"
MARKUP = "<img src=x onerror='window.hacked = 2'> & \"quoted\" </script>"
LONG = "a name of very many words " * 8 + "x" * 100
ARABIC = "😀 العمر"
KINDS = ["exact", "gfn", "bags", "numbers", "sums", "summed numbers", "detector", "stump"]
SUM = {"n_summed": 6, "n_chains": 2, "n_sweeps": 24, "n_draws": 12}


class Case(NamedTuple):
    """A fitted model, rows to try, and what its report holds."""

    model: Any
    rows: pd.DataFrame
    report: dict[str, Any]


@cache
def case(kind: str) -> Case:
    """Fit a model of a kind, once."""
    X, y = mixed_table()
    held_out: tuple[Any, ...] = ()
    if kind == "exact":
        X, y = load_iris(return_X_y=True, as_frame=True)
        y = load_iris().target_names[y]
        model: Any = DTGFNClassifier(inference="exact", **QUICK).fit(X[::2], y[::2])
        held_out = X[1::2], y[1::2]
    elif kind == "gfn":
        quick = QUICK | {"max_depth": 3, "n_trees": 200, "options": {"n_steps": 15}}
        model = DTGFNClassifier(**quick).fit(X, y)
        held_out = X[:60], y[:60]
    elif kind == "bags":
        bags = {"ensemble": "bags", "options": {"n_bags": 8}}
        model = DTGFNClassifier(inference="exact", **bags, **QUICK).fit(X, y)
    elif kind == "numbers":
        X = X.drop(columns="flag")
        model = DTGFNRegressor(inference="smc", **QUICK)
        model.fit(X, X[LONG] + (X["colour"] == "red"))
        held_out = X[:50], X[LONG][:50]
    elif kind == "sums":
        model = DTGFNClassifier(ensemble="sum", options=SUM, **QUICK).fit(X, y)
        held_out = X[:60], y[:60]
    elif kind == "summed numbers":
        model = DTGFNRegressor(ensemble="sum", options=SUM, **QUICK).fit(X, X[LONG])
    elif kind == "detector":
        model = DTGFNAnomalyDetector(n_trees=12, n_jobs=1, random_state=0).fit(X)
        held_out = X[:40], [1] * 35 + [-1] * 5
    else:
        model = DTGFNClassifier(inference="exact", **QUICK).fit([[1.0]] * 6, [0, 1] * 3)
    report = Report(model, *held_out, title=f"{kind} {SCRIPT}")
    return Case(model, X, report.to_dict())


def mixed_table(n_rows=160):
    """Numbers, categories, a boolean and missing cells, under names that attack the page."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            SCRIPT: rng.normal(size=n_rows),
            f"{ARABIC} (kg)": rng.normal(size=n_rows),
            LONG: rng.normal(size=n_rows),
            "colour": rng.choice(["red", MARKUP, ARABIC], n_rows),
            "flag": rng.random(n_rows) < 0.5,
        }
    )
    noise = rng.normal(scale=0.5, size=n_rows)
    score = X[SCRIPT] + 2 * (X["colour"] == "red") + noise
    y = np.where(score > 1, MARKUP, np.where(X["flag"] & (X[LONG] + noise > 0), ARABIC, "plain"))
    X["colour"] = X["colour"].astype(object).mask(rng.random(n_rows) < 0.2, None)
    X[SCRIPT] = X[SCRIPT].mask(rng.random(n_rows) < 0.2)
    return X, y
