"""Zero-shot: trees from a policy for all tables, after some looks and without any training step.

Scouts look where the policy expects most mass; what they find settles flows and fits the policy's
last layer to this table, in closed form. All of it is counted in row sets, not in seconds, so that
a fit is the same on every machine; no torch is imported.
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
from dtgfn.engines.rowsets.partial.graph import PartialGraph, limits_for
from dtgfn.engines.rowsets.problem import make_problem, rank_type
from dtgfn.trees.score import Rows, Score

if TYPE_CHECKING:
    from dtgfn.engines.gfn.fixed.policies import Policy

ROUNDS, LEARNED = 6, 3  # of looks, and after how many of them the policy learns
LOOKED = 8e7  # pairs of cuts, or cells and cuts, that looks and drawing may take each
PAIRED = 1e6  # pairs of cuts of a table whose two last levels are summed
MOST_LOOKS = 4000
FEWEST_LOOKS = 16
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
    flows = FlowEstimates(graph, PolicyGuesser(policy), remember=True, seed=0)
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
    small = make_zero_shot(few, score, run, policy, tails, memory, ranked)
    if limits.kept_cuts is not None or limits.rebuilt:
        small.graph.limits = replace(limits, kept_cuts=limits.kept_cuts and FEW_CUTS)
        small.graph.clear()
        small.flows.begin()
    small.most_new, rng = float(ROUNDS), np.random.default_rng(0)
    look_around(small, rng)
    small.draw(2, rng)


def affordable_looks(graph: PartialGraph) -> int:
    """How many row sets looks may expand, and drawing again."""
    problem = graph.problem
    work = 100.0 * problem.max_cuts + problem.n_rows * problem.feature.size
    if graph.tail_levels == 2:
        work += float(problem.max_cuts) ** 2
    return int(np.clip(LOOKED / max(work, 1.0), FEWEST_LOOKS, MOST_LOOKS))


def look_around(drawn: FixedPolicy, rng: np.random.Generator) -> None:
    """Look at the row sets that are expected to hold most mass, and learn from what they show."""
    drawn.n_scouts = max(int(drawn.most_new) // (2 * ROUNDS), 1)
    for _ in range(ROUNDS // LEARNED):
        drawn.look(LEARNED, rng)
        if drawn.exact:
            break
        drawn.flows.adapt()
