"""What caution is worth: ELBO of drawn trees with the network's guesses shrunk, and as they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple
from unittest import mock

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.problems import training_rows
from dtgfn_bench.studies.reporting import Report

N_TREES = 300


class Case(NamedTuple):
    """A table and how to fit it."""

    load: Callable[[], tuple[Floats, Int64s]]
    n_thresholds: int
    max_depth: int
    split_penalty: str
    n_steps: int


def generated() -> tuple[Floats, Int64s]:
    """20 000 noisy rows of ten columns."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        20_000, 10, n_informative=6, flip_y=0.1, class_sep=0.6, random_state=0
    )
    return X, y


CASES = {
    "generated, 20 000 rows": Case(generated, 19, 4, "mdl", 45),
    "breast cancer": Case(partial(training_rows, "breast-cancer"), 99, 5, "mdl", 100),
    "raisin": Case(partial(training_rows, "raisin"), 99, 5, "paper", 120),
}


def measure(case: Case, cautious: bool, seed: int) -> tuple[float, float, float]:
    """ELBO, best log R and ESS of one fit."""
    from dtgfn.engines.gfn.fixed.estimates import Optimism
    from dtgfn.inference.infer import infer

    X, y = case.load()
    hopeful = mock.patch.object(Optimism, "shrink", return_value=None)
    with nullcontext() if cautious else hopeful:
        posterior = infer(
            X,
            y,
            n_thresholds=case.n_thresholds,
            max_depth=case.max_depth,
            split_penalty=case.split_penalty,
            n_steps=case.n_steps,
            time_budget=None,
            random_state=seed,
            n_trees=N_TREES,
        )
    found = posterior.diagnostics
    return found["elbo"], posterior.best_log_reward, found["ess"]


def run(report: Report, *, seeds: int = 2) -> None:
    """Fit every table with caution and without."""
    report.head("table", "caution", "ELBO by seed", "best log R by seed", "ESS by seed")
    for name, case in CASES.items():
        for cautious in (True, False):
            found = [measure(case, cautious, seed) for seed in range(seeds)]
            columns = zip(*found, strict=True)
            cells = [", ".join(f"{value:.2f}" for value in column) for column in columns]
            report.row(name, "yes" if cautious else "no", *cells)
