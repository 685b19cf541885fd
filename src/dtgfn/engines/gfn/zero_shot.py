"""Zero-shot: trees from a policy for all tables, after some looks and without any training step.

The looks are counted in row sets, not in seconds, so that a fit is the same on every machine
(``fixed/looks.py``); no torch is imported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dtgfn._support.parallel import Threads, count_threads
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.fixed.estimates import FlowEstimates
from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy
from dtgfn.engines.gfn.fixed.guesses import PolicyGuesser
from dtgfn.engines.gfn.fixed.looks import ROUNDS, affordable_looks, look_around
from dtgfn.engines.rowsets.partial.graph import PartialGraph, limits_for
from dtgfn.engines.rowsets.problem import make_problem, rank_type
from dtgfn.trees.score import Rows, Score

if TYPE_CHECKING:
    from dtgfn.engines.gfn.fixed.policies import Policy

PAIRED = 1e6  # pairs of cuts of a table whose two last levels are summed
FEW_ROWS, FEW_CUTS = 20, 2  # to compile with


@dataclass(frozen=True)
class Looked:
    """What ``Training`` says of a run, where there was none: no steps, no history, no state."""

    seconds: float
    n_steps: int = 0
    stopped_because: str = "steps"
    best_tree: None = None
    state: None = None

    @property
    def history(self) -> list[dict[str, Any]]:
        """Nothing."""
        return []


def make_zero_shot(
    rows: Rows,
    score: Score,
    run: Run,
    policy: Policy,
    exact_tails: int,
    memory: float,
    seed: int = 0,
    ranked: np.dtype[Any] | None = None,
) -> FixedPolicy:
    """Return what draws by a policy for all tables; ``rows`` have no equal ones.

    ``ranked`` is the type of ranks, where another table's is to be taken.
    """
    ranked = rank_type(rows.codes) if ranked is None else ranked
    problem = make_problem(rows, score, run.column, run.n_columns, ranked=ranked)
    n_jobs = count_threads(run.n_jobs)
    tails = exact_tails if problem.max_cuts**2 <= PAIRED else 1
    limits = limits_for(problem, memory, n_jobs)
    graph = PartialGraph(problem, tails, Threads(n_jobs), limits=limits)
    flows = FlowEstimates(graph, PolicyGuesser(policy), remember=True, seed=seed)
    drawn = FixedPolicy(flows, rows, n_scouts=1)
    drawn.most_new = float(affordable_looks(graph))
    return drawn


def compile_zero_shot(
    drawn: FixedPolicy, score: Score, run: Run, policy: Policy, exact_tails: int, memory: float
) -> None:
    """Run what runs for a table once on a few of its rows."""
    rows, limits = drawn.rows, drawn.graph.limits
    few = Rows(rows.codes[:FEW_ROWS], rows.target[:FEW_ROWS], rows.weight[:FEW_ROWS])
    tails = max(min(drawn.summed_levels, exact_tails), 1)
    ranked = drawn.graph.problem.loops.ranks.dtype
    small = make_zero_shot(few, score, run, policy, tails, memory, ranked=ranked)
    if limits.kept_cuts is not None or limits.rebuilt:
        small.graph.limits = replace(limits, kept_cuts=limits.kept_cuts and FEW_CUTS)
        small.graph.clear()
        small.flows.begin()
    small.most_new = float(ROUNDS)
    look_around(small, ROUNDS)
    small.draw(2, np.random.default_rng(0))
