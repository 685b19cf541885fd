"""RowStore: coded rows of many chunks, merged in memory, on disk where few are equal."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Array
from dtgfn._support.memory import gigabytes
from dtgfn.data.equal_rows import CodedRows, group_rows
from dtgfn.data.sources import first_line
from dtgfn.data.tables import TableError

IN_MEMORY = 32 << 20  # bytes of codes, targets and weights that are merged at once
PAYS = 0.75  # share of the rows that may be left for merging to go on


class RowStore:
    """Rows of chunks; ``merge`` says whether equal ones become one.

    Up to 32 MB of rows are merged in memory. If that leaves more than half, they are appended to a
    temporary file, and after a first time in which merging hardly paid it is not tried again. The
    file has no name in its folder (``TMPDIR``), so nothing is left of it however the process ends.
    """

    def __init__(self, merge: bool) -> None:
        self.merge = merge
        self._waiting: list[CodedRows] = []
        self._n_bytes = 0
        self._files: list[IO[bytes]] = []
        self._n_on_disk = 0

    def add(self, rows: CodedRows) -> None:
        """Take a chunk."""
        self._wait_for(group_rows(rows) if self.merge else rows)
        if self._n_bytes > IN_MEMORY:
            self._settle()

    def finish(self) -> CodedRows:
        """Return all rows, mapped from the file if there is one."""
        rows = self._together()
        if not self._files:
            return rows
        self._spill(rows)
        parts = [
            _mapped(file, part.dtype, (self._n_on_disk, *part.shape[1:]))
            for file, part in zip(self._files, rows, strict=True)
        ]
        self.close()
        return CodedRows(*parts)

    def close(self) -> None:
        """Let go of the file; what is mapped stays readable."""
        for file in self._files:
            with suppress(OSError):  # of what a full disk did not take
                file.close()
        self._files = []

    def _wait_for(self, rows: CodedRows) -> None:
        self._waiting.append(rows)
        self._n_bytes += sum(part.nbytes for part in rows)

    def _settle(self) -> None:
        n_before = sum(len(rows.target) for rows in self._waiting)
        rows = self._together()
        self.merge = self.merge and len(rows.target) <= PAYS * n_before
        n_bytes = sum(part.nbytes for part in rows)
        if n_bytes > IN_MEMORY / 2:
            self._spill(rows)
        else:
            self._wait_for(rows)

    def _together(self) -> CodedRows:
        """Put waiting rows together and merge them; none of them waits afterwards."""
        parts = zip(*self._waiting, strict=True)
        rows = CodedRows(*(np.concatenate(part) for part in parts))
        self._waiting = [rows.take(slice(0))]  # tells types and shapes
        self._n_bytes = 0
        return group_rows(rows) if self.merge else rows

    def _spill(self, rows: CodedRows) -> None:
        folder = tempfile.gettempdir()
        try:
            while len(self._files) < len(rows):
                self._files.append(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - until the end
            for file, part in zip(self._files, rows, strict=True):
                file.write(np.ascontiguousarray(part).data)
                file.flush()
        except OSError as error:
            n_bytes = sum(part.nbytes for part in rows)
            self.close()
            raise TableError(
                f"There is no room in {folder!r} for {gigabytes(n_bytes)} more of coded rows "
                f"({first_line(error)}); set TMPDIR to a folder on a larger disk."
            ) from None
        self._n_on_disk += len(rows.target)


def _mapped(file: IO[bytes], dtype: npt.DTypeLike, shape: tuple[int, ...]) -> Array:
    """Return an array of a file that may be changed in memory, never in the file."""
    mapped: Any = np.memmap(file, dtype=dtype, mode="c", shape=shape)
    return np.asarray(mapped)
