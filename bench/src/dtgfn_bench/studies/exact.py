"""Exact inference on small tables: sub-problems, seconds, memory, log Z.

Each problem runs in a process of its own, after a warm-up that compiles; memory is that process's
peak beyond what it had before. "solve" is the recursion, which gives log Z, sizes and column use;
"fit" adds binning, the estimate, the best tree and 1000 samples. "plain" is the figure for a naive
compiled recursion to log Z on one thread (same splits, same penalty) on a machine of this class:
compare as orders of magnitude. All seconds are of one thread, by the processor's clock.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from dtgfn_bench.cpu_clock import cpu_budgets
from dtgfn_bench.problems import Problem, all_rows
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report


class Known(NamedTuple):
    """A problem, its published log Z, and the published seconds of the plain recursion."""

    problem: Problem
    log_z: float | None = None
    plain_seconds: float | None = None


PROBLEMS = (
    Known(Problem("iris-sklearn", 9, 3), -28.6934, 0.01),
    Known(Problem("iris-sklearn", 9, 5), -26.6958, 0.14),
    Known(Problem("iris-sklearn", 99, 3), -11.4443, 0.05),
    Known(Problem("iris-sklearn", 99, 5), 9.1308, 18.0),
    Known(Problem("wine", 9, 3), -41.1880, 0.08),
    Known(Problem("wine", 99, 3), -18.0263, 12.9),
    Known(Problem("breast-cancer", 9, 3), -77.9200, 2.4),
    Known(Problem("breast-cancer", 99, 2), -80.2119, 0.25),
    Known(Problem("breast-cancer", 99, 3)),
)
SLOW = (Known(Problem("wine", 99, 4)),)


def measure(problem: Problem, split_penalty: str) -> dict[str, Any]:
    """Numbers of one fit and one prediction, in a process that has done nothing else."""
    import resource

    from sklearn.model_selection import train_test_split

    from dtgfn.data.binning import encode
    from dtgfn.data.tables import as_table
    from dtgfn.inference.infer import infer

    X, y = all_rows(problem.table)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.2, random_state=1)

    def predict(posterior: Any, binner: Any) -> None:
        posterior.solution.average(encode(binner, as_table(X_test)))

    shallow = infer(X, y, engine="exact", max_depth=1, n_thresholds=3)
    few = infer(X[:60], y[:60], engine="exact", max_depth=3, n_thresholds=3)
    predict(few, shallow.binner)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    with cpu_budgets():
        posterior = infer(
            X,
            y,
            engine="exact",
            max_depth=problem.max_depth,
            n_thresholds=problem.n_thresholds,
            split_penalty=split_penalty,
            n_trees=1000,
            time_budget=None,
            random_state=0,
            n_jobs=1,
        )
    seconds = time.process_time() - begun
    begun = time.process_time()
    predict(posterior, posterior.binner)
    return {
        **posterior.diagnostics,
        "fit_seconds": seconds,
        "predict_seconds": time.process_time() - begun,
        "predict_rows": len(X_test),
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "log_evidence": posterior.log_evidence,
    }


def run(report: Report, *, slow: bool = False, penalty: str = "paper") -> None:
    """Solve every problem; ``slow`` adds those that take minutes."""
    report.head(
        *("table", "t", "depth", "sub-problems (guess)", "solve s (guess)", "fit s"),
        *("predict s (rows)", "MB", "log Z", "published log Z", "plain s", "speed-up"),
    )
    for problem, published, plain in PROBLEMS + (SLOW if slow else ()):
        r = run_isolated(measure, problem, penalty)
        against: list[object] = ["-", "-", "-"]
        if published is not None and plain is not None and penalty == "paper":
            against = [published, plain, f"{plain / r['solve_seconds']:.1f}"]
        report.row(
            problem.table,
            problem.n_thresholds,
            problem.max_depth,
            f"{r['sub_problems']:,.0f} ({r['estimated_sub_problems']:,.0f})",
            f"{r['solve_seconds']:.3g} ({r['estimated_seconds']:.2g})",
            f"{r['fit_seconds']:.2f}",
            f"{r['predict_seconds']:.2f} ({r['predict_rows']})",
            f"{r['megabytes']:.0f}",
            f"{r['log_evidence']:.4f}",
            *against,
        )
