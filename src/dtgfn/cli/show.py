"""``dtgfn show``: a model in words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dtgfn.cli.console import print_json
from dtgfn.cli.options import AsJson


def show(
    model: Annotated[Path, typer.Argument(help="Model file.")], as_json: AsJson = False
) -> None:
    """Show evidence, most probable tree and column use of a model.

    Example: dtgfn show model.dtgfn
    """
    from dtgfn.storage import load
    from dtgfn.summary import summarise, summary_text

    summary = summarise(load(model))
    if as_json:
        print_json(summary)
    else:
        typer.echo(summary_text(summary))
