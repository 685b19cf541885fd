"""Distances of weighted trees from the exact posterior.

Finite samples are at a distance from the truth even if they are drawn from it; ``floors`` tells
which.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.threads import Threads
from dtgfn.engines.exact.engine import ExactSolution
from dtgfn.engines.exact.ranking import ranked_trees
from dtgfn.posterior.prediction import average_trees
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, tally
from dtgfn.trees.score import Rows, Score, log_reward, merge_rows

# Rewards of equally probable trees may differ by rounding.
ROUNDING = 1e-9


class Truth(NamedTuple):
    """The exact answer, ready to be compared with."""

    rows: Rows  # merged
    score: Score
    log_z: float
    solution: ExactSolution
    codes: Codes  # [n, d] rows to predict
    row_weight: Floats  # [n], sums to one
    average: Floats  # [n, C]
    top_probability: Floats  # of the most probable trees, best first

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Exact log probability of each tree [B]."""
        reward = log_reward(trees, self.rows, self.score)
        return np.asarray(reward / self.score.temperature - self.log_z)


class Distances(NamedTuple):
    """What can be measured on trees of any sampler."""

    tree_variation: float
    prediction_variation: float
    prediction_variation_max: float
    mass_covered: float
    top_found: float


def make_truth(exact: TreePosterior, codes: Codes | None, n_top: int) -> Truth:
    """Gather the exact answer; ``codes`` [n, d] are the rows to predict, else those of training."""
    rows = merge_rows(exact.rows)
    weight = rows.weight
    if codes is None:
        codes = rows.codes
    else:
        codes = np.ascontiguousarray(codes, dtype=np.uint16)
        if codes.ndim != 2 or codes.shape[1] != rows.codes.shape[1] or codes.shape[0] == 0:
            raise ValueError(
                f"codes has shape {codes.shape}; give rows of {rows.codes.shape[1]} codes each."
            )
        weight = np.ones(len(codes))
    solution = exact_solution(exact)
    return Truth(
        rows=rows,
        score=exact.score,
        log_z=exact.log_evidence,
        solution=solution,
        codes=codes,
        row_weight=weight / weight.sum(),
        average=solution.average(codes),
        top_probability=top_trees(exact, n_top)[1],
    )


def distances(posterior: TreePosterior, truth: Truth) -> Distances:
    """Measure a posterior's weighted trees and its predictions."""
    predicted = _predict(posterior, truth.codes)
    return Distances(
        _tree_variation(posterior.trees, posterior.weights, truth),
        *_prediction_variation(predicted, truth),
        *_coverage(posterior.trees, truth),
    )


def floors(
    n_trees: int, n_effective: float, truth: Truth, n_replicates: int, rng: np.random.Generator
) -> list[Distances]:
    """Measure samples of ``n_trees`` exact trees; variations on the first ``n_effective``."""
    n_few = max(1, round(n_effective))
    weight = np.full(n_few, 1 / n_few)
    found = []
    for _ in range(n_replicates):
        trees = truth.solution.sample(n_trees, rng)
        few = trees[:n_few]
        predicted = average_trees(few, weight, truth.rows, truth.score, truth.codes)
        variation = _tree_variation(few, weight, truth), *_prediction_variation(predicted, truth)
        found.append(Distances(*variation, *_coverage(trees, truth)))
    return found


def top_trees(exact: TreePosterior, n: int = 100) -> tuple[TreeBatch, Floats]:
    """Return the ``n`` most probable trees, best first, and their exact probabilities.

    These are the k best trees of the exact engine's solution, not the top of a sample: a tree can
    be missed only for one whose probability is within 1e-10 of its own. Thresholds that cut the
    rows alike make equally probable trees; which of those come in last is arbitrary but always the
    same.
    """
    if n < 1:
        raise ValueError(f"n={n!r} is out of range; give a whole number from 1.")
    solution = exact_solution(exact)
    trees = ranked_trees(solution.problem, solution.support, n, Threads(solution.n_jobs))
    reward = log_reward(trees, merge_rows(exact.rows), exact.score)
    order = np.argsort(-reward, kind="stable")
    probability = np.exp(reward[order] / exact.score.temperature - exact.log_evidence)
    return trees[order], probability


def exact_solution(exact: TreePosterior) -> ExactSolution:
    """Return the exact engine's solution, or say that there is none."""
    if not exact.is_exact:
        raise ValueError(
            f"A posterior of engine {exact.engine!r} is not the exact one; "
            "fit the same rows and settings with the exact engine."
        )
    return cast(ExactSolution, exact.solution)


def _predict(posterior: TreePosterior, codes: Codes) -> Floats:
    """P(y | x) of the sampler [n, C]; a solution may know trees' probabilities but no average."""
    average = getattr(posterior.solution, "average", None)
    if average is not None:
        return np.asarray(average(codes))
    return average_trees(posterior.trees, posterior.weights, posterior.rows, posterior.score, codes)


def _tree_variation(trees: TreeBatch, weight: Floats, truth: Truth) -> float:
    """Total variation between the weighted frequencies of trees [B] and their probabilities."""
    first, frequency = tally(trees, weight)
    probability = np.exp(truth.log_prob(trees[first]))
    # All trees that were not sampled have frequency 0.
    missed = max(1.0 - float(probability.sum()), 0.0)
    return 0.5 * (float(np.abs(frequency - probability).sum()) + missed)


def _prediction_variation(predicted: Floats, truth: Truth) -> tuple[float, float]:
    """Total variation between class probabilities [n, C]: mean over rows, and the worst row."""
    distance = 0.5 * np.abs(predicted - truth.average).sum(axis=1)
    return float(distance @ truth.row_weight), float(distance.max())


def _coverage(trees: TreeBatch, truth: Truth) -> tuple[float, int]:
    """Exact mass of the distinct trees, and how many of the most probable ones are among them."""
    first, _ = tally(trees, np.ones(len(trees)))
    log_prob = truth.log_prob(trees[first])
    # Any tree as probable as the last of the top is as good as that one.
    found = int((log_prob >= np.log(truth.top_probability[-1]) - ROUNDING).sum())
    return min(float(np.exp(log_prob).sum()), 1.0), min(found, truth.top_probability.size)
