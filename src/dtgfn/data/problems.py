"""Problems of a table, gathered so that all are told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TableError(ValueError):
    """A table that cannot be used, told in a sentence that names the way out."""


class Problems:
    """Refusals met one after the other.

    >>> problems = Problems()
    >>> for name in "ab":
    ...     with problems.found():
    ...         raise TableError(f"Column {name} is empty.")
    >>> problems.sentences
    ['Column a is empty.', 'Column b is empty.']
    """

    def __init__(self) -> None:
        self.sentences: list[str] = []

    @contextmanager
    def found(self) -> Iterator[None]:
        """Remember what is refused here, and go on."""
        try:
            yield
        except ValueError as error:
            self.sentences.append(str(error))

    def tell(self) -> None:
        """Refuse the table, if anything was found."""
        if self.sentences:
            raise TableError(" ".join(self.sentences))
