"""The bagged posterior: the average of the posteriors of resampled rows and columns.

One posterior over trees concentrates as rows are added, until one tree's staircase is left. The
average over data sets that one might as well have seen (BayesBag: Huggins, Miller 2019) stays as
wide as the data are uncertain. Bag b holds row i ``copies[b, i]`` times, n draws with replacement,
and knows a random part of the columns only, a prior over which columns are there to split on. A
row of weight w counts as w rows here too: n is the sum of the weights, and draws go by weight::

    P(T) = mean over bags b of P(T | rows of b, columns of b)

The bags give the splits; leaves count all training rows. Rows out of bag score the average of all
trees, and tell how sharp it should be (``outside.py``).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.backends import Elsewhere, open_backend
from dtgfn._support.parallel import count_threads, run_tasks
from dtgfn._support.progress import silent
from dtgfn.engines.contract import BudgetExceeded, Engine, Run
from dtgfn.inference.outside import Outside, make_outside
from dtgfn.inference.resampling import (
    BagOptions,
    BagPlan,
    Copies,
    alone,
    bag_rows,
    cheaper_splits,
    copies_of,
    plan_bags,
)
from dtgfn.inference.temperature import LeaveOneOut
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, stack_trees, trim
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

OptionsT = TypeVar("OptionsT")

RESAMPLING = 1
# What is enough for one bag: errors of single bags average out.
BAG_DEFAULTS: dict[str, dict[str, Any]] = {
    "smc": {"n_particles": 50, "n_sweeps": 1},
    "mcmc": {"n_chains": 1, "n_steps": 5000},
}


@dataclass(frozen=True)
class Bags:
    """Which tree came from which bag, which rows it saw, and how the trees are averaged.

    Attributes
    ----------
    trees : TreeBatch
        B trees of all bags.
    rows, score
        All training rows, which leaves count, and what they are worth.
    bag : int32 [B]
        The tree's bag.
    copies : uint8 [bags, n]
        How often each row is in each bag; a wider type where a row is in a bag too often.
    sharpness : float
        How sharp the average is.

    """

    trees: TreeBatch
    rows: Rows
    score: Score
    bag: Int32s
    copies: Copies
    sharpness: float = 1.0

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees of the bags again, with replacement."""
        return self.trees[rng.integers(len(self.trees), size=n_trees)]


def infer_bagged(
    engine: Engine[OptionsT],
    rows: Rows,
    score: Score,
    run: Run,
    options: OptionsT,
    bagging: BagOptions | None = None,
) -> TreePosterior:
    """Infer the bagged posterior with any engine.

    Every bag gets an even share of the trees and of the time that is left; bags that time does not
    reach are left out (``diagnostics["bags_left_out"]``), and the trees of the others repeated.
    Bags run side by side where the engine allows it; what comes out does not depend on the threads.
    With k of d columns a split costs log(d / k) less, so that splitting at all stays as likely.

    Parameters
    ----------
    engine : Engine
        As ``dtgfn.engines.find_engine`` returns it.
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : options of the engine
        ``BAG_DEFAULTS`` has what is enough for a bag.
    bagging : BagOptions or None
        How many bags, and how much they know.

    Returns
    -------
    TreePosterior
        Its ``solution`` are ``Bags``. There is no evidence, for there is not one data set:
        ``log_evidence`` is nan.

    Examples
    --------
    >>> import dtgfn
    >>> from dtgfn.engines import ExactOptions, Run, find_engine
    >>> X, y = [[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [9.0, 1.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> plain = dtgfn.infer(X, y, engine="exact", max_depth=1, n_thresholds=3)
    >>> run = Run(column=np.arange(2, dtype=np.int32), n_columns=2, random_state=1)
    >>> given = plain.rows, plain.score, run, ExactOptions(), BagOptions(10)
    >>> infer_bagged(find_engine("exact"), *given).column_inclusion.round(1).tolist()
    [1.0, 0.0]

    """
    if run.n_trees < 2:
        raise ValueError(f"n_trees={run.n_trees!r} leaves nothing to average; give 2 or more.")
    bagging = BagOptions() if bagging is None else bagging
    plan = plan_bags(rows, score.leaf, run, bagging)
    n_threads = min(count_threads(run.n_jobs), plan.n_bags) if engine.side_by_side else 1
    sharing = Sharing(run.time_budget, plan.n_bags, n_threads)
    collected = Collected(make_outside(rows, score, run.n_trees))
    one = replace(run, judged=False, n_jobs=1 if n_threads > 1 else run.n_jobs)
    bags = BagRuns(engine, rows, merge_rows(rows), score, options, run.n_trees)
    elsewhere = open_backend(run.n_jobs)
    if elsewhere is not None:
        _infer_elsewhere(elsewhere, bags, one, plan, collected)
        return _as_posterior(rows, score, run, engine.name, plan, collected, sharing.used)

    def infer_bag(bag: int, check: Callable[[], None]) -> bool:
        begun = clock.monotonic()
        if bag and sharing.is_over:
            collected.skip(bag)
            return False
        told = replace(one, time_budget=sharing.seconds(bag), progress=lambda *_, **__: check())
        found = bags.infer(told, alone(plan, bag))
        if bag == 0 and isinstance(found, BudgetExceeded) and told.time_budget is not None:
            # One bag in all of the time is better than none in its share.
            sharing.overhead = max(clock.monotonic() - begun - told.time_budget, 0.0)
            if not sharing.is_over:
                told = replace(told, time_budget=sharing.all_that_is_left())
                found = bags.infer(told, alone(plan, bag))
        collected.put(bag, found)
        if isinstance(found, BudgetExceeded):
            return False
        sharing.overhead = clock.monotonic() - begun - found.seconds
        return True

    run_tasks(
        infer_bag,
        plan.n_bags,
        n_threads,
        lambda: run.progress("bagging", len(collected.done) / plan.n_bags),
    )
    run.progress("bagging", 1.0)
    return _as_posterior(rows, score, run, engine.name, plan, collected, sharing.used)


@dataclass(frozen=True)
class BagTrees:
    """Trees of a bag, their log R on all rows, what they say of rows it lacks, and the time.

    ``copies`` [n] tells how often each row is in the bag.
    """

    copies: Copies
    trees: TreeBatch
    log_reward: Floats
    heard: Any
    seconds: float


@dataclass(frozen=True)
class BagRuns:
    """What all bags share; ``n_trees`` is of all of them together."""

    engine: Engine[Any]
    rows: Rows
    merged: Rows
    score: Score
    options: Any
    n_trees: int

    def infer(self, run: Run, plan: BagPlan) -> BagTrees | BudgetExceeded:
        """Infer the posterior of a plan's only bag; return the refusal of one that gives up."""
        engine, rows, score = self.engine, self.rows, self.score
        copies = copies_of(plan, rows.weight)
        try:
            found, features = _infer_bag(engine, rows, score, run, self.options, plan, copies)
        except BudgetExceeded as refusal:
            return refusal
        trees = _resampled(found, plan.seeds[0], features)
        heard = make_outside(rows, score, self.n_trees).hear(trees, copies)
        seconds = float(found.diagnostics.get("seconds", 0.0))
        return BagTrees(copies, trees, log_reward(trees, self.merged, score), heard, seconds)


def _infer_elsewhere(
    elsewhere: Elsewhere, bags: BagRuns, run: Run, plan: BagPlan, collected: Collected
) -> None:
    """Infer all bags on a backend of joblib, in even shares of the time."""
    seconds = elsewhere.share(run.time_budget, plan.n_bags)
    told = replace(run, time_budget=seconds, progress=silent, n_jobs=1)
    tasks = [(told, alone(plan, bag)) for bag in range(plan.n_bags)]
    for bag, found in enumerate(elsewhere.run(bags.infer, tasks)):
        collected.put(bag, found)


@dataclass
class Sharing:
    """How long each bag may take, so that all of them end in time."""

    time_budget: float | None
    n_bags: int
    n_threads: int
    overhead: float = 0.0  # seconds that a bag takes beside its engine
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = clock.monotonic()

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return clock.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        """Whether not even what comes after an engine can be done in time."""
        return self.time_budget is not None and self.time_budget - self.used < self.overhead

    def all_that_is_left(self) -> float | None:
        """Seconds that one bag may take if no other is to follow."""
        return self.seconds(self.n_bags - 1)

    def seconds(self, bag: int) -> float | None:
        """An even share of the time that is left for this bag and those after it."""
        if self.time_budget is None:
            return None
        left = self.time_budget - self.used
        share = left * min(self.n_threads / (self.n_bags - bag), 1.0)
        return max(share - self.overhead, 1e-3)


@dataclass
class Collected:
    """Trees of the bags so far in the order of the bags, whichever is ready first.

    ``done`` are the bags that gave trees; ``refusal`` is what the first that gave none said.
    """

    outside: Outside
    done: list[int] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    batches: list[TreeBatch] = field(default_factory=list)
    rewards: list[Floats] = field(default_factory=list)
    refusal: BudgetExceeded | None = None
    next_bag: int = 0
    waiting: dict[int, BagTrees | None] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.Lock)

    def put(self, bag: int, found: BagTrees | BudgetExceeded) -> None:
        """Add the trees of a bag, or go on without it."""
        if isinstance(found, BudgetExceeded):
            self.skip(bag, found)
        else:
            self._put(bag, found)

    def skip(self, bag: int, refusal: BudgetExceeded | None = None) -> None:
        """Go on without a bag."""
        self.refusal = self.refusal or refusal
        self._put(bag, None)

    def _put(self, bag: int, found: BagTrees | None) -> None:
        with self.lock:
            self.waiting[bag] = found
            while self.next_bag in self.waiting:  # sums depend on the order in their last digits
                self._take(self.next_bag, self.waiting.pop(self.next_bag))
                self.next_bag += 1

    def _take(self, bag: int, found: BagTrees | None) -> None:
        if found is None:
            return
        self.done.append(bag)
        self.copies.append(found.copies)
        self.batches.append(found.trees)
        self.rewards.append(found.log_reward)
        self.outside.add(found.heard)


def _infer_bag(
    engine: Engine[OptionsT],
    rows: Rows,
    score: Score,
    run: Run,
    options: OptionsT,
    plan: BagPlan,
    copies: Copies,
) -> tuple[TreePosterior, npt.NDArray[np.int64]]:
    """Infer the posterior of a plan's only bag; tell which of the table's features it knows."""
    known = plan.columns[0]
    features = np.flatnonzero(np.isin(run.column, known))
    found = engine.infer(
        bag_rows(rows, copies, features),
        cheaper_splits(score, plan.n_varying, known.size),
        replace(
            run,
            column=run.column[features],
            n_trees=int(plan.n_trees[0]),
            random_state=plan.seeds[0],
        ),
        options,
    )
    if found.interrupted:  # the other bags would be trained as if nothing had happened
        raise KeyboardInterrupt
    return found, features


def _as_posterior(
    rows: Rows,
    score: Score,
    run: Run,
    engine: str,
    plan: BagPlan,
    collected: Collected,
    seconds: float,
) -> TreePosterior:
    """Choose the sharpness and tell everything that the trees of all bags tell."""
    done, outside = collected.done, collected.outside
    if not done:
        assert collected.refusal is not None, "a bag has trees, or there is a reason"
        raise BudgetExceeded(
            f"{collected.refusal} (Not one of {plan.n_bags} bags was finished; each had an even "
            "share of the time. Fewer n_bags have more.)"
        )
    bag = np.repeat(np.arange(len(done)), plan.n_trees[done]).astype(np.int32)
    again = np.arange(run.n_trees) % len(bag)  # trees repeated for bags that were left out
    trees = trim(stack_trees(collected.batches))[again]
    sharpness = outside.best_sharpness()
    n_left_out = plan.n_bags - len(done)
    return sampled_posterior(
        trees,
        log_reward=np.concatenate(collected.rewards)[again],
        log_prob=np.full(run.n_trees, np.nan),
        log_weight=np.zeros(run.n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine=engine,
        solution=Bags(trees, rows, score, bag[again], np.stack(collected.copies), sharpness),
        diagnostics={
            "sharpness": sharpness,
            # None if every row is in every bag.
            "out_of_bag_log_score": outside.scored(sharpness).score if outside.any else None,
            "bags": len(done),
            **({"bags_left_out": n_left_out} if n_left_out else {}),
            "seconds": seconds,
        },
    )


def _resampled(found: TreePosterior, seed: int, features: npt.NDArray[np.int64]) -> TreeBatch:
    """Trees of one bag, drawn by weight where they have weights, on the table's features."""
    trees = found.trees
    if np.ptp(found.log_weight) > 0:
        rng = np.random.default_rng((RESAMPLING, seed))  # not the stream of the engine
        trees = trees[rng.choice(len(trees), len(trees), p=found.weights)]
    named = features[np.maximum(trees.feature, 0)] if features.size else trees.feature
    feature = np.where(trees.feature >= 0, named, trees.feature).astype(np.int32)
    return replace(trees, feature=feature)


def out_of_bag(posterior: TreePosterior) -> LeaveOneOut:
    """Score every training row by the trees that never saw it; rows in every bag have weight 0.

    ``effective`` is the share of trees that score the row. Where every row is in every bag, all
    keep their weights and an even guess: the score is that of knowing nothing. Of numbers it is a
    density in the target's units, and of large tables only some rows are scored.
    """
    bags = posterior.solution
    if not isinstance(bags, Bags):
        raise ValueError("This posterior is not bagged; use leave_one_out.")
    if bags.copies.shape[1] != len(bags.rows.target):
        raise ValueError("A file does not keep which rows were in which bag; fit again.")
    outside = make_outside(bags.rows, bags.score, len(bags.trees))
    # Trees repeated for bags that were left out begin with the first bag's again: they say nothing.
    again = np.flatnonzero(np.diff(bags.bag) < 0)
    own = bags.bag[: again[0] + 1] if again.size else bags.bag
    for b, copies in enumerate(bags.copies):
        outside.add(outside.hear(bags.trees[np.flatnonzero(own == b)], copies))
    return outside.scored(bags.sharpness)
