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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.budget import BudgetExceeded
from dtgfn._support.progress import Progress, silent
from dtgfn.inference.temperature import LeaveOneOut, class_leaf
from dtgfn.posterior.prediction import sharpened
from dtgfn.posterior.tree_posterior import TreePosterior, sampled_posterior
from dtgfn.trees.batch import TreeBatch, node_sums, route, stack_trees, trim
from dtgfn.trees.score import PenaltyPrior, Rows, Score, log_reward, merge_rows

Copies = npt.NDArray[np.integer[Any]]

SHARPEST = 10.0
MOST_SHARPENED = 4_000_000  # probabilities that the sharpness is chosen by
CHUNK = 1_000_000  # probabilities looked at together
# What is enough for one bag: errors of single bags average out.
BAG_OPTIONS: dict[str, dict[str, Any]] = {
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
    engine: Callable[..., TreePosterior],
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
    n_columns: int,
    n_bags: int = 200,
    column_share: float | Sequence[float] = (0.3, 1.0),
    n_trees: int = 1000,
    random_state: int | np.random.Generator | None = None,
    time_budget: float | None = None,
    progress: Progress = silent,
    **options: Any,
) -> TreePosterior:
    """Infer the bagged posterior with any engine (one of ``dtgfn.inference.infer.ENGINES``).

    Every bag gets an even share of ``n_trees`` and of the time that is left; bags that time does
    not reach are left out (``diagnostics["bags_left_out"]``), and the trees of the others repeated.
    A bag knows a share of the columns, drawn evenly between the two numbers of ``column_share``.
    With k of d columns a split costs log(d / k) less, so that splitting at all stays as likely.
    ``options`` go to the engine; ``BAG_OPTIONS`` has what is enough for a bag. There is no
    evidence, for there is not one data set: ``log_evidence`` is nan.

    Parameters
    ----------
    engine : function
        One of ``dtgfn.inference.infer.ENGINES``.
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    column : int32 [d]
        Source column of each feature, 0..n_columns-1.
    n_columns : int
        Columns of the table.
    n_bags : int
        Posteriors to average.
    column_share : float or two floats
        Share of the columns that a bag knows, or its range.
    n_trees : int
        Trees to draw.
    random_state : int, Generator or None
        Seed of everything random.
    time_budget : float or None
        Seconds; None for no limit.
    progress : function
        Told the stage, and how much of it is done.
    **options
        Of the engine.

    Returns
    -------
    TreePosterior
        Trees of all bags.

    Examples
    --------
    >>> import dtgfn
    >>> from dtgfn.inference.infer import ENGINES
    >>> X, y = [[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [9.0, 1.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> plain = dtgfn.infer(X, y, engine="exact", max_depth=1, n_thresholds=3)
    >>> given = dict(column=np.arange(2, dtype=np.int32), n_columns=2, random_state=1)
    >>> bagged = infer_bagged(ENGINES["exact"], plain.rows, plain.score, n_bags=10, **given)
    >>> bagged.column_inclusion.round(1).tolist()
    [1.0, 0.0]

    """
    class_leaf(score)
    shares = _check(n_bags, column_share, n_trees)
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    varying = np.unique(column[(rows.codes != rows.codes[:1]).any(axis=0)])
    n_bags = min(n_bags, n_trees)
    ends = np.linspace(0, n_trees, n_bags + 1).astype(np.int64)
    n_trees_of = ends[1:] - ends[:-1]
    copies = _draw_copies(rows.weight, n_bags, rng)
    merged = merge_rows(rows)
    batches, rewards, outside = [], [], Outside(rows, score)
    overhead = 0.0
    for b in range(n_bags):
        progress("bagging", b / n_bags)
        begun = time.monotonic()
        left = math.inf if time_budget is None else time_budget - (begun - started)
        if b and left < overhead:
            break
        known = _known_columns(varying, shares, rng)
        features = np.flatnonzero(np.isin(column, known))
        seconds = None if time_budget is None else max(left / (n_bags - b) - overhead, 1e-3)
        try:
            found = engine(
                _bag_rows(rows, copies[b], features),
                _cheaper(score, varying.size, known.size),
                column=column[features],
                n_columns=n_columns,
                n_trees=int(n_trees_of[b]),
                random_state=int(rng.integers(2**31)),
                time_budget=seconds,
                **options,
            )
        except BudgetExceeded:
            if not b:
                raise
            break
        if found.interrupted:  # the other bags would be trained as if nothing had happened
            raise KeyboardInterrupt
        batches.append(_resampled(found, rng, features))
        rewards.append(log_reward(batches[-1], merged, score))
        outside.add(batches[-1], copies[b])
        overhead = time.monotonic() - begun - float(found.diagnostics.get("seconds", 0.0))
    progress("bagging", 1.0)
    n_done = len(batches)
    bag = np.repeat(np.arange(n_done), n_trees_of[:n_done]).astype(np.int32)
    again = np.arange(n_trees) % len(bag)  # trees repeated for bags that were left out
    return _as_posterior(
        Bags(trim(stack_trees(batches))[again], rows, score, bag[again], copies[:n_done]),
        np.concatenate(rewards)[again],
        *outside.probability(),
        column=column,
        n_columns=n_columns,
        engine=found.engine,
        told={
            "bags": n_done,
            **({"bags_left_out": n_bags - n_done} if n_done < n_bags else {}),
            "seconds": time.monotonic() - started,
        },
    )


def _as_posterior(
    bags: Bags,
    reward: Floats,
    probability: Floats,
    share: Floats,
    *,
    column: Int32s,
    n_columns: int,
    engine: str,
    told: dict[str, Any],
) -> TreePosterior:
    """Choose the sharpness and tell everything that the trees of all bags tell."""
    seen = share > 0  # nowhere, if every row is in every bag: then there is no score either
    sharpness = best_sharpness(probability[seen], bags.labels[seen], bags.rows.weight[seen])
    bags = replace(bags, sharpness=sharpness)
    n_trees = len(bags.trees)
    return sampled_posterior(
        bags.trees,
        log_reward=reward,
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=bags.rows,
        score=bags.score,
        column=column,
        n_columns=n_columns,
        engine=engine,
        solution=bags,
        diagnostics={
            "sharpness": sharpness,
            "out_of_bag_log_score": (
                _scored(probability, share, bags).score if seen.any() else None
            ),
            **told,
        },
    )


def _check(n_bags: object, column_share: Any, n_trees: int) -> tuple[float, float]:
    """Refuse what cannot be bagged; return the least and the largest share of columns."""
    if isinstance(n_bags, bool) or not isinstance(n_bags, int | np.integer) or n_bags < 2:
        raise ValueError(f"n_bags={n_bags!r} is out of range; give a whole number from 2.")
    if n_trees < 2:
        raise ValueError(f"n_trees={n_trees!r} leaves nothing to average; give 2 or more.")
    pair = isinstance(column_share, tuple | list)  # JSON, and so a file, knows lists only
    shares = tuple(column_share) if pair else (column_share, column_share)
    numbers = all(isinstance(s, Real) and not isinstance(s, bool) for s in shares)
    if not numbers or len(shares) != 2 or not 0 < shares[0] <= shares[1] <= 1:
        raise ValueError(
            f"column_share={column_share!r} is out of range; give a number above 0, at most 1, or "
            "two such, ascending."
        )
    return shares[0], shares[1]


def _draw_copies(weight: Floats, n_bags: int, rng: np.random.Generator) -> Copies:
    """How often each row is in each bag [bags, n]: as many draws as there is weight, by weight."""
    n_draws = _n_draws(weight)
    drawn = (rng.multinomial(n_draws, weight / weight.sum()) for _ in range(n_bags))
    return np.stack([copies.astype(np.min_scalar_type(copies.max())) for copies in drawn])


def _n_draws(weight: Floats) -> int:
    return max(round(float(weight.sum())), 1)


def _known_columns(
    varying: Int32s, shares: tuple[float, float], rng: np.random.Generator
) -> npt.NDArray[np.int32]:
    """Columns of one bag, at least two where there are two."""
    wanted = round(rng.uniform(*shares) * varying.size)
    n_known = min(max(wanted, 2), varying.size)
    return np.asarray(rng.choice(varying, n_known, replace=False))


def _cheaper(score: Score, n_columns: int, n_known: int) -> Score:
    """Score of trees on part of the columns: naming a column costs less."""
    if not isinstance(score.prior, PenaltyPrior) or n_known == 0:
        return score
    penalty = max(score.prior.penalty - math.log(n_columns / n_known), 0.0)
    return replace(score, prior=PenaltyPrior(penalty))


def _bag_rows(rows: Rows, copies: Copies, features: npt.NDArray[np.int64]) -> Rows:
    """Rows of one bag: those that are in it, on its features, with their copies as weight.

    A copy weighs one, or so much that a bag weighs what all rows do where that is no whole number.
    """
    inside = copies > 0
    each = float(rows.weight.sum()) / _n_draws(rows.weight)
    return Rows(
        np.ascontiguousarray(rows.codes[inside][:, features]),
        rows.target[inside],
        copies[inside].astype(np.float64) * each,
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
            told = (at_leaf / at_leaf.sum(axis=-1, keepdims=True)).sum(axis=0)
            self.total[some] += part[some, None] * told
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
