"""The exact engine: from rows and a score to the posterior, with nothing approximated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.memory import allowed_memory, read_memory_budget
from dtgfn._support.parallel import Runner, Threads, count_threads, run_at_once
from dtgfn._support.progress import silent
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run
from dtgfn.engines.exact.averaging import average_predictions
from dtgfn.engines.exact.budget import (
    Budget,
    CostEstimate,
    estimate_cost,
    refuse_if_hopeless,
)
from dtgfn.engines.exact.inside_outside import (
    SolvedGraph,
    best_tree,
    build_support,
    sample_trees,
    solve,
)
from dtgfn.engines.exact.interval import EvidenceInterval, bound_problem
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.engines.rowsets.ranking import ranked_trees
from dtgfn.engines.rowsets.support import SupportLevel
from dtgfn.engines.rowsets.tails import scratch_bytes
from dtgfn.engines.warm_up import few_cells
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import check_possible, clip_rounding
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

FEW_ROWS = 8  # to compile with
# What is spent on bounds of log Z once it is clear that it is out of reach.
BOUND_SECONDS, BOUND_SHARE = 2.0, 0.1
MOST_CELLS = 5_000_000  # of a table that is bounded


@dataclass(frozen=True)
class ExactOptions:
    """What only exact inference is told.

    Attributes
    ----------
    memory_budget : int, str or None
        Bytes that it may take, or a text such as "2GB"; None for half of what is free.

    """

    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_budget", read_memory_budget(self.memory_budget))


@dataclass(frozen=True)
class ExactSolution:
    """A solved problem: enough to sample and to predict exactly."""

    problem: Problem
    support: list[SupportLevel]
    n_jobs: int

    def average(self, codes: Codes) -> Floats:
        """Exact average of what leaves predict [n, J], P(y | x, D) for classes, at codes [n, d]."""
        return average_predictions(self.problem, self.support, codes, Threads(self.n_jobs))

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Independent trees from the posterior."""
        return sample_trees(self.problem, self.support, n_trees, rng, Threads(self.n_jobs))

    def most_probable(self, n_trees: int) -> TreeBatch:
        """The most probable trees in order, each for all that part the rows alike."""
        return ranked_trees(self.problem, self.support, n_trees, Threads(self.n_jobs))


@dataclass(frozen=True)
class ExactEngine:
    """Sums over all trees, and refuses where that is out of reach."""

    name: str = "exact"
    option_names: tuple[str, ...] = ("memory_budget",)
    side_by_side: bool = False  # it counts on the memory that there is, and its sums are parallel
    fills_time: bool = False

    def read_options(self, given: Mapping[str, Any]) -> ExactOptions:
        """Make options of keywords."""
        return ExactOptions(**given)

    def infer(self, rows: Rows, score: Score, run: Run, options: ExactOptions) -> TreePosterior:
        """Infer the posterior over trees; what is refused is told with what is certain of log Z."""
        try:
            return infer_exact(rows, score, run, options)
        except BudgetExceeded as refusal:
            interval = bound_refused(rows, score, run, options) if run.judged else None
            if interval is None:
                raise
            told = BudgetExceeded(f"{refusal} For certain, {interval}.")
            told.interval = interval
            raise told from None


ENGINE = ExactEngine()


def infer_exact(
    rows: Rows, score: Score, run: Run, options: ExactOptions | None = None
) -> TreePosterior:
    """Compute the posterior over trees by summing over all of them.

    What clearly needs more than the run's time is refused at once, the rest is stopped in time.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : ExactOptions or None
        The memory that may be used.

    Returns
    -------
    TreePosterior
        Its ``solution`` is an ``ExactSolution``.

    """
    options = ExactOptions() if options is None else options
    run.progress(PREPARING, 0.0)
    few, alike = few_cells(rows, run, FEW_ROWS)
    make_problem(few, score, alike.column, run.n_columns)
    budget = make_budget(run, options)
    problem, tail_levels = prepare(rows, score, run, budget)
    begun = clock.monotonic()
    compile_loops(few, score, alike, tail_levels)
    # Compiling, on a first run, is not the problem's fault.
    budget.started += clock.monotonic() - begun
    cost = estimate_cost(problem, tail_levels, budget.n_jobs, run.n_trees)
    refuse_if_hopeless(cost, budget)
    run.progress(PREPARING, 1.0)
    run.progress(f"expected: {cost}", 1.0)
    budget.ahead = cost.after
    graph = solve(problem, tail_levels, budget)
    solve_seconds = clock.monotonic() - budget.started
    budget.ahead = 0.0
    best = best_tree(problem, graph, budget.parallel("finding the best tree"))
    support = build_support(problem, graph, budget.parallel("keeping what matters"))
    rng, runner = np.random.default_rng(run.random_state), budget.parallel("sampling trees")
    trees = sample_trees(problem, support, run.n_trees, rng, runner)
    reward = score_trees(trees, rows, score, budget.parallel("scoring the samples"))
    solution = ExactSolution(problem, support, budget.n_jobs)
    seconds = {
        "solve_seconds": solve_seconds,
        "seconds": clock.monotonic() - budget.started,
    }
    return as_posterior(rows, graph, solution, trees, reward, best, cost, seconds)


def bound_refused(
    rows: Rows, score: Score, run: Run, options: ExactOptions
) -> EvidenceInterval | None:
    """Bound log Z of what was refused, in little time; None where even that would be long."""
    if rows.codes.size > MOST_CELLS:
        return None
    memory = allowed_memory(options.memory_budget)
    problem = make_problem(rows, score, run.column, run.n_columns)
    if scratch_bytes(problem) * count_threads(run.n_jobs) > memory:
        return None
    seconds = BOUND_SECONDS
    if run.time_budget is not None:
        seconds = min(seconds, BOUND_SHARE * run.time_budget)
    return bound_problem(problem, seconds, memory, count_threads(run.n_jobs))


def make_budget(run: Run, options: ExactOptions) -> Budget:
    """Start the clock; memory is half of what is free if none is given."""
    return Budget(
        seconds=run.time_budget,
        memory=int(allowed_memory(options.memory_budget)),
        n_jobs=count_threads(run.n_jobs),
        progress=run.progress,
        started=clock.monotonic(),
    )


def prepare(rows: Rows, score: Score, run: Run, budget: Budget) -> tuple[Problem, int]:
    """Return the problem, and how many of its last levels are summed at once."""
    budget.check_memory(
        40.0 * len(rows.target) * score.leaf.n_sums,
        f"{len(rows.target):,} rows with {score.leaf.n_sums:,} sums each",
    )
    problem = make_problem(rows, score, run.column, run.n_columns)
    tail_levels = problem.summed_at_once
    if tail_levels == 2:
        needed = scratch_bytes(problem) * budget.n_jobs
        budget.check_memory(needed, f"pairs of {problem.max_cuts:,} cuts")
    return problem, tail_levels


def compile_loops(few: Rows, score: Score, run: Run, tail_levels: int) -> None:
    """Run every loop once on a few rows, so that all of them are compiled."""
    problem = make_problem(few, score, run.column, run.n_columns)
    if tail_levels > problem.summed_at_once:
        return
    graph = solve(problem, tail_levels, Budget(None, 1 << 62, 1, silent, clock.monotonic()))
    best_tree(problem, graph, run_at_once)
    support = build_support(problem, graph, run_at_once)
    sample_trees(problem, support, 1, np.random.default_rng(0), run_at_once)


def score_trees(trees: TreeBatch, rows: Rows, score: Score, run: Runner) -> Floats:
    """Log R [B] of trees, in chunks."""
    reward, merged = np.empty(len(trees)), merge_rows(rows)

    def work(first: int, last: int) -> None:
        reward[first:last] = log_reward(trees[first:last], merged, score)

    run(work, len(trees))
    return reward


def as_posterior(
    rows: Rows,
    graph: SolvedGraph,
    solution: ExactSolution,
    trees: TreeBatch,
    reward: Floats,
    best: TreeBatch,
    cost: CostEstimate,
    seconds: dict[str, float],
) -> TreePosterior:
    """Read the answers off the root."""
    score, root = solution.problem.score, graph.values[0]
    log_z = float(root.log_z[0])
    posterior = TreePosterior(
        trees=trees,
        log_reward=reward,
        log_prob=reward / score.temperature - log_z,
        log_weight=np.zeros(len(trees)),
        log_evidence=log_z,
        log_evidence_error=0.0,
        best_tree=best,
        best_log_reward=float(log_reward(best, merge_rows(rows), score)[0]),
        paper_tree=trees[[int(np.argmax(reward))]] if len(trees) else best,
        column_inclusion=np.clip(1.0 - root.absent[0], 0.0, 1.0),
        size_probability=clip_rounding(np.trim_zeros(root.size[0], "b"), log_z),
        rows=rows,
        score=score,
        engine="exact",
        solution=solution,
        diagnostics={
            "sub_problems": sum(len(sets) for sets in graph.levels),
            "support": sum(len(here.bits) for here in solution.support),
            "estimated_sub_problems": cost.sub_problems,
            "estimated_seconds": cost.seconds,
            **seconds,
        },
    )
    check_possible(posterior)
    return posterior
