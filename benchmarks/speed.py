"""Seconds per training step at the paper's settings, in both orders, and to draw 1000 trees.

Run: python benchmarks/speed.py [--steps 100] [--out benchmarks/results/speed.md]
A step is 90 forward and 10 replayed trees with loss, gradient and update (depth 5, 99 thresholds,
penalty "paper"), the mean over a training run after a warm-up that compiles, on one thread (so CPU
and wall time agree). The authors' code takes the CPU seconds per step of the column "authors".
"fixed" is the default with two exact tail levels, "fixed, 1 tail" sums only the last level.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from problems import Problem, Report, infer

AUTHORS = {"iris": 7.1, "wine": 8.7, "breast_cancer": 20.6}
ORDERS = {
    "free": {"preset": "paper"},
    "free, set transformer": {"preset": "paper", "architecture": "set_transformer"},
    "fixed, tb": {"preset": "paper", "leaf_order": "fixed", "hidden": (64, 64)},
    "fixed": {},
    "fixed, 1 tail": {"exact_tails": 1},
}


def step_seconds(problem: Problem, options: dict[str, object], n_steps: int) -> tuple[float, float]:
    """CPU seconds per step and to draw 1000 trees."""
    common = {"evaluate_every": 10**6, "patience": None, "time_budget": None, **options}
    common["n_jobs"] = 1
    if options.get("architecture") == "set_transformer":
        n_steps = min(n_steps, 10)
    infer(problem, "paper", "gfn", n_steps=2, **common)
    marks: list[float] = []
    posterior = infer(
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("table", "order", "ms per step", "authors s", "ratio", "1000 trees s")
    for table, authors in AUTHORS.items():
        for order, options in ORDERS.items():
            seconds, draw = step_seconds(Problem(table, 99, 5), options, arguments.steps)
            report.row(
                table, order, f"{1000 * seconds:.0f}", authors, f"{authors / seconds:.0f}",
                f"{draw:.2f}",
            )  # fmt: skip
    report.write(arguments.out)


if __name__ == "__main__":
    main()
