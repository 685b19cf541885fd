"""Where exact is out of reach: best log R against greedy growth, MCMC and SMC, and stability.

Run: python benchmarks/large.py [--seconds 60] [--seeds 3] [--out benchmarks/results/large.md]
Every engine has one core and so many seconds. "best" is the highest log R of any tree an engine
met; for MCMC and SMC "1000" is the best of the 1000 trees they return. Greedy growth splits the
leaf that gains most while anything gains. ELBO and log evidence of the GFlowNet: a seed each.
Raisin and Pima are read from DTGFN_DATA_DIR, or fetched.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from problems import LARGE, Problem, Report, infer

ENGINES = {"gfn": {}, "mcmc": {"n_steps": None}, "smc": {"n_sweeps": None}}


def greedy_log_reward(rows, score) -> float:
    """Log R of the tree that greedy growth on the same score finds."""
    from dtgfn.trees.score import leaf_log_marginal

    log_stop, log_split = score.prior.node_terms(score.max_depth)
    eye = np.eye(score.leaf.n_sums)[rows.target] * rows.weight[:, None]

    def grow(members: np.ndarray, depth: int) -> float:
        here = float(leaf_log_marginal(eye[members].sum(axis=0), score)) + log_stop[depth]
        if depth == score.max_depth:
            return here
        best, side = here, None
        for f in range(rows.codes.shape[1]):
            codes = rows.codes[members, f]
            counts = np.zeros((int(codes.max()) + 1, score.leaf.n_sums))
            np.add.at(counts, codes, eye[members])
            left = counts.cumsum(axis=0)[:-1]
            right = counts.sum(axis=0) - left
            valid = (left.sum(axis=1) > 0) & (right.sum(axis=1) > 0)
            if not valid.any():
                continue
            value = leaf_log_marginal(left, score) + leaf_log_marginal(right, score)
            value = np.where(valid, value + log_split[depth], -np.inf)
            cut = int(np.argmax(value))
            if value[cut] > best:
                best, side = float(value[cut]), codes <= cut
        if side is None:
            return here
        return log_split[depth] + sum(grow(members[s], depth + 1) for s in (side, ~side))

    return grow(np.arange(len(rows.target)), 0)


def measure(problem: Problem, penalty: str, engine: str, seed: int, seconds: float):
    warnings.simplefilter("ignore")
    found = infer(
        problem, penalty, engine, time_budget=seconds, random_state=seed, n_jobs=1,
        **ENGINES[engine],
    )  # fmt: skip
    told = found.diagnostics
    return {
        "best": found.best_log_reward,
        "sampled": float(found.log_reward.max()),
        "log_evidence": found.log_evidence if engine != "mcmc" else None,
        "elbo": told.get("elbo"),
        "ess": told.get("ess"),
        "open": told.get("open"),
        "greedy": greedy_log_reward(found.rows, found.score),
    }


def measure_all(jobs: list[list[str]]) -> list[dict[str, float]]:
    """Measure in processes, two at a time."""
    results = []
    for i in range(0, len(jobs), 2):
        running = [
            subprocess.Popen([sys.executable, __file__, "--one", *job], stdout=subprocess.PIPE)
            for job in jobs[i : i + 2]
        ]
        results += [json.loads(process.communicate()[0]) for process in running]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=7, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        table, t, depth, penalty, engine, seed, seconds = arguments.one
        problem = Problem(table, int(t), int(depth))
        print(json.dumps(measure(problem, penalty, engine, int(seed), float(seconds))))
        return
    report = Report(
        "problem", "penalty", "greedy", "mcmc best (1000)", "smc best (1000)", "gfn best",
        "gfn ELBO", "gfn log evidence", "smc log evidence", "ESS", "open", "ahead"
    )  # fmt: skip
    for problem in LARGE:
        for penalty in ("mdl", "paper"):
            shape = [problem.table, str(problem.n_thresholds), str(problem.max_depth), penalty]
            jobs = [[*shape, "gfn", str(s), str(arguments.seconds)] for s in range(arguments.seeds)]
            jobs += [[*shape, name, "0", str(arguments.seconds)] for name in ("mcmc", "smc")]
            *gfn, mcmc, smc = measure_all(jobs)

            def each(name: str, results=gfn, digits: int = 2) -> str:
                return ", ".join(f"{r[name]:.{digits}f}" for r in results)

            rivals = max(gfn[0]["greedy"], mcmc["sampled"], smc["sampled"])
            ahead = all(r["best"] >= rivals - 1e-6 for r in gfn)
            report.row(
                problem, penalty, f"{gfn[0]['greedy']:.2f}",
                f"{mcmc['best']:.2f} ({mcmc['sampled']:.2f})",
                f"{smc['best']:.2f} ({smc['sampled']:.2f})",
                each("best"), each("elbo"), each("log_evidence"), f"{smc['log_evidence']:.2f}",
                each("ess", digits=3), each("open"), "yes" if ahead else "NO",
            )  # fmt: skip
    report.write(arguments.out)


if __name__ == "__main__":
    main()
