"""Public files in their own forms become a dataset."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from dtgfn.data.tables import TableError, parse_number
from dtgfn.datasets.registry import Entry, Source
from dtgfn.datasets.values import Dataset, make_dataset

_MISSING = ("?", "")


def convert(entry: Entry, source: Source, content: bytes) -> Dataset:
    """The dataset in a file of a source."""
    read = _read_mat if source.form == "mat" else _read_text
    X, labels = read(entry, source, content)
    odd = [text for text in labels if text not in source.codes]
    if odd and source.otherwise is None:
        raise TableError(f"{source.url} has a label {odd[0]!r} that is not known.")
    y = [source.codes.get(text, source.otherwise or 0) for text in labels]
    return make_dataset(entry, X, y, source.url)


def _read_text(entry: Entry, source: Source, content: bytes) -> tuple[Any, list[str]]:
    """Features and labels; what stands before them in a line (a row number, a name) is left out."""
    width = entry.n_features + 1
    lines = content.decode("utf-8-sig", "replace").splitlines()
    cells = [line.split(source.separator)[-width:] for line in lines if line.strip()]
    rows = [[cell.strip().strip('"') for cell in line] for line in cells]
    if rows and _numbers(rows[0][:-1]) is None:
        rows = rows[1:]  # a line of names
    values = [_numbers(row[:-1]) for row in rows]
    if not rows or None in values or {len(row) for row in rows} != {width}:
        raise TableError(f"{source.url} has a line that is not {width} cells of the table.")
    return np.array(values, dtype=np.float64), [row[-1] for row in rows]


def _numbers(cells: list[str]) -> list[float] | None:
    numbers = [parse_number("" if cell in _MISSING else cell) for cell in cells]
    return None if None in numbers else [number for number in numbers if number is not None]


def _read_mat(entry: Entry, source: Source, content: bytes) -> tuple[Any, list[str]]:
    from scipy.io import loadmat

    try:
        held = loadmat(io.BytesIO(content), variable_names=("X", "y"))
        X, y = held["X"], np.ravel(held["y"])
        labels = [str(int(value)) for value in y]
    except Exception as error:  # scipy raises whatever the bytes at hand lead to
        raise TableError(f"{source.url} is no MATLAB file with X and y ({error}).") from None
    return X, labels
