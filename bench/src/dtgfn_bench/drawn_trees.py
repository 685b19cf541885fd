"""How accurate one tree of a sample is on average: what authors of samplers often report."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import node_sums, route
from dtgfn_bench.ours.classifiers import FittedEstimator


def draw_accuracy(fitted: Any, X: Floats, y: Int64s) -> float | None:
    """Mean accuracy of the trees of a sample, each alone; None where there is no sample.

    Trees count by their importance weights where the fit has them, else evenly.  Bags have
    samples of their own rows, and sums no single trees, so they are left out.
    """
    if isinstance(fitted, FittedEstimator):
        return _of_estimator(fitted, X, y)
    return fitted.draw_accuracy(X, y) if hasattr(fitted, "draw_accuracy") else None


def _of_estimator(fitted: FittedEstimator, X: Floats, y: Int64s) -> float | None:
    model = fitted.model
    found = model.posterior_
    if fitted.tree is not None or isinstance(found, SumPosterior) or found.is_bagged:
        return None
    posterior = as_posterior(model)
    trees, rows, leaf_model = posterior.trees, posterior.rows, posterior.score.leaf
    counts, _ = node_sums(trees, rows.codes, rows.target, rows.weight, leaf_model)
    right = accuracies(counts, route(trees, posterior.encode(X)), model.classes_, y)
    weighted = model.weighting == "importance"
    return float(np.average(right, weights=posterior.weights if weighted else None))


def accuracies(counts: Floats, leaf: Any, classes: Any, y: Int64s) -> Floats:
    """Share of rows [B] whose leaf [B, n] has most of their class, by counts [B, N, C]."""
    label = np.take_along_axis(counts.argmax(axis=2), leaf.astype(np.int64), axis=1)
    right = classes[label] == y
    return np.asarray(right.mean(axis=1))
