"""Tables from files: CSV, TSV, gzip of these, Parquet and standard input."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import warnings
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO

from dtgfn._support.callers import levels_to_caller
from dtgfn._support.progress import Progress, silent
from dtgfn.data.csv_dialect import CsvDialect, check_dialect
from dtgfn.data.hints import DataHint
from dtgfn.data.parquet_file import declare_text, read_parquet
from dtgfn.data.problems import Problems
from dtgfn.data.tables import (
    Table,
    TableError,
    as_table,
    check_names,
    numbers_if_all_parse,
    parse_number,
    refuse_infinite_columns,
)

_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_TABS = (".tsv", ".tsv.gz")
_PADDED = re.compile(r"0\d+")
N_LOOKED_AT = 1000  # records


def read_table(
    source: str | Path,
    *,
    separator: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    text_columns: Collection[str] = (),
    progress: Progress = silent,
) -> Table:
    r"""Read a .csv, .tsv (or .gz of these) or .parquet file, or standard input ("-").

    The first line of a CSV names the columns; spaces after a comma do not count.  Empty cells
    and the marks pandas knows (NA, NaN, null, None, ...) are missing; a column of true and false
    is boolean, one whose cells all spell numbers is a number, any other a category.

    ``separator`` is what stands between cells, by the file's suffix if None; with it, any suffix
    will do.  ``text_columns`` stay text, as codes such as 007 must; names that the file does not
    have do not matter.

    Parameters
    ----------
    source : str or path
        The file; "-" is standard input.
    separator : str or None
        What stands between cells.
    encoding : str
        Of a text file, such as "latin-1".
    decimal : {".", ","}
        The decimal mark of a text file.
    text_columns : collection of str
        Columns that stay text.
    progress : function
        Told the stage, and how much of it is done.

    Returns
    -------
    Table
        Named columns of numbers, booleans or categories.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trees.csv")
    >>> _ = path.write_text("height,kind\n3.5,oak\n,ash\n")
    >>> [(column.kind, column.values.tolist()) for column in read_table(path).columns]
    [('number', [3.5, nan]), ('category', ['oak', 'ash'])]

    """
    dialect = check_dialect(separator, encoding, decimal)
    if str(source) == "-":
        return _read_standard_input(dialect, text_columns)
    path, what = Path(source), repr(str(source))
    check_file(path, what, separator)
    if is_parquet(path):
        return read_parquet(path, what, text_columns)
    dialect = settled(dialect, path)
    with _open_text(path, what, dialect, progress) as stream:
        return _read_csv(stream, what, dialect, text_columns)


def check_file(path: Path, what: str, separator: str | None) -> None:
    """Refuse what is no file, or not known by its suffix."""
    if path == Path() or not path.exists():
        raise TableError(f"There is no file {what}; check the path.")
    if path.is_dir():
        raise TableError(f"{what} is a directory; name a file in it.")
    if not path.name.lower().endswith(_SUFFIXES) and separator is None:
        raise TableError(
            f"The suffix of {what} is not one of {', '.join(_SUFFIXES)}; rename it, or give "
            "separator=','."
        )


def is_parquet(path: Path) -> bool:
    """Whether a file's suffix says Parquet."""
    return path.name.lower().endswith(".parquet")


def is_gzip(path: Path) -> bool:
    """Whether a file's suffix says gzip."""
    return path.name.lower().endswith(".gz")


def settled(dialect: CsvDialect, path: Path) -> CsvDialect:
    """Let a file's suffix say what stands between cells, unless that was given."""
    by_suffix = "\t" if path.name.lower().endswith(_TABS) else ","
    return replace(dialect, separator=dialect.separator or by_suffix)


@contextmanager
def _open_text(path: Path, what: str, dialect: CsvDialect, progress: Progress) -> Iterator[TextIO]:
    with _plain_errors(what), io.BufferedReader(_WatchedFile(path, progress)) as raw:
        content: Any = gzip.GzipFile(fileobj=raw) if is_gzip(path) else raw
        yield io.TextIOWrapper(content, dialect.codec, newline="")


class Head(NamedTuple):
    """The first rows of a CSV file, and how the rest is to be read."""

    table: Table
    n_header_lines: int
    n_rows_about: int


def read_head(path: Path, dialect: CsvDialect, text_columns: Collection[str]) -> Head:
    """Read the first thousand rows of a CSV file, checked and warned of as all of it would be."""
    what, separator = repr(str(path)), str(dialect.separator)
    with _open_text(path, what, dialect, silent) as stream:
        records = list(islice(_records(stream, separator), N_LOOKED_AT))
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(record for _, record in records)
    table = _read_csv(text, what, dialect, text_columns)
    n_bytes = len(text.getvalue().encode(dialect.encoding)) / len(records)
    return Head(table, records[0][0], round(path.stat().st_size / n_bytes))


class _WatchedFile(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, progress: Progress) -> None:
        super().__init__(path)
        self.size, self.progress = max(path.stat().st_size, 1), progress
        self.stage = f"reading {path.name}"

    def readinto(self, buffer: Any) -> int | None:
        n_bytes = super().readinto(buffer)
        self.progress(self.stage, min(self.tell() / self.size, 1.0))
        return n_bytes


def _read_standard_input(dialect: CsvDialect, text_columns: Collection[str]) -> Table:
    """Read what comes in a pipe; gzip and Parquet are told by their first bytes."""
    what, content = "standard input", sys.stdin.buffer.read()
    if content[:4] == b"PAR1":
        return read_parquet(io.BytesIO(content), what, text_columns)
    with _plain_errors(what):
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        stream = io.TextIOWrapper(io.BytesIO(content), dialect.codec, newline="")
        return _read_csv(stream, what, settled(dialect, Path("-")), text_columns)


@contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    """Say in one sentence what a reader's traceback would say in fifty lines."""
    try:
        yield
    except UnicodeDecodeError as error:
        byte = f"byte {error.object[error.start]:#04x}"
        wide = error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        why = f"{byte}: UTF-16, it seems" if wide else byte
        meant = "utf-16" if wide else "cp1252"
        if error.encoding.lower() not in ("utf-8", "utf-8-sig"):
            raise TableError(
                f"{what} is not {error.encoding} text ({why}); give another encoding."
            ) from None
        raise TableError(
            f"{what} is not UTF-8 text ({why}); save it as UTF-8, or give encoding='{meant}', if "
            "that is what it is."
        ) from None
    except UnicodeError:
        raise TableError(f"{what} is not text of this encoding; give another encoding.") from None
    except (csv.Error, EOFError, zlib.error, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if "field limit" in reason:
            reason = (
                f"a cell has more than {csv.field_size_limit()} characters; drop that column, or "
                "close the quote that was left open"
            )
        raise TableError(f"{what} cannot be read: {reason.rstrip('.')}.") from None


def _read_csv(
    stream: TextIO, what: str, dialect: CsvDialect, text_columns: Collection[str]
) -> Table:
    import pandas

    separator = str(dialect.separator)
    with _plain_errors(what):
        first = [record for _, record in islice(_records(stream, separator), N_LOOKED_AT)]
        if len(first) < 2:
            wrong = (
                "has a first line that names columns, but no rows below it" if first else "is empty"
            )
            raise TableError(f"{what} {wrong}; give it names in the first line, then rows.")
        if any("\0" in cell for record in first for cell in record):
            _refuse_zero_bytes(what)
        names = [name.strip() for name in first[0]]
        _refuse_other_separator(names, what, separator)
        _refuse_odd_lines(stream, what, separator, names, first)
        try:
            frame = _read_cells(stream, dialect, names, text_columns)
            # Beside whole numbers beyond 64 bits pandas reads 1_0 as 10, and marks stay text.
            huge = [
                n for n, values in frame.items() if values.dtype == object and _has_whole(values)
            ]
            if huge:
                frame = _read_cells(stream, dialect, names, {*text_columns, *huge})
        except pandas.errors.ParserError as error:
            if "fields" in str(error):
                _refuse_ragged(stream, what, separator, len(names))
            raise TableError(f"{what} cannot be read: {str(error).strip()}.") from None
        if frame.iloc[:, -1].isna().any():  # so pandas may have filled up a short row
            _refuse_ragged(stream, what, separator, len(names))
    for _, values in frame.select_dtypes(exclude="number").items():
        if any("\0" in text for text in values.unique() if isinstance(text, str)):
            _refuse_zero_bytes(what)
    refuse_infinite_columns(frame, what)
    _warn_of_padding(names, first[1:], text_columns)
    columns = [
        column if column.name in text_columns else numbers_if_all_parse(column)
        for column in as_table(frame).columns
    ]
    return declare_text(Table(tuple(columns), len(frame), named=True), text_columns)


def _refuse_odd_lines(
    stream: TextIO, what: str, separator: str, names: list[str], first: list[list[str]]
) -> None:
    """Tell at once of everything that is wrong with the names and the lengths of lines."""
    problems = Problems()
    with problems.found():
        _refuse_nameless(names, what)
    with problems.found():
        check_names([name for name in names if name])
    with problems.found():
        if any(len(record) != len(names) for record in first):  # of more pandas would make an index
            _refuse_ragged(stream, what, separator, len(names))
    problems.tell()


def _refuse_nameless(names: list[str], what: str) -> None:
    nameless = [k + 1 for k, name in enumerate(names) if not name]
    if not nameless:
        return
    way_out = "write the file without the row index"
    if nameless == [len(names)] and len(names) > 1:
        way_out = "end lines without a separator"
    which = f"Column {nameless[0]}" if len(nameless) == 1 else f"Columns {_series(nameless)}"
    verb, it = ("has", "it") if len(nameless) == 1 else ("have", "them")
    raise TableError(
        f"{which} of {what} {verb} no name in the first line; name {it}, or {way_out}."
    )


def _series(numbers: list[int], limit: int = 5) -> str:
    more = f" and {len(numbers) - limit} more" if len(numbers) > limit else ""
    return ", ".join(map(str, numbers[:limit])) + more


def _read_cells(
    stream: TextIO, dialect: CsvDialect, names: list[str], text_columns: Collection[str]
) -> Any:
    """Read a CSV file from its beginning as a frame, some columns as text."""
    import pandas

    stream.seek(0)
    # before pandas 3.1 the default was off by one unit in the last place now and then
    older = tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1)
    exact = {"float_precision": "round_trip"} if older else {}
    return pandas.read_csv(
        stream,
        sep=dialect.separator,
        decimal=dialect.decimal,
        skipinitialspace=True,
        low_memory=False,  # or a kind is guessed for each chunk, not for the column
        names=names,
        header=0,
        dtype={name: str for name in names if name in text_columns},
        **exact,
    )


def _has_whole(values: Any) -> bool:
    return any(isinstance(cell, int) and not isinstance(cell, bool) for cell in values)


def _refuse_zero_bytes(what: str) -> NoReturn:
    raise TableError(
        f"{what} holds zero bytes, which no text has; save it as CSV in UTF-8, not UTF-16."
    )


def _warn_of_padding(
    names: list[str], records: list[list[str]], text_columns: Collection[str]
) -> None:
    """Point out codes such as 007, which are different texts but may be equal numbers."""
    for j, name in enumerate(names):
        cells = [record[j].strip() for record in records if j < len(record)]
        if name in text_columns or any(parse_number(cell) is None for cell in cells):
            continue
        padded = next((cell for cell in cells if _PADDED.fullmatch(cell)), None)
        if padded is not None:
            warnings.warn(
                f"Column {name!r} has cells such as {padded}, which are read as numbers; name it "
                "in text_columns to keep them as they are.",
                DataHint,
                stacklevel=levels_to_caller(),
            )


def _refuse_other_separator(names: list[str], what: str, separator: str) -> None:
    """Refuse a file whose only column has a name that looks like several."""
    known = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
    for other, called in known.items():
        if len(names) == 1 and other != separator and other in names[0]:
            wanted = known.get(separator, repr(separator))
            raise TableError(
                f"The first line of {what} has {called}, not {wanted}, between its names; save it "
                f"with {wanted}, or give separator={other!r}."
            )


def _records(stream: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of every record that is not blank."""
    stream.seek(0)
    reader = csv.reader(stream, delimiter=separator, skipinitialspace=True)
    for record in reader:
        if len(record) > 1 or "".join(record).strip():
            yield reader.line_num, record


def _refuse_ragged(stream: TextIO, what: str, separator: str, width: int) -> None:
    lines = [
        (line, len(record)) for line, record in _records(stream, separator) if len(record) != width
    ]
    if not lines:
        return
    line, length = lines[0]
    others = _series([line for line, _ in lines[1:]])
    too = f" (lines {others} differ, too)" if len(lines) > 2 else f" (line {others} differs, too)"
    raise TableError(
        f"Line {line} of {what} has {_count(length, 'cell')}, but the first line names "
        f"{_count(width, 'column')}{too if others else ''}; give every line the same number of "
        "cells."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
