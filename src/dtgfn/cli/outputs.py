"""Files that a command writes: checked before the work, whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dtgfn.cli.options import MisuseError

if TYPE_CHECKING:
    import pandas

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


def table_bytes(frame: pandas.DataFrame, path: Path) -> bytes:
    """A table in the format that a file's suffix tells."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    separator = "\t" if name.endswith((".tsv", ".tsv.gz")) else ","
    content: bytes = frame.to_csv(index=False, sep=separator).encode()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    from dtgfn.whole_files import write_whole as write

    try:
        write(path, content)
    except OSError as error:
        raise ValueError(
            f"{str(path)!r} could not be written: {error.strerror}; make room or name another file."
        ) from None
