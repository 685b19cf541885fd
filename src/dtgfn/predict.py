"""From a posterior to class probabilities of new rows."""

from __future__ import annotations

import numpy as np

from dtgfn.kernels import Codes, Floats
from dtgfn.posterior import ModelAverage, TreePosterior
from dtgfn.score import Rows, Score
from dtgfn.leaves import outputs_of
from dtgfn.trees import TreeBatch, node_sums, route


def predict_proba(posterior: TreePosterior, codes: Codes) -> Floats:
    """P(y | x, D) [n, C]: the exact average where the engine has one, else over sampled trees."""
    if isinstance(posterior.solution, ModelAverage):
        return posterior.solution.average(codes)
    return average_trees(posterior.trees, posterior.weights, posterior.rows, posterior.score, codes)


def leaf_probabilities(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """What every node predicts as a leaf [B, N, J], from training rows only."""
    sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)
    out = np.empty((sums.shape[0] * sums.shape[1], score.leaf.n_outputs))
    outputs_of(sums.reshape(-1, sums.shape[-1]), score.leaf.terms(), out)
    return out.reshape(*sums.shape[:-1], -1)


def average_trees(
    trees: TreeBatch, weights: Floats, rows: Rows, score: Score, codes: Codes
) -> Floats:
    """Average the leaf probabilities of trees [B] with weights [B] for rows of codes [n, d]."""
    probabilities = leaf_probabilities(trees, rows, score)
    out = np.zeros((codes.shape[0], score.leaf.n_outputs))
    for leaf, probability, weight in zip(route(trees, codes), probabilities, weights, strict=True):
        out += weight * probability[leaf]
    return out
