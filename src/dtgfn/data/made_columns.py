"""Columns of a matrix that are made, as doubles, only while they are looked at.

So a sparse matrix is never dense as a whole, and an array of single precision never doubled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np

from dtgfn._support.arrays import Array, Floats

ColumnT = TypeVar("ColumnT")


def is_sparse(X: Any) -> bool:
    """Whether this is a scipy sparse matrix or array, of any format."""
    return hasattr(X, "tocsc") and "sparse" in type(X).__module__


class MadeColumns(Sequence[ColumnT], Generic[ColumnT]):
    """Columns of a matrix; ``make(j, values)`` makes one of the numbers [n] in column j."""

    def __init__(self, matrix: Any, make: Callable[[int, Floats], ColumnT]) -> None:
        self._matrix, self._make = matrix, make

    @abstractmethod
    def _values(self, column: int) -> Floats:
        """Numbers [n] of a column."""

    def take(self, rows: Array) -> Self:
        """Columns of some of the rows, by index or by mask."""
        return type(self)(self._matrix[rows], self._make)

    def __len__(self) -> int:
        return int(self._matrix.shape[1])

    @overload
    def __getitem__(self, index: int) -> ColumnT: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ColumnT, ...]: ...

    def __getitem__(self, index: int | slice) -> ColumnT | tuple[ColumnT, ...]:
        if isinstance(index, slice):
            return tuple(self[j] for j in range(*index.indices(len(self))))
        column = range(len(self))[index]
        return self._make(column, self._values(column))


class SparseColumns(MadeColumns[ColumnT]):
    """Columns of a scipy matrix; cells that are not stored are zeros."""

    def __init__(self, matrix: Any, make: Callable[[int, Floats], ColumnT]) -> None:
        by_column = matrix.tocsc()
        if not by_column.has_canonical_format:  # the same cell twice is their sum
            by_column = by_column.copy()
            by_column.sum_duplicates()
        super().__init__(by_column, make)

    @property
    def stored(self) -> Array:
        """Cells that are stored, column after column."""
        return np.asarray(self._matrix.data)

    def column_of(self, place: int) -> int:
        """Column of a stored cell."""
        return int(np.searchsorted(self._matrix.indptr, place, side="right")) - 1

    def _values(self, column: int) -> Floats:
        values = np.zeros(self._matrix.shape[0])
        first, last = self._matrix.indptr[column : column + 2]
        values[self._matrix.indices[first:last]] = self._matrix.data[first:last]
        return values


class NarrowColumns(MadeColumns[ColumnT]):
    """Columns of an array of numbers that take less room than doubles."""

    def _values(self, column: int) -> Floats:
        return np.asarray(self._matrix[:, column], dtype=np.float64)
