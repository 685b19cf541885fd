"""A Parquet file in: as a table, or one sentence why not."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dtgfn.data.tables import Table, TableError, as_table, label, refuse_infinite_columns


def read_parquet(source: Path | io.BytesIO, what: str, text_columns: Collection[str]) -> Table:
    """Read a Parquet file, or one in memory; ``what`` names it in sentences."""
    import pandas

    with _parquet_errors(what):
        frame = pandas.read_parquet(source, engine="pyarrow")
    if len(frame) == 0:
        raise TableError(f"{what} has columns but no rows; give it some.")
    with _parquet_errors(what, (TypeError,)):  # texts are read only here; that of a list is ours
        refuse_infinite_columns(frame, what)
        for name in frame.columns.intersection(list(text_columns)):
            frame[name] = frame[name].map(label, na_action="ignore").astype(object)
        return declare_text(as_table(frame), text_columns)


def declare_text(table: Table, text_columns: Collection[str]) -> Table:
    """Remember which columns are meant as text."""
    columns = tuple(
        replace(column, meant=column.meant or column.name in text_columns)
        for column in table.columns
    )
    return Table(columns, table.n_rows, table.named)


@contextmanager
def _parquet_errors(what: str, known: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn what a damaged file leads to, KeyError and UnicodeError among it, into one sentence."""
    try:
        import pyarrow
    except ImportError:
        raise TableError("Reading Parquet needs pyarrow: pip install 'dtgfn[parquet]'.") from None
    try:
        yield
    except Exception as error:
        if isinstance(error, (TableError, ImportError, *known)):
            raise
        telling = isinstance(error, pyarrow.ArrowException | OSError | ValueError)
        lines = (getattr(error, "strerror", None) or str(error)).splitlines() if telling else []
        reason = lines[0].rstrip(".") if lines else "it is damaged"
        raise TableError(f"{what} cannot be read as Parquet: {reason}.") from None
