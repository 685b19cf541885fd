"""Records of measured cells in a file of JSON lines, each written once and whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dtgfn.bench.experiment import Cell, Record


class StoreError(ValueError):
    """A file of records that cannot be read."""


def cell_identity(cell: Cell) -> str:
    """A cell as text, the same for the same cell whatever the code version."""
    return json.dumps(asdict(cell), sort_keys=True)


class Store:
    """The records of one experiment.

    A record is one line, appended by a single write; a line cut short by a crash is dropped when
    the file is next opened, so a killed run loses at most the cells that were being measured.
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
        line = json.dumps(_plain(record), sort_keys=True) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)
        self._records[record.key] = record

    def newest(self) -> list[Record]:
        """The last record of every cell, whichever code version made it."""
        latest = {cell_identity(record.cell): record for record in self._records.values()}
        return list(latest.values())

    def compact(self, keep: Iterable[Record]) -> None:
        """Rewrite the file, atomically, with these records alone."""
        self._records = {record.key: record for record in keep}
        lines = [json.dumps(_plain(record), sort_keys=True) for record in self._records.values()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        temporary.replace(self.path)


def _plain(record: Record) -> dict[str, Any]:
    fields = asdict(record)
    return {**fields.pop("cell"), **fields}


def _record(fields: dict[str, Any]) -> Record:
    names = ("experiment", "table", "method", "seed", "settings", "variant")
    cell = Cell(**{name: fields.pop(name) for name in names})
    return Record(cell=cell, **fields)


def _read(path: Path) -> list[Record]:
    if not path.exists():
        return []
    content = path.read_bytes()
    whole, torn = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
    if torn:  # the last write was cut short
        with path.open("r+b") as file:
            file.truncate(len(whole))
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
