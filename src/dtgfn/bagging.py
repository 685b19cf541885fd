"""The bagged posterior: the average of the posteriors of resampled rows and columns.

One posterior over trees concentrates as rows are added, until one tree's staircase is left. The
average over data sets that one might as well have seen (BayesBag: Huggins, Miller 2019) stays as
wide as the data are uncertain. Bag b holds row i ``copies[b, i]`` times, n draws with replacement,
and knows a random part of the columns only, a prior over which columns are there to split on::

    P(T) = mean over bags b of P(T | rows of b, columns of b)

The bags give the splits; leaves count all training rows. A row that is not in a tree's bag had no
say in its splits, and leaving it out of its leaf's counts is closed form, so every row can be
scored by trees that never saw it (``out_of_bag``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn.kernels import Ints
from dtgfn.posterior import TreePosterior, sampled_posterior
from dtgfn.progress import Progress, silent
from dtgfn.score import PenaltyPrior, Rows, Score, log_reward, merge_rows
from dtgfn.temperature import LeaveOneOut
from dtgfn.trees import TreeBatch, empty_batch, node_counts, route


@dataclass(frozen=True)
class Bags:
    """Which tree came from which bag, and which rows it saw.

    Attributes
    ----------
    trees : TreeBatch
        B trees of all bags.
    bag : int32 [B]
        The tree's bag.
    copies : int32 [bags, n]
        How often each row is in each bag.

    """

    trees: TreeBatch
    bag: Ints
    copies: Ints

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees of the bags again, with replacement."""
        return self.trees[rng.integers(len(self.trees), size=n_trees)]


def infer_bagged(
    engine: Callable[..., TreePosterior],
    rows: Rows,
    score: Score,
    *,
    column: Ints,
    n_columns: int,
    n_bags: int = 50,
    column_share: float = 0.5,
    n_trees: int = 1000,
    random_state: int | np.random.Generator | None = None,
    time_budget: float | None = None,
    progress: Progress = silent,
    **options: Any,
) -> TreePosterior:
    """Infer the bagged posterior with any engine (one of ``dtgfn.inference.ENGINES``).

    Every bag gets an even share of ``n_trees`` and of the time that is left. A bag that knows k of
    d columns pays log(d / k) less per split, so that splitting at all stays as likely. There is no
    evidence, for there is not one data set: ``log_evidence`` is nan.

    Examples
    --------
    >>> import dtgfn
    >>> from dtgfn.inference import ENGINES
    >>> X, y = [[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [9.0, 1.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> plain = dtgfn.infer(X, y, engine="exact", max_depth=1, n_thresholds=3)
    >>> given = dict(column=np.arange(2, dtype=np.int32), n_columns=2, random_state=1)
    >>> bagged = infer_bagged(ENGINES["exact"], plain.rows, plain.score, n_bags=10, **given)
    >>> bagged.column_inclusion.round(1).tolist()
    [0.5, 0.0]

    """
    _check(n_bags, column_share, n_trees)
    started = time.monotonic()
    rng = np.random.default_rng(random_state)
    n = len(rows.labels)
    varying = np.unique(column[(rows.codes != rows.codes[:1]).any(axis=0)])
    n_known = min(max(round(column_share * varying.size), 1), varying.size)
    n_bags = min(n_bags, n_trees)
    shares = np.diff(np.linspace(0, n_trees, n_bags + 1).astype(np.int64))
    copies = rng.multinomial(n, np.full(n, 1 / n), size=n_bags).astype(np.int32)
    bagged_score = _cheaper(score, varying.size, n_known)
    batches = []
    for b, share in enumerate(shares):
        progress("bagging", b / n_bags)
        known = rng.choice(varying, n_known, replace=False)
        features = np.flatnonzero(np.isin(column, known))
        left = math.inf if time_budget is None else time_budget - (time.monotonic() - started)
        found = engine(
            _bag_rows(rows, copies[b], features),
            bagged_score,
            column=column[features],
            n_columns=n_columns,
            n_trees=int(share),
            random_state=int(rng.integers(2**31)),
            time_budget=None if time_budget is None else max(left / (n_bags - b), 1e-3),
            **options,
        )
        batches.append(_resampled(found, rng, features))
    trees = _stacked(batches)
    merged = merge_rows(rows)
    posterior = sampled_posterior(
        trees,
        log_reward=log_reward(trees, merged, score),
        log_prob=np.full(n_trees, np.nan),
        log_weight=np.zeros(n_trees),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=rows,
        score=score,
        column=column,
        n_columns=n_columns,
        engine=found.engine,
        solution=Bags(trees, np.repeat(np.arange(n_bags), shares).astype(np.int32), copies),
        diagnostics={"bags": n_bags, "columns_per_bag": n_known},
    )
    result = out_of_bag(posterior)
    posterior.diagnostics["out_of_bag_log_score"] = result.score
    posterior.diagnostics["seconds"] = time.monotonic() - started
    return posterior


def _check(n_bags: object, column_share: object, n_trees: int) -> None:
    if isinstance(n_bags, bool) or not isinstance(n_bags, int | np.integer) or n_bags < 2:
        raise ValueError(f"n_bags={n_bags!r} is out of range; give a whole number from 2.")
    number = isinstance(column_share, int | float) and not isinstance(column_share, bool)
    if not number or not 0 < column_share <= 1:  # type: ignore[operator]
        raise ValueError(
            f"column_share={column_share!r} is out of range; give a number above 0, at most 1."
        )
    if n_trees < 2:
        raise ValueError(f"n_trees={n_trees!r} leaves nothing to average; give 2 or more.")


def _cheaper(score: Score, n_columns: int, n_known: int) -> Score:
    """Score of trees on part of the columns: naming a column costs less."""
    if not isinstance(score.prior, PenaltyPrior) or n_known == 0:
        return score
    penalty = max(score.prior.penalty - math.log(n_columns / n_known), 0.0)
    return replace(score, prior=PenaltyPrior(penalty))


def _bag_rows(rows: Rows, copies: Ints, features: npt.NDArray[np.int64]) -> Rows:
    """Rows of one bag: those that are in it, on its features, with their copies as weight."""
    inside = copies > 0
    return Rows(
        np.ascontiguousarray(rows.codes[inside][:, features]),
        rows.labels[inside],
        rows.weight[inside] * copies[inside],
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


def _stacked(batches: list[TreeBatch]) -> TreeBatch:
    """One batch of all trees."""
    width = max(int(batch.n_nodes.max()) for batch in batches)
    whole = empty_batch(sum(map(len, batches)), width)
    first = 0
    for batch in batches:
        part, used = slice(first, first + len(batch)), min(batch.feature.shape[1], width)
        whole.feature[part, :used] = batch.feature[:, :used]
        whole.cut[part, :used] = batch.cut[:, :used]
        whole.left[part, :used] = batch.left[:, :used]
        whole.n_nodes[part] = batch.n_nodes
        first += len(batch)
    return whole


def out_of_bag(posterior: TreePosterior) -> LeaveOneOut:
    """Score every training row by the trees whose bag did not hold it, and without its own count.

    A row that is in every bag has no such tree: it gets an even guess, and weight 0.
    ``effective`` is the share of trees that score the row.
    """
    bags = posterior.solution
    if not isinstance(bags, Bags):
        raise ValueError("This posterior is not bagged; use leave_one_out.")
    rows, score, trees = posterior.rows, posterior.score, bags.trees
    concentration = score.leaf_concentration
    counts, _ = node_counts(trees, rows.codes, rows.labels, rows.weight, score.n_classes)
    total, n_outside = np.zeros(len(rows.labels)), np.zeros(len(rows.labels))
    for b, copies in enumerate(bags.copies):
        outside = np.flatnonzero(copies == 0)
        mine = np.flatnonzero(bags.bag == b)
        leaf = route(trees[mine], rows.codes[outside])
        at_leaf = counts[mine[:, None], leaf]
        weight = rows.weight[outside]
        own = np.take_along_axis(at_leaf, rows.labels[outside][None, :, None], axis=2)[..., 0]
        every = at_leaf.sum(axis=-1) + score.n_classes * concentration
        total[outside] += ((own + concentration - weight) / (every - weight)).sum(axis=0)
        n_outside[outside] += mine.size
    seen = n_outside > 0
    probability = np.where(seen, total / np.maximum(n_outside, 1), 1 / score.n_classes)
    weight = np.where(seen, rows.weight, 0.0)
    return LeaveOneOut(np.log(probability), n_outside / len(trees), weight)
