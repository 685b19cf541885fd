"""Files that a command writes: checked before the work, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def check_out(path: Path, *inputs: str | Path) -> None:
    """Refuse before the work, not after it, what cannot or must not be written."""
    for source in map(Path, inputs):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"--out {str(path)!r} would overwrite its own input; name another.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a directory; name a file in it.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"There is no directory {str(path.parent)!r} to write {path.name!r} in.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"The directory {str(path.parent)!r} cannot be written to.")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
