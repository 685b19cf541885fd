"""What users give as a table that is read in chunks, opened as a source."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import Any

from dtgfn.data.arrow_sources import (
    dataset_source,
    frames_source,
    lazy_frame_source,
    relation_source,
)
from dtgfn.data.arrow_tables import import_pyarrow
from dtgfn.data.csv_dialect import check_dialect
from dtgfn.data.csv_source import csv_source
from dtgfn.data.sources import Source, first_line
from dtgfn.data.table_files import check_file, is_parquet
from dtgfn.data.tables import TableError

FORMATS_IN_FOLDERS = (".parquet", ".pq")


def is_source(X: Any) -> bool:
    """Whether this is read in chunks: a source, a path, a dataset, a lazy frame, a relation."""
    if isinstance(X, Source | str | PathLike):
        return True
    library, name = type(X).__module__.split(".")[0], type(X).__name__
    if library == "pyarrow":
        return "Dataset" in name and not hasattr(X, "to_pandas")
    lazy = (library == "polars" and name == "LazyFrame") or name == "DuckDBPyRelation"
    return lazy or (callable(X) and not hasattr(X, "__array__"))


def open_source(X: Any) -> Source:
    """Look at the columns of what ``is_source``; rows are read later.

    Parameters
    ----------
    X : path, dataset, lazy frame, relation, function or Source
        A CSV or Parquet file or a folder of Parquet files, a pyarrow dataset, a polars LazyFrame, a
        DuckDB relation, or a function of no arguments that returns the frames of a table one by
        one, anew each time.

    Returns
    -------
    Source
        Its columns, and how to read it in chunks.

    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | PathLike):
        return open_file(X)
    library = type(X).__module__.split(".")[0]
    import_pyarrow("Reading in chunks")
    if library == "pyarrow":
        return dataset_source(X, "the dataset")
    if library == "polars":
        return lazy_frame_source(X)
    return relation_source(X) if type(X).__name__ == "DuckDBPyRelation" else frames_source(X)


def open_file(
    path: str | PathLike[str],
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    text_columns: Collection[str] = (),
) -> Source:
    """Open a CSV or Parquet file, or a folder of Parquet files, by ``read_table``'s rules.

    Parameters
    ----------
    path : str or path
        The file or folder.
    separator : str or None
        What stands between the cells of a CSV file.
    encoding : str
        Of a CSV file, such as "latin-1".
    decimal : {".", ","}
        The decimal mark of a CSV file.
    text_columns : collection of str
        Columns that stay text.

    Returns
    -------
    Source
        Its columns, and how to read it in chunks.

    """
    place, what = Path(path), repr(str(path))
    dialect = check_dialect(separator, encoding, decimal)
    if not place.is_dir():
        check_file(place, what, separator)
    import_pyarrow("Reading in chunks")
    if not place.is_dir() and not is_parquet(place):
        return csv_source(place, what, dialect, text_columns)
    return _open_parquet(place, what).as_text(list(text_columns))


def _open_parquet(place: Path, what: str) -> Source:
    from pyarrow import dataset

    if place.is_dir() and not any(
        path.suffix.lower() in FORMATS_IN_FOLDERS for path in place.rglob("*")
    ):
        raise TableError(f"{what} is a folder without Parquet files; put some in, or name a file.")
    try:
        found = dataset.dataset(
            place, format="parquet", partitioning="hive" if place.is_dir() else None
        )
        return dataset_source(found, what)
    except (TableError, TypeError):
        raise
    except Exception as error:
        raise TableError(f"{what} cannot be read as Parquet: {first_line(error)}.") from None
