"""Records of measured cells in a file of JSON lines, each written once and whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from dtgfn._support.atomic_write import write_atomically
from dtgfn_bench.experiment import Cell, Record
from dtgfn_bench.keys import cell_identity


class StoreError(ValueError):
    """A file of records that cannot be read."""


class Store:
    """The records of one experiment.

    A record is one line.  A line cut short by a crash is not read, and overwritten by the next
    record, so a killed run loses at most the cells that were being measured.  Several runs may add
    to one file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = {record.key: record for record in _read(path)}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        """Record of a key, if there is one."""
        return self._records.get(key)

    def add(self, record: Record) -> None:
        """Append a record; a record that is "done" is never written twice."""
        known = self._records.get(record.key)
        if known is not None and known.status == "done":
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path) as file:
            file.truncate(_end_of_last_line(self.path))
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())
        self._records[record.key] = record

    def newest(self) -> list[Record]:
        """The last record of every cell, whichever revision made it."""
        latest = {cell_identity(record.cell): record for record in self._records.values()}
        return list(latest.values())

    def compact(self, wanted: Callable[[Store], list[Record]]) -> None:
        """Rewrite the file with the wanted of all its records, also those that others added."""
        with _locked(self.path):
            self._records = {record.key: record for record in _read(self.path)}
            self._records = {record.key: record for record in wanted(self)}
            content = b"".join(map(_line, self._records.values()))
            write_atomically(self.path, content)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file to append, and keep other runs from writing meanwhile, where the system can."""
    try:
        import fcntl
    except ImportError:  # such as on Windows: runs there must not share a file
        with path.open("ab") as file:
            yield file
        return
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield file  # closing it unlocks it
                return
            # another run has replaced the file while this one waited


def _line(record: Record) -> bytes:
    fields = asdict(record)
    return json.dumps({**fields.pop("cell"), **fields}, sort_keys=True).encode() + b"\n"


def _record(fields: dict[str, Any]) -> Record:
    names = ("experiment", "table", "method", "seed", "settings", "variant")
    cell = Cell(**{name: fields.pop(name) for name in names})
    return Record(cell=cell, **fields)


def _end_of_last_line(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def _read(path: Path) -> list[Record]:
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    records = []
    for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), start=1):
        try:
            records.append(_record(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"Line {number} of {str(path)!r} is not a record of a benchmark "
                f"({type(error).__name__}); delete the line, or the file to measure anew."
            ) from None
    return records
