"""TrainingData: a table and a target as the engines see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.progress import Progress, silent
from dtgfn.data.binning import Binner, encode, fit_binner
from dtgfn.data.equal_rows import CodedRows, group_rows
from dtgfn.data.tables import Table, take
from dtgfn.data.targets import MAX_WEIGHT, as_target, check_classes, check_numbers, encode_labels
from dtgfn.data.thresholds import Binning
from dtgfn.inference.source_data import TrainingSource, read_rows
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, fit_dirichlet, fit_normal
from dtgfn.trees.score import Rows


@dataclass(frozen=True)
class TrainingData:
    """Coded rows with what gives them meaning; classes [C] is None unless leaves hold classes."""

    rows: Rows
    binner: Binner
    leaf: LeafModel
    classes: npt.NDArray[Any] | None

    @property
    def n_columns(self) -> int:
        """Columns of the user's table."""
        return len(self.binner.columns)


def make_training_data(
    table: Table | TrainingSource,
    target: npt.NDArray[Any] | None,
    leaf: LeafModel,
    *,
    binning: Binning = "uniform",
    n_thresholds: int = 99,
    sample_weight: npt.ArrayLike | None = None,
    classes: npt.ArrayLike | None = None,
    merge: bool = True,
    progress: Progress = silent,
) -> TrainingData:
    """Code a table, and a target that ``read_target`` has read; rows of weight zero are absent.

    A source is read in chunks, tells target and weights itself, and its equal rows become one if
    ``merge``.

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
    if isinstance(table, TrainingSource):
        return _from_source(table, leaf, binning, n_thresholds, classes, merge, progress)
    assert target is not None, "only a source tells it"
    check_length(table, target)
    binner = fit_binner(
        table, binning=binning, n_thresholds=n_thresholds, sample_weight=sample_weight
    )
    weight: Floats = np.ones(table.n_rows)
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        _check_total(weight)
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


def _from_source(
    training: TrainingSource,
    leaf: LeafModel,
    binning: Binning,
    n_thresholds: int,
    classes: npt.ArrayLike | None,
    merge: bool,
    progress: Progress,
) -> TrainingData:
    found = read_rows(
        training,
        of_classes=isinstance(leaf, DirichletLeaf),
        binning=binning,
        n_thresholds=n_thresholds,
        classes=classes,
        merge=merge,
        progress=progress,
    )
    codes, target, weight = found.rows
    _check_total(weight)
    if isinstance(leaf, DirichletLeaf):
        assert found.classes is not None, "leaves of classes have classes"
        leaf = fit_dirichlet(leaf, found.classes)
    elif isinstance(leaf, NormalLeaf):
        numbers = np.asarray(target, dtype=np.float64)
        leaf = fit_normal(leaf, numbers, weight)
        target = (numbers - leaf.location) / leaf.scale
    return TrainingData(Rows(codes, target, weight), found.binner, leaf, found.classes)


def _check_total(weight: Floats) -> None:
    """Refuse weights of which the leaf models would lose the digits."""
    if weight.sum() > MAX_WEIGHT:
        raise ValueError(
            f"sample_weight sums to {weight.sum():g}, more than {MAX_WEIGHT:g} rows' worth; "
            "divide it by a constant (a weight counts as that many rows)."
        )


def is_mapped(rows: Rows) -> bool:
    """Whether codes are mapped from a file, for there were too many."""
    return isinstance(rows.codes.base, np.memmap)


def merged(rows: Rows) -> Rows:
    """Make one of equal rows, for an engine; the same rows if none are equal."""
    return Rows(*group_rows(CodedRows(rows.codes, rows.target, rows.weight)))


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
