"""The ways to fit that the study of overruns times, each told a table, seconds and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtgfn_bench.studies.overrun_tables import MadeTable, Shape

Way = Callable[[MadeTable, float, int], str]


def single(engine: str, **more: Any) -> Way:
    """Return a fit of the posterior over single trees."""

    def fit(table: MadeTable, seconds: float, n_jobs: int) -> str:
        from dtgfn import infer

        how = {"time_budget": seconds, "n_jobs": n_jobs, "random_state": 0, **more}
        return tell(infer(table.X, table.y, engine=engine, **how))

    return fit


def estimator(**more: Any) -> Way:
    """Return a fit of the classifier."""

    def fit(table: MadeTable, seconds: float, n_jobs: int) -> str:
        from dtgfn import DTGFNClassifier

        how = {"time_budget": seconds, "n_jobs": n_jobs, "random_state": 0, **more}
        return tell(DTGFNClassifier(**how).fit(table.X, table.y).posterior_)

    return fit


def regressor(table: MadeTable, seconds: float, n_jobs: int) -> str:
    """Fit sums of trees to numbers."""
    from dtgfn import DTGFNRegressor

    y = table.y + np.random.default_rng(2).normal(size=len(table.y))
    model = DTGFNRegressor(time_budget=seconds, n_jobs=n_jobs, random_state=0)
    return tell(model.fit(table.X, y).posterior_)


def selection(table: MadeTable, seconds: float, n_jobs: int) -> str:
    """Compare three depths."""
    from dtgfn import select

    how: dict[str, Any] = {"time_budget": seconds, "n_jobs": n_jobs, "random_state": 0}
    found = select(table.X, table.y, max_depth=[2, 3, 5], engine="smc", **how)
    judged = found.table["note"].isna() | (found.table["note"] == "")
    return f"depth {found.best['max_depth']} of {int(judged.sum())} that were judged"


def more_rows(table: MadeTable, seconds: float, n_jobs: int) -> str:
    """Fit one half of the rows, then time the other half; here both count."""
    from dtgfn import DTGFNClassifier

    half = len(table.y) // 2
    how: dict[str, Any] = {"n_jobs": n_jobs, "random_state": 0, "inference": "smc"}
    model = DTGFNClassifier(ensemble=None, time_budget=seconds / 2, **how)
    first, classes = table.part(half), np.unique(table.y)
    model.partial_fit(first.X, first.y, classes=classes)
    X = table.X.iloc[half:] if hasattr(table.X, "iloc") else table.X[half:]
    model.partial_fit(X, table.y[half:])
    return tell(model.posterior_)


def detector(table: MadeTable, seconds: float, n_jobs: int) -> str:
    """Fit the detector of anomalies."""
    from dtgfn import DTGFNAnomalyDetector

    model = DTGFNAnomalyDetector(time_budget=seconds, n_jobs=n_jobs, random_state=0).fit(table.X)
    return f"{len(model.views_)} views"


def tell(posterior: Any) -> str:
    """Say how much came out, and what of it is doubted."""
    from dtgfn.diagnostics import verdict

    told = posterior.diagnostics
    words = []
    if hasattr(posterior, "trees"):
        words.append(f"{len(posterior.trees)} trees")
    if "sweeps_per_chain" in told:
        sweeps = told["sweeps_per_chain"]
        words.append(f"{len(sweeps)} chains of {min(sweeps)} to {max(sweeps)} sweeps")
    if "bags" in told:
        words.append(f"{told['bags']} bags")
    if told.get("elbo") is not None:
        words.append(f"ELBO {told['elbo']:.6g}")
    return ", ".join([*words, f"{verdict(posterior)['level']}"])


WAYS: dict[str, Way] = {
    "gfn": single("gfn"),
    "exact": single("exact", max_depth=3),
    "mcmc": single("mcmc"),
    "smc": single("smc"),
    "sums": estimator(),
    "sums of numbers": regressor,
    "bags": estimator(ensemble="bags"),
    "bags, auto": estimator(ensemble="bags", max_depth="auto", temperature="auto"),
    "temperature auto": single("smc", temperature="auto"),
    "penalty auto": single("smc", split_penalty="auto"),
    "select": selection,
    "partial_fit": more_rows,
    "detector": detector,
}


def fits_shape(way: str, shape: Shape) -> bool:
    """Tell whether a way is timed on a shape: a detector knows no classes."""
    return not (way == "detector" and shape.kind == "classes")
