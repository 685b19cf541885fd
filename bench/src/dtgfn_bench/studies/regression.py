"""Regression next to rivals: error, coverage of intervals, size; and how far exact sums reach."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.estimators import DTGFNRegressor
from dtgfn_bench.studies.reporting import Report

SEEDS = range(1, 4)
EXACT_SHAPES = ((9, 2), (9, 3), (31, 2), (31, 3), (99, 2), (99, 3))


def tables() -> dict[str, tuple[Floats, Floats]]:
    """Four tables with numbers to predict, three of them generated."""
    from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2

    rng = np.random.default_rng(0)
    X = rng.random((400, 5))
    steps = np.where(X[:, 0] > 0.5, 3.0, 0.0) + np.where(X[:, 1] > 0.3, 1.0, -1.0)
    return {
        "diabetes": load_diabetes(return_X_y=True),
        "friedman 1": make_friedman1(500, noise=1.0, random_state=0),
        "friedman 2": make_friedman2(500, noise=100.0, random_state=0),
        "steps": (X, steps + 0.5 * rng.normal(size=400)),
    }


def rivals(seed: int) -> dict[str, Any]:
    """Models to fit, ours among them."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import LinearRegression

    ours: dict[str, Any] = {"n_thresholds": 31, "max_depth": 5, "time_budget": 10, "n_jobs": 1}
    bags: dict[str, Any] = {
        "inference": "smc",
        "ensemble": "bags",
        "binning": "quantile",
        "time_budget": None,
    }
    return {
        "dtgfn, sums": DTGFNRegressor(random_state=seed, n_jobs=1),
        "dtgfn, gfn": DTGFNRegressor(inference="gfn", random_state=seed, **ours),
        "dtgfn, mcmc": DTGFNRegressor(inference="mcmc", random_state=seed, **ours),
        "dtgfn, bags": DTGFNRegressor(**bags, random_state=seed, n_jobs=1),
        "dtgfn, bags, part of the columns": DTGFNRegressor(
            **{**bags, "options": {"column_share": (0.3, 1.0)}}, random_state=seed, n_jobs=1
        ),
        "random forest": RandomForestRegressor(500, random_state=seed),
        "boosting": HistGradientBoostingRegressor(random_state=seed),
        "linear": LinearRegression(),
    }


def measure(name: str, X: Floats, y: Floats, report: Report) -> None:
    """Root mean squared error over the target's spread, coverage of intervals, seconds."""
    from sklearn.model_selection import train_test_split

    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in SEEDS:
        train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed)
        for rival, model in rivals(seed).items():
            begun = time.monotonic()
            model.fit(train, y_train)
            seconds = time.monotonic() - begun
            error = np.sqrt(np.mean((model.predict(test) - y_test) ** 2)) / y_test.std()
            inside = np.nan
            if isinstance(model, DTGFNRegressor):
                low, high = model.predict_interval(test, 0.9).T
                inside = float(np.mean((low <= y_test) & (y_test <= high)))
            found.setdefault(rival, []).append((error, inside, seconds))
    for rival, rows in found.items():
        error, inside, seconds = np.mean(rows, axis=0)
        spread = np.std([row[0] for row in rows])
        covered = "-" if np.isnan(inside) else f"{inside:.3f}"
        report.row(name, rival, f"{error:.3f} ± {spread:.3f}", covered, f"{seconds:.1f}")


def reach(report: Report) -> None:
    """How far exact sums go: sub-problems and seconds."""
    from sklearn.datasets import load_diabetes

    from dtgfn.engines.contract import BudgetExceeded

    X, y = load_diabetes(return_X_y=True)
    for n_thresholds, depth in EXACT_SHAPES:
        model = DTGFNRegressor(
            inference="exact", n_thresholds=n_thresholds, max_depth=depth, time_budget=60
        )
        outcome = f"Exact sums, diabetes, t={n_thresholds}, depth {depth}"
        try:
            found = model.fit(X, y).posterior_.diagnostics
        except BudgetExceeded as refusal:
            report.say(f"{outcome}: refused ({refusal})")
            continue
        count, seconds = found["sub_problems"], found["solve_seconds"]
        report.say(f"{outcome}: {count:,} sub-problems, {seconds:.2f} s.")


def run(report: Report) -> None:
    """Fit every model to every table, then the exact engine to ever larger problems."""
    report.head("table", "model", "RMSE / spread", "90 % intervals hold", "seconds of fit")
    for name, (X, y) in tables().items():
        measure(name, X, y, report)
    reach(report)
