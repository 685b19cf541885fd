"""A target in: one value per row, as class labels or as finite numbers, or a sentence why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
from sklearn.utils.validation import column_or_1d

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.data.tables import listing

MAX_NUMBER = 1e150  # beyond, squares overflow
MAX_CLASSES = 1000
MAX_WEIGHT = 1e9  # of all rows; beyond, differences of log gammas lose their digits


def as_target(y: Any) -> npt.NDArray[Any]:
    """Return a target as a column [n], its values as they are.

    Examples
    --------
    >>> as_target(pandas.Series([True, False], dtype="boolean"))
    array([ True, False])

    """
    dtype: Any = getattr(y, "dtype", None)
    nullable = isinstance(dtype, pandas.api.extensions.ExtensionDtype) and dtype.kind in "biu"
    if nullable and not pandas.isna(y).any():
        return np.asarray(y.to_numpy(dtype=np.bool_ if dtype.kind == "b" else np.int64))
    array = np.asarray(y)
    if array.ndim == 0:
        raise ValueError(
            f"y={y!r} is no column; y should be a 1d array with one value per row, such as "
            "frame['name']."
        )
    if array.ndim > 1 and array.shape[1] != 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {array.shape} instead; fit a model "
            "for each of its columns."
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give real ones.")
    if array.dtype.kind in "mM":
        raise ValueError(
            "y holds dates or times; turn them into numbers (days since a fixed date) to predict "
            "them, or into text to tell them apart."
        )
    return np.asarray(column_or_1d(y, warn=True))


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


def check_classes(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return y as class labels: text, whole numbers or truth values."""
    check_labels(y)
    if y.dtype.kind == "O":
        y = _plain_labels(y)
    broken = y[y != np.rint(y)] if y.dtype.kind == "f" else y[:0]
    if broken.size:
        raise ValueError(
            f"Unknown label type: y holds numbers such as {broken[0]:g}, not classes; bin it, or "
            "use DTGFNRegressor."
        )
    return y


def _plain_labels(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make numbers of objects that are; refuse what cannot be put in order."""
    first = {type(value): value for value in reversed(y.tolist())}
    texts = [kind for kind in first if issubclass(kind, str)]
    others = [kind for kind in first if not issubclass(kind, str)]
    if texts and others:
        raise ValueError(
            f"Unknown label type: y mixes text, {first[texts[0]]!r}, with {first[others[0]]!r}; "
            "make all of it text, as with y.astype(str)."
        )
    for kind in others:
        if not issubclass(kind, bool | int | float | np.number | np.bool_):
            raise ValueError(
                f"Unknown label type: y holds a {kind.__name__}, {first[kind]!r}; give text, whole "
                "numbers or truth values."
            )
    return y if texts else np.array(y.tolist())


def encode_labels(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Int32s:
    """Index of each label [n] among the classes [C]; refuse one that is not there.

    >>> encode_labels(np.array(["yes", "no"]), np.array(["no", "yes"])).tolist()
    [1, 0]
    """
    index = pandas.Index(classes).get_indexer(pandas.Index(y))
    unseen = np.flatnonzero(index < 0)
    if unseen.size:
        raise ValueError(
            f"y holds the label {str(y[unseen[0]])!r} in row {unseen[0]}, which is none of the "
            f"classes {listing(map(str, classes))}; name every class that may come in classes= of "
            "the first partial_fit."
        )
    return np.asarray(index, dtype=np.int32)


def check_numbers(y: npt.NDArray[Any]) -> Floats:
    """Return y as finite numbers."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        text = next((value for value in y.tolist() if not isinstance(value, int | float)), y[0])
        raise ValueError(
            f"y holds {text!r}, which is not a number; use DTGFNClassifier for labels."
        ) from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size and np.isnan(numbers[bad[0]]):
        raise ValueError(
            f"Input y contains NaN: row {bad[0]} has no target; drop such rows before fitting."
        )
    if bad.size:
        raise ValueError(f"Input y contains infinity in row {bad[0]}; give finite numbers.")
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest > MAX_NUMBER:
        raise ValueError(f"y holds {largest:g}, larger than {MAX_NUMBER:g}; rescale it.")
    return np.asarray(numbers + 0.0)  # makes 0.0 of -0.0
