"""From a user's table and target to what engines take: binner, coded rows, leaf model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.checks import check_range
from dtgfn.data.binning import Binner, Binning, encode, fit_binner
from dtgfn.data.tables import Table, take
from dtgfn.data.targets import (
    MAX_CLASSES,
    MAX_WEIGHT,
    as_target,
    check_classes,
    check_numbers,
    encode_labels,
)
from dtgfn.trees.leaves import DirichletLeaf, LeafModel, NormalLeaf
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
        leaf = fitted_dirichlet(leaf, known)
    elif isinstance(leaf, NormalLeaf):
        leaf = fitted_normal(leaf, target, weight)
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


def fitted_dirichlet(leaf: DirichletLeaf, classes: npt.NDArray[Any]) -> DirichletLeaf:
    """Return the leaf model for these classes."""
    if len(classes) > MAX_CLASSES:
        raise ValueError(
            f"y has {len(classes)} distinct labels, but at most {MAX_CLASSES} classes can be told "
            "apart; is it an identifier, or a number to predict (DTGFNRegressor)?"
        )
    # Beyond these the differences of log gammas lose their digits.
    check_range("leaf_concentration", leaf.concentration, 1e-6, 1e6)
    return DirichletLeaf(len(classes), float(leaf.concentration))


def fitted_normal(leaf: NormalLeaf, y: Floats, weight: Floats) -> NormalLeaf:
    """Return the leaf model for numbers of this mean and standard deviation."""
    check_range("mean_strength", leaf.strength, 1e-6, 1e6)
    check_range("noise_shape", leaf.shape, 1.001, 1e6)
    check_range("noise_spread", leaf.spread, 1e-12, 1e12)
    location = float(np.average(y, weights=weight))
    scale = float(np.sqrt(np.average((y - location) ** 2, weights=weight)))
    # A target that hardly varies has no scale of its own.
    if not scale > 1e-12 * max(abs(location), 1e-300):
        scale = 1.0
    return replace(leaf, location=location, scale=scale)
