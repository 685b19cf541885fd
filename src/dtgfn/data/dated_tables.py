"""Tables with columns of dates, which become days since 1970-01-01 where that was asked for."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dtgfn.data.made_columns import MadeColumns
from dtgfn.data.scales import DATES, days_of_texts, days_of_times
from dtgfn.data.tables import Column, Table, TableError, as_table

DATED = (datetime.date, np.datetime64)


def as_training_table(X: Any, dates: str | None) -> Table:
    """Make a table to fit to: dates are days, also where text spells them, or refused.

    >>> as_training_table([["1970-01-03"], [None]], "number").columns[0].values.tolist()
    [2.0, nan]
    """
    if dates not in (None, "number"):
        raise TableError(f"dates={dates!r} is not known; give 'number', or None to refuse dates.")
    if dates is None:
        return as_table(X)
    table = as_new_table(X)
    if isinstance(table.columns, MadeColumns):
        return table
    return Table(tuple(map(_days_if_all_dates, table.columns)), table.n_rows, table.named)


def as_new_table(X: Any) -> Table:
    """Make a table of rows to predict: dates are days, which only a column of dates accepts."""
    library = type(X).__module__.split(".")[0]
    scaled = set[str]()
    if library == "polars" and type(X).__name__ == "LazyFrame":
        X = X.collect()
    if library == "pyarrow" and hasattr(X, "to_pandas"):
        X, library = X.to_pandas(), "pandas"
    if library == "pandas" and hasattr(X, "columns"):
        X, scaled = _pandas_days(X)
    elif library == "polars" and hasattr(X, "columns"):
        X, scaled = _polars_days(X)
    table = as_table(X)
    if not scaled:
        return table
    columns = (
        replace(column, scale=DATES) if column.name in scaled else column
        for column in table.columns
    )
    return Table(tuple(columns), table.n_rows, table.named)


def _pandas_days(frame: Any) -> tuple[Any, set[str]]:
    import pandas

    found = {}
    for name in frame.columns:
        series = frame[name]
        if getattr(series, "ndim", 1) != 1:  # names that come twice are refused later
            continue
        cells = series.dropna() if series.dtype == object else series[:0]
        dates = len(cells) and all(isinstance(cell, DATED) for cell in cells)
        if dates or series.dtype.kind == "M":
            times = pandas.to_datetime(series, utc=True).dt.tz_localize(None)
            found[name] = days_of_times(times.to_numpy(dtype="datetime64[us]"))
    return (frame.assign(**found) if found else frame), {str(name) for name in found}


def _polars_days(frame: Any) -> tuple[Any, set[str]]:
    import polars

    names = [n for n in frame.columns if frame[n].dtype in (polars.Date, polars.Datetime)]
    days = [
        polars.Series(name, days_of_times(frame[name].cast(polars.Datetime("us")).to_numpy()))
        for name in names
    ]
    return frame.with_columns(days), set(names)


def _days_if_all_dates(column: Column) -> Column:
    """Make days of a column of text whose every cell spells a date, unless it is meant as text."""
    if column.kind != "category" or column.meant or column.cells is not None:
        return column
    days = days_of_texts(cast(npt.NDArray[np.object_], column.values))
    return column if days is None else Column(column.name, "number", days, scale=DATES)
