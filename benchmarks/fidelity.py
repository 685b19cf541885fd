"""How close the GFlowNet comes to the exact posterior.

Run: python benchmarks/fidelity.py [--seconds 60] [--unseen] [--out benchmarks/results/fidelity.md]
After at most so many seconds of training: error of log Z, gap of ELBO and EUBO (both are KL
divergences in nats: to the posterior and from it), ESS of 1000 trees. Targets: 0.05, 0.10, 0.10,
0.9. EUBO is over 2000 fresh exact trees that training never saw. ``--unseen`` are tables that
nothing was chosen by (Pima and Raisin are fetched if need be).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from problems import FIDELITY, UNSEEN, Report, infer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    from dtgfn.diagnostics import compare

    warnings.simplefilter("ignore")
    report = Report(
        "problem", "penalty", "seed", "trained s", "steps", "log Z", "error", "ELBO gap",
        "EUBO gap", "ESS", "open", "reached"
    )  # fmt: skip
    missed = 0
    for problem in UNSEEN if arguments.unseen else FIDELITY:
        for penalty in ("paper", "mdl"):
            exact = infer(problem, penalty, "exact", n_trees=10, time_budget=None)
            for seed in range(arguments.seeds):
                found = infer(
                    problem, penalty, "gfn", time_budget=arguments.seconds, random_state=seed
                )
                told = found.diagnostics
                c = compare(found, exact, n_exact=2000, random_state=seed + 1000)
                good = abs(c.log_z_error) <= 0.05 and c.elbo_gap <= 0.1 and c.eubo_gap <= 0.1
                good = good and c.ess >= 0.9
                missed += not good
                report.row(
                    problem, penalty, seed, f"{told['training_seconds']:.1f}", told["n_steps"],
                    f"{exact.log_evidence:.4f}", f"{c.log_z_error:+.4f}", f"{c.elbo_gap:.4f}",
                    f"{c.eubo_gap:.4f}", f"{c.ess:.3f}", f"{told.get('open', 0):.1g}",
                    "yes" if good else "NO",
                )  # fmt: skip
    report.say(f"{missed} rows missed a target.")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
