"""The training rows at the nodes of summed trees: their weight, and what they are told there."""

from __future__ import annotations

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import node_sums
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import merge_rows


def node_weights(posterior: SumPosterior) -> Floats:
    """Weight of the training rows at every node [B, N] of all trees of all draws."""
    rows = merge_rows(posterior.rows)
    nothing = np.zeros(len(rows.weight), dtype=np.int32)
    one_class = DirichletLeaf(1)
    return node_sums(posterior.summed.batch, rows.codes, nothing, rows.weight, one_class)[0][..., 0]


def node_means(posterior: SumPosterior, weight: Floats) -> Floats:
    """Mean of the leaves' numbers over the rows at every node [B, N], given their weight."""
    trees = posterior.summed.batch
    total = weight * posterior.summed.value
    for node in range(total.shape[1] - 1, -1, -1):  # children come after parents
        inner = np.flatnonzero(trees.feature[:, node] >= 0)
        left = trees.left[inner, node]
        total[inner, node] = total[inner, left] + total[inner, left + 1]
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
