"""Files that appear whole or not at all, whoever else writes them too."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(target: Path, check: Callable[[Path], object] | None = None) -> Iterator[IO[bytes]]:
    """Open a new file that takes the target's place once it is complete and on disk.

    ``check`` is called with the new file's path before that, and may raise to leave all as it was.
    """
    temporary = target.with_name(f".dtgfn-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:  # unlike tempfile's, of ordinary permissions
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if check is not None:
            check(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)  # already gone if all went well


def write_whole(target: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "note.txt", b"done")
    ...     (Path(folder) / "note.txt").read_text()
    'done'

    """
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"{str(target)!r} cannot be written; give a file in a folder that exists.")
    with replacing(target) as stream:
        stream.write(content)
