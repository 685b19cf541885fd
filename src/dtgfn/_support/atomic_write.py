"""Atomic writes: a file is complete or not there at all, whoever else writes it too."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

OURS = re.compile(r"\.dtgfn-[0-9a-f]{16}\.tmp")
LONG_AGO = 86_400.0  # seconds after which a file is left over where files cannot be locked


@contextmanager
def replacing(target: Path, check: Callable[[Path], object] | None = None) -> Iterator[IO[bytes]]:
    """Open a new file that takes the target's place once it is complete and on disk.

    ``check`` is called with the new file's path before that, and may raise to leave all as it was.
    What killed writers have left in the folder is removed: a living one holds a lock on its file.
    """
    remove_leftovers(target.parent)
    temporary, stream = _open_beside(target)
    try:
        with stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if check is not None:
                check(temporary)
            if sys.platform != "win32":  # with the lock still held
                temporary.replace(target)
        if sys.platform == "win32":  # where no open file can be moved
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)  # already gone if all went well


def remove_leftovers(folder: Path) -> None:
    """Remove new files that nobody writes any more."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if OURS.fullmatch(entry.name)]:
            with suppress(OSError):  # somebody else's, or just gone
                _remove_if_left(folder / name)


def _open_beside(target: Path) -> tuple[Path, IO[bytes]]:
    while True:
        temporary = target.with_name(f".dtgfn-{secrets.token_hex(8)}.tmp")
        stream = temporary.open("xb")  # unlike tempfile's, of ordinary permissions
        # Somebody may have taken it for left over before it was locked.
        if _lock(stream.fileno()) is not False and os.fstat(stream.fileno()).st_nlink:
            return temporary, stream
        stream.close()
        temporary.unlink(missing_ok=True)


def _remove_if_left(path: Path) -> None:
    if sys.platform == "win32":
        if time.time() - path.stat().st_mtime > LONG_AGO:
            path.unlink()
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        known = os.fstat(descriptor)
        free = _lock(descriptor) if stat.S_ISREG(known.st_mode) else False
        if free or (free is None and time.time() - known.st_mtime > LONG_AGO):
            path.unlink()
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed; False if somebody else has, None if there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def write_atomically(target: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there at all.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "note.txt", b"done")
    ...     (Path(folder) / "note.txt").read_text()
    'done'

    """
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"{str(target)!r} cannot be written; give a file in a folder that exists.")
    with replacing(target) as stream:
        stream.write(content)
