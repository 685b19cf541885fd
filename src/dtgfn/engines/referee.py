"""A referee for samplers: what a little exact work proves of the posterior they drew from.

Chains can agree on one wrong mode, sweeps on one wrong evidence, and nothing that they drew shows
it. So a little exact work is done beside them, in proportion to the trees that are judged. Where it
is enough to sum over all trees, their columns and sizes are held against the exact ones too.
Elsewhere the row sets that hold most by their look-ahead are summed, without any guess: that bounds
log Z, and from below the share of trees that split first on each column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.parallel import Runner, Threads, count_threads, run_at_once
from dtgfn.engines.contract import Run
from dtgfn.engines.rowsets.graph import Edges, RowSets, count_edges, expand, root_row_set
from dtgfn.engines.rowsets.inside import level_values
from dtgfn.engines.rowsets.partial.bounds import look_at
from dtgfn.engines.rowsets.partial.graph import PartialGraph
from dtgfn.engines.rowsets.partial.scouts import send_scouts
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.engines.rowsets.tails import edge_log_weights, tail_values
from dtgfn.trees.batch import TreeBatch, distinct_trees, uses_columns
from dtgfn.trees.score import Rows, Score

WORK = 3e5  # steps of the loops for each tree: a fraction of a second for a thousand of them
LOOK_UP = 100.0  # steps that finding the row sets of a cut takes
MOST_NODES = 2000
WORK_PER_SECOND = 3e8  # of these steps, on any machine of today
MOST_CELLS = 5_000_000  # of a table
CELLS_PER_SECOND = 5e6  # of a table that is made ready
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
    inclusion : float64 [n_columns] or None
        P(a tree uses a column), if the sum is complete.
    size : float64 [L] or None
        P(number of splits), likewise.

    """

    floor: float
    ceiling: float
    first_split: Floats
    inclusion: Floats | None = None
    size: Floats | None = None


def bound_posterior(
    rows: Rows,
    score: Score,
    column: Int32s,
    n_columns: int,
    n_jobs: int,
    n_trees: int = 1000,
    partial_sums: bool = True,
    seconds: float = math.inf,
) -> Bounds | None:
    """Do as much exact work as is fair to the work that so many trees were, and fits in time.

    None if that is too little for the sum over all trees, and ``partial_sums`` are not wanted.
    """
    problem = make_problem(rows, score, column, n_columns)
    work = min(n_trees * WORK, seconds * WORK_PER_SECOND)
    complete = sum_all(problem, column, n_columns, Threads(n_jobs), work)
    if complete is None and partial_sums:
        return bound_sums(problem, column, n_columns, n_jobs, work)
    return complete


def sum_all(
    problem: Problem, column: Int32s, n_columns: int, run: Runner, work: float
) -> Bounds | None:
    """Sum over all trees, from the root down and up again; None if that is more than ``work``."""
    max_depth = problem.score.max_depth
    # One tail only: it is enough for problems this small, and leaves first splits to look at.
    n_steps = max(max_depth - 1, 0)
    levels, edges = [root_row_set(problem)], list[Edges]()
    for _ in range(n_steps):
        counts = count_edges(problem, levels[-1], run)
        n_edges = float(counts.sum(dtype=np.int64))
        work -= count_cells(problem, levels[-1]) + n_edges * (problem.n_words + LOOK_UP)
        # Every cut has two children, most of which are new, and those are to be summed too.
        if work < 2 * n_edges * problem.feature.size:
            return None
        found, children = expand(problem, levels[-1], run_at_once, counts)
        edges.append(found)
        levels.append(children)
        if work < count_cells(problem, children):
            return None
    values = [tail_values(problem, levels[-1], max_depth - n_steps, run)]
    for depth in range(n_steps - 1, -1, -1):
        here = level_values(problem, levels[depth], edges[depth], values[0], max_depth - depth, run)
        values.insert(0, here)
    root = values[0]
    log_z = float(root.log_z[0])
    first = np.zeros(n_columns + 1)
    if n_steps:
        weight = np.empty(edges[0].feature.size)
        edge_log_weights(0, 1, edges[0], values[1].log_z, 0, problem.loops, weight)
        share = (edges[0].high - edges[0].low) * np.exp(weight - log_z)
        np.add.at(first, column[problem.feature[edges[0].feature]], share)
        first[-1] = root.size[0, 0]
    return Bounds(log_z, log_z, first, np.clip(1.0 - root.absent[0], 0.0, 1.0), root.size[0])


def count_cells(problem: Problem, sets: RowSets) -> float:
    """What the loops look at to list the cuts of row sets, or to sum over them."""
    n_rows = float(np.bitwise_count(sets.bits).sum())
    per_row = problem.feature.size * problem.loops.sums.shape[1]
    return n_rows * per_row + len(sets) * (problem.max_cuts + problem.n_words)


def bound_sums(
    problem: Problem, column: Int32s, n_columns: int, n_jobs: int, work: float
) -> Bounds:
    """Look at the row sets that hold most by their look-ahead, as many as can be afforded."""
    score = problem.score
    # At depth 2 one tail is enough, and leaves first splits to look at.
    graph = PartialGraph(problem, 2 if score.max_depth > 2 else 1, Threads(n_jobs))
    rng = np.random.default_rng(0)
    look_at(graph, 0, np.zeros(1, np.int64))
    n_left = affordable_nodes(problem, work)
    n_scouts = max(AT_ONCE, n_left // 8)  # in few rounds: each updates all flows
    while graph.n_upper and n_left > 0 and float(graph.levels[0].open[0]) > 0.0:
        frontier, _ = send_scouts(graph, min(n_scouts, n_left), rng)
        n_new = 0
        for depth, nodes, cuts in frontier:
            n_new += look_at(graph, depth + 1, np.unique(graph.reach(depth, nodes, cuts)))
        graph.update_all(remember=True, optimistic=False)
        n_left -= max(n_new, 1)
    floor, ceiling = graph.bounds()
    return Bounds(floor, ceiling, first_split(graph, ceiling, column, n_columns))


def affordable_nodes(problem: Problem, work: float) -> int:
    """Row sets whose sums fit into the work."""
    pairs = problem.max_cuts**2 / 2 if problem.two_levels_at_once else 0.0
    cells = problem.n_rows * max(problem.feature.size, 1) * problem.loops.sums.shape[1]
    return int(np.clip(work / max(pairs + cells, 1.0), 1, MOST_NODES))


def first_split(graph: PartialGraph, ceiling: float, column: Int32s, n_columns: int) -> Floats:
    """Shares that trees split first on each column at least, and that they do not split."""
    least = np.zeros(n_columns + 1)
    root = graph.levels[0]
    if graph.n_upper == 0 or not math.isfinite(ceiling):
        return least
    least[-1] = math.exp(min(float(root.stop[0]) - ceiling, 0.0))
    cuts = slice(int(root.start[0]), int(root.start[0] + root.n_cuts[0]))
    source = column[graph.problem.feature[root.cuts.feature[cuts]]]
    # Without optimism, the flow through a cut is a sum over trees that are known.
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
    n_claimed: float | None = None,
    weight: Floats | None = None,
    partial_sums: bool = True,
    seconds: float = math.inf,
) -> dict[str, float]:
    """Hold trees against the bounds; plain numbers for ``diagnostics``.

    ``weight`` [B] adds up to one; None if all trees count alike. Without ``partial_sums`` only the
    sum over all trees is tried, for an engine that has bounds of its own.

    ``missed`` is a share of the posterior that is proven to be missing among the trees, beyond what
    so many independent draws may miss by chance (four standard errors): that splits first on
    some column where they do not, or that they seem to hold, by how often they come again, and do
    not. ``marginal_gap``, where the sum is complete, is how far the use of some column or the sizes
    are from the exact ones, beyond the errors of as many draws as the engine claims by its largest
    effective sample size (``n_effective`` if None). Tables whose root is much work are not judged,
    nor those that ``seconds`` are too few for.
    """
    seconds -= rows.codes.size / CELLS_PER_SECOND
    if not run.judged or rows.codes.size > MOST_CELLS or seconds <= 0:
        return {}
    column, n_columns = run.column, run.n_columns
    n_threads = count_threads(run.n_jobs)
    given = (rows, score, column, n_columns, n_threads, len(trees), partial_sums)
    bounds = bound_posterior(*given, seconds)
    if bounds is None:
        return {}
    weight = np.full(len(trees), 1 / len(trees)) if weight is None else weight
    first = trees.feature[:, 0]
    source = np.where(first >= 0, column[np.maximum(first, 0)] if column.size else 0, n_columns)
    found = np.bincount(source, weights=weight, minlength=n_columns + 1)
    least, n_independent = bounds.first_split, max(min(n_effective, len(trees)), 1.0)
    # A sum may exceed one by rounding.
    chance = 4 * np.sqrt(np.maximum(least * (1 - least), 0.0) / n_independent)
    first_missed = float(np.max(least - found - chance))
    seeming = seeming_share(trees) - 2 / math.sqrt(n_independent)
    again_missed = seeming - held_share(trees, log_reward / score.temperature, bounds.floor)
    diagnostics = {
        "referee_floor": bounds.floor,
        "missed": max(first_missed, again_missed, 0.0),
    }
    if math.isfinite(bounds.ceiling):
        diagnostics["referee_ceiling"] = bounds.ceiling
    if bounds.inclusion is not None and bounds.size is not None:
        n_claimed = n_independent if n_claimed is None else min(n_claimed, len(trees))
        diagnostics["marginal_gap"] = max(
            beyond_chance(
                weight @ uses_columns(trees.feature, column, n_columns),
                bounds.inclusion,
                n_claimed,
            ),
            beyond_chance(*cumulated(trees.n_splits, weight, bounds.size), n_claimed),
        )
    return diagnostics


def cumulated(n_splits: Int32s, weight: Floats, size: Floats) -> tuple[Floats, Floats]:
    """P(at most s splits) among weighted trees, and by the exact distribution."""
    n_sizes = max(size.size, int(n_splits.max(initial=0)) + 1)
    drawn = np.bincount(n_splits, weights=weight, minlength=n_sizes)
    return np.cumsum(drawn), np.cumsum(np.pad(size, (0, n_sizes - size.size)))


def beyond_chance(drawn: Floats, exact: Floats, n_draws: float) -> float:
    """How far shares are from the exact ones, beyond four standard errors of so many draws."""
    p = np.clip(exact, 0.0, 1.0)
    distance = np.abs(drawn - p) - 4 * np.sqrt(p * (1 - p) / max(n_draws, 1.0))
    return max(float(distance.max(initial=0.0)), 0.0)
