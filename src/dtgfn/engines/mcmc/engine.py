"""The MCMC engine: Metropolis-Hastings chains over trees, what the field uses today."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.backends import advance_elsewhere
from dtgfn._support.budgets import Allowance
from dtgfn._support.checks import check_count, check_integer
from dtgfn._support.json_values import none_if_nan
from dtgfn._support.memory import read_memory_budget
from dtgfn._support.parallel import Deadline, count_threads, run_round_robin
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run, check_table_memory
from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn.engines.mcmc.chain import INTERVAL, RECORDED, Walk, start_walk
from dtgfn.engines.mcmc.moves import MOVES
from dtgfn.engines.referee import judge_draws
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, uses_columns
from dtgfn.trees.level_order import as_batch
from dtgfn.trees.node_terms import NodeTable, make_node_table, two_rows
from dtgfn.trees.score import Rows, Score

LEAST_RECORD = 4000  # trees per chain, enough for R-hat and effective sample size
RARE, JUDGED = 0.05, 20  # columns whose use is judged: not rarer or surer, and so many
STILL = 100.0  # draws that chains which never move are taken for
HISTORY = 40
COPIES = 3  # of the codes, while equal rows are merged
MOST_CHAINS = 1000  # each keeps its own order of the rows


@dataclass(frozen=True)
class McmcOptions:
    """What only the chains are told.

    Attributes
    ----------
    n_chains : int
        Chains, each from its own start.
    n_steps : int or None
        Proposals of each chain; None is until the time is over.
    memory_budget : int, str or None
        Bytes that it may take, or a text such as "2GB"; None for half of what is free.

    """

    n_chains: int = 4
    n_steps: int | None = 100_000
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_budget", read_memory_budget(self.memory_budget))
        n_chains = check_integer("n_chains", self.n_chains, 1, MOST_CHAINS)
        object.__setattr__(self, "n_chains", n_chains)
        if self.n_steps is not None:
            object.__setattr__(self, "n_steps", check_count("n_steps", self.n_steps))


@dataclass(frozen=True)
class McmcEngine:
    """Metropolis-Hastings chains of grow, prune, change and swap moves."""

    name: str = "mcmc"
    option_names: tuple[str, ...] = ("n_chains", "n_steps", "memory_budget")
    side_by_side: bool = True
    fills_time: bool = False

    def read_options(self, given: Mapping[str, Any]) -> McmcOptions:
        """Make options of keywords."""
        return McmcOptions(**given)

    def infer(self, rows: Rows, score: Score, run: Run, options: McmcOptions) -> TreePosterior:
        """Infer the posterior over trees."""
        return infer_mcmc(rows, score, run, options)


ENGINE = McmcEngine()


def infer_mcmc(
    rows: Rows, score: Score, run: Run, options: McmcOptions | None = None
) -> TreePosterior:
    """Sample trees from R^(1/temperature) by chains of grow, prune, change and swap moves.

    The first half of a chain is burn-in; trees are taken evenly from the second halves. Chains do
    not know the evidence, so it is nan. Chains that did not come to make a step in time are left
    out; if none did, that is ``BudgetExceeded``.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : McmcOptions or None
        Number and length of the chains; with the time, whichever ends first.

    Returns
    -------
    TreePosterior
        ``diagnostics`` tells whether the chains agree.

    """
    options = McmcOptions() if options is None else options
    n_trees, n_chains = check_count("n_trees", run.n_trees), options.n_chains
    if options.n_steps is None and run.time_budget is None:
        raise ValueError("n_steps=None runs until time_budget ends; give one of them.")
    run.progress(PREPARING, 0.0)
    compile_loops(rows, score)
    run.progress(PREPARING, 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    allowance, deadline = Allowance(run.time_budget), Deadline(run.time_budget)
    # The rows in several orders while they are merged, and each chain's own order of them.
    needed = COPIES * rows.codes.nbytes + 8.0 * len(rows.target) * (n_chains + COPIES)
    check_table_memory("MCMC", needed, options.memory_budget)
    table = make_node_table(rows, score)
    quota = -(-n_trees // n_chains)
    rng = np.random.default_rng(run.random_state)
    seeds = rng.integers(0, 2**64, size=n_chains, dtype=np.uint64)
    walks = [start_walk(table, seed, max(4 * quota, LEAST_RECORD)) for seed in seeds]
    run_chains(walks, options.n_steps, deadline, run)
    seconds = deadline.used
    walks = [walk for walk in walks if walk.steps]
    trees, reward = collect_trees(walks, n_trees, table)
    diagnostics = diagnose(walks, run.column[table.feature], seconds)
    n_effective = independent_draws(diagnostics)
    # Chains that never moved claim that there is nowhere to go, with as many trees as there are.
    n_claimed = diagnostics["ess_log_reward"] or n_trees
    given = (trees, reward, rows, score, run, n_effective, n_claimed)
    ruling = judge_draws(*given, seconds=allowance.last_word())
    return sampled_posterior(
        trees,
        log_reward=reward,
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine="mcmc",
        also_known=best_tree(walks, table),
        diagnostics={**diagnostics, **ruling},
        history=make_history(walks),
    )


def compile_loops(rows: Rows, score: Score) -> None:
    """Make a step on two rows, so that all loops are compiled."""
    table, halted = make_node_table(two_rows(rows), score), Deadline(None).halted
    for _ in start_walk(table, np.uint64(0), 4).chunks(1, halted):
        pass


def run_chains(walks: list[Walk], n_steps: int | None, deadline: Deadline, run: Run) -> None:
    """Let all chains make their steps, until the deadline is over."""

    def show_progress() -> None:
        by_steps = sum(walk.steps for walk in walks) / (len(walks) * (n_steps or math.inf))
        run.progress("running chains", min(max(deadline.share, by_steps), 1.0))

    def chunks(walk: Walk, until: Deadline) -> Iterator[bool]:
        return walk.chunks(n_steps, until.halted)

    if not advance_elsewhere(walks, chunks, deadline, run.n_jobs):
        run_round_robin(
            [chunks(walk, deadline) for walk in walks],
            n_jobs=count_threads(run.n_jobs),
            deadline=deadline,
            enough=lambda: all(walk.has_answer for walk in walks),
            on_progress=show_progress,
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
        "r_hat_log_reward": none_if_nan(split_r_hat(log_r)),
        "r_hat_splits": none_if_nan(split_r_hat(n_splits)),
        # Of so few draws nothing can be told but their number.
        "ess_log_reward": none_if_nan(effective_draws(log_r)) if n_draws > 3 else float(log_r.size),
        "r_hat_columns": none_if_nan(max(map(split_r_hat, used), default=math.nan)),
        "ess_columns": none_if_nan(min(map(effective_draws, used), default=math.nan)),
        "recorded_draws": int(log_r.size),
        "proposals_per_second": sum(steps) / max(seconds, 1e-9),
        "seconds": seconds,
    }


def used_columns(walks: list[Walk], picks: list[Int64s], column: Int32s) -> list[Floats]:
    """Whether trees use a column, [chains, draws] for each of those that some do and some do not.

    Columns mix slower than log R: trees of equal worth may need a long way from one to the other.
    """
    n_columns = int(column.max(initial=-1)) + 1
    pairs = zip(walks, picks, strict=True)
    each = [uses_columns(w.record.feature[p], column, n_columns) for w, p in pairs]
    used = np.stack(each).astype(np.float64)
    if len(picks[0]) < 4:
        return []  # too few to tell
    share = used.mean(axis=(0, 1))
    unsettled = np.flatnonzero((share > RARE) & (share < 1 - RARE))
    most_open = unsettled[np.argsort(np.abs(share[unsettled] - 0.5), kind="stable")][:JUDGED]
    return [used[:, :, c] for c in most_open]


def independent_draws(diagnostics: dict[str, Any]) -> float:
    """What the chains are worth by their slowest number; chains that stand still do not tell."""
    sizes = (diagnostics[name] for name in ("ess_log_reward", "ess_columns"))
    return float(min((size for size in sizes if size is not None), default=STILL))


def _gather(walks: list[Walk], picks: list[Int64s], name: str) -> Floats:
    pairs = zip(walks, picks, strict=True)
    return np.stack([getattr(walk.record, name)[pick] for walk, pick in pairs]).astype(float)


def make_history(walks: list[Walk]) -> list[dict[str, Any]]:
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
