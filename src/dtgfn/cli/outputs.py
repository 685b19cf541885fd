"""Files that a command writes: checked before the work, complete or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
        raise ValueError(
            f"{str(path)!r} could not be written: {error.strerror}; make room or name another file."
        ) from None
