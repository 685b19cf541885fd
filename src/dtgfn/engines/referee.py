"""A referee for samplers: what a little exact work proves of the posterior they drew from.

Chains can agree on one wrong mode, sweeps on one wrong evidence, and nothing that they drew shows
it. So the row sets that hold most by their look-ahead are summed as the GFlowNet sums them, without
any guess and up to a fixed amount of work. That bounds log Z, and from below the share of trees
that split first on each column. On small problems both bounds meet, and are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.parallel import Threads, count_threads
from dtgfn.engines.contract import Run
from dtgfn.engines.rowsets.partial.graph import Graph
from dtgfn.engines.rowsets.partial.scouts import send_scouts
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.trees.batch import TreeBatch, distinct_trees
from dtgfn.trees.score import Rows, Score

WORK = 3e5  # steps of the loops for each tree: a fraction of a second for a thousand of them
MOST_NODES = 2000
MOST_CELLS = 5_000_000  # of a table
AT_ONCE = 64  # scouts, at least
RARELY = 0.005


@dataclass(frozen=True)
class Bounds:
    """What was proven.

    Attributes
    ----------
    floor, ceiling : float
        Bounds of log Z.
    first_split : float64 [n_columns + 1]
        At least this share of the posterior splits first on each column; the last one never splits.

    """

    floor: float
    ceiling: float
    first_split: Floats


def bound_posterior(
    rows: Rows, score: Score, column: Int32s, n_columns: int, n_jobs: int, n_trees: int = 1000
) -> Bounds:
    """Look at as many row sets as is fair to the work that so many trees were, and bound."""
    problem = make_problem(rows, score, column, n_columns)
    # At depth 2 one tail is enough, and leaves first splits to look at.
    graph = Graph(problem, 2 if score.max_depth > 2 else 1, Threads(n_jobs))
    rng = np.random.default_rng(0)
    look_at(graph, 0, np.zeros(1, np.int64))
    n_left = affordable_nodes(problem, n_trees)
    n_scouts = max(AT_ONCE, n_left // 8)  # in few rounds: each settles all flows anew
    while graph.n_upper and n_left > 0 and float(graph.levels[0].open[0]) > 0.0:
        frontier, _ = send_scouts(graph, min(n_scouts, n_left), rng)
        n_new = 0
        for depth, nodes, cuts in frontier:
            n_new += look_at(graph, depth + 1, np.unique(graph.reach(depth, nodes, cuts)))
        graph.settle_all(remember=True, hope=False)
        n_left -= max(n_new, 1)
    floor, ceiling = graph.bounds()
    return Bounds(floor, ceiling, first_split(graph, ceiling, column, n_columns))


def affordable_nodes(problem: Problem, n_trees: int) -> int:
    """Row sets whose sums fit into the work."""
    pairs = problem.max_cuts**2 / 2 if problem.two_levels_at_once else 0.0
    cells = problem.n_rows * max(problem.feature.size, 1) * problem.loops.sums.shape[1]
    return int(np.clip(n_trees * WORK / max(pairs + cells, 1.0), 1, MOST_NODES))


def look_at(graph: Graph, depth: int, nodes: Int64s) -> int:
    """Make nodes known by their look-ahead, and return how many were not."""
    new = graph.look_at(depth, nodes)
    graph.settle(depth, new, remember=True, hope=False)
    return int(new.size)


def first_split(graph: Graph, ceiling: float, column: Int32s, n_columns: int) -> Floats:
    """Shares that trees split first on each column at least, and that they do not split."""
    least = np.zeros(n_columns + 1)
    root = graph.levels[0]
    if graph.n_upper == 0 or not math.isfinite(ceiling):
        return least
    least[-1] = math.exp(min(float(root.stop[0]) - ceiling, 0.0))
    cuts = slice(int(root.start[0]), int(root.start[0] + root.n_cuts[0]))
    source = column[graph.problem.feature[root.cuts.feature[cuts]]]
    # Without hope, the flow through a cut is a sum over trees that are known.
    np.add.at(least, source, np.exp(np.minimum(root.cuts.logit[cuts] - ceiling, 0.0)))
    return least


def held_share(trees: TreeBatch, log_target: Floats, floor: float) -> float:
    """Share of the posterior that distinct trees [B] hold at most."""
    first, _ = distinct_trees(trees)
    return math.exp(min(float(logsumexp(log_target[first])) - floor, 0.0))


def seeming_share(trees: TreeBatch) -> float:
    """Share that they seem to hold: all but that of trees drawn once (Good, Turing).

    Draws of a chain depend on each other and come again too often, so only where hardly any tree
    was drawn once do they seem to hold anything.
    """
    _, member = distinct_trees(trees)
    once = float((np.bincount(member) == 1).sum()) / len(trees)
    return 1.0 - once if once < RARELY else 0.0


def judge_draws(
    trees: TreeBatch,
    log_reward: Floats,
    rows: Rows,
    score: Score,
    run: Run,
    n_effective: float,
) -> dict[str, float]:
    """Hold trees that count alike against the bounds; plain numbers for ``diagnostics``.

    ``missed`` is a share of the posterior that is proven to be missing among the trees, beyond what
    so many independent draws may miss by chance (four standard errors): that splits first on
    some column where they do not, or that they seem to hold, by how often they come again, and do
    not. Tables on which even the root is much work are not judged.
    """
    if rows.codes.size > MOST_CELLS:
        return {}
    column, n_columns = run.column, run.n_columns
    n_threads = count_threads(run.n_jobs)
    bounds = bound_posterior(rows, score, column, n_columns, n_threads, len(trees))
    first = trees.feature[:, 0]
    source = np.where(first >= 0, column[np.maximum(first, 0)] if column.size else 0, n_columns)
    found = np.bincount(source, minlength=n_columns + 1) / len(trees)
    least, n_independent = bounds.first_split, max(min(n_effective, len(trees)), 1.0)
    chance = 4 * np.sqrt(least * (1 - least) / n_independent)
    first_missed = float(np.max(least - found - chance))
    seeming = seeming_share(trees) - 2 / math.sqrt(n_independent)
    again_missed = seeming - held_share(trees, log_reward / score.temperature, bounds.floor)
    diagnostics = {
        "referee_floor": bounds.floor,
        "missed": max(first_missed, again_missed, 0.0),
    }
    if math.isfinite(bounds.ceiling):
        diagnostics["referee_ceiling"] = bounds.ceiling
    return diagnostics
