"""The GFlowNet against MCMC and SMC at equal time, judged by the exact posterior.

Run: python benchmarks/field.py [--seconds 10 30 60] [--out benchmarks/results/field.md]
Every engine has one core and returns 1000 trees. "mass" is the share of the exact posterior on the
distinct trees it returned (in brackets: of 1000 exact draws), "P(y|x)" the mean total variation
between its class probabilities and the exact ones over the training rows (in brackets: of 1000
exact draws). A GFlowNet that has nothing left to learn ends before its time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

from problems import FIDELITY, Problem, Report, infer

ENGINES = {"gfn": {}, "mcmc": {"n_steps": None}, "smc": {"n_sweeps": None}}


def measure(problem: Problem, penalty: str, engine: str, seconds: float) -> dict[str, float]:
    from dtgfn.diagnostics import compare

    warnings.simplefilter("ignore")
    exact = infer(problem, penalty, "exact", n_trees=10, time_budget=None)
    found = infer(
        problem, penalty, engine, time_budget=seconds, random_state=0, n_jobs=1, **ENGINES[engine]
    )
    c = compare(found, exact)
    return {
        "mass": c.mass_covered,
        "mass_ceiling": c.mass_covered_ceiling,
        "prediction": c.prediction_variation,
        "prediction_floor": c.prediction_variation_floor,
        "best": found.best_log_reward - exact.best_log_reward,
    }


def start(problem: Problem, penalty: str, engine: str, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--one", problem.table, str(problem.n_thresholds)]
    command += [str(problem.max_depth), penalty, engine, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 30.0, 60.0])
    parser.add_argument("--penalties", nargs="+", default=["paper", "mdl"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        table, t, depth, penalty, engine, seconds = arguments.one
        problem = Problem(table, int(t), int(depth))
        print(json.dumps(measure(problem, penalty, engine, float(seconds))))
        return
    report = Report(
        "problem", "penalty", "s", "gfn mass", "mcmc mass", "smc mass", "gfn P(y|x)",
        "mcmc P(y|x)", "smc P(y|x)", "ahead in both"
    )  # fmt: skip
    behind = 0
    for problem in FIDELITY:
        for penalty in arguments.penalties:
            for seconds in arguments.seconds:
                # Two at a time, a core each.
                results = {}
                for pair in (("mcmc", "smc"), ("gfn",)):
                    running = {name: start(problem, penalty, name, seconds) for name in pair}
                    for name, process in running.items():
                        results[name] = json.loads(process.communicate()[0])
                gfn, others = results["gfn"], [results["mcmc"], results["smc"]]
                ahead = all(
                    gfn["mass"] >= o["mass"] and gfn["prediction"] <= o["prediction"]
                    for o in others
                )
                behind += not ahead
                cells = [f"{results[name]['mass']:.4f}" for name in ENGINES]
                cells[0] += f" ({gfn['mass_ceiling']:.4f})"
                errors = [f"{results[name]['prediction']:.4f}" for name in ENGINES]
                errors[0] += f" ({gfn['prediction_floor']:.4f})"
                verdict = "yes" if ahead else "no"
                report.row(problem, penalty, f"{seconds:g}", *cells, *errors, verdict)
    report.say(f"The GFlowNet is not ahead in {behind} rows.")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
