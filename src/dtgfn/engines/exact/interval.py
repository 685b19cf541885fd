"""An interval that holds log Z for certain, where there is no time or memory for log Z itself.

Row sets are looked at best first: always those that hold most of the gap between what is summed and
what the rest can be worth at most (``rowsets.partial.bounds``). So the interval shrinks for as long
as it is given, and is a point once nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from dtgfn._support import clock
from dtgfn._support.checks import check_run
from dtgfn._support.memory import allowed_memory, read_memory_budget
from dtgfn._support.parallel import Threads, count_threads
from dtgfn.engines.rowsets.partial.bounds import Bounds, bound_graph, look_at, widest
from dtgfn.engines.rowsets.partial.graph import ALL_KEPT, PartialGraph, limits_for
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, Score

CLOSED = 1e-9  # of log Z, relative: bounds as near as this are equal but for rounding
EPSILON = 4.0 * float(np.finfo(np.float64).eps)  # of a few operations in double precision
FEWEST = 8  # row sets that are looked at before bounds are updated
ROUND_SHARE = 0.2  # of the time left, that a round should take at most


@dataclass(frozen=True)
class EvidenceInterval:
    """What log Z is for certain.

    Attributes
    ----------
    lower, upper : float
        log Z is not below or above; ``upper`` is inf where nothing is known of a leaf model. Both
        allow for rounding.
    sub_problems : int
        Row sets that were looked at.
    seconds : float
        Time that it took.

    """

    lower: float
    upper: float
    sub_problems: int
    seconds: float

    @property
    def width(self) -> float:
        """Nats between the bounds."""
        return self.upper - self.lower

    def __str__(self) -> str:
        return f"log Z lies between {self.lower:.4f} and {self.upper:.4f}"


def evidence_interval(
    rows: Rows,
    score: Score,
    *,
    time_budget: float | None = 10.0,
    most_sub_problems: int | None = None,
    memory_budget: int | str | None = None,
    n_jobs: int | None = None,
) -> EvidenceInterval:
    """Return an interval that log Z, the log evidence of the rows under a score, certainly lies in.

    It takes any table, whatever exact inference would cost there, and is a point where that would
    have ended in the same time. Mixed rows, many thresholds and deep trees make it wide: see
    docs/exact.md.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights: ``posterior.rows``.
    score : Score
        Prior and leaf model: ``posterior.score``.
    time_budget : float or None
        Seconds; None for no limit.
    most_sub_problems : int or None
        Row sets to look at, at most; None for no limit. Equal limits give equal intervals.
    memory_budget : int, str or None
        Bytes, or a text such as "2GB"; None for half of what is free.
    n_jobs : int or None
        Threads, all cores if None or -1.

    Returns
    -------
    EvidenceInterval
        Bounds of log Z, and what was done for them.

    Examples
    --------
    >>> from dtgfn.trees.leaf_models import DirichletLeaf
    >>> from dtgfn.trees.score import make_score
    >>> rows = Rows(np.array([[0], [1], [2]], np.uint16), np.array([0, 1, 1], np.int32), np.ones(3))
    >>> score = make_score(DirichletLeaf(2), max_depth=2, n_features=1, n_thresholds=2)
    >>> found = evidence_interval(rows, score)
    >>> found.width < 1e-6
    True

    """
    begun = clock.monotonic()
    _, time_budget, n_jobs = check_run(1, time_budget, n_jobs)
    memory = float(allowed_memory(read_memory_budget(memory_budget)))
    column = np.arange(rows.codes.shape[1], dtype=np.int32)
    problem = make_problem(rows, score, column, len(column))
    left = None if time_budget is None else time_budget - (clock.monotonic() - begun)
    return bound_problem(problem, left, memory, count_threads(n_jobs), most_sub_problems)


def bound_problem(
    problem: Problem,
    seconds: float | None,
    memory: float,
    n_jobs: int,
    most_sub_problems: int | None = None,
) -> EvidenceInterval:
    """Bound log Z of a problem in the time and memory that is given."""
    begun, rounded = clock.monotonic(), rounding(problem)
    best = EvidenceInterval(-np.inf, np.inf, 0, 0.0)
    for graph, bounds in narrowing(problem, seconds, memory, n_jobs, most_sub_problems):
        slack = CLOSED * max(1.0, abs(bounds.floor)) + rounded
        n_known = sum(int(np.isfinite(level.flow[: len(level)]).sum()) for level in graph.levels)
        best = EvidenceInterval(
            max(best.lower, bounds.floor - slack),
            min(best.upper, bounds.ceiling + slack),
            n_known,
            clock.monotonic() - begun,
        )
    return best


def rounding(problem: Problem) -> float:
    """Nats by which double precision may be wrong: much only where weights are huge.

    Log gammas cancel where leaves are pure; of numbers, a leaf's squares are what is left of those
    of all rows.
    """
    leaf, total = problem.score.leaf, problem.loops.sums.sum(axis=0)
    most = 0.0
    if isinstance(leaf, DirichletLeaf):
        rows = float(total.sum()) + leaf.n_classes * leaf.concentration
        most = leaf.n_classes * abs(float(gammaln(rows)))
    elif isinstance(leaf, NormalLeaf):
        shape = leaf.shape + 0.5 * float(total[0])
        squares = float(np.log1p(EPSILON * float(total[2]) / leaf.spread))
        most = shape + shape * squares / EPSILON + abs(float(gammaln(shape)))
    return EPSILON * most / problem.score.temperature


def narrowing(
    problem: Problem,
    seconds: float | None,
    memory: float,
    n_jobs: int,
    most_sub_problems: int | None,
) -> Iterator[tuple[PartialGraph, Bounds]]:
    """Look at row sets round by round, and yield the graph and what it proves after each."""
    begun = clock.monotonic()
    # With two levels or fewer to sum, one at once leaves something to do bit by bit.
    tails = 2 if problem.score.max_depth > 2 else 1
    limits = limits_for(problem, memory, n_jobs)
    if problem.max_cuts <= ALL_KEPT:  # what a node does not keep has no neighbours that bound it
        limits = replace(limits, kept_cuts=None)
    graph = PartialGraph(problem, tails, Threads(n_jobs), limits=limits)
    look_at(graph, 0, np.zeros(1, np.int64))
    n_done, spent = 1, 0.0
    while True:
        bounds = bound_graph(graph)
        yield graph, bounds
        size = max(FEWEST, n_done // 2)
        if most_sub_problems is not None:
            size = min(size, most_sub_problems - n_done)
        if seconds is not None:
            left = seconds - (clock.monotonic() - begun)
            size = min(size, max(1, int(ROUND_SHARE * left * n_done / max(spent, 1e-6))))
            if left <= 0.0:
                return
        if size <= 0 or graph.is_full or is_closed(bounds):
            return
        before, n_new = clock.monotonic(), 0
        chosen = widest(graph, bounds, size)
        for depth, nodes, cuts, sides in chosen:
            children = graph.reach(depth, nodes, cuts)[np.arange(len(cuts)), sides]
            n_new += look_at(graph, depth + 1, np.unique(children))
        if not chosen:
            return
        n_done, spent = n_done + n_new, spent + clock.monotonic() - before


def is_closed(bounds: Bounds) -> bool:
    """Whether the bounds are equal but for rounding."""
    return bounds.ceiling - bounds.floor <= CLOSED * max(1.0, abs(bounds.floor))
