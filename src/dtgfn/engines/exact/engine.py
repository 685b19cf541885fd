"""The exact engine: from rows and a score to the posterior, with nothing approximated."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn._support.budget import Budget, available_memory
from dtgfn._support.checks import check_count
from dtgfn._support.progress import Progress, silent
from dtgfn._support.threads import Threads, run_here
from dtgfn.engines.exact.averaging import average_predictions
from dtgfn.engines.exact.cost import estimate_cost, refuse_if_hopeless
from dtgfn.engines.rowsets.best import best_tree
from dtgfn.engines.rowsets.graph import (
    Edges,
    Level,
    count_edges,
    expand,
    expansion_bytes,
    root_level,
)
from dtgfn.engines.rowsets.inside import Values, level_values, tail_values, values_bytes
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.engines.rowsets.sampling import sample_trees
from dtgfn.engines.rowsets.support import Graph, SupportLevel, build_support
from dtgfn.engines.rowsets.two_levels import scratch_bytes
from dtgfn.posterior.tree_posterior import TreePosterior, check_possible
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

FEW_ROWS = 8  # to compile with


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


def infer_exact(
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
    n_columns: int,
    n_trees: int = 1000,
    random_state: int | np.random.Generator | None = None,
    time_budget: float | None = 300.0,
    memory_budget: int | None = None,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> TreePosterior:
    """Compute the posterior over trees by summing over all of them.

    ``column`` [d] is the source column of each feature, 0..n_columns-1. What clearly needs more
    than ``time_budget`` seconds is refused at once, the rest is stopped in time;
    ``memory_budget`` is half of the free memory if None.

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
    memory_budget : int or None
        Bytes; half of the free memory if None.
    n_jobs : int or None
        Threads, all cores if None or -1.
    progress : function
        Told the stage, and how much of it is done.

    Returns
    -------
    TreePosterior
        With the exact evidence, and a ``solution`` that averages over all trees.

    """
    if memory_budget is not None:
        memory_budget = check_count("memory_budget", memory_budget)
    few = Rows(rows.codes[:FEW_ROWS], rows.target[:FEW_ROWS], rows.weight[:FEW_ROWS])
    progress("preparing (the first run compiles)", 0.0)
    make_problem(few, score, column, n_columns)
    budget = Budget(
        seconds=time_budget,
        memory=memory_budget if memory_budget is not None else available_memory() // 2,
        n_jobs=n_jobs or os.cpu_count() or 1,
        progress=progress,
        started=time.monotonic(),
    )
    budget.check_memory(
        40.0 * len(rows.target) * score.leaf.n_sums,
        f"{len(rows.target):,} rows with {score.leaf.n_sums:,} sums each",
    )
    problem = make_problem(rows, score, column, n_columns)
    tail_levels = min(score.max_depth, 2 if problem.two_levels_at_once else 1)
    if tail_levels == 2:
        needed = scratch_bytes(problem) * budget.n_jobs
        budget.check_memory(needed, f"pairs of {problem.max_cuts:,} cuts")
    prepared = time.monotonic()
    compile_loops(few, score, column, n_columns, tail_levels)
    # Compiling, on a first run, is not the problem's fault.
    budget.started += time.monotonic() - prepared
    cost = estimate_cost(problem, tail_levels, budget.n_jobs, n_trees)
    refuse_if_hopeless(cost, budget)
    progress("preparing (the first run compiles)", 1.0)
    progress(f"expected: {cost}", 1.0)
    budget.ahead = cost.after
    graph = solve(problem, tail_levels, budget)
    solve_seconds = time.monotonic() - budget.started
    budget.ahead = 0.0
    stage = "finding the best tree"
    best = best_tree(problem, graph, budget.run_in_order(stage), budget.run_anyhow(stage))
    support = build_support(problem, graph, budget.run_anyhow("keeping what matters"))
    solution = ExactSolution(problem, support, budget.n_jobs)
    run = budget.run_anyhow("sampling trees")
    trees = sample_trees(problem, support, n_trees, np.random.default_rng(random_state), run)
    root = graph.values[0]
    log_z = float(root.log_z[0])
    reward = np.empty(n_trees)
    merged = merge_rows(rows)

    def score_trees(first: int, last: int) -> None:
        reward[first:last] = log_reward(trees[first:last], merged, score)

    budget.run_anyhow("scoring the samples")(score_trees, n_trees)
    posterior = TreePosterior(
        trees=trees,
        log_reward=reward,
        log_prob=reward / score.temperature - log_z,
        log_weight=np.zeros(n_trees),
        log_evidence=log_z,
        log_evidence_error=0.0,
        best_tree=best,
        best_log_reward=float(log_reward(best, merged, score)[0]),
        column_inclusion=np.clip(1.0 - root.absent[0], 0.0, 1.0),
        size_probability=np.trim_zeros(root.size[0], "b"),
        rows=rows,
        score=score,
        engine="exact",
        solution=solution,
        diagnostics={
            "sub_problems": sum(len(level) for level in graph.levels),
            "support": sum(len(here.bits) for here in support),
            "estimated_sub_problems": cost.sub_problems,
            "estimated_seconds": cost.seconds,
            "solve_seconds": solve_seconds,
            "seconds": time.monotonic() - budget.started,
        },
    )
    check_possible(posterior)
    return posterior


def compile_loops(
    few: Rows, score: Score, column: Int32s, n_columns: int, tail_levels: int
) -> None:
    """Run every loop once on a few rows, so that all of them are compiled."""
    problem = make_problem(few, score, column, n_columns)
    if tail_levels == 2 and not problem.two_levels_at_once:
        return
    graph = solve(problem, tail_levels, Budget(None, 1 << 62, 1, silent, time.monotonic()))
    best_tree(problem, graph, run_here, run_here)
    support = build_support(problem, graph, run_here)
    sample_trees(problem, support, 1, np.random.default_rng(0), run_here)


def solve(problem: Problem, tail_levels: int, budget: Budget) -> Graph:
    """Build the graph from the root down, then value it from the tails up."""
    max_depth = problem.score.max_depth
    levels: list[Level] = [root_level(problem)]
    edges: list[Edges] = []
    for _ in range(max_depth - tail_levels):
        counts = count_edges(problem, levels[-1], budget.run_anyhow("counting cuts"))
        n_edges = int(counts.sum(dtype=np.int64))
        budget.check_memory(expansion_bytes(problem, n_edges), f"{n_edges:,} cuts")
        run = budget.run_in_order("finding row sets")
        new_edges, children = expand(problem, levels[-1], run, counts)
        edges.append(new_edges)
        levels.append(children)
    for depth, level in enumerate(levels):
        n_bytes = values_bytes(problem, len(level), max_depth - depth)
        budget.check_memory(n_bytes, f"{len(level):,} sub-problems")
    run = budget.run_anyhow("summing over trees")
    values: list[Values] = [tail_values(problem, levels[-1], tail_levels, run)]
    for depth in range(len(edges) - 1, -1, -1):
        run = budget.run_anyhow("combining sub-problems")
        levels_left = max_depth - depth
        here = level_values(problem, levels[depth], edges[depth], values[0], levels_left, run)
        values.insert(0, here)
    return Graph(levels, edges, values)
