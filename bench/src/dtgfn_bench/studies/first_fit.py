"""CPU seconds of a first fit: nothing is compiled yet, and each method has a process of its own.

"first" is a fit of Iris (depth 3 for single trees) with a directory of compiled loops that is
empty, "again" the same fit afterwards in the same process, and "prediction" the first one.
Machines differ, and a busy one takes longer for the same: the yardstick is what compiling one
loop that never changes took in the same process, and the last column how many of these a first
fit costs.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

KINDS = ("sum", "bags", "exact", "mcmc", "smc", "gfn")
SECONDS = 2.0
REPEATS = 3  # of the yardstick, before and after: the median counts


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
    yardstick = [compile_yardstick() for _ in range(REPEATS + 1)][1:]  # the first one imports
    marks = [time.process_time()]
    model = DTGFNClassifier(**how, random_state=0, time_budget=SECONDS).fit(X, y)
    marks.append(time.process_time())
    model.predict_proba(X)
    marks.append(time.process_time())
    model.fit(X, y)
    marks.append(time.process_time())
    yardstick += [compile_yardstick() for _ in range(REPEATS)]
    first, prediction, again = (b - a for a, b in pairwise(marks))
    return {
        "first": first,
        "prediction": prediction,
        "again": again,
        "compiling": compile_seconds(),
        "yardstick": median(yardstick),
    }


def compile_yardstick() -> float:
    """CPU seconds of compiling a loop that this project never changes."""
    import numba

    def smooth(values: Any, width: int) -> Any:
        out = np.zeros_like(values)
        for i in range(values.shape[0]):
            for j in range(values.shape[1]):
                total, number = 0.0, 0
                for k in range(max(0, j - width), min(values.shape[1], j + width + 1)):
                    total += math.sqrt(abs(values[i, k])) * math.exp(-abs(k - j))
                    number += 1
                out[i, j] = total / number
        return out

    started = time.process_time()
    numba.njit("float64[:, ::1](float64[:, ::1], int64)")(smooth)
    return time.process_time() - started


def run(report: Report) -> None:
    """Measure every method with an empty cache."""
    names = ("first fit, CPU s", "prediction", "again", "compiling, wall s")
    report.head("method", *names, "yardstick, CPU s", "first fit in yardsticks")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as empty:
            found = run_isolated(measure, kind, environment={"NUMBA_CACHE_DIR": empty})
        columns = ("first", "prediction", "again", "compiling")
        cells = [f"{found[name]:.1f}" for name in columns]
        yardsticks = f"{found['first'] / found['yardstick']:.0f}"
        report.row(kind, *cells, f"{found['yardstick']:.2f}", yardsticks)
