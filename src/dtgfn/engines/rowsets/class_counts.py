"""How often rows count in each class, packed into one whole number a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel

MOST_BITS = 62  # of a whole number, for all classes


class ClassCounts(NamedTuple):
    """How often each distinct row counts, ``shift`` bits for each class; empty where not so."""

    packed: Int64s  # [P]
    shift: int


def make_class_counts(sums: Floats, leaf: LeafModel, wanted: bool) -> ClassCounts:
    """Pack sums [P, C] of classes, if that is wanted and they are whole."""
    nothing = ClassCounts(np.zeros(0, np.int64), 1)
    if not wanted or not isinstance(leaf, DirichletLeaf):
        return nothing
    shift = int(min(sums.sum(), 2.0**MOST_BITS)).bit_length()
    if shift * leaf.n_classes > MOST_BITS:
        return nothing
    packed = np.zeros(len(sums), np.int64)
    for c in range(leaf.n_classes):
        counts = sums[:, c].astype(np.int64)
        if not np.array_equal(counts, sums[:, c]):
            return nothing
        packed += counts << (shift * c)
    return ClassCounts(packed, shift)
