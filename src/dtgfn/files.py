"""Tables from files: CSV, TSV, gzip of these, Parquet and standard input."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from dtgfn.tables import Table, TableError, as_table, check_names, numbers_if_all_parse

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def read_table(source: str | Path) -> Table:
    r"""Read a .csv, .tsv (or .gz of these) or .parquet file, or CSV from standard input ("-").

    The first line of a CSV names the columns; spaces after a comma do not count.  Empty cells
    and the marks pandas knows (NA, NaN, null, None, ...) are missing; a column of true and false
    is boolean, one whose cells all spell numbers is a number, any other a category.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trees.csv")
    >>> _ = path.write_text("height,kind\n3.5,oak\n,ash\n")
    >>> [(column.kind, column.values.tolist()) for column in read_table(path).columns]
    [('number', [3.5, nan]), ('category', ['oak', 'ash'])]
    """
    path = Path(source)
    if str(source) == "-":
        text = io.TextIOWrapper(io.BytesIO(sys.stdin.buffer.read()), "utf-8-sig", newline="")
        return _read_csv(text, "standard input", ",")
    name = path.name.lower()
    if not path.exists():
        raise TableError(f"There is no file {str(path)!r}; check the path.")
    if path.is_dir():
        raise TableError(f"{str(path)!r} is a directory; name a file in it.")
    if not name.endswith(_SUFFIXES):
        raise TableError(f"The suffix of {str(path)!r} is not one of {', '.join(_SUFFIXES)}.")
    if name.endswith(".parquet"):
        return _read_parquet(path)
    separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    with _plain_errors(repr(str(path))):
        opener: Any = gzip.open if name.endswith(".gz") else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            return _read_csv(stream, repr(str(path)), separator)


@contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    """Say in one sentence what a reader's traceback would say in fifty lines."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise TableError(
            f"{what} is not UTF-8 text (byte {byte:#04x}); save it as UTF-8."
        ) from None
    except (csv.Error, EOFError, zlib.error, OSError) as error:
        raise TableError(f"{what} cannot be read: {str(error).rstrip('.')}.") from None


def _read_csv(stream: TextIO, what: str, separator: str) -> Table:
    import pandas

    with _plain_errors(what):
        first = [record for _, record in islice(_records(stream, separator), 2)]
        if len(first) < 2:
            wrong = (
                "has a first line that names columns, but no rows below it" if first else "is empty"
            )
            raise TableError(f"{what} {wrong}; give it names in the first line, then rows.")
        names = [name.strip() for name in first[0]]
        if "" in names:
            raise TableError(
                f"Column {names.index('') + 1} of {what} has no name in the first line; name it, "
                "or write the file without the row index."
            )
        check_names(names)
        _refuse_other_separator(names, what, separator)
        if len(first[1]) != len(names):  # pandas would make an index of the surplus
            _refuse_ragged(stream, what, separator, len(names))
        stream.seek(0)
        # before pandas 3.1 the default was off by one unit in the last place now and then
        older = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
        exact = {"float_precision": "round_trip"} if older else {}
        try:  # low_memory would guess a kind for each chunk, not for the column
            frame = pandas.read_csv(
                stream, sep=separator, skipinitialspace=True, low_memory=False, **exact
            )
        except pandas.errors.ParserError as error:
            if "fields" in str(error):
                _refuse_ragged(stream, what, separator, len(names))
            raise TableError(f"{what} cannot be read: {str(error).strip()}.") from None
        if frame.iloc[:, -1].isna().any():  # so pandas may have filled up a short row
            _refuse_ragged(stream, what, separator, len(names))
    frame.columns = names
    columns = tuple(map(numbers_if_all_parse, as_table(frame).columns))
    return Table(columns, len(frame), named=True)


def _refuse_other_separator(names: list[str], what: str, separator: str) -> None:
    """Refuse a file whose only column has a name that looks like several."""
    for other, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (",", "commas")):
        if len(names) == 1 and other != separator and other in names[0]:
            wanted = "tabs" if separator == "\t" else "commas"
            raise TableError(
                f"The first line of {what} has {called}, not {wanted}, between its names; save it "
                f"with {wanted}" + (", or name it .tsv." if other == "\t" else ".")
            )


def _records(stream: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of every record that is not blank."""
    stream.seek(0)
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
    for record in reader:
        if len(record) > 1 or "".join(record).strip():
            yield reader.line_num, record


def _refuse_ragged(stream: TextIO, what: str, separator: str, width: int) -> None:
    for line, record in _records(stream, separator):
        if len(record) != width:
            raise TableError(
                f"Line {line} of {what} has {len(record)} cells, but the first line names {width} "
                "columns; give every line the same number of cells."
            )


def _read_parquet(path: Path) -> Table:
    import pandas

    try:
        import pyarrow
    except ImportError:
        raise TableError("Reading Parquet needs pyarrow: pip install 'dtgfn[parquet]'.") from None
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise TableError(f"{str(path)!r} cannot be read as Parquet: {reason}.") from None
    if len(frame) == 0:
        raise TableError(f"{str(path)!r} has columns but no rows.")
    return as_table(frame)
