"""Columns and outputs of any posterior, also of one that was inferred from codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn.data.binning import Binner, ColumnSpec
from dtgfn.posterior.of_model import Posterior, leaf_of
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import DirichletLeaf


def columns_of(posterior: Posterior, trees: TreeBatch) -> Binner:
    """How columns became codes; columns that are their own codes if codes were given."""
    if posterior.binner is not None:
        return posterior.binner
    codes = posterior.rows.codes
    highest = max(int(codes.max(initial=0)), int(trees.cut.max(initial=0)) + 1)
    codes_themselves = np.arange(highest, dtype=np.float64)
    columns = (
        ColumnSpec(f"code {c}", "number", codes_themselves, (), False)
        for c in range(codes.shape[1])
    )
    return Binner(tuple(columns), False, "midpoint", highest)


def labels_of(posterior: Posterior) -> npt.NDArray[Any] | None:
    """The label of each class [C]; None if leaves hold something else."""
    leaf = leaf_of(posterior)
    if not isinstance(leaf, DirichletLeaf):
        return None
    return np.arange(leaf.n_classes) if posterior.classes is None else posterior.classes
