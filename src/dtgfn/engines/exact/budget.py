"""Time and memory of exact inference: what it may take, what it will, and what is said if too much.

What a run will need is guessed from random walks down the graph before that is built.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.arrays import Bools, Int32s, Int64s
from dtgfn._support.memory import gigabytes
from dtgfn._support.parallel import Runner, run_at_once, run_parallel, run_serial
from dtgfn._support.progress import Progress
from dtgfn.engines.contract import BudgetExceeded
from dtgfn.engines.rowsets.graph import RowSets, count_edges, expansion_bytes, make_row_sets
from dtgfn.engines.rowsets.problem import Problem
from dtgfn.engines.rowsets.tails import tail_values, values_bytes

# Work that will be done this soon after the end is finished.
GRACE, GRACE_SHARE = 0.5, 0.05
# Shares of time and work after which a stage has shown what it needs; how much is clearly too much.
SHOWN, CLEARLY_LATE = 0.1, 2.0
LESS_WORK = (
    "Use fewer n_thresholds or a smaller max_depth; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)
MORE_TIME = (
    "Use fewer n_thresholds, a smaller max_depth or a larger time_budget; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)
# The guess is rough (the graph shares sub-problems in ways a walk cannot see), so only a clear
# excess is refused before starting; the budget itself ends the rest.
CLEAR_EXCESS = 5.0
MOST_ORDERS = 5
WALKED_CELLS, FEWEST_WALKS = 1_000_000_000, 4  # of a long or wide table walks are few
TIMED_WORK = 2e6
SECONDS_PER_PAIR = 1e-8  # of cuts, where nothing can be timed
SECONDS_PER_CELL = 5e-9  # of rows and sums at the nodes of a tree


def duration(seconds: float) -> str:
    """Say a time as a person would.

    >>> duration(0.25), duration(75), duration(7200), duration(1e7), duration(1e12)
    ('0.2 s', '1.2 min', '2.0 h', '115.7 days', '31,710 years')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.1f} days" if days < 730 else f"{days / 365:,.0f} years"


@dataclass
class Budget:
    """A deadline and a memory limit, and the only way the engine runs its loops.

    Attributes
    ----------
    seconds : float or None
        Time allowed from ``started``; None is no limit.
    memory : int
        Bytes allowed.
    n_jobs : int
        Threads; the compiled loops release the interpreter lock.
    ahead : float
        Seconds that are expected to be needed after the present stage.

    """

    seconds: float | None
    memory: int
    n_jobs: int
    progress: Progress
    started: float
    ahead: float = 0.0

    def check_memory(self, n_bytes: float, what: str) -> None:
        """Refuse before memory is taken, not after."""
        if n_bytes > self.memory:
            raise BudgetExceeded(
                f"Exact inference needs {gigabytes(n_bytes)} for {what}, but only "
                f"{gigabytes(self.memory)} may be used. {LESS_WORK}"
            )

    def check_time(self, stage: str, share: float, begun: float) -> None:
        """Stop a stage that began at ``begun`` when the time is up, or clearly will be.

        What is done is done, and what is nearly done is finished: a stage that ends within the
        grace goes on. One that has shown that it needs far more is ended early.
        """
        if self.seconds is None or share >= 1.0:
            return
        now = clock.monotonic()
        used = now - self.started
        expected = used + (now - begun) * (1.0 - share) / share if share > 0 else math.inf
        late = self.seconds + max(GRACE, GRACE_SHARE * self.seconds)
        if (used > self.seconds and expected > late) or used > late:
            raise BudgetExceeded(
                f"Exact inference did not finish within time_budget={self.seconds:g} s "
                f"({share:.0%} of '{stage}' was done). {MORE_TIME}"
            )
        expected += self.ahead
        shown = used > SHOWN * self.seconds and share > SHOWN
        if shown and expected > CLEARLY_LATE * self.seconds:
            raise BudgetExceeded(
                f"Exact inference would need about {duration(expected)}, as {share:.0%} of "
                f"'{stage}' have shown, more than time_budget={self.seconds:g} s. {MORE_TIME}"
            )

    def serial(self, stage: str) -> Runner:
        """Return a runner that does chunks one after the other on this thread."""
        return lambda work, n_items: run_serial(work, n_items, self._on_progress(stage))

    def parallel(self, stage: str) -> Runner:
        """Return a runner that does chunks on all threads, in any order."""
        return lambda work, n_items: run_parallel(
            work, n_items, self.n_jobs, self._on_progress(stage)
        )

    def _on_progress(self, stage: str) -> Callable[[float], None]:
        begun = clock.monotonic()

        def on_progress(share: float) -> None:
            self.progress(stage, share)
            self.check_time(stage, share, begun)

        return on_progress


@dataclass(frozen=True)
class CostEstimate:
    """Expected sub-problems, seconds and peak bytes of an exact run.

    ``after`` are those of the seconds that come after the sums: drawing trees, scoring them.
    """

    sub_problems: float
    seconds: float
    n_bytes: float
    after: float = 0.0

    def __str__(self) -> str:
        few = self.sub_problems < 1e9
        count = f"{self.sub_problems:,.0f}" if few else f"{self.sub_problems:.0e}"
        return f"about {count} sub-problems, {duration(self.seconds)} and {gigabytes(self.n_bytes)}"


def estimate_cost(
    problem: Problem, tail_levels: int, n_jobs: int, n_trees: int = 1, n_walks: int = 40
) -> CostEstimate:
    """Guess the cost of a run whose graph ends with ``tail_levels`` levels left.

    Each walk picks a random cut and side per level; the product of the choices it had estimates the
    number of paths (Knuth 1975), and dividing by the orders in which its cuts could have been made
    estimates the number of distinct row sets.
    """
    n_steps = problem.score.max_depth - tail_levels
    cells = problem.n_rows * problem.feature.size * n_steps
    n_walks = min(n_walks, max(WALKED_CELLS // max(cells, 1), FEWEST_WALKS)) if n_steps else 1
    rng = np.random.default_rng(0)
    n_sets, n_edges = np.zeros((n_walks, n_steps + 1)), np.zeros((n_walks, n_steps))
    ends: list[Bools] = []
    of_root = _cuts_by_feature(problem, np.ones(problem.n_rows, np.bool_))
    for walk in range(n_walks):
        rows, n_paths = np.ones(problem.n_rows, np.bool_), 1.0
        sides: list[Bools] = []
        n_sets[walk, 0] = 1.0
        for step in range(n_steps):
            # No cut is made but the one that is gone along: a row set can have millions.
            by_feature = of_root if step == 0 else _cuts_by_feature(problem, rows)
            number = int(by_feature.sum())
            n_edges[walk, step] = n_sets[walk, step] * number
            if number == 0:
                break
            edge, goes_left = int(rng.integers(number)), rng.random() < 0.5
            sides.append(_side(problem, rows, by_feature, edge, goes_left))
            rows = rows & sides[-1]
            n_paths *= 2 * number
            n_sets[walk, step + 1] = n_paths / _orders(sides)
        ends.append(rows)
    weight = n_sets[:, -1] / n_walks
    tails = _tail_seconds(problem, tail_levels, weight, ends) / (n_jobs if n_steps else 1)
    after = _after_seconds(problem, tails, n_trees, n_steps, float(weight.sum()), n_jobs)
    sets, edges_total = n_sets.mean(axis=0).sum(), n_edges.mean(axis=0)
    per_set = 8 * (problem.n_words + 2) + values_bytes(problem, 1, tail_levels)
    return CostEstimate(
        sub_problems=float(sets),
        seconds=tails + 3e-7 * float(edges_total.sum()) + after,
        n_bytes=float(sets * per_set + expansion_bytes(problem, edges_total.max(initial=0.0))),
        after=after,
    )


def _cuts_by_feature(problem: Problem, rows: Bools) -> Int64s:
    """Count the distinct cuts of some rows [P] by every feature [F]."""
    ranks, n_ranks = problem.loops.ranks[:, rows], problem.loops.rank_code.shape[1]
    return np.array([np.count_nonzero(np.bincount(of, minlength=n_ranks)) - 1 for of in ranks])


def _side(problem: Problem, rows: Bools, by_feature: Int64s, edge: int, goes_left: bool) -> Bools:
    """All rows on one side [P] of a cut of some rows; cuts ascend by feature, then by code."""
    ends = np.cumsum(by_feature)
    f = int(np.searchsorted(ends, edge, side="right"))
    there = np.unique(problem.loops.ranks[f, rows])
    below = problem.loops.ranks[f] <= there[edge - int(ends[f] - by_feature[f])]
    return below if goes_left else ~below


def _as_row_sets(problem: Problem, rows: list[Bools]) -> RowSets:
    """Row sets of masks [P] of the rows."""
    padded = np.zeros((len(rows), 64 * problem.n_words), np.bool_)
    padded[:, : problem.n_rows] = rows
    return make_row_sets(problem, np.packbits(padded, axis=1, bitorder="little").view(np.uint64))


def _orders(sides: list[Bools]) -> float:
    """In how many orders the cuts along a path could have been made, each removing some row."""
    if len(sides) > MOST_ORDERS:  # as large a share of all orders as for the first few
        share = _orders(sides[:MOST_ORDERS]) / factorial(MOST_ORDERS)
        return share * factorial(len(sides))
    count = 0
    for order in permutations(sides):
        rows, real = np.ones_like(sides[0]), True
        for side in order:
            fewer = rows & side
            real = real and not np.array_equal(fewer, rows)
            rows = fewer
        count += real
    return count


def _tail_seconds(
    problem: Problem, tail_levels: int, weight: npt.NDArray[np.float64], ends: list[Bools]
) -> float:
    """Time the tails of some walks and scale: their cost goes with the (squared) number of cuts."""
    if tail_levels == 0:
        return 0.0
    if problem.score.max_depth == tail_levels:
        # The root is the only set: timing it would be doing the work, and one thread does it.
        return SECONDS_PER_PAIR * problem.max_cuts**tail_levels
    together = _as_row_sets(problem, ends)
    counts = count_edges(problem, together, run_at_once)
    work = _tail_work(problem, tail_levels, counts, together)
    smallest = np.argsort(work)
    timed = smallest[: max(1, int(np.searchsorted(np.cumsum(work[smallest]), TIMED_WORK)))]
    # The first call may have to compile.
    tail_values(problem, together.take(np.array([np.argmin(work)])), tail_levels, run_at_once)
    # This thread's own time: on a busy machine a few milliseconds of work may take a second.
    begun = time.thread_time()
    tail_values(problem, together.take(timed), tail_levels, run_at_once)
    elapsed = time.thread_time() - begun
    return float((weight * work).sum() * elapsed / work[timed].sum())


def _tail_work(
    problem: Problem, tail_levels: int, counts: Int32s, sets: RowSets
) -> npt.NDArray[np.float64]:
    """What the tails of row sets [K] with so many cuts look at: rows, and what cuts are worth."""
    n_rows = np.bitwise_count(sets.bits).sum(axis=1, dtype=np.float64)
    n_features, n_sums = problem.feature.size, problem.loops.sums.shape[1]
    if tail_levels == 2:
        return np.asarray(counts.astype(np.float64) ** 2 + n_rows * n_features**2 / 2 + 100.0)
    per_cut = 1 if problem.loops.table.value.size else n_sums
    return np.asarray(counts * float(per_cut) + n_rows * n_features + 100.0)


def _after_seconds(
    problem: Problem, tails: float, n_trees: int, n_steps: int, n_last: float, n_jobs: int
) -> float:
    """Guess the time for drawing trees, which sum some tails again, and for scoring them."""
    drawn = min(n_trees * 2.0**n_steps, n_last) / max(n_last, 1.0)
    n_nodes = min(2.0 ** (problem.score.max_depth + 1), 2.0 * problem.n_rows)
    cells = problem.n_rows * (problem.score.max_depth + 1) + n_nodes * problem.loops.sums.shape[1]
    return tails * drawn + SECONDS_PER_CELL * n_trees * cells / n_jobs


def refuse_if_hopeless(cost: CostEstimate, budget: Budget) -> None:
    """Say no before starting what clearly cannot end in time or fit into memory."""
    if budget.seconds is not None and cost.seconds > CLEAR_EXCESS * budget.seconds:
        raise BudgetExceeded(
            f"Exact inference would need {cost}, far more than "
            f"time_budget={budget.seconds:g} s. {MORE_TIME}"
        )
    if cost.n_bytes > CLEAR_EXCESS * budget.memory:
        raise BudgetExceeded(
            f"Exact inference would need {cost}, but only {gigabytes(budget.memory)} may be used. "
            f"{LESS_WORK}"
        )
