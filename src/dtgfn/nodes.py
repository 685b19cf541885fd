"""What the nodes of trees hold, in the user's units: the one place here that asks leaf models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn.kernels import Codes, Floats
from dtgfn.leaves import DirichletLeaf, LeafModel, NormalLeaf
from dtgfn.posterior import TreePosterior
from dtgfn.predict import average_outputs, leaf_probabilities
from dtgfn.score import leaf_log_marginal
from dtgfn.trees import TreeBatch, node_sums


class Nodes(NamedTuple):
    """What every node of B trees would be as a leaf.

    ``value`` [B, N, K] is what it predicts: class probabilities, or one number (or what a leaf
    model of one's own gives, without what follows but the number of rows). ``rows`` [B, N] is
    the weight of its training rows, ``counts`` [B, N, C] that of each class (None for numbers),
    ``spread`` [B, N] the standard deviation of a new row's number (None for classes).
    """

    value: Floats
    rows: Floats
    counts: Floats | None
    spread: Floats | None


def describe_nodes(posterior: TreePosterior, trees: TreeBatch) -> Nodes:
    """Ask the leaf model about every node of trees [B]."""
    rows, leaf = posterior.rows, posterior.score.leaf
    outputs = leaf_probabilities(trees, rows, posterior.score)
    value = predicted(leaf, outputs)
    sums, n_rows = node_sums(trees, rows.codes, rows.target, rows.weight, leaf)
    if isinstance(leaf, DirichletLeaf):
        return Nodes(value, np.asarray(sums.sum(axis=2)), sums, None)
    if not isinstance(leaf, NormalLeaf):
        return Nodes(value, n_rows.astype(np.float64), None, None)
    variance = outputs[..., 3] - outputs[..., 1] ** 2
    return Nodes(value, sums[..., 0], None, leaf.scale * np.sqrt(np.maximum(variance, 0.0)))


def predicted(leaf: LeafModel, outputs: Floats) -> Floats:
    """What a leaf model's outputs [..., J] predict, in the user's units [..., K]."""
    if isinstance(leaf, NormalLeaf):
        return np.asarray(leaf.location + leaf.scale * outputs[..., 1:2])
    return outputs


def average_values(posterior: TreePosterior, codes: Codes) -> Floats:
    """The posterior's averaged predictions [n, K]: exact where the engine has them."""
    return predicted(posterior.score.leaf, average_outputs(posterior, codes))


def node_log_marginals(posterior: TreePosterior, trees: TreeBatch) -> Floats:
    """Log m of the training rows at every node [B, N], as if it were a leaf."""
    rows, score = posterior.rows, posterior.score
    sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)
    return leaf_log_marginal(sums, score)
