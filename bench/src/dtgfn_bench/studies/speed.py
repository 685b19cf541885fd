"""Seconds per training step at the paper's settings, in both orders, and to draw 1000 trees.

A step is 90 forward and 10 replayed trees with loss, gradient and update (depth 5, 99 thresholds,
penalty "paper"), the mean over a training run after a warm-up that compiles, on one thread (so CPU
and wall time agree). The authors' code takes the CPU seconds per step of the column "authors".
"fixed" is the default with two exact tail levels, "fixed, 1 tail" sums only the last level.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from dtgfn_bench.problems import Problem, infer_problem
from dtgfn_bench.studies.reporting import Report

AUTHORS = {"iris-sklearn": 7.1, "wine": 8.7, "breast-cancer": 20.6}
ORDERS: dict[str, dict[str, Any]] = {
    "free": {"preset": "paper"},
    "free, set transformer": {"preset": "paper", "architecture": "set_transformer"},
    "fixed, tb": {"preset": "paper", "leaf_order": "fixed", "hidden": (64, 64)},
    "fixed": {},
    "fixed, 1 tail": {"exact_tails": 1},
}


def step_seconds(problem: Problem, options: dict[str, Any], n_steps: int) -> tuple[float, float]:
    """CPU seconds per step and to draw 1000 trees."""
    common = {"evaluate_every": 10**6, "patience": None, "time_budget": None, **options}
    common["n_jobs"] = 1
    if options.get("architecture") == "set_transformer":
        n_steps = min(n_steps, 10)
    infer_problem(problem, "paper", "gfn", n_steps=2, **common)
    marks: list[float] = []
    posterior: Any = infer_problem(
        problem,
        "paper",
        "gfn",
        random_state=0,
        n_steps=n_steps,
        callbacks=[lambda _: marks.append(time.process_time())],
        **common,
    )
    begun = time.process_time()
    posterior.solution.sample(1000, np.random.default_rng(0))
    return (marks[-1] - marks[0]) / (len(marks) - 1), time.process_time() - begun


def run(report: Report, *, steps: int = 100) -> None:
    """Time every order on every table."""
    report.head("table", "order", "ms per step", "authors s", "ratio", "1000 trees s")
    for table, authors in AUTHORS.items():
        for order, options in ORDERS.items():
            seconds, draw = step_seconds(Problem(table, 99, 5), options, steps)
            ratio = f"{authors / seconds:.0f}"
            report.row(table, order, f"{1000 * seconds:.0f}", authors, ratio, f"{draw:.2f}")
