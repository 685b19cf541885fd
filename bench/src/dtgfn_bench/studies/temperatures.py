"""Would one fit for all temperatures be cheaper? What could be shared, and what reweighting leaves.

"shared" is the share of a fit's time that does not depend on the temperature: finding row sets and
their children (exact engine: counting and expanding cuts; GFlowNet: reaching children). "tempered"
is the share of sums over leaves, which do. "left at 1" is the effective number of 1000 exact draws
at a higher temperature once they are reweighted to temperature 1 (penalty "mdl").
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dtgfn_bench.problems import Problem, all_rows
from dtgfn_bench.studies.reporting import Report

EXACT = (
    Problem("iris-sklearn", 99, 4),
    Problem("wine", 9, 4),
    Problem("wine", 99, 3),
    Problem("breast-cancer", 9, 3),
)
GFN = (Problem("wine", 99, 4), Problem("breast-cancer", 99, 4))
REWEIGHTED = (
    Problem("iris-sklearn", 99, 3),
    Problem("wine", 9, 3),
    Problem("breast-cancer", 9, 2),
)
# Functions of either engine whose work does not depend on the temperature, and whose does.
SHARED = {"exact": ("count_edges", "expand"), "gfn": ("reach",)}
TEMPERED = {"exact": ("tail_values", "level_values"), "gfn": ("expand",)}


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


def infer_all(problem: Problem, engine: str, **options: Any) -> Any:
    """Posterior of all rows of a table."""
    from dtgfn.inference.infer import infer

    X, y = all_rows(problem.table)
    shape: dict[str, Any] = {"n_thresholds": problem.n_thresholds, "max_depth": problem.max_depth}
    return infer(X, y, engine=engine, n_jobs=1, random_state=0, **shape, **options)


def run(report: Report) -> None:
    """Watch where fits spend their time, then reweight draws of higher temperatures."""
    import dtgfn.engines.exact.inside_outside as exact
    from dtgfn.engines.rowsets.partial.graph import PartialGraph

    report.head("problem", "engine", "seconds", "shared", "tempered", "left at 1")
    for engine, problems, owner in (("exact", EXACT, exact), ("gfn", GFN, PartialGraph)):
        spent: dict[str, float] = {}  # of this engine alone: both have an ``expand``
        watch(owner, SHARED[engine] + TEMPERED[engine], spent)
        for problem in problems:
            infer_all(Problem(problem.table, 2, 2), engine, n_trees=10)  # compiles
            spent.clear()
            options = {"split_penalty": "paper"} if engine == "exact" else {"time_budget": 10.0}
            found = infer_all(problem, engine, n_trees=100, **options)
            seconds = found.diagnostics["seconds"]
            free = sum(spent.get(name, 0.0) for name in SHARED[engine]) / seconds
            bound = sum(spent.get(name, 0.0) for name in TEMPERED[engine]) / seconds
            report.row(problem, engine, f"{seconds:.1f}", f"{free:.1%}", f"{bound:.0%}", "-")
    for problem in REWEIGHTED:
        report.row(problem, "exact", "-", "-", "-", ", ".join(left_at_one(problem)))


def left_at_one(problem: Problem) -> list[str]:
    """Effective numbers of 1000 draws at some temperatures, seen from temperature 1."""
    from dtgfn.posterior.importance_weights import effective_sample_size

    left = []
    for hot in (1.5, 2.0, 4.0):
        drawn = infer_all(problem, "exact", temperature=hot)
        share = effective_sample_size(drawn.log_reward * (1 - 1 / hot))
        left.append(f"{1000 * share:.0f} (from {hot:g})")
    return left
