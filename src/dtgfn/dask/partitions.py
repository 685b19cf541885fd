"""Partitions: dask DataFrames and arrays as lists of parts that belong together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import dask.array
import dask.dataframe

FRAME = "dask.dataframe.from_pandas(frame, npartitions=...) makes one of rows in memory"


@dataclass(frozen=True)
class Partitions:
    """Delayed parts of a table, of its target and of its weights, if there are any."""

    x: list[Any]
    y: list[Any]
    weight: list[Any] | None

    def tasks(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Delayed ``function(number, x, y, weight, *shared)`` of every part."""
        do = dask.delayed(function, pure=False)
        given = [dask.delayed(each, pure=False) for each in shared]
        weight = self.weight or [None] * len(self.x)
        parts = zip(self.x, self.y, weight, strict=True)
        return [do(number, *part, *given) for number, part in enumerate(parts)]


def is_frame(X: Any) -> bool:
    """Whether this is a dask DataFrame; refuse what is neither that nor a dask array."""
    if isinstance(X, dask.dataframe.DataFrame):
        return True
    if isinstance(X, dask.array.Array):
        if X.ndim != 2:
            raise ValueError(f"X has the shape {X.shape}, but a table has rows by columns.")
        return False
    raise TypeError(
        f"X is a {type(X).__module__.split('.')[0]} {type(X).__name__}, not a dask DataFrame or "
        f"array; {FRAME}, and for these dtgfn.DTGFNClassifier and DTGFNRegressor are enough."
    )


def read_partitions(X: Any, y: Any, sample_weight: Any) -> Partitions:
    """Return the parts of a table, a target and weights, which must have the same partitions."""
    rows = row_chunks(X)
    parts = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    for name, column in parts.items():
        check_column(name, column)
        check_alike(X, rows, name, column)
    weight = None if sample_weight is None else delayed_parts(sample_weight)
    return Partitions(delayed_parts(X), delayed_parts(y), weight)


def delayed_parts(collection: Any) -> list[Any]:
    """Delayed partitions of a collection; of an array, all columns of some rows."""
    if isinstance(collection, dask.array.Array):
        if collection.ndim == 2:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())


def row_chunks(X: Any) -> int:
    """How many parts a table's rows are in."""
    return X.npartitions if is_frame(X) else len(X.chunks[0])


def check_column(name: str, column: Any) -> None:
    """Refuse what is no dask column."""
    series = isinstance(column, dask.dataframe.Series)
    if not series and not (isinstance(column, dask.array.Array) and column.ndim == 1):
        raise TypeError(
            f"{name} is a {type(column).__name__}, not a dask Series or array of one dimension; "
            "give a column with the partitions of X, such as frame['name']."
        )


def check_alike(X: Any, n_parts: int, name: str, column: Any) -> None:
    """Refuse a column that is divided in another way than the table, as far as that is known."""
    same = "give it those of X, such as a column of the same frame, or"
    if column.npartitions != n_parts:
        raise ValueError(
            f"{name} has {column.npartitions} partitions, but X has {n_parts}; {same} "
            f"{name}.repartition(divisions=X.divisions), or {name}.rechunk(X.chunks[0])."
        )
    theirs, ours = getattr(column, "divisions", None), getattr(X, "divisions", None)
    known = theirs is not None and ours is not None and None not in (*theirs, *ours)
    if known and list(theirs or ()) != list(ours or ()):
        raise ValueError(
            f"{name} has the divisions {shown(theirs)}, but X has {shown(ours)}; {same} "
            f"{name}.repartition(divisions=X.divisions)."
        )
    if isinstance(column, dask.array.Array) and isinstance(X, dask.array.Array):
        sizes = (*column.chunks[0], *X.chunks[0])
        if all(size == size for size in sizes) and column.chunks[0] != X.chunks[0]:  # no nan
            raise ValueError(
                f"{name} has chunks of {shown(column.chunks[0])} rows, but X of "
                f"{shown(X.chunks[0])}; {same} {name}.rechunk(X.chunks[0])."
            )


def shown(values: Any, limit: int = 4) -> str:
    """Some values for a sentence."""
    every = [str(value) for value in values]
    return ", ".join(every[:limit]) + (", ..." if len(every) > limit else "")
