"""How wide the certified interval for log Z is: twenty tables, after 1 and 5 seconds of time.

Every table at a setting that exact inference may or may not reach; where it does within a
minute, its log Z is in the interval or the row says WRONG. "ceilings" is the width of the same
row sets without neighbours, that is with the bounds of docs/ceilings.md alone. "looked at" are row
sets, of those that exact inference would sum by its own guess.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets

from dtgfn_bench.problems import Problem, all_rows
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

SECONDS = (1.0, 5.0)
EXACT_SECONDS = 60.0


class Setting(NamedTuple):
    """A problem with its penalty."""

    problem: Problem
    penalty: str = "mdl"


SETTINGS = (
    Setting(Problem("iris-sklearn", 9, 4)),
    Setting(Problem("iris-sklearn", 99, 5)),
    Setting(Problem("iris-sklearn", 99, 5), "paper"),
    Setting(Problem("wine", 9, 4)),
    Setting(Problem("wine", 99, 5)),
    Setting(Problem("breast-cancer", 9, 4)),
    Setting(Problem("breast-cancer", 99, 5)),
    Setting(Problem("breast-cancer", 99, 5), "paper"),
    Setting(Problem("raisin", 9, 4)),
    Setting(Problem("raisin", 99, 5)),
    Setting(Problem("pima", 9, 4)),
    Setting(Problem("pima", 99, 5)),
    Setting(Problem("digits-8x8", 9, 4)),
    Setting(Problem("noise", 19, 4)),
    Setting(Problem("hidden-xor", 1, 5)),
    Setting(Problem("nearly-told", 99, 5)),
    Setting(Problem("rare-event", 99, 4)),
    Setting(Problem("two-moons", 99, 4)),
    Setting(Problem("blobs", 99, 5)),
    Setting(Problem("numbers", 19, 4)),
)


def made_table(table: str) -> tuple[Any, Any]:
    """Return rows of a table of the registry, or of one that is made here."""
    rng = np.random.default_rng(0)
    if table == "nearly-told":  # one column gives the label away, but for three rows
        X = rng.normal(size=(500, 8))
        y = (X[:, 0] > 0.4).astype(int)
        y[:3] = 1 - y[:3]
        return X, y
    if table == "rare-event":
        X = rng.normal(size=(600, 6))
        return X, (X[:, 0] + X[:, 1] > 2.9).astype(int)
    if table == "two-moons":
        return sklearn.datasets.make_moons(300, noise=0.2, random_state=0)
    if table == "blobs":
        return sklearn.datasets.make_blobs(300, n_features=5, centers=4, random_state=0)
    if table == "numbers":
        X = rng.random((150, 4))
        return X, np.where(X[:, 0] > 0.5, 1.0, 0.0) + 0.2 * rng.normal(size=150)
    return all_rows(table)


def measure(setting: Setting, seconds: float, with_exact: bool) -> dict[str, Any]:
    """Bounds of one setting, in a process that has done nothing else but compile."""
    from dtgfn._support.memory import allowed_memory
    from dtgfn.engines.contract import BudgetExceeded, Run
    from dtgfn.engines.exact.budget import estimate_cost
    from dtgfn.engines.exact.engine import infer_exact
    from dtgfn.engines.exact.interval import bound_problem, narrowing
    from dtgfn.engines.rowsets.problem import make_problem
    from dtgfn.inference.infer import infer
    from dtgfn.trees.leaf_models import NormalLeaf
    from dtgfn.trees.score import make_score

    problem, penalty = setting
    t = problem.n_thresholds
    X, y = made_table(problem.table)
    leaf = NormalLeaf() if y.dtype.kind == "f" else None
    given: dict[str, Any] = {"engine": "exact", "max_depth": 1, "n_trees": 1}
    shallow = infer(X, y, leaf=leaf, n_thresholds=t, split_penalty=penalty, **given)
    score = make_score(
        shallow.score.leaf,
        n_features=X.shape[1],
        n_thresholds=t,
        max_depth=problem.max_depth,
        split_penalty=penalty,
    )
    column = np.arange(X.shape[1], dtype=np.int32)
    whole = make_problem(shallow.rows, score, column, X.shape[1])
    memory = allowed_memory(None)
    bound_problem(whole, None, memory, 1, most_sub_problems=4)  # compiles
    for graph, bounds in narrowing(whole, seconds, memory, 2, None):  # noqa: B007
        plain = graph.bounds()
    found = {
        "lower": bounds.floor,
        "upper": bounds.ceiling,
        "plain": plain[1] - plain[0],
        "looked": sum(int(np.isfinite(each.flow[: len(each)]).sum()) for each in graph.levels),
        "rows": len(shallow.rows.target),
        "columns": X.shape[1],
        "all": estimate_cost(whole, graph.tail_levels, 2).sub_problems,
        "exact": None,
    }
    if with_exact:
        run = Run(column=column, n_columns=X.shape[1], n_trees=1, time_budget=EXACT_SECONDS)
        with suppress(BudgetExceeded):
            found["exact"] = infer_exact(shallow.rows, score, run).log_evidence
    return found


def run(report: Report) -> None:
    """Bound log Z of every setting, for a short and a longer time."""
    report.head(
        *("table", "rows x columns", "t", "depth", "penalty", "seconds", "looked at (of)"),
        *("lower", "upper", "width", "ceilings", "exact log Z"),
    )
    for setting in SETTINGS:
        for seconds in SECONDS:
            found = run_isolated(measure, setting, seconds, seconds == SECONDS[-1])
            lower, upper, exact = found["lower"], found["upper"], found["exact"]
            slack = 1e-8 * max(1.0, abs(lower))
            told = "-" if exact is None else f"{exact:.4f}"
            if exact is not None and not lower - slack <= exact <= upper + slack:
                told += " WRONG"
            report.row(
                setting.problem.table,
                f"{found['rows']} x {found['columns']}",
                setting.problem.n_thresholds,
                setting.problem.max_depth,
                setting.penalty,
                f"{seconds:g}",
                f"{found['looked']:,} ({found['all']:,.0f})",
                f"{lower:.4f}",
                f"{upper:.4f}",
                f"{upper - lower:.4f}",
                f"{found['plain']:.4f}",
                told,
            )
