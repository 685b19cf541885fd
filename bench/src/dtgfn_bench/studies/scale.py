"""Long and wide tables: what CPU and memory a settled posterior takes, next to LightGBM.

Every fit has a process of its own, in which the method has been compiled on a few thousand of the
rows before. Budgets are seconds of processor on one thread, so that a busy machine tells the same.
"grown" is what the process's largest memory grew by, to be held against "codes" (a byte a cell).
"settled" tells whether the ELBO of the last two evaluations, or of the last one and of the trees
drawn, agree to a tenth of a nat, and "open" is the share of trees that pass a row set whose worth
is only guessed. LightGBM makes 100 rounds of 31 leaves on all cores. ``--shape`` and ``--method``
measure single rows again; the page is made of all that ``scale.jsonl`` holds.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dtgfn_bench.studies.gauges import budget_clock, forget_peak, peak_memory
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

# Rows, columns and the seconds that are allowed.
SHAPES: dict[str, tuple[int, int, float]] = {
    "500x1000": (500, 1000, 10.0),
    "250x5000": (250, 5000, 10.0),
    "2000x20000": (2000, 20000, 30.0),
    "100000x50": (100_000, 50, 10.0),
    "200000x200": (200_000, 200, 30.0),
    "10000x20": (10_000, 20, 10.0),
    "1000000x10": (1_000_000, 10, 10.0),
    "1000000x20": (1_000_000, 20, 40.0),
    "1000000x50": (1_000_000, 50, 60.0),
    "10000000x20": (10_000_000, 20, 300.0),
}
SMALL = 4000  # rows to compile with
SETTLED = 0.1  # nats
HEAD = (
    *("shape", "method", "budget s", "used s", "CPU s", "grown MB", "codes MB"),
    *("trees", "settled", "open", "ELBO"),
)


def make_table(n_rows: int, n_columns: int) -> Arrays:
    """Five columns matter, two of them only together; the others are noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    f = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * X[:, 4] * (X[:, 5] > 0)
    return X, (f + 0.5 * rng.logistic(size=n_rows) > 0).astype(np.int64)


def single_trees(engine: str) -> Callable[..., dict[str, Any]]:
    """Fit the posterior over single trees."""

    def fit(X: Any, y: Any, seconds: float) -> dict[str, Any]:
        from dtgfn import infer

        found = infer(X, y, engine=engine, time_budget=seconds, n_jobs=1, random_state=0)
        told = found.diagnostics
        elbos = [e["elbo"] for e in found.history if e.get("elbo") is not None]
        if told.get("elbo") is not None:
            elbos.append(told["elbo"])
        settled = len(elbos) > 1 and abs(elbos[-1] - elbos[-2]) < SETTLED
        return {
            "trees": len(found.trees),
            "settled": ("yes" if settled else "no") if elbos else "-",
            "open": told.get("open"),
            "elbo": told.get("elbo"),
        }

    return fit


def lightgbm(X: Any, y: Any, seconds: float) -> dict[str, Any]:
    """100 rounds of 31 leaves, whatever the time."""
    from lightgbm import LGBMClassifier

    n_jobs = os.cpu_count()
    LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=n_jobs, verbose=-1).fit(X, y)
    return {"trees": 100, "settled": "-", "open": None, "elbo": None}


# Name and a function of X, y and seconds that returns what is told beside time and memory.
METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    "gfn": single_trees("gfn"),
    "smc": single_trees("smc"),
    "mcmc": single_trees("mcmc"),
    "LightGBM": lightgbm,
}


def measure(shape: str, method: str) -> dict[str, Any]:
    """Fit once; run in a process of its own."""
    warnings.simplefilter("ignore")
    clock = budget_clock(by_processor=True)
    n_rows, n_columns, seconds = SHAPES[shape]
    X, y = make_table(n_rows, n_columns)
    METHODS[method](X[:SMALL], y[:SMALL], 1.0)
    before, cpu, begun = forget_peak(), time.process_time(), clock.monotonic()
    told = METHODS[method](X, y, seconds)
    used = clock.monotonic() - begun
    return {
        "shape": shape,
        "method": method,
        "budget": seconds,
        "used": used,
        "cpu": time.process_time() - cpu,
        "grown": peak_memory() - before,
        "codes": n_rows * n_columns / 1e6,
        **told,
    }


def run(report: Report, *, shape: str = "", method: str = "") -> None:
    """Measure fits of a shape by a method, of all if none; keep what is known of the others."""
    kept = report.folder / "scale.jsonl"
    known: dict[tuple[str, str], dict[str, Any]] = {}
    if kept.exists():
        lines = map(json.loads, kept.read_text().splitlines())
        known = {(line["shape"], line["method"]): line for line in lines}
    for name in [shape] if shape else SHAPES:
        for how in [method] if method else METHODS:
            try:
                known[name, how] = run_isolated(measure, name, how)
            except Exception as error:
                known[name, how] = {"shape": name, "method": how, "error": str(error)}
            report.folder.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(line) + "\n" for line in known.values())
            kept.write_text(text)
    report.head(*HEAD)
    for name in SHAPES:
        for how in METHODS:
            if (name, how) in known:
                report.row(*cells(known[name, how]))


def cells(line: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "error" in line:
        return [line["shape"], line["method"], line["error"], *["-"] * (len(HEAD) - 3)]
    ours = line["method"] != "LightGBM"
    optional = [None if line[name] is None else f"{line[name]:.4g}" for name in ("open", "elbo")]
    return [
        line["shape"],
        line["method"],
        f"{line['budget']:g}" if ours else "-",
        f"{line['used']:.1f}" if ours else "-",
        f"{line['cpu']:.1f}",
        f"{line['grown']:.0f}",
        f"{line['codes']:.1f}",
        str(line["trees"]),
        line["settled"],
        *(value or "-" for value in optional),
    ]
