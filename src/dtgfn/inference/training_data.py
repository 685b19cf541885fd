"""TrainingData: a table and a target as the engines see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.data.binning import Binner, encode, fit_binner
from dtgfn.data.tables import Table, take
from dtgfn.data.targets import MAX_WEIGHT, as_target, check_classes, check_numbers, encode_labels
from dtgfn.data.thresholds import Binning
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, fit_dirichlet, fit_normal
from dtgfn.trees.score import Rows


@dataclass(frozen=True)
class TrainingData:
    """Coded rows with what gives them meaning; classes [C] is None unless leaves hold classes."""

    rows: Rows
    binner: Binner
    leaf: LeafModel
    classes: npt.NDArray[Any] | None


def make_training_data(
    table: Table,
    target: npt.NDArray[Any],
    leaf: LeafModel,
    *,
    binning: Binning = "uniform",
    n_thresholds: int = 99,
    sample_weight: npt.ArrayLike | None = None,
    classes: npt.ArrayLike | None = None,
) -> TrainingData:
    """Code a table, and a target that ``read_target`` has read; rows of weight zero are absent.

    ``leaf`` is a model of which only the prior matters: the classes of a ``DirichletLeaf``,
    location and scale of a ``NormalLeaf`` come from the target. Others see it as it is.
    ``classes`` names all classes where the target may lack some.

    Examples
    --------
    >>> from dtgfn.data.tables import as_table
    >>> table, labels = as_table([[1.0], [2.0], [3.0]]), np.array(["no", "yes", "yes"])
    >>> data = make_training_data(table, labels, DirichletLeaf(1))
    >>> data.classes.tolist(), data.rows.target.tolist()
    (['no', 'yes'], [0, 1, 1])

    """
    check_length(table, target)
    binner = fit_binner(
        table, binning=binning, n_thresholds=n_thresholds, sample_weight=sample_weight
    )
    weight: Floats = np.ones(table.n_rows)
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.sum() > MAX_WEIGHT:
            raise ValueError(
                f"sample_weight sums to {weight.sum():g}, more than {MAX_WEIGHT:g} rows' worth; "
                "divide it by a constant (a weight counts as that many rows)."
            )
        present = weight > 0
        table, target, weight = take(table, present), target[present], weight[present]
    known = None
    if isinstance(leaf, DirichletLeaf):
        known = np.unique(target if classes is None else np.asarray(classes))
        leaf = fit_dirichlet(leaf, known)
    elif isinstance(leaf, NormalLeaf):
        leaf = fit_normal(leaf, target, weight)
    rows = Rows(encode(binner, table), encode_target(target, leaf, known), weight)
    return TrainingData(rows, binner, leaf, known)


def check_length(table: Table, target: npt.NDArray[Any]) -> None:
    """Refuse a target that does not have one value per row."""
    if target.shape != (table.n_rows,):
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {table.n_rows} "
            f"rows, but y has shape {target.shape}; give one value per row."
        )


def read_target(y: Any, leaf: LeafModel) -> npt.NDArray[Any]:
    """Return a user's target as the leaf model takes it: class labels, or finite numbers [n]."""
    target = as_target(y)
    return check_classes(target) if isinstance(leaf, DirichletLeaf) else check_numbers(target)


def encode_target(
    target: npt.NDArray[Any], leaf: LeafModel, classes: npt.NDArray[Any] | None
) -> Int32s | Floats:
    """Targets as the leaf model sums them [n]: indices of classes, numbers in its own units."""
    if isinstance(leaf, DirichletLeaf):
        assert classes is not None, "leaves of classes have classes"
        return encode_labels(target, classes)
    if isinstance(leaf, NormalLeaf):
        return np.asarray((target - leaf.location) / leaf.scale)
    return target
