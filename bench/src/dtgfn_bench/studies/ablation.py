"""What each idea of the fixed order is worth, judged by the exact posterior.

Each row changes one thing of the default. An untrained network is one with a learning rate of zero;
"tb", "vargrad" and "subtb" remember no flows, so their policy is the network's alone. Every row is
a process of its own, on one thread; seconds are of the processor.
"""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

from dtgfn_bench.cpu_clock import cpu_budgets
from dtgfn_bench.problems import Problem, infer_problem
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

PROBLEMS = (Problem("iris-sklearn", 99, 5),)
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no scouts": {"n_scouts": 0},
    "network untrained": {"learning_rate": 1e-9},
    "no correction by neighbours": {"reach": 1e-9},
    "one exact tail level": {"exact_tails": 1},
    "no uniform actions": {"epsilon": 0.0, "epsilon_end": 0.0},
    "half of the actions uniform": {"epsilon": 0.5, "epsilon_end": 0.5},
    "no replay": {"n_replay": 0},
    "huber loss": {"loss": "huber"},
    "linex loss": {"loss": "linex"},
    "one gradient a step": {"n_updates": 1},
    "tb": {"objective": "tb"},
    "vargrad": {"objective": "vargrad"},
    "subtb": {"objective": "subtb"},
}
SHOWN = ("log_z_error", "elbo_gap", "eubo_gap")


def measure(problem: Problem, changes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Distances from the exact posterior of a variant that trains for some seconds."""
    from dtgfn.diagnostics import compare
    from dtgfn.engines.rowsets.partial import flows

    warnings.simplefilter("ignore")
    options = dict(changes)
    flows.REACH = options.pop("reach", flows.REACH)
    exact = infer_problem(problem, "paper", "exact", n_trees=10, time_budget=None)
    # compiles all: the network is asked late
    infer_problem(problem, "paper", "gfn", n_steps=25, n_jobs=1, **options)
    run = {"time_budget": seconds, "random_state": 0, "n_jobs": 1}
    with cpu_budgets():
        found = infer_problem(problem, "paper", "gfn", **run, **options)
    return {**compare(found, exact, codes=found.rows.codes[:5]).to_dict(), **found.diagnostics}


def run(report: Report, *, seconds: float = 20.0) -> None:
    """Measure every variant in a process of its own."""
    report.head(
        "problem", "variant", "steps", "s", "log Z error", "ELBO gap", "EUBO gap", "ESS", "open"
    )
    for problem in PROBLEMS:
        for variant, changes in VARIANTS.items():
            # a constant of compiled code: not from the usual cache
            fresh = {"NUMBA_CACHE_DIR": tempfile.mkdtemp()} if "reach" in changes else {}
            r = run_isolated(measure, problem, changes, seconds, environment=fresh)
            report.row(
                problem,
                variant,
                r["n_steps"],
                f"{r['training_seconds']:.0f}",
                *(f"{float(r[name]):.4f}" for name in SHOWN),
                f"{r['ess']:.3f}",
                f"{r.get('open', float('nan')):.4f}",
            )
