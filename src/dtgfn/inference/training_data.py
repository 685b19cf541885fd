"""From a user's table and target to what engines take: binner, coded rows, leaf model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.checks import check_range
from dtgfn.data.binning import Binner, encode, fit_binner
from dtgfn.data.tables import Table, listing, take
from dtgfn.data.targets import check_classes, check_numbers
from dtgfn.data.thresholds import Binning
from dtgfn.trees.leaves import DirichletLeaf, LeafModel, NormalLeaf
from dtgfn.trees.score import Rows

MAX_CLASSES = 1000
MAX_WEIGHT = 1e9  # beyond, differences of log gammas lose their digits


@dataclass(frozen=True)
class TrainingData:
    """Coded rows with what gives them meaning; classes [C] is None unless leaves hold classes."""

    rows: Rows
    binner: Binner
    leaf: LeafModel
    classes: npt.NDArray[Any] | None


def make_training_data(
    table: Table,
    y: npt.NDArray[Any],
    leaf: LeafModel | None = None,
    *,
    binning: Binning = "uniform",
    n_thresholds: int = 99,
    sample_weight: npt.ArrayLike | None = None,
    classes: npt.ArrayLike | None = None,
) -> TrainingData:
    """Code a table; rows of weight zero count as absent.

    ``leaf`` is a model of which only the prior matters: the classes of a ``DirichletLeaf`` (the
    default), location and scale of a ``NormalLeaf`` come from y. Others see y as it is. ``classes``
    names all classes where y may lack some.

    Examples
    --------
    >>> from dtgfn.data.tables import as_table
    >>> data = make_training_data(as_table([[1.0], [2.0], [3.0]]), np.array(["no", "yes", "yes"]))
    >>> data.classes.tolist(), data.rows.target.tolist()
    (['no', 'yes'], [0, 1, 1])

    """
    if y.ndim != 1 or len(y) != table.n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {table.n_rows} "
            f"rows, but y has shape {y.shape}; give one value per row."
        )
    leaf = DirichletLeaf(1) if leaf is None else leaf
    y = check_classes(y) if isinstance(leaf, DirichletLeaf) else check_numbers(y)
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
        table, y, weight = take(table, present), y[present], weight[present]
    known = None
    if isinstance(leaf, DirichletLeaf):
        known = np.unique(y if classes is None else np.asarray(classes))
        leaf = fitted_dirichlet(leaf, known)
    elif isinstance(leaf, NormalLeaf):
        leaf = fitted_normal(leaf, y, weight)
    rows = Rows(encode(binner, table), coded_target(y, leaf, known), weight)
    return TrainingData(rows, binner, leaf, known)


def coded_target(
    y: npt.NDArray[Any], leaf: LeafModel, classes: npt.NDArray[Any] | None
) -> Int32s | Floats:
    """Targets as the leaf model sees them [n]: places of classes, numbers in its own units."""
    if isinstance(leaf, DirichletLeaf):
        assert classes is not None, "leaves of classes have classes"
        return class_places(check_classes(y), classes)
    numbers = check_numbers(y)
    if isinstance(leaf, NormalLeaf):
        return np.asarray((numbers - leaf.location) / leaf.scale)
    return numbers


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


def class_places(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Int32s:
    """Place of each label [n] among the classes [C]; refuse one that is not there.

    >>> class_places(np.array(["yes", "no"]), np.array(["no", "yes"])).tolist()
    [1, 0]
    """
    places = pandas.Index(classes).get_indexer(pandas.Index(y))
    unseen = np.flatnonzero(places < 0)
    if unseen.size:
        raise ValueError(
            f"y holds the label {str(y[unseen[0]])!r} in row {unseen[0]}, which is none of the "
            f"classes {listing(map(str, classes))}; name every class that may come in classes= of "
            "the first partial_fit."
        )
    return np.asarray(places, dtype=np.int32)
