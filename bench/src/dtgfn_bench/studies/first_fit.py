"""CPU seconds of a first fit: nothing is compiled yet, and each method has a process of its own.

"first" is a fit of Iris (depth 3 for single trees) with a directory of compiled loops that is
empty, "again" the same fit afterwards in the same process, and "prediction" the first one.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from itertools import pairwise
from typing import Any

from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

KINDS = ("sum", "bags", "exact", "mcmc", "smc", "gfn")
SECONDS = 2.0


def measure(kind: str) -> dict[str, float]:
    """CPU seconds of a fit, a prediction and the same fit again."""
    from sklearn.datasets import load_iris

    from dtgfn import DTGFNClassifier
    from dtgfn._support.clock import compile_seconds

    warnings.simplefilter("ignore")
    X, y = load_iris(return_X_y=True)
    how: dict[str, Any] = {"ensemble": kind}
    if kind not in ("sum", "bags"):
        how = {"ensemble": None, "inference": kind, "max_depth": 3}
    marks = [time.process_time()]
    model = DTGFNClassifier(**how, random_state=0, time_budget=SECONDS).fit(X, y)
    marks.append(time.process_time())
    model.predict_proba(X)
    marks.append(time.process_time())
    model.fit(X, y)
    marks.append(time.process_time())
    first, prediction, again = (b - a for a, b in pairwise(marks))
    return {
        "first": first,
        "prediction": prediction,
        "again": again,
        "compiling": compile_seconds(),
    }


def run(report: Report) -> None:
    """Measure every method with an empty cache."""
    report.head("method", "first fit, CPU s", "prediction", "again", "compiling, wall s")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as empty:
            found = run_isolated(measure, kind, environment={"NUMBA_CACHE_DIR": empty})
        columns = ("first", "prediction", "again", "compiling")
        report.row(kind, *(f"{found[name]:.1f}" for name in columns))
