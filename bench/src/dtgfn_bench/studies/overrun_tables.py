"""The tables of the study of overruns: long, wide, sparse, with text, with many classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sparse

from dtgfn_bench.studies.scale import make_table

N_SOURCES = 4000  # names of a column of text that hardly any two rows share
N_CLASSES = 300


class Shape(NamedTuple):
    """Rows, columns, the seconds allowed, and what makes the table."""

    n_rows: int
    n_columns: int
    budget: float
    kind: str = "numbers"


@dataclass(frozen=True)
class MadeTable:
    """A table and its target, two classes or more."""

    X: Any
    y: np.ndarray[Any, np.dtype[np.int64]]

    def part(self, n_rows: int) -> MadeTable:
        """Return the first rows."""
        X = self.X.iloc[:n_rows] if hasattr(self.X, "iloc") else self.X[:n_rows]
        return MadeTable(X, self.y[:n_rows])


SHAPES: dict[str, Shape] = {
    "10000x20": Shape(10_000, 20, 5.0),
    "500x1000": Shape(500, 1000, 5.0),
    "250x5000": Shape(250, 5000, 5.0),
    "2000x20000": Shape(2000, 20_000, 5.0),
    "2000x20000 sparse": Shape(2000, 20_000, 5.0, "sparse"),
    "20000x10 300 classes": Shape(20_000, 10, 5.0, "classes"),
    "100000x50 with text": Shape(100_000, 50, 5.0, "text"),
    "327000x14 with text": Shape(327_000, 14, 5.0, "text"),
    "200000x200": Shape(200_000, 200, 5.0),
    "1000000x20": Shape(1_000_000, 20, 5.0),
}


def make_shape(name: str) -> MadeTable:
    """Make a table by its name in ``SHAPES``."""
    shape = SHAPES[name]
    return MAKERS[shape.kind](shape)


def numbers(shape: Shape) -> MadeTable:
    """Return real columns, five of which matter."""
    return MadeTable(*make_table(shape.n_rows, shape.n_columns))


def half_zeros(shape: Shape) -> MadeTable:
    """Return a sparse matrix, half of it zeros."""
    X, y = make_table(shape.n_rows, shape.n_columns)
    return MadeTable(sparse.csr_array(np.where(X > 0, X, 0)), y)


def many_classes(shape: Shape) -> MadeTable:
    """Return real columns, two of which tell the class."""
    X, _ = make_table(shape.n_rows, shape.n_columns)
    side = int(np.sqrt(N_CLASSES))
    rank = [np.argsort(np.argsort(X[:, i])) * side // len(X) for i in range(2)]
    return MadeTable(X, rank[0] * side + rank[1])


def with_text(shape: Shape) -> MadeTable:
    """Return numbers with gaps and columns of text: few, hundreds and thousands of categories."""
    rng = np.random.default_rng(1)
    X, y = make_table(shape.n_rows, shape.n_columns - 4)
    X[rng.random(X.shape) < 0.02] = np.nan
    frame = pd.DataFrame(X, columns=[f"number {i}" for i in range(X.shape[1])])
    frame["month"] = rng.integers(1, 13, shape.n_rows)
    for name, n_names in (("carrier", 16), ("airport", 400), ("tail number", N_SOURCES)):
        # Few of the names are most of the rows, as it is with names.
        place = np.minimum(rng.zipf(1.3, shape.n_rows) - 1, n_names - 1)
        frame[name] = np.array([f"{name} {i}" for i in range(n_names)], dtype=object)[place]
        y = np.where((place == 1) & (rng.random(shape.n_rows) < 0.5), 1, y)
    return MadeTable(frame, y)


MAKERS: dict[str, Callable[[Shape], MadeTable]] = {
    "numbers": numbers,
    "sparse": half_zeros,
    "classes": many_classes,
    "text": with_text,
}
