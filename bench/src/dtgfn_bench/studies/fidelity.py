"""How close the GFlowNet comes to the exact posterior.

After at most so many seconds of training on one core, by the processor's clock: error of log Z, gap
of ELBO and EUBO (both are KL divergences in nats: to the posterior and from it), ESS of 1000 trees.
Targets: 0.05, 0.10, 0.10, 0.9. EUBO is over 2000 fresh exact trees that training never saw.
``--unseen`` are tables that nothing was chosen by (Pima and Raisin are fetched if need be).
"""

from __future__ import annotations

from dtgfn_bench.cpu_clock import cpu_budgets
from dtgfn_bench.problems import FIDELITY, UNSEEN, Problem, infer_problem
from dtgfn_bench.studies.reporting import Report


def measure(problem: Problem, penalty: str, seed: int, seconds: float) -> tuple[list[str], bool]:
    """A row's cells, and whether every target was reached."""
    from dtgfn.diagnostics import compare

    exact = infer_problem(problem, penalty, "exact", n_trees=10, time_budget=None)
    run = {"time_budget": seconds, "random_state": seed, "n_jobs": 1}
    with cpu_budgets():
        found = infer_problem(problem, penalty, "gfn", **run)
    history = found.diagnostics
    c = compare(found, exact, n_exact=2000, random_state=seed + 1000)
    gaps = (c.log_z_error, c.elbo_gap, c.eubo_gap, c.ess)
    log_z_error, elbo_gap, eubo_gap, ess = (float("nan") if gap is None else gap for gap in gaps)
    reached = abs(log_z_error) <= 0.05 and elbo_gap <= 0.1 and eubo_gap <= 0.1 and ess >= 0.9
    cells = [
        f"{history['training_seconds']:.1f}",
        str(history["n_steps"]),
        f"{exact.log_evidence:.4f}",
        f"{log_z_error:+.4f}",
        f"{elbo_gap:.4f}",
        f"{eubo_gap:.4f}",
        f"{ess:.3f}",
        f"{history.get('open', 0):.1g}",
        "yes" if reached else "NO",
    ]
    return cells, reached


def run(report: Report, *, seconds: float = 60.0, unseen: bool = False, seeds: int = 1) -> None:
    """Train on every problem with both penalties."""
    report.part = "unseen" if unseen else ""
    report.head(
        *("problem", "penalty", "seed", "trained s", "steps", "log Z", "error", "ELBO gap"),
        *("EUBO gap", "ESS", "open", "reached"),
    )
    missed = 0
    for problem in UNSEEN if unseen else FIDELITY:
        for penalty in ("paper", "mdl"):
            for seed in range(seeds):
                cells, reached = measure(problem, penalty, seed, seconds)
                missed += not reached
                report.row(problem, penalty, seed, *cells)
    report.say(f"{missed} rows missed a target.")
