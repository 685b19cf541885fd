"""The MCMC engine: Metropolis-Hastings chains over trees, what the field uses today."""

from __future__ import annotations

import math
import os
import time
from itertools import pairwise
from typing import Any

import numpy as np

from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn.engines.level_order import as_batch
from dtgfn.engines.mcmc_moves import MOVES
from dtgfn.engines.mcmc_run import INTERVAL, RECORDED, Walk, start_walk
from dtgfn.engines.mcmc_state import Longs
from dtgfn.engines.node_terms import NodeTable, make_node_table
from dtgfn.engines.turns import take_turns
from dtgfn.kernels import Floats, Ints
from dtgfn.posterior import TreePosterior, sampled_posterior
from dtgfn.progress import Progress, silent
from dtgfn.score import Rows, Score, log_reward, merge_rows
from dtgfn.trees import TreeBatch

LEAST_RECORD = 4000  # trees per chain, enough for R-hat and effective sample size
HISTORY = 40


def infer_mcmc(
    rows: Rows,
    score: Score,
    *,
    column: Ints,
    n_columns: int,
    n_trees: int = 1000,
    random_state: int | np.random.Generator | None = None,
    time_budget: float | None = 300.0,
    n_jobs: int | None = None,
    progress: Progress = silent,
    n_chains: int = 4,
    n_steps: int | None = 100_000,
) -> TreePosterior:
    """Sample trees from R^(1/temperature) by chains of grow, prune, change and swap moves.

    Each of ``n_chains`` chains makes ``n_steps`` proposals (None: until ``time_budget`` seconds
    are over; whichever ends first). The first half of a chain is burn-in; ``n_trees`` trees are
    taken evenly from the second halves. Chains do not know the evidence, so it is nan.
    """
    _check(n_chains, n_steps, n_trees, time_budget)
    progress("preparing (the first run compiles)", 0.0)
    table = make_node_table(rows, score)
    quota = -(-n_trees // n_chains)
    seeds = np.random.default_rng(random_state).integers(0, 2**64, size=n_chains, dtype=np.uint64)
    walks = [start_walk(table, seed, max(4 * quota, LEAST_RECORD)) for seed in seeds]
    start_walk(table, seeds[0], 4).compile()
    progress("preparing (the first run compiles)", 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    started = time.monotonic()
    _run(walks, n_steps, time_budget, n_jobs or os.cpu_count() or 1, progress)
    seconds = time.monotonic() - started
    merged = merge_rows(rows)
    trees = collect_trees(walks, n_trees, table)
    best = best_tree(walks, table)
    return sampled_posterior(
        trees,
        log_reward=log_reward(trees, merged, score),
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=score,
        column=column,
        n_columns=n_columns,
        engine="mcmc",
        best=(best, float(log_reward(best, merged, score)[0])),
        diagnostics=diagnose(walks, seconds),
        history=tell_history(walks),
    )


def _check(n_chains: int, n_steps: int | None, n_trees: int, time_budget: float | None) -> None:
    for name, value in (("n_chains", n_chains), ("n_steps", n_steps), ("n_trees", n_trees)):
        if value is not None and value < 1:
            raise ValueError(f"{name}={value!r} is out of range; give a whole number from 1.")
    if n_steps is None and time_budget is None:
        raise ValueError("n_steps=None runs until time_budget ends; give one of them.")


def _run(
    walks: list[Walk],
    n_steps: int | None,
    time_budget: float | None,
    n_jobs: int,
    progress: Progress,
) -> None:
    started = time.monotonic()

    def report() -> None:
        by_time = (time.monotonic() - started) / (time_budget or math.inf)
        by_steps = sum(walk.steps for walk in walks) / (len(walks) * (n_steps or math.inf))
        progress("running chains", min(max(by_time, by_steps), 1.0))

    take_turns(
        [walk.pieces(n_steps) for walk in walks],
        n_jobs=n_jobs,
        ends=started + (math.inf if time_budget is None else time_budget),
        report=report,
    )


def collect_trees(walks: list[Walk], n_trees: int, table: NodeTable) -> TreeBatch:
    """Take ``n_trees`` trees evenly from the second halves of all chains."""
    quotas = [len(part) for part in np.array_split(np.arange(n_trees), len(walks))]
    picks = [walk.second_half(quota) for walk, quota in zip(walks, quotas, strict=True)]
    widest = max(
        2 * int(walk.record.n_splits[pick].max(initial=0)) + 1
        for walk, pick in zip(walks, picks, strict=True)
    )
    feature = np.full((n_trees, widest), -1, dtype=np.int32)
    cut = np.zeros((n_trees, widest), dtype=np.int32)
    first = 0
    for walk, pick in zip(walks, picks, strict=True):
        width = min(widest, walk.record.feature.shape[1])
        feature[first : first + len(pick), :width] = walk.record.feature[pick, :width]
        cut[first : first + len(pick), :width] = walk.record.cut[pick, :width]
        first += len(pick)
    return as_batch(feature, cut, table.feature)


def best_tree(walks: list[Walk], table: NodeTable) -> TreeBatch:
    """Return the best tree that any chain has seen."""
    best = max(walks, key=lambda walk: float(walk.record.best[0])).record
    width = 2 * int((best.best_feature >= 0).sum()) + 1
    return as_batch(best.best_feature[None, :width], best.best_cut[None, :width], table.feature)


def diagnose(walks: list[Walk], seconds: float) -> dict[str, Any]:
    """How the chains moved and whether they agree, from their recorded second halves."""
    n_draws = min(len(walk.second_half()) for walk in walks)
    picks = [walk.second_half(n_draws) for walk in walks]
    log_r = _gather(walks, picks, "log_reward")
    n_splits = _gather(walks, picks, "n_splits")
    tally = np.sum([walk.record.tally for walk in walks], axis=0)
    steps = [walk.steps for walk in walks]
    return {
        "acceptance": {
            move: float(accepted / proposed) if proposed else 0.0
            for move, (proposed, accepted) in zip(MOVES, tally, strict=True)
        },
        "steps_per_chain": steps,
        "r_hat_log_reward": _storable(split_r_hat(log_r)),
        "r_hat_splits": _storable(split_r_hat(n_splits)),
        "ess_log_reward": _storable(effective_draws(log_r)),
        "recorded_draws": int(log_r.size),
        "proposals_per_second": sum(steps) / max(seconds, 1e-9),
        "seconds": seconds,
    }


def _gather(walks: list[Walk], picks: list[Longs], name: str) -> Floats:
    pairs = zip(walks, picks, strict=True)
    return np.stack([getattr(walk.record, name)[pick] for walk, pick in pairs]).astype(float)


def _storable(value: float) -> float | None:
    return None if math.isnan(value) else value  # JSON has no nan


def tell_history(walks: list[Walk]) -> list[dict[str, Any]]:
    """Mean log R over all chains in each part of the run, and the best log R until then."""
    shortest = min(walk.steps for walk in walks)
    marks = np.unique(np.linspace(0, shortest, HISTORY + 1).astype(np.int64))
    history = []
    for first, last in pairwise(marks):
        parts, best = [], -math.inf
        for walk in walks:
            interval, recorded = (int(walk.record.at[k]) for k in (INTERVAL, RECORDED))
            end = min(int(last) // interval, recorded)
            parts.append(walk.record.log_reward[int(first) // interval : end])
            best = max(best, float(walk.record.best_log_reward[:end].max(initial=-math.inf)))
        values = np.concatenate(parts)
        if values.size:
            entry = {"step": int(last), "mean_log_reward": float(values.mean())}
            history.append(entry | {"best_log_reward": best})
    return history
