"""Sources: tables that are read in chunks, as often as needed, never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from dtgfn._support.progress import Progress, silent
from dtgfn.data.arrow_tables import table_of
from dtgfn.data.tables import Kind, Table, TableError, refuse_unknown_column, take

CELLS_AT_ONCE = 1 << 21  # a chunk of 20 columns has 104,857 rows
LEAST_AT_ONCE, MOST_AT_ONCE = 1 << 10, 1 << 17  # rows


class Reread(Exception):  # noqa: N818 - no error: what was begun has to begin again
    """Raised by a source that has learned something of itself, with the source that knows it."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


@dataclass(frozen=True)
class Source:
    """A table to be read in chunks.

    Attributes
    ----------
    what : str
        Its name in sentences.
    kinds : dict of name and kind
        Of the columns that are read, in order.
    batches : function
        Given kinds of the columns to read and a number of rows, it yields Arrow batches of about as
        many; each call reads from the beginning.
    n_rows_about : int or None
        Where known, or guessed, without reading: how far a bar is.
    relearn : function or None
        Called with an error that a reader raised, to return a source that knows better, or None.

    """

    what: str
    kinds: Mapping[str, Kind]
    batches: Callable[[Mapping[str, Kind], int], Iterator[Any]]
    n_rows_about: int | None = None
    relearn: Callable[[Exception, Mapping[str, Kind]], Mapping[str, Kind] | None] | None = field(
        default=None, repr=False
    )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return tuple(self.kinds)

    def without(self, names: Sequence[str]) -> Self:
        """Leave columns out; refuse names that are none of it."""
        for name in names:
            self.check_column(name)
        kept = {name: kind for name, kind in self.kinds.items() if name not in names}
        return replace(self, kinds=kept)

    def only(self, names: Sequence[str]) -> Self:
        """Keep these columns; names that are none of it do not matter."""
        return replace(self, kinds={name: self.kinds[name] for name in names if name in self.kinds})

    def as_text(self, names: Sequence[str]) -> Self:
        """Take columns for categories, whatever they hold."""
        texts: dict[str, Kind] = {name: "category" for name in names if name in self.kinds}
        return replace(self, kinds={**self.kinds, **texts})

    def check_column(self, name: str) -> None:
        """Refuse a name that is none of the columns."""
        if name not in self.kinds:
            refuse_unknown_column(name, self.names, self.what)

    def chunks(self, progress: Progress = silent, stage: str = "reading") -> Iterator[Table]:
        """Read from the beginning, chunks without rows left out.

        A source that turns out to be other than its ``kinds`` say raises ``Reread``.
        """
        if not self.kinds:
            raise TableError(f"{self.what} has no columns to read; give it some.")
        wanted = min(max(CELLS_AT_ONCE // len(self.kinds), LEAST_AT_ONCE), MOST_AT_ONCE)
        n_read = 0
        with self._plain_errors():
            for batch in self.batches(self.kinds, wanted):
                about = self.n_rows_about
                share = None if not about else min(n_read / about, 1.0)
                progress(f"{stage} {self.what}", share, f"{n_read:,} rows")
                if batch.num_rows:
                    table = table_of(batch, self.kinds, self.what, n_read)
                    n_read += batch.num_rows
                    yield table
        if n_read == 0:
            raise TableError(f"{self.what} has columns but no rows; give it some.")

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Say in one sentence what readers say in many ways."""
        try:
            yield
        except (TableError, TypeError, Reread, MemoryError):
            raise
        except FileNotFoundError:
            raise TableError(
                f"{self.what} was there when reading began, but a file of it is gone; put it back "
                "and start again."
            ) from None
        except Exception as error:
            known = self.relearn(error, self.kinds) if self.relearn is not None else None
            if known is not None:
                raise Reread(replace(self, kinds=known)) from None
            raise TableError(f"{self.what} cannot be read: {first_line(error)}.") from None


def read_settled(
    source: Source, progress: Progress = silent, stage: str = "reading"
) -> Iterator[Table]:
    """Read once, whatever the source learns of itself meanwhile: rows come once and in order."""
    n_done = 0
    while True:
        n_before = 0
        try:
            for table in source.chunks(progress, stage):
                n_known = min(max(n_done - n_before, 0), table.n_rows)
                n_before += table.n_rows
                if n_known < table.n_rows:
                    n_done = n_before
                    yield take(table, np.arange(n_known, table.n_rows)) if n_known else table
        except Reread as again:
            source = again.source
            continue
        return


def first_line(error: Exception) -> str:
    """What an error of a reader says, in one line without a stop at its end."""
    lines = (getattr(error, "strerror", None) or str(error)).strip().splitlines()
    return lines[0].rstrip(".: ") if lines else "it is damaged"
