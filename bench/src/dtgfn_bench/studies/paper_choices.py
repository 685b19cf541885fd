"""What each choice is worth that the paper's text leaves open, and its release or we made.

Every row changes one thing of preset "paper" (``docs/paper-choices.md``) and has 100 steps, unless
it says otherwise. On tables: how far the learned log Z is from the log evidence that the drawn
trees estimate, their ELBO, and the best log R among 1000 of them, means and standard deviations
over seeds. On hidden XOR: the accuracy of Algorithm 1, seed by seed.
"""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np

from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiments.xor import N_ROWS, make_rows
from dtgfn_bench.measure import measure_classifier
from dtgfn_bench.method_lookup import find_method
from dtgfn_bench.problems import Problem, infer_problem
from dtgfn_bench.splits import holdout
from dtgfn_bench.studies.reporting import Report

PROBLEMS = tuple(Problem(table, 99, 5) for table in ("iris-sklearn", "wine", "breast-cancer"))
XOR = (("binary", 14), ("real", 14), ("real", 18), ("real", 100))
VARIANTS: dict[str, dict[str, Any]] = {
    "the preset": {},
    "log Z: rate 1 instead of 16": {"log_z_learning_rate": 1.0},
    "log Z: from draws instead of 37.5": {"log_z_start": None},
    "gradients clipped at 10": {"grad_clip": 10.0},
    "these three": {"log_z_learning_rate": 1.0, "log_z_start": None, "grad_clip": 10.0},
    "epsilon constant, as in the release": {"epsilon_end": 0.1},
    "one replayed tree, as in its quickstart": {"replay_capacity": 1},
    "300 steps": {"n_steps": 300},
}


def on_table(problem: Problem, changes: dict[str, Any], seed: int) -> list[float]:
    """Distance of log Z from the log evidence, ELBO, and the best log R."""
    options = {"preset": "paper", "n_jobs": 1, "time_budget": None, **changes}
    found = infer_problem(problem, "paper", "gfn", random_state=seed, **options)
    state = found.diagnostics
    best = float(found.log_reward.max())
    return [state["log_z"] - found.log_evidence, state["elbo"], best]


def on_xor(kind: str, n_noise: int, changes: dict[str, Any], seed: int) -> float:
    """Accuracy of the paper's ensemble."""
    X, y = make_rows(kind, n_noise, seed)
    train, test = holdout(N_ROWS, seed)
    rows = TrainingRows(X[train], y[train], 2, "xor")
    settings = {**find_method("dtgfn-paper").settings, "options": changes}
    if "n_steps" in changes:
        settings["n_steps"] = changes["n_steps"]
    scores = measure_classifier("dtgfn-paper", settings, rows, seed, {"": (X[test], y[test])})
    return float(scores["accuracy"] or 0.0)


def run(report: Report, *, seeds: int = 5, jobs: int = -1) -> None:
    """Measure every variant on the tables, then on hidden XOR."""
    if seeds < 1:
        raise ValueError(f"seeds={seeds} measures nothing; give 1 or more.")
    own = range(1, seeds + 1)
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=jobs, batch_size=1)
        report.head("problem", "variant", "log Z - log evidence", "ELBO", "best log R")
        for problem in PROBLEMS:
            for variant, changes in VARIANTS.items():
                found = np.array(
                    parallel(joblib.delayed(on_table)(problem, changes, seed) for seed in own)
                )
                shown = zip(found.mean(axis=0), found.std(axis=0), strict=True)
                report.row(problem, variant, *(f"{mean:.1f} ± {sd:.1f}" for mean, sd in shown))
        report.head("hidden XOR among noise", "variant", "accuracies")
        for kind, n_noise in XOR:
            for variant, changes in VARIANTS.items():
                accuracies = parallel(
                    joblib.delayed(on_xor)(kind, n_noise, changes, seed) for seed in own
                )
                report.row(
                    f"{n_noise} {kind}", variant, " ".join(f"{one:.3f}" for one in accuracies)
                )
