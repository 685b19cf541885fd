"""What the nodes of trees hold: predictions, rows, counts, by the training rows that pass them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.compiled import njit
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, outputs_of, row_mass
from dtgfn.trees.left_out_rows import sums_at_nodes
from dtgfn.trees.score import Rows


class Nodes(NamedTuple):
    """What every node of B trees would be as a leaf.

    ``value`` [B, N, K] is what it predicts: class probabilities, or one number (or what a leaf
    model of one's own gives, without what follows but the rows). ``rows`` [B, N] is
    the weight of its training rows, ``counts`` [B, N, C] that of each class (None for numbers),
    ``spread`` [B, N] the standard deviation of a new row's number (None for classes).
    """

    value: Floats
    rows: Floats
    counts: Floats | None
    spread: Floats | None


def node_values(trees: TreeBatch, rows: Rows, leaf: LeafModel) -> Nodes:
    """Ask the leaf model about every node of trees [B]."""
    sums = sums_at_nodes(trees, rows, leaf)
    flat, terms = sums.reshape(-1, leaf.n_sums), leaf.terms()
    outputs: Floats = np.empty((*sums.shape[:2], leaf.n_outputs))
    outputs_of(flat, terms, outputs.reshape(-1, leaf.n_outputs))
    mass: Floats = np.empty(sums.shape[:2])
    _masses_of(flat, terms, mass.reshape(-1))
    value = predicted(leaf, outputs)
    if isinstance(leaf, DirichletLeaf):
        return Nodes(value, mass, sums, None)
    if not isinstance(leaf, NormalLeaf):
        return Nodes(value, mass, None, None)
    variance = outputs[..., 3] - outputs[..., 1] ** 2
    return Nodes(value, mass, None, leaf.scale * np.sqrt(np.maximum(variance, 0.0)))


@njit(cache=True, nogil=True)
def _masses_of(sums: Floats, leaf: Any, out: Floats) -> None:
    """Weight of the rows behind each row of sums [N, K]."""
    for i in range(sums.shape[0]):
        out[i] = row_mass(sums[i], leaf)


def predicted(leaf: LeafModel, outputs: Floats) -> Floats:
    """What a leaf model's outputs [..., J] predict, in the user's units [..., K]."""
    if isinstance(leaf, NormalLeaf):
        return np.asarray(leaf.location + leaf.scale * outputs[..., 1:2])
    return outputs
