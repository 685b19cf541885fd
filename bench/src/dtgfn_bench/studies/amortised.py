"""The policy for all tables, without training and with, next to fresh ones, MCMC, SMC, the paper's.

The tables are none that the policy was trained on, and exact sums judge. Zero-shot rows have no
time limit; the others have so many CPU seconds of one core (the budget's clock is the process's),
one row for each of the budgets in ``seconds``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import sklearn.datasets as generators

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.r_tables import read_r_table
from dtgfn_bench.studies.reporting import Report

EXACT_SECONDS = 300.0
COLUMNS = ("ELBO gap", "EUBO gap", "log evidence", "P(y given x)", "CPU s")


class Case(NamedTuple):
    """A table, its grid of thresholds and the depth of its trees."""

    load: Callable[[], tuple[Floats, Int64s]]
    n_thresholds: int
    max_depth: int


def from_r(package: str, item: str, target: str, drop: str = "") -> tuple[Floats, Int64s]:
    """Numbers of an R package's table, texts as their place in order; rows without gaps."""
    import pandas

    frame = read_r_table(package, item, *drop.split()).dropna()
    y = pandas.factorize(frame.pop(target), sort=True)[0]
    numbers = [
        column if pandas.api.types.is_numeric_dtype(column) else pandas.factorize(column, True)[0]
        for _, column in frame.items()
    ]
    return np.column_stack(numbers).astype(np.float64), y.astype(np.int64)


CASES = {
    "penguins": Case(partial(from_r, "palmerpenguins", "penguins", "species"), 9, 4),
    "crabs": Case(partial(from_r, "MASS", "crabs", "sex", "index"), 9, 4),
    "birthwt": Case(partial(from_r, "MASS", "birthwt", "low", "bwt"), 9, 4),
    "possum": Case(partial(from_r, "DAAG", "possum", "Pop", "case"), 9, 3),
    "quantiles": Case(
        partial(generators.make_gaussian_quantiles, n_samples=300, n_features=5, random_state=4),
        9,
        4,
    ),
    "blobs": Case(
        partial(
            generators.make_blobs, n_samples=400, n_features=4, cluster_std=4.0, random_state=4
        ),
        19,
        4,
    ),
}
# Steps and sweeps without limit: time is what ends a run.
ENGINES: dict[str, dict[str, Any]] = {
    "shipped": {"engine": "gfn", "policy": "shipped"},
    "fresh": {"engine": "gfn", "policy": "fresh"},
    "paper": {"engine": "gfn", "preset": "paper", "n_steps": None},
    "mcmc": {"engine": "mcmc", "n_steps": None},
    "smc": {"engine": "smc", "n_sweeps": None},
}


def measure(found: Any, exact: Any) -> list[float | None]:
    """How far a posterior is from the exact one: gaps in nats, log evidence, P(y | x)."""
    from dtgfn.diagnostics import compare

    far = compare(found, exact)
    return [far.elbo_gap, far.eubo_gap, far.log_z_error, far.prediction_variation]


def run(report: Report, *, seconds: str = "1,10,60", tables: str = "", seeds: int = 1) -> None:
    """Measure on every table and penalty; the last rows are means over all that all could do."""
    from dtgfn.inference.infer import infer

    warnings.simplefilter("ignore")
    report.head("problem", "penalty", "engine", *COLUMNS)
    told: dict[str, list[list[float | None]]] = {}
    chosen = [name.strip() for name in tables.split(",") if name.strip()] or list(CASES)
    limits = [float(number) for number in seconds.split(",")]
    own_time = SimpleNamespace(monotonic=time.process_time)
    for name in chosen:
        case = CASES[name]
        X, y = case.load()
        for penalty in ("mdl", "paper"):
            given: dict[str, Any] = {
                "max_depth": case.max_depth,
                "n_thresholds": case.n_thresholds,
                "split_penalty": penalty,
                "n_jobs": 1,
            }
            judge: dict[str, Any] = {"n_trees": 10, "time_budget": EXACT_SECONDS}
            exact = infer(X, y, engine="exact", **judge, **given)
            for engine, options in ENGINES.items():
                budgets: list[tuple[str, dict[str, Any]]]
                budgets = [("0 steps", {"n_steps": 0})] if engine in ("shipped", "fresh") else []
                budgets += [(f"{limit:g} s", {"time_budget": limit}) for limit in limits]
                for words, budget in budgets:
                    rows = []
                    for seed in range(seeds):
                        begun = time.process_time()
                        with mock.patch.object(clock, "time", own_time):
                            given_all = {**given, **options, **budget, "random_state": seed}
                            found = infer(X, y, **given_all)
                        used = time.process_time() - begun
                        rows.append([*measure(found, exact), used])
                    mean = [_mean([row[i] for row in rows]) for i in range(len(COLUMNS))]
                    told.setdefault(f"{engine}, {words}", []).append(mean)
                    report.row(name, penalty, f"{engine}, {words}", *map(_shown, mean))
    for engine, rows in told.items():
        mean = [_mean([row[i] for row in rows]) for i in range(len(COLUMNS))]
        report.row("mean", "", engine, *map(_shown, mean))


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if len(known) == len(values) else None


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
