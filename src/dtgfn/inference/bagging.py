"""The bagged posterior: the average of the posteriors of resampled rows and columns.

One posterior over trees concentrates as rows are added, until one tree's staircase is left. The
average over data sets that one might as well have seen (BayesBag: Huggins, Miller 2019) stays as
wide as the data are uncertain. Bag b holds row i ``copies[b, i]`` times, n draws with replacement,
and knows a random part of the columns only, a prior over which columns are there to split on. A
row of weight w counts as w rows here too: n is the sum of the weights, and draws go by weight::

    P(T) = mean over bags b of P(T | rows of b, columns of b)

The bags give the splits; leaves count all training rows. A row that is not in a tree's bag had no
say in its splits, and leaving it out of its leaf's counts is closed form, so every row can be
scored by trees that never saw it. Averages over trees that know only part of what there is to know
are too cautious; a power s of them, chosen so that rows out of bag get the best log score, mends
that and changes no prediction's first place (``prediction.sharpness`` says where it applies)::

    P(y | x) proportional to (mean over trees of P(y | x, T))^s
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.progress import silent
from dtgfn.engines.contract import BudgetExceeded, Engine, Run
from dtgfn.inference.resampling import (
    BagOptions,
    BagPlan,
    Copies,
    bag_rows,
    cheaper_splits,
    draw_columns,
    plan_bags,
)
from dtgfn.inference.temperature import LeaveOneOut, class_leaf
from dtgfn.posterior.prediction import sharpened
from dtgfn.posterior.tree_posterior import TreePosterior, sampled_posterior
from dtgfn.trees.batch import TreeBatch, node_sums, route, stack_trees, trim
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

OptionsT = TypeVar("OptionsT")

SHARPEST = 10.0
MOST_SHARPENED = 4_000_000  # probabilities that the sharpness is chosen by
CHUNK = 1_000_000  # probabilities looked at together
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
        Power of the average.

    """

    trees: TreeBatch
    rows: Rows
    score: Score
    bag: Int32s
    copies: Copies
    sharpness: float = 1.0

    @property
    def labels(self) -> Int32s:
        """Class of each training row [n]."""
        return self.rows.target.astype(np.int32, copy=False)

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
    class_leaf(score)
    if run.n_trees < 2:
        raise ValueError(f"n_trees={run.n_trees!r} leaves nothing to average; give 2 or more.")
    bagging = BagOptions() if bagging is None else bagging
    started = time.monotonic()
    plan = plan_bags(rows, run, bagging)
    collected = Collected(merge_rows(rows), score, Outside(rows, score))
    overhead = 0.0
    for bag in range(plan.n_bags):
        run.progress("bagging", bag / plan.n_bags)
        begun = time.monotonic()
        left = math.inf if run.time_budget is None else run.time_budget - (begun - started)
        if bag and left < overhead:
            break
        seconds = None
        if run.time_budget is not None:
            seconds = max(left / (plan.n_bags - bag) - overhead, 1e-3)
        try:
            used = _infer_bag(engine, rows, score, run, options, plan, bag, seconds, collected)
        except BudgetExceeded:
            if not bag:
                raise
            break
        overhead = time.monotonic() - begun - used
    run.progress("bagging", 1.0)
    return _as_posterior(rows, run, engine.name, plan, collected, time.monotonic() - started)


@dataclass
class Collected:
    """Trees of the bags so far, their log R on all rows, and what they say of rows they lack."""

    merged: Rows
    score: Score
    outside: Outside
    batches: list[TreeBatch] = field(default_factory=list)
    rewards: list[Floats] = field(default_factory=list)

    def add(self, trees: TreeBatch, copies: Copies) -> None:
        """Add the trees of a bag that holds each row so many times [n]."""
        self.batches.append(trees)
        self.rewards.append(log_reward(trees, self.merged, self.score))
        self.outside.add(trees, copies)


def _infer_bag(
    engine: Engine[OptionsT],
    rows: Rows,
    score: Score,
    run: Run,
    options: OptionsT,
    plan: BagPlan,
    bag: int,
    seconds: float | None,
    collected: Collected,
) -> float:
    """Infer the posterior of one bag and collect its trees; return the seconds the engine took."""
    rng = plan.rng
    known = draw_columns(plan.varying, plan.shares, rng)
    features = np.flatnonzero(np.isin(run.column, known))
    found = engine.infer(
        bag_rows(rows, plan.copies[bag], features),
        cheaper_splits(score, plan.varying.size, known.size),
        replace(
            run,
            column=run.column[features],
            n_trees=int(plan.n_trees[bag]),
            random_state=int(rng.integers(2**31)),
            time_budget=seconds,
            progress=silent,
            judged=False,
        ),
        options,
    )
    if found.interrupted:  # the other bags would be trained as if nothing had happened
        raise KeyboardInterrupt
    collected.add(_resampled(found, rng, features), plan.copies[bag])
    return float(found.diagnostics.get("seconds", 0.0))


def _as_posterior(
    rows: Rows, run: Run, engine: str, plan: BagPlan, collected: Collected, seconds: float
) -> TreePosterior:
    """Choose the sharpness and tell everything that the trees of all bags tell."""
    n_done = len(collected.batches)
    bag = np.repeat(np.arange(n_done), plan.n_trees[:n_done]).astype(np.int32)
    again = np.arange(run.n_trees) % len(bag)  # trees repeated for bags that were left out
    trees, copies = trim(stack_trees(collected.batches))[again], plan.copies[:n_done]
    bags = Bags(trees, rows, collected.score, bag[again], copies)
    probability, share = collected.outside.probability()
    seen = share > 0  # nowhere, if every row is in every bag: then there is no score either
    sharpness = best_sharpness(probability[seen], bags.labels[seen], rows.weight[seen])
    bags = replace(bags, sharpness=sharpness)
    n_left_out = plan.n_bags - n_done
    return sampled_posterior(
        trees,
        log_reward=np.concatenate(collected.rewards)[again],
        log_prob=np.full(run.n_trees, np.nan),
        log_weight=np.zeros(run.n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=bags.score,
        column=run.column,
        n_columns=run.n_columns,
        engine=engine,
        solution=bags,
        diagnostics={
            "sharpness": sharpness,
            "out_of_bag_log_score": (
                _scored(probability, share, bags).score if seen.any() else None
            ),
            "bags": n_done,
            **({"bags_left_out": n_left_out} if n_left_out else {}),
            "seconds": seconds,
        },
    )


def _resampled(
    found: TreePosterior, rng: np.random.Generator, features: npt.NDArray[np.int64]
) -> TreeBatch:
    """Trees of one bag, drawn by weight where they have weights, on the table's features."""
    trees = found.trees
    if np.ptp(found.log_weight) > 0:
        trees = trees[rng.choice(len(trees), len(trees), p=found.weights)]
    named = features[np.maximum(trees.feature, 0)] if features.size else trees.feature
    feature = np.where(trees.feature >= 0, named, trees.feature).astype(np.int32)
    return replace(trees, feature=feature)


class Outside:
    """What trees say of the rows that their bags lack, added up bag by bag.

    A row of weight w > 1 is w rows alike, each left out by itself: of a bag with k copies of them
    a part (1 - 1 / w)^k of the rows is out.
    """

    def __init__(self, rows: Rows, score: Score) -> None:
        self.rows, self.model = rows, class_leaf(score)
        self.labels = rows.target.astype(np.int32, copy=False)
        self.absent = 1 - 1 / np.maximum(rows.weight, 1)
        self.total = np.zeros((len(self.labels), self.model.n_classes))
        self.n_telling = np.zeros(len(self.labels))
        self.n_trees = 0

    def add(self, trees: TreeBatch, copies: Copies) -> None:
        """Add the trees of a bag that holds each row so many times [n]."""
        rows, labels, model = self.rows, self.labels, self.model
        counts, _ = node_sums(trees, rows.codes, labels, rows.weight, model)
        part = self.absent**copies
        outside = np.flatnonzero(part)
        step = max(CHUNK // (len(trees) * model.n_classes), 1)
        for first in range(0, outside.size, step):
            some = outside[first : first + step]
            leaf = route(trees, rows.codes[some])
            at_leaf = counts[np.arange(len(trees))[:, None], leaf] + model.concentration
            at_leaf[:, np.arange(some.size), labels[some]] -= np.minimum(rows.weight[some], 1)
            says = (at_leaf / at_leaf.sum(axis=-1, keepdims=True)).sum(axis=0)
            self.total[some] += part[some, None] * says
        self.n_telling += part * len(trees)
        self.n_trees += len(trees)

    def probability(self) -> tuple[Floats, Floats]:
        """P(y | x_i) [n, C], and the share of the trees that tell [n]: an even guess where none."""
        share = self.n_telling / self.n_trees
        total = np.where(share[:, None] == 0, 1.0, self.total)
        return total / total.sum(axis=1, keepdims=True), share


def outside_probability(bags: Bags) -> tuple[Floats, Floats]:
    """P(y | x_i) [n, C] by the trees whose bag lacks row i, without its count, and their share [n].

    A row that is in every bag has no tree to score it: it gets an even guess, and share 0.
    """
    outside = Outside(bags.rows, bags.score)
    for b, copies in enumerate(bags.copies):
        outside.add(bags.trees[np.flatnonzero(bags.bag == b)], copies)
    return outside.probability()


def out_of_bag(posterior: TreePosterior) -> LeaveOneOut:
    """Score every training row by the trees that never saw it; rows in every bag have weight 0.

    ``effective`` is the share of trees that score the row. Where every row is in every bag, all
    keep their weights and an even guess: the score is that of knowing nothing.
    """
    bags = posterior.solution
    if not isinstance(bags, Bags):
        raise ValueError("This posterior is not bagged; use leave_one_out.")
    if bags.copies.shape[1] != len(bags.rows.target):
        raise ValueError("A file does not keep which rows were in which bag; fit again.")
    return _scored(*outside_probability(bags), bags)


def _scored(probability: Floats, share: Floats, bags: Bags) -> LeaveOneOut:
    sharp = sharpened(probability, bags.sharpness)
    log_prob = np.log(sharp[np.arange(len(sharp)), bags.labels])
    counted = (share > 0) | (share.max() == 0)
    return LeaveOneOut(log_prob, share, np.where(counted, bags.rows.weight, 0.0))


def best_sharpness(probability: Floats, target: Int32s, weight: Floats) -> float:
    """Power of probabilities [n, C] with the best log score of the targets [n].

    The log score is concave in the power; one row's worth of doubt keeps it from running away on
    rows that are all right.
    """
    if not len(target) or probability.shape[1] < 2:
        return 1.0
    every = -(-probability.size // MOST_SHARPENED)  # of a large table, rows at even steps
    probability, target, weight = probability[::every], target[::every], weight[::every]
    row, even = np.arange(len(target)), 1 / probability.shape[1]

    def loss(log_power: float) -> float:
        sharp = sharpened(probability, math.exp(log_power))[row, target]
        doubt = 1 / (weight.sum() + 1)
        mixed = np.log((1 - doubt) * sharp + doubt * even)
        return -float(weight @ mixed)

    edge = math.log(SHARPEST)
    return math.exp(minimize_scalar(loss, bounds=(-edge, edge), method="bounded").x)
