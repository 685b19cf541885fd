"""Where exact is out of reach: best log R against greedy growth, MCMC and SMC, and stability.

Every engine has so many seconds of one core, by the processor's clock. "best" is the highest log R
of any tree an engine met; for MCMC and SMC "1000" is the best of the 1000 trees they return. Greedy
growth splits the leaf that gains most while anything gains. ELBO and log evidence of the GFlowNet:
a seed each. Raisin and Pima are read from DTGFN_DATA_DIR, or fetched.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dtgfn._support.arrays import Int64s
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn_bench.cpu_clock import cpu_budgets
from dtgfn_bench.problems import LARGE, Problem, infer_problem
from dtgfn_bench.studies.isolated import run_each_isolated
from dtgfn_bench.studies.reporting import Report

N_PROCESSES = 2
# Steps and sweeps without limit: time is what ends a run.
ENGINES: dict[str, dict[str, Any]] = {
    "gfn": {},
    "mcmc": {"n_steps": None},
    "smc": {"n_sweeps": None},
}


def greedy_log_reward(posterior: TreePosterior) -> float:
    """Log R of the tree that greedy growth on the same score finds."""
    from dtgfn.trees.score import leaf_log_marginal

    rows, score = posterior.rows, posterior.score
    log_stop, log_split = score.prior.node_terms(score.max_depth)
    eye = np.eye(score.leaf.n_sums)[rows.target] * rows.weight[:, None]

    def grow(members: Int64s, depth: int) -> float:
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


def measure(
    problem: Problem, penalty: str, engine: str, seed: int, seconds: float
) -> dict[str, Any]:
    """What one engine finds in some seconds on one core."""
    warnings.simplefilter("ignore")
    run = {"time_budget": seconds, "random_state": seed, "n_jobs": 1}
    with cpu_budgets():
        found = infer_problem(problem, penalty, engine, **run, **ENGINES[engine])
    state = found.diagnostics
    return {
        "best": found.best_log_reward,
        "sampled": float(found.log_reward.max()),
        "log_evidence": found.log_evidence if engine != "mcmc" else None,
        "elbo": state.get("elbo"),
        "ess": state.get("ess"),
        "open": state.get("open"),
        "greedy": greedy_log_reward(found),
    }


def run(report: Report, *, seconds: float = 60.0, seeds: int = 3) -> None:
    """Measure in processes, two at a time."""
    report.head(
        *("problem", "penalty", "greedy", "mcmc best (1000)", "smc best (1000)", "gfn best"),
        *("gfn ELBO", "gfn log evidence", "smc log evidence", "ESS", "open", "ahead"),
    )
    for problem in LARGE:
        for penalty in ("mdl", "paper"):
            calls = [(problem, penalty, "gfn", seed, seconds) for seed in range(seeds)]
            calls += [(problem, penalty, name, 0, seconds) for name in ("mcmc", "smc")]
            *gfn, mcmc, smc = run_each_isolated(measure, calls, N_PROCESSES)
            report.row(problem, penalty, *_cells(gfn, mcmc, smc))


def _cells(gfn: list[dict[str, Any]], mcmc: dict[str, Any], smc: dict[str, Any]) -> list[str]:
    def each(name: str, digits: int = 2) -> str:
        return ", ".join(f"{r[name]:.{digits}f}" for r in gfn)

    greedy = gfn[0]["greedy"]
    rivals = max(greedy, mcmc["sampled"], smc["sampled"])
    ahead = all(r["best"] >= rivals - 1e-6 for r in gfn)
    return [
        f"{greedy:.2f}",
        f"{mcmc['best']:.2f} ({mcmc['sampled']:.2f})",
        f"{smc['best']:.2f} ({smc['sampled']:.2f})",
        each("best"),
        each("elbo"),
        each("log_evidence"),
        f"{smc['log_evidence']:.2f}",
        each("ess", digits=3),
        each("open"),
        "yes" if ahead else "NO",
    ]
