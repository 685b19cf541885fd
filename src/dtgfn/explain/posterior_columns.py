"""Columns and outputs of any posterior, also of one that was inferred from codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner, ColumnSpec
from dtgfn.data.tables import label
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


def class_title(binner: Binner | None, name: Any) -> str:
    """What a class is called before a reader."""
    if binner is None or binner.target is None:
        return visible(str(name))
    shown = binner.target.category(label(name))
    return visible(str(name) if shown == label(name) else shown)


def class_titles(posterior: Posterior) -> list[str]:
    """What the classes of a posterior are called before a reader; their own names if not told."""
    binner = posterior.binner
    if binner is None or binner.target is None or posterior.classes is None:
        return posterior.class_names
    return [class_title(binner, name) for name in posterior.classes.tolist()]


def labels_of(posterior: Posterior) -> npt.NDArray[Any] | None:
    """The label of each class [C]; None if leaves hold something else."""
    leaf = leaf_of(posterior)
    if not isinstance(leaf, DirichletLeaf):
        return None
    return np.arange(leaf.n_classes) if posterior.classes is None else posterior.classes
