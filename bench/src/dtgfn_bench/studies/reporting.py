"""A study's result: a table that is printed as it grows, and a page that says how it was made."""

from __future__ import annotations

import datetime
from pathlib import Path

from dtgfn._support.atomic_write import write_atomically
from dtgfn_bench.origin import commit, machine_class
from dtgfn_bench.pages import Header, facts


class Report:
    """Prints rows and sentences as they come; ``write`` puts all of them into one page.

    ``part`` is added to the page's name by a study that measures one part of a whole; ``failed``
    is set by a study that found what must not be.
    """

    def __init__(self, name: str, title: str, command: str, folder: Path) -> None:
        self.name = name
        self.title = title
        self.command = command
        self.folder = folder
        self.part = ""
        self.failed = False
        self.lines: list[str] = []

    def head(self, *columns: str) -> None:
        """Begin a table."""
        if self.lines:
            self._add("")
        self.row(*columns)
        self.row(*["---"] * len(columns))

    def row(self, *cells: object) -> None:
        """Add a row to the table."""
        self._add("| " + " | ".join(str(cell) for cell in cells) + " |")

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self._add("")
        self._add(text)

    def _add(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)

    def write(self) -> Path:
        """Write the page, also of a study that is not at its end; return its path."""
        header = Header(
            title=self.title,
            command=self.command,
            machine=machine_class(),
            date=datetime.date.today().isoformat(),
            commit=commit(),
        )
        body = "\n".join(self.lines).strip("\n")
        page = f"# {self.title}\n\n{facts(header)}\n\n{body}\n"
        name = f"{self.name}-{self.part}" if self.part else self.name
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.md"
        write_atomically(path, page.encode())
        return path
