"""What each idea of the fixed order is worth, judged by the exact posterior.

Run: python benchmarks/ablation.py [--seconds 20] [--out benchmarks/results/ablation.md]
Each row changes one thing of the default. An untrained network is one with a learning rate of zero;
"tb", "vargrad" and "subtb" remember no flows, so their policy is the network's alone. Every row is
a process of its own with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from problems import Problem, Report, infer

PROBLEMS = [Problem("iris", 99, 5)]
VARIANTS: dict[str, dict[str, object]] = {
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


def measure(problem: Problem, options: dict[str, object], seconds: float) -> dict[str, object]:
    from dtgfn.diagnostics import compare
    from dtgfn.engines.gfn.fixed import neighbours

    warnings.simplefilter("ignore")
    neighbours.REACH = options.pop("reach", neighbours.REACH)
    exact = infer(problem, "paper", "exact", n_trees=10, time_budget=None)
    infer(problem, "paper", "gfn", n_steps=25, **options)  # compiles all, the network is asked late
    found = infer(problem, "paper", "gfn", time_budget=seconds, random_state=0, **options)
    return {**compare(found, exact, codes=found.rows.codes[:5]).to_dict(), **found.diagnostics}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        number, variant = arguments.one
        found = measure(PROBLEMS[int(number)], dict(VARIANTS[variant]), arguments.seconds)
        print(json.dumps(found, default=str))
        return
    report = Report(
        "problem", "variant", "steps", "s", "log Z error", "ELBO gap", "EUBO gap", "ESS", "open"
    )  # fmt: skip
    for number, problem in enumerate(PROBLEMS):
        for variant, options in VARIANTS.items():
            command = [sys.executable, __file__, "--seconds", str(arguments.seconds)]
            environment = dict(os.environ)
            if "reach" in options:  # a constant of compiled code: not from the usual cache
                environment["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
            done = subprocess.run(
                [*command, "--one", str(number), variant],
                check=True, stdout=subprocess.PIPE, env=environment,
            )  # fmt: skip
            r = json.loads(done.stdout)
            report.row(
                problem, variant, r["n_steps"], f"{r['training_seconds']:.0f}",
                *(f"{float(r[name]):.4f}" for name in ("log_z_error", "elbo_gap", "eubo_gap")),
                f"{r['ess']:.3f}", f"{r.get('open', float('nan')):.4f}",
            )  # fmt: skip
    report.write(arguments.out)


if __name__ == "__main__":
    main()
