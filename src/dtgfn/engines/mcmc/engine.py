"""The MCMC engine: Metropolis-Hastings chains over trees, what the field uses today."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.budget import BudgetExceeded
from dtgfn._support.checks import check_count, check_whole
from dtgfn._support.progress import Progress, silent
from dtgfn._support.turns import Deadline, take_turns
from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn.engines.mcmc.chain import INTERVAL, RECORDED, Walk, start_walk
from dtgfn.engines.mcmc.moves import MOVES
from dtgfn.engines.referee import referee, rule_on
from dtgfn.posterior.tree_posterior import TreePosterior, sampled_posterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.level_order import as_batch
from dtgfn.trees.node_terms import NodeTable, make_node_table, two_rows
from dtgfn.trees.score import Rows, Score

LEAST_RECORD = 4000  # trees per chain, enough for R-hat and effective sample size
RARE, JUDGED = 0.05, 20  # columns whose use is judged: not rarer or surer, and so many
STILL = 100.0  # draws that chains which never move are taken for
HISTORY = 40
MOST_CHAINS = 1000  # each keeps its own order of the rows


def infer_mcmc(
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
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
    taken evenly from the second halves. Chains do not know the evidence, so it is nan. Chains that
    did not come to make a step in time are left out; if none did, that is ``BudgetExceeded``.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    column : int32 [d]
        Source column of each feature, 0..n_columns-1.
    n_columns : int
        Columns of the table.
    n_trees : int
        Trees to draw.
    random_state : int, Generator or None
        Seed of everything random.
    time_budget : float or None
        Seconds; None for no limit.
    n_jobs : int or None
        Threads, all cores if None or -1.
    progress : function
        Told the stage, and how much of it is done.
    n_chains : int
        Chains.
    n_steps : int or None
        Proposals of each chain; None for as many as time allows.

    Returns
    -------
    TreePosterior
        With equally weighted trees.

    """
    n_chains = check_whole("n_chains", n_chains, 1, MOST_CHAINS)
    n_trees = check_count("n_trees", n_trees)
    n_steps = None if n_steps is None else check_count("n_steps", n_steps)
    if n_steps is None and time_budget is None:
        raise ValueError("n_steps=None runs until time_budget ends; give one of them.")
    progress("preparing (the first run compiles)", 0.0)
    compile_loops(rows, score, column, n_columns)
    progress("preparing (the first run compiles)", 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    deadline = Deadline(time_budget)
    table = make_node_table(rows, score)
    quota = -(-n_trees // n_chains)
    seeds = np.random.default_rng(random_state).integers(0, 2**64, size=n_chains, dtype=np.uint64)
    walks = [start_walk(table, seed, max(4 * quota, LEAST_RECORD)) for seed in seeds]
    n_jobs = n_jobs or os.cpu_count() or 1
    _run(walks, n_steps, deadline, n_jobs, progress)
    seconds = deadline.used
    walks = [walk for walk in walks if walk.steps]
    trees, reward = collect_trees(walks, n_trees, table)
    best = best_tree(walks, table)
    told = diagnose(walks, column[table.feature], seconds)
    worth = independent_draws(told)
    return sampled_posterior(
        trees,
        log_reward=reward,
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=score,
        column=column,
        n_columns=n_columns,
        engine="mcmc",
        best=(best, max(float(walk.record.best[0]) for walk in walks)),
        diagnostics={
            **told,
            **rule_on(trees, reward, rows, score, column, n_columns, n_jobs, worth),
        },
        history=tell_history(walks),
    )


def compile_loops(rows: Rows, score: Score, column: Int32s, n_columns: int) -> None:
    """Make a step on two rows, so that all loops are compiled."""
    table, halted = make_node_table(two_rows(rows), score), Deadline(None).halted
    for _ in start_walk(table, np.uint64(0), 4).pieces(1, halted):
        pass
    referee(two_rows(rows), score, column, n_columns, 1)


def _run(
    walks: list[Walk],
    n_steps: int | None,
    deadline: Deadline,
    n_jobs: int,
    progress: Progress,
) -> None:
    def report() -> None:
        by_steps = sum(walk.steps for walk in walks) / (len(walks) * (n_steps or math.inf))
        progress("running chains", min(max(deadline.share, by_steps), 1.0))

    take_turns(
        [walk.pieces(n_steps, deadline.halted) for walk in walks],
        n_jobs=n_jobs,
        deadline=deadline,
        enough=lambda: all(walk.steps for walk in walks),
        report=report,
    )
    if not any(walk.steps for walk in walks):
        raise BudgetExceeded(
            f"MCMC could not make a single step within time_budget={deadline.seconds:g} s; allow "
            "more, or use fewer rows or fewer columns."
        )


def collect_trees(walks: list[Walk], n_trees: int, table: NodeTable) -> tuple[TreeBatch, Floats]:
    """Take ``n_trees`` trees and their log R evenly from the second halves of all chains."""
    quotas = [len(part) for part in np.array_split(np.arange(n_trees), len(walks))]
    picks = [walk.second_half(quota) for walk, quota in zip(walks, quotas, strict=True)]
    widest = max(
        2 * int(walk.record.n_splits[pick].max(initial=0)) + 1
        for walk, pick in zip(walks, picks, strict=True)
    )
    feature = np.full((n_trees, widest), -1, dtype=np.int32)
    cut = np.zeros((n_trees, widest), dtype=np.int32)
    reward = np.empty(n_trees)
    first = 0
    for walk, pick in zip(walks, picks, strict=True):
        part = slice(first, first + len(pick))
        width = min(widest, walk.record.feature.shape[1])
        feature[part, :width] = walk.record.feature[pick, :width]
        cut[part, :width] = walk.record.cut[pick, :width]
        reward[part] = walk.record.log_reward[pick]
        first += len(pick)
    return as_batch(feature, cut, table.feature), reward


def best_tree(walks: list[Walk], table: NodeTable) -> TreeBatch:
    """Return the best tree that any chain has seen."""
    best = max(walks, key=lambda walk: float(walk.record.best[0])).record
    width = 2 * int((best.best_feature >= 0).sum()) + 1
    return as_batch(best.best_feature[None, :width], best.best_cut[None, :width], table.feature)


def diagnose(walks: list[Walk], column: Int32s, seconds: float) -> dict[str, Any]:
    """How the chains moved and whether they agree, from their recorded second halves.

    ``column`` [F] is the source column of each of their features.
    """
    n_draws = min(len(walk.second_half()) for walk in walks)
    picks = [walk.second_half(n_draws) for walk in walks]
    # Ranks must not see the rounding of equal trees.
    log_r = np.round(_gather(walks, picks, "log_reward"), 7)
    n_splits = _gather(walks, picks, "n_splits")
    used = used_columns(walks, picks, column)
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
        # Of so few draws nothing can be told but their number.
        "ess_log_reward": _storable(effective_draws(log_r)) if n_draws > 3 else float(log_r.size),
        "r_hat_columns": _storable(max(map(split_r_hat, used), default=math.nan)),
        "ess_columns": _storable(min(map(effective_draws, used), default=math.nan)),
        "recorded_draws": int(log_r.size),
        "proposals_per_second": sum(steps) / max(seconds, 1e-9),
        "seconds": seconds,
    }


def used_columns(walks: list[Walk], picks: list[Int64s], column: Int32s) -> list[Floats]:
    """Whether trees use a column, [chains, draws] for each of those that some do and some do not.

    Columns mix slower than log R: trees of equal worth may need a long way from one to the other.
    """
    n_columns = int(column.max(initial=-1)) + 1
    shape = (len(walks), len(picks[0]), n_columns)
    used = np.zeros(shape)
    for chain, (walk, pick) in enumerate(zip(walks, picks, strict=True)):
        draw, node = np.nonzero(walk.record.feature[pick] >= 0)
        used[chain, draw, column[walk.record.feature[pick][draw, node]]] = 1.0
    if len(picks[0]) < 4:
        return []  # too few to tell
    share = used.mean(axis=(0, 1))
    unsettled = np.flatnonzero((share > RARE) & (share < 1 - RARE))
    most_open = unsettled[np.argsort(np.abs(share[unsettled] - 0.5), kind="stable")][:JUDGED]
    return [used[:, :, c] for c in most_open]


def independent_draws(told: dict[str, Any]) -> float:
    """What the chains are worth by their slowest number; chains that stand still do not tell."""
    known = [told[name] for name in ("ess_log_reward", "ess_columns") if told[name] is not None]
    return float(min(known, default=STILL))


def _gather(walks: list[Walk], picks: list[Int64s], name: str) -> Floats:
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
