"""Sums of trees on long and wide tables within a time budget, next to LightGBM.

Generated tables, each fit in a process of its own: Friedman's first function in five of the
columns (numbers, with noise of variance 1), or whether it is large (two classes); LightGBM has 100
rounds of 31 leaves on as many threads. Wall seconds count reading, binning and collecting, but not
compiling; memory is what the process took on top of the table itself. The aim is 1.1 x budget + 1
second on an idle machine, so the load beside it is told.
"""

from __future__ import annotations

import os
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

SHAPES = "1000000x20,200000x200,500x1000,250x5000,2000x20000"
KINDS = ("numbers", "classes")
N_NEW = 10_000  # held-out rows, of at most so many cells
MOST_NEW = 20_000_000
ROUNDS, LEAVES = 100, 31


class Shape(NamedTuple):
    """Rows and columns of a table, and what is predicted."""

    n_rows: int
    n_columns: int
    kind: str


class Fitted(NamedTuple):
    """What a fit took, and how well it predicts."""

    wall: float
    cpu: float
    gigabytes: float  # beyond those of the table
    loss: float  # RMSE or log loss of held-out rows
    detail: str


def make_rows(shape: Shape, n_rows: int, seed: int) -> tuple[Floats, Any]:
    """Rows of a shape's columns, and their target."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, shape.n_columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)
    return X, y if shape.kind == "numbers" else y > 14


def measure(shape: Shape, make: Callable[[], Any], tell: Callable[[Any], str]) -> Fitted:
    """Fit a model to a table of a shape, and predict held-out rows."""
    X, y = make_rows(shape, shape.n_rows, 0)
    before = _memory()
    began, cpu = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make().fit(X, y)
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    grown = _memory() - before
    new, wanted = make_rows(shape, min(N_NEW, MOST_NEW // shape.n_columns), 1)
    if shape.kind == "numbers":
        loss = float(np.sqrt(np.mean((model.predict(new) - wanted) ** 2)))
    else:
        hit = model.predict_proba(new)[np.arange(len(wanted)), wanted.astype(int)]
        loss = float(-np.log(np.clip(hit, 1e-6, 1.0)).mean())
    return Fitted(wall, cpu, grown, loss, tell(model))


def fit_sums(shape: Shape, budget: float) -> Fitted:
    """Sums of trees within a time budget; loops are compiled before."""
    kind = DTGFNRegressor if shape.kind == "numbers" else DTGFNClassifier
    few = np.tile(make_rows(shape, 25, 2)[0][:, :5], (2000, 1))  # a long table, too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind(time_budget=1.0, random_state=0).fit(few, few[:, 0] > 0.5)
    return measure(shape, lambda: kind(time_budget=budget, random_state=0), tell_sweeps)


def tell_sweeps(model: Any) -> str:
    """Sweeps of how many chains, on how many rows."""
    told = model.posterior_.diagnostics
    sweeps, parts = told["sweeps_per_chain"], told["sweeps_on_parts"]
    text = f"{len(sweeps)} chains, {min(sweeps)} to {max(sweeps)} sweeps on "
    text += f"{told['rows_of_draws']:,} rows"
    if parts:
        text += f", after {' + '.join(str(max(part['sweeps'])) for part in parts)} on "
        text += ", ".join(f"{part['n_rows']:,}" for part in parts)
    return text


def fit_lightgbm(shape: Shape) -> Fitted:
    """LightGBM on all cores."""
    import lightgbm as library

    name = "LGBMRegressor" if shape.kind == "numbers" else "LGBMClassifier"
    settings = {"n_estimators": ROUNDS, "num_leaves": LEAVES, "n_jobs": os.cpu_count()}
    make = getattr(library, name)
    return measure(shape, lambda: make(verbose=-1, **settings), lambda _: "")


def read_shapes(text: str) -> list[tuple[int, int]]:
    """Rows and columns from words such as 500x1000.

    >>> read_shapes("500x1000,20x3")
    [(500, 1000), (20, 3)]
    """
    return [(int(rows), int(columns)) for rows, columns in (w.split("x") for w in text.split(","))]


def run(
    report: Report, *, shapes: str = SHAPES, kinds: str = ",".join(KINDS), budgets: str = "10,30"
) -> None:
    """Fit all shapes; lists have commas."""
    report.head(
        "table", "target", "model", "wall s", "CPU s", "GB", "RMSE or log loss", "sweeps", "load"
    )
    for n_rows, n_columns in read_shapes(shapes):
        for kind in kinds.split(","):
            shape = Shape(n_rows, n_columns, kind)
            calls: list[tuple[str, Callable[..., Fitted], tuple[Any, ...]]] = [
                (f"sums, {b} s", fit_sums, (shape, float(b))) for b in budgets.split(",")
            ]
            for name, call, arguments in [*calls, ("LightGBM", fit_lightgbm, (shape,))]:
                found = run_isolated(call, *arguments)
                report.row(
                    f"{n_rows:,} x {n_columns:,}",
                    kind,
                    name,
                    f"{found.wall:.1f}",
                    f"{found.cpu:.1f}",
                    f"{found.gigabytes:.2f}",
                    f"{found.loss:.4f}",
                    found.detail or "-",
                    f"{os.getloadavg()[0]:.1f}",
                )
            report.write()


def _memory() -> float:
    """Largest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
