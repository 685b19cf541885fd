"""From a user's table and labels to what engines take: binner, classes, coded training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas

from dtgfn.binning import Binner, Binning, encode, fit_binner
from dtgfn.kernels import Floats, Ints
from dtgfn.score import Rows
from dtgfn.tables import Table, listing, take

MAX_CLASSES = 1000
MAX_WEIGHT = 1e9  # beyond, differences of log gammas lose their digits


@dataclass(frozen=True)
class TrainingData:
    """Coded rows with the binner and classes [C] that give them meaning."""

    rows: Rows
    binner: Binner
    classes: npt.NDArray[Any]


def make_training_data(
    table: Table,
    y: npt.NDArray[Any],
    *,
    binning: Binning = "uniform",
    n_thresholds: int = 99,
    sample_weight: npt.ArrayLike | None = None,
) -> TrainingData:
    """Code a table; rows of weight zero count as absent.

    Examples
    --------
    >>> from dtgfn.tables import as_table
    >>> data = make_training_data(as_table([[1.0], [2.0], [3.0]]), np.array(["no", "yes", "yes"]))
    >>> data.classes.tolist(), data.rows.labels.tolist()
    (['no', 'yes'], [0, 1, 1])

    """
    if y.ndim != 1 or len(y) != table.n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {table.n_rows} "
            f"rows, but y has shape {y.shape}; give one label per row."
        )
    check_labels(y)
    broken = y[y != np.rint(y)] if y.dtype.kind == "f" else y[:0]
    if broken.size:
        raise ValueError(f"y holds numbers such as {broken[0]:g}, not classes; bin it first.")
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
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) > MAX_CLASSES:
        raise ValueError(
            f"y has {len(classes)} distinct labels, but at most {MAX_CLASSES} classes can be told "
            "apart; is it an identifier, or a number to bin first?"
        )
    rows = Rows(encode(binner, table), labels.astype(np.int32), weight)
    return TrainingData(rows, binner, classes)


def check_labels(y: npt.NDArray[Any]) -> None:
    """Refuse labels that are missing or infinite."""
    absent = np.flatnonzero(pandas.isna(y))
    if absent.size:
        raise ValueError(
            f"Input y contains NaN: row {absent[0]} has no label; drop such rows before fitting."
        )
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError(
            f"Input y contains infinity in row {np.flatnonzero(np.isinf(y))[0]}; give class labels."
        )


def class_places(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Ints:
    """Place of each label [n] among the classes [C]; refuse one that is not there.

    >>> class_places(np.array(["yes", "no"]), np.array(["no", "yes"])).tolist()
    [1, 0]
    """
    places = pandas.Index(classes).get_indexer(pandas.Index(y))
    unseen = np.flatnonzero(places < 0)
    if unseen.size:
        raise ValueError(
            f"y holds the label {y[unseen[0]]!r} in row {unseen[0]}, which is none of the classes "
            f"{listing(map(str, classes))}; name every class that may come in classes= of the "
            "first partial_fit."
        )
    return np.asarray(places, dtype=np.int32)
