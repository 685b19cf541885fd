"""A table's values: what they are, how they are recognised, and their CSV form."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.data.table_files import read_table
from dtgfn.data.tables import TableError, label, split_column
from dtgfn.datasets.registry import Entry

_WAY_OUT = "; delete the file, or replace it by the right one"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table: features ``X`` [n, d] with NaN for missing, class codes ``y`` [n], and names."""

    X: Floats
    y: Int64s
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    name: str

    @property
    def n_classes(self) -> int:
        """Number of classes, whether or not every one has rows."""
        return len(self.class_names)


def make_dataset(
    entry: Entry, X: npt.ArrayLike, y: npt.ArrayLike, found: str, way_out: str = ""
) -> Dataset:
    """A dataset of an entry, if the values are the ones the entry stands for.

    ``found`` names, for a refusal, where they come from, and ``way_out`` what to do then.
    """
    values = np.ascontiguousarray(X, dtype=np.float64)
    codes = np.ascontiguousarray(y, dtype=np.int64)
    if values.shape != (entry.n_rows, entry.n_features):
        shape = " x ".join(map(str, values.shape))
        raise TableError(
            f"{found} holds {shape} numbers, but {entry.title} has {entry.n_rows} x "
            f"{entry.n_features}: it is cut short, or another table{way_out}."
        )
    if digest(values, codes) != entry.digest:
        raise TableError(
            f"{found} does not hold the values of {entry.title}: the checksum differs{way_out}."
        )
    return Dataset(values, codes, entry.features, entry.class_names, entry.name)


def digest(X: Floats, y: Int64s) -> str:
    """SHA-256 of shape, features and class codes, the same on every machine.

    >>> digest(np.array([[-0.0, np.nan]]), np.array([1])) == digest(
    ...     np.array([[0.0, -np.nan]]), np.array([1])
    ... )
    True
    """
    values = np.where(np.isnan(X), np.nan, X) + 0.0  # one NaN, and no negative zero
    summary = hashlib.sha256(f"{values.shape[0]} {values.shape[1]}\n".encode())
    summary.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    summary.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    return summary.hexdigest()


def read_csv(entry: Entry, path: Path) -> Dataset:
    """The dataset in a CSV file: the features, then the label."""
    column, table = split_column(read_table(path), entry.label_column)
    codes = {text: code for code, text in enumerate(entry.labels)}
    found = repr(str(path))
    labels = list(map(label, column.values))
    odd = [text for text in labels if text not in codes]
    if odd:
        raise TableError(f"{found} has a label {odd[0]!r} that {entry.title} has not{_WAY_OUT}.")
    wrong = [feature.name for feature in table.columns if feature.kind != "number"]
    if wrong:
        raise TableError(f"Column {wrong[0]!r} of {found} holds no numbers{_WAY_OUT}.")
    X = np.column_stack([feature.values for feature in table.columns])
    return make_dataset(entry, X, [codes[text] for text in labels], found, _WAY_OUT)


def csv_text(entry: Entry, data: Dataset) -> str:
    """The CSV form of a dataset, byte for byte the file that ``entry.sha256`` stands for."""
    columns = [_cells(column) for column in data.X.T]
    columns.append([entry.labels[code] for code in data.y])
    header = ",".join((*entry.features, entry.label_column))
    return "\n".join([header, *map(",".join, zip(*columns, strict=True))]) + "\n"


def _cells(column: Floats) -> list[str]:
    """Shortest text of each number; a column of whole numbers goes without a point."""
    present = column[~np.isnan(column)]
    whole = bool((present == np.rint(present)).all())
    return [
        "" if np.isnan(value) else str(int(value)) if whole else repr(float(value))
        for value in column
    ]
