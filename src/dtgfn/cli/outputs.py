"""Files that a command writes: checked before the work, complete or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from dtgfn.cli.options import MisuseError

if TYPE_CHECKING:
    import pandas

FORMULA = tuple("=+-@＝＋－＠")  # also as Chinese and Japanese write them
SafeCsv = Annotated[
    bool, typer.Option("--safe-csv", help="Put ' before text that a spreadsheet would run (=...).")
]
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def check_out(path: Path, *inputs: str | Path) -> None:
    """Refuse before the work, not after it, what cannot or must not be written."""
    if str(path) == "-":  # for a file of that name there is ./-
        raise ValueError(
            "--out - would be text on standard output, which this is not; name a file."
        )
    for source in map(Path, inputs):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"--out {str(path)!r} would overwrite its own input; name another.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a directory; name a file in it.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"There is no directory {str(path.parent)!r} to write {path.name!r} in.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"The directory {str(path.parent)!r} cannot be written to; name another.")


def check_table_suffix(path: Path) -> None:
    """Refuse a table whose suffix does not tell its format."""
    if not path.name.lower().endswith(TABLES):
        raise MisuseError(f"The suffix of --out {str(path)!r} is not one of {', '.join(TABLES)}.")
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise ValueError(
                "Writing Parquet needs pyarrow: pip install 'dtgfn[parquet]'."
            ) from None


def check_safe_csv(safe: bool, is_csv: bool) -> None:
    """Refuse a flag that would do nothing."""
    if safe and not is_csv:
        raise MisuseError("--safe-csv is for CSV and TSV, which spreadsheets open; leave it out.")


def table_bytes(frame: pandas.DataFrame, path: Path, safe_csv: bool) -> bytes:
    """A table in the format that a file's suffix tells."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    content = csv_text(frame, separator=separator, safe=safe_csv).encode()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


@contextmanager
def table_writer(path: Path, safe_csv: bool) -> Iterator[Callable[[pandas.DataFrame], None]]:
    """Write a table piece by piece, in the format that its suffix tells, complete or not at all.

    Yields a function that writes the next rows; all pieces have the same columns.
    """
    from dtgfn._support.atomic_write import replacing

    try:
        with replacing(path) as stream:
            if path.name.lower().endswith(".parquet"):
                with _parquet_pieces(stream) as write:
                    yield write
            else:
                with _csv_pieces(stream, path.name.lower(), safe_csv) as write:
                    yield write
    except OSError as error:
        raise _not_written(path, error) from None


@contextmanager
def _csv_pieces(
    stream: IO[bytes], name: str, safe: bool
) -> Iterator[Callable[[pandas.DataFrame], None]]:
    separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    packed = gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) if name.endswith(".gz") else None
    into: Any = packed or stream
    header = True

    def write(frame: pandas.DataFrame) -> None:
        nonlocal header
        into.write(csv_text(frame, separator=separator, header=header, safe=safe).encode())
        header = False

    yield write
    if packed is not None:
        packed.close()


@contextmanager
def _parquet_pieces(stream: IO[bytes]) -> Iterator[Callable[[pandas.DataFrame], None]]:
    import pyarrow
    from pyarrow import parquet

    writer = None

    def write(frame: pandas.DataFrame) -> None:
        nonlocal writer
        if writer is None:
            inferred = pyarrow.Schema.from_pandas(frame, preserve_index=False)
            fields = [
                field.with_type(pyarrow.string()) if pyarrow.types.is_null(field.type) else field
                for field in inferred
            ]  # a column that begins with empty cells is one of text: predictions have none
            writer = parquet.ParquetWriter(
                stream, pyarrow.schema(fields, metadata=inferred.metadata)
            )
        writer.write_table(pyarrow.Table.from_pandas(frame, writer.schema, preserve_index=False))

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def csv_text(
    frame: pandas.DataFrame, *, separator: str = ",", header: bool = True, safe: bool = False
) -> str:
    """A table as CSV; if ``safe``, one that no spreadsheet takes for formulas."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    if safe:
        texts = texts.map(_defused)
        frame = frame.assign(**texts).rename(columns=_defused)
    # Python's writer leaves a carriage return bare, where readers see the end of a row.
    cells = (*frame.columns, *(cell for name in texts for cell in texts[name].unique()))
    returns = any("\r" in cell for cell in cells if isinstance(cell, str))
    quoting = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    text: str = frame.to_csv(index=False, sep=separator, header=header, quoting=quoting)
    return text


def _defused(cell: object) -> object:
    """Text that a spreadsheet would run gets a quote before it; numbers, also as text, are safe.

    >>> [_defused(cell) for cell in ("=1+1", "-1.5", "-x", -1.5, "a=b", " @x")]
    ["'=1+1", '-1.5', "'-x", -1.5, 'a=b', "' @x"]
    """
    from dtgfn.data.tables import parse_number

    runs = isinstance(cell, str) and (
        cell.startswith(("\t", "\r", "\n")) or cell.lstrip()[:1] in FORMULA
    )
    if not runs or parse_number(str(cell)) is not None:
        return cell
    return f"'{cell}"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there at all."""
    from dtgfn._support.atomic_write import write_atomically as write

    try:
        write(path, content)
    except OSError as error:
        raise _not_written(path, error) from None


def _not_written(path: Path, error: OSError) -> ValueError:
    why = error.strerror or str(error)
    return ValueError(f"{str(path)!r} could not be written: {why}; make room or name another file.")
