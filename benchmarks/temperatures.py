"""Would one fit for all temperatures be cheaper? What could be shared, and what reweighting leaves.

Run: python benchmarks/temperatures.py [--out benchmarks/results/temperatures.md]
"shared" is the share of a fit's time that does not depend on the temperature: finding row sets and
their children (exact engine: counting and expanding cuts; GFlowNet: reaching children). "tempered"
is the share of sums over leaves, which do. "left at 1" is the effective number of 1000 exact draws
at a higher temperature once they are reweighted to temperature 1 (penalty "mdl").
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn.datasets
from problems import Report

EXACT = [("iris", 99, 4), ("wine", 9, 4), ("wine", 99, 3), ("breast_cancer", 9, 3)]
GFN = [("wine", 99, 4), ("breast_cancer", 99, 4)]
REWEIGHTED = [("iris", 99, 3), ("wine", 9, 3), ("breast_cancer", 9, 2)]


def watch(owner: Any, names: tuple[str, ...], spent: dict[str, float]) -> None:
    """Add up the seconds that calls of some functions take."""

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            result = function(*arguments, **options)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun
            return result

        return call

    for name in names:
        setattr(owner, name, watched(name, getattr(owner, name)))


def infer(table: str, n_thresholds: int, max_depth: int, engine: str, **options: Any) -> Any:
    import dtgfn

    X, y = getattr(sklearn.datasets, f"load_{table}")(return_X_y=True)
    given = {"n_thresholds": n_thresholds, "max_depth": max_depth, "n_jobs": 1, "random_state": 0}
    return dtgfn.infer(X, y, engine=engine, **given, **options)


def main() -> None:
    import dtgfn.engines.exact.inside_outside as exact
    from dtgfn.engines.rowsets.partial.graph import PartialGraph
    from dtgfn.posterior.importance_weights import effective_sample_size

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("problem", "engine", "seconds", "shared", "tempered", "left at 1")
    spent: dict[str, float] = {}
    shared, tempered = ("count_edges", "expand"), ("tail_values", "level_values")
    watch(exact, shared + tempered, spent)
    watch(PartialGraph, ("reach", "expand"), spent)
    for engine, problems in (("exact", EXACT), ("gfn", GFN)):
        for table, t, depth in problems:
            infer(table, 2, 2, engine, n_trees=10)  # compiles
            spent.clear()
            options = {"split_penalty": "paper"} if engine == "exact" else {"time_budget": 10.0}
            seconds = infer(table, t, depth, engine, n_trees=100, **options).diagnostics["seconds"]
            free = sum(spent.get(name, 0.0) for name in (*shared, "reach")) / seconds
            bound = sum(spent.get(name, 0.0) for name in (*tempered, "expand")) / seconds
            problem = f"{table}, t={t}, depth {depth}"
            report.row(problem, engine, f"{seconds:.1f}", f"{free:.1%}", f"{bound:.0%}", "-")
    for table, t, depth in REWEIGHTED:
        left = []
        for hot in (1.5, 2.0, 4.0):
            drawn = infer(table, t, depth, "exact", temperature=hot)
            share = effective_sample_size(drawn.log_reward * (1 - 1 / hot))
            left.append(f"{1000 * share:.0f} (from {hot:g})")
        report.row(f"{table}, t={t}, depth {depth}", "exact", "-", "-", "-", ", ".join(left))
    report.write(arguments.out)


if __name__ == "__main__":
    main()
