"""From a posterior to class probabilities of new rows."""

from __future__ import annotations

import numpy as np

from dtgfn.kernels import Codes, Floats
from dtgfn.posterior import ModelAverage, TreePosterior
from dtgfn.score import Rows, Score
from dtgfn.trees import TreeBatch, node_counts, route


def predict_proba(posterior: TreePosterior, codes: Codes) -> Floats:
    """P(y | x, D) [n, C]: the exact average where the engine has one, else over sampled trees."""
    if isinstance(posterior.solution, ModelAverage):
        return posterior.solution.average(codes)
    return average_trees(posterior.trees, posterior.weights, posterior.rows, posterior.score, codes)


def leaf_probabilities(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """Predictive mean (n_c + a) / (n + C a) of every node [B, N, C], from training rows only."""
    counts, _ = node_counts(trees, rows.codes, rows.labels, rows.weight, score.n_classes)
    counts += score.leaf_concentration
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))


def average_trees(
    trees: TreeBatch, weights: Floats, rows: Rows, score: Score, codes: Codes
) -> Floats:
    """Average the leaf probabilities of trees [B] with weights [B] for rows of codes [n, d]."""
    probabilities = leaf_probabilities(trees, rows, score)
    out = np.zeros((codes.shape[0], score.n_classes))
    for leaf, probability, weight in zip(route(trees, codes), probabilities, weights, strict=True):
        out += weight * probability[leaf]
    return out
