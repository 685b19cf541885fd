"""Options that several commands share, and their misuse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(help="Model file.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(help="CSV, TSV, gzip of these or Parquet; - for stdin.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Separator = Annotated[
    str | None,
    typer.Option(help="What stands between cells, such as ';' or tab.", show_default=False),
]
Encoding = Annotated[
    str, typer.Option(help="Of a text file, such as latin-1 or cp1252.", metavar="<codec>")
]
Decimal = Annotated[str, typer.Option(help="Decimal mark of a text file.", metavar=".|,")]
TextColumns = Annotated[
    str,
    typer.Option(help="Columns that stay text, with commas: codes, labels like 007."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Data dictionary: a CSV file of column, meaning, unit, categories.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None, typer.Option(help="Column that holds the truth.", show_default=False)
]

Positive = Annotated[
    str | None,
    typer.Option(help="The event, of two classes, to tell the chance of.", show_default=False),
]


class MisuseError(ValueError):
    """A command that cannot be meant as it was typed."""


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them.

    >>> names("id, zip")
    ('id', 'zip')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())
