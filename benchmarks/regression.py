"""Regression next to the rivals: error, coverage of intervals, size; and how far exact sums reach.

``python benchmarks/regression.py --out benchmarks/results/regression.md``
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from problems import Report
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split

from dtgfn import BudgetExceeded, DTGFNRegressor

SEEDS = range(1, 4)
warnings.simplefilter("ignore")


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    X = rng.random((400, 5))
    steps = np.where(X[:, 0] > 0.5, 3.0, 0.0) + np.where(X[:, 1] > 0.3, 1.0, -1.0)
    return {
        "diabetes": load_diabetes(return_X_y=True),
        "friedman 1": make_friedman1(500, noise=1.0, random_state=0),
        "friedman 2": make_friedman2(500, noise=100.0, random_state=0),
        "steps": (X, steps + 0.5 * rng.normal(size=400)),
    }


def rivals(seed: int) -> dict[str, object]:
    ours = {"n_thresholds": 31, "max_depth": 5, "time_budget": 10, "n_jobs": 1}
    return {
        "dtgfn, gfn": DTGFNRegressor(random_state=seed, **ours),
        "dtgfn, mcmc": DTGFNRegressor(inference="mcmc", random_state=seed, **ours),
        "random forest": RandomForestRegressor(500, random_state=seed),
        "boosting": HistGradientBoostingRegressor(random_state=seed),
        "linear": LinearRegression(),
    }


def measure(name: str, X: np.ndarray, y: np.ndarray, report: Report) -> None:
    """Root mean squared error over the target's spread, coverage of intervals, seconds."""
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
                inside = np.mean((low <= y_test) & (y_test <= high))
            found.setdefault(rival, []).append((error, inside, seconds))
    for rival, rows in found.items():
        error, inside, seconds = np.mean(rows, axis=0)
        spread = np.std([row[0] for row in rows])
        covered = "-" if np.isnan(inside) else f"{inside:.3f}"
        report.row(name, rival, f"{error:.3f} ± {spread:.3f}", covered, f"{seconds:.1f}")


def reach(report: Report) -> None:
    """How far exact sums go: sub-problems and seconds."""
    X, y = load_diabetes(return_X_y=True)
    for n_thresholds, depth in ((9, 2), (9, 3), (31, 2), (31, 3), (99, 2), (99, 3)):
        model = DTGFNRegressor(
            inference="exact", n_thresholds=n_thresholds, max_depth=depth, time_budget=60
        )
        outcome = f"t={n_thresholds}, depth {depth}"
        try:
            told = model.fit(X, y).posterior_.diagnostics
            report.say(
                f"Exact sums, diabetes, {outcome}: {told['sub_problems']:,} sub-problems, "
                f"{told['solve_seconds']:.2f} s."
            )
        except BudgetExceeded as refusal:
            report.say(f"Exact sums, diabetes, {outcome}: refused ({refusal})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    report = Report("table", "model", "RMSE / spread", "90 % intervals hold", "seconds of fit")
    for name, (X, y) in tables().items():
        measure(name, X, y, report)
    reach(report)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
