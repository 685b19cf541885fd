"""``dtgfn report``: a model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtgfn.cli import inputs
from dtgfn.cli.console import print_json, say
from dtgfn.cli.models import load_model, with_event
from dtgfn.cli.options import (
    AsJson,
    Decimal,
    Encoding,
    Labels,
    MisuseError,
    Model,
    Positive,
    Quiet,
    Separator,
    Target,
)
from dtgfn.cli.outputs import check_out, write_atomically
from dtgfn.cli.scores import read_for_model

if TYPE_CHECKING:
    from dtgfn.report import Report


def report(
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write.", show_default=False)
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Table of held-out rows; - for stdin.", show_default=False),
    ] = None,
    target: Target = None,
    title: Annotated[
        str | None, typer.Option(help="Headline of the page.", show_default=False)
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    labels: Labels = None,
    positive: Positive = None,
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a page that works offline: trees, trust, importances, and rows to try.

    Examples:
      dtgfn report model.dtgfn --out report.html

      dtgfn report model.dtgfn --data held.csv --target y --out report.html

      dtgfn report model.dtgfn --json

    """
    if out is None and not as_json and not open_it:
        raise MisuseError("There is nothing to do; give --out report.html, --open or --json.")
    if target is not None and data is None:
        raise MisuseError("--target names the truth in held-out rows; give them with --data.")
    if out is not None:
        check_page(out, model, *([data] if data else []))
    written = inputs.dialect(separator, encoding, decimal)
    fitted = with_event(load_model(model, labels), positive)
    shown = not (as_json or quiet)
    X = y = None
    if data is not None:
        X, y = read_for_model(fitted, data, target, written, shown)
    made = make_report(fitted, X, y, title, shown)
    if out is not None:
        write_page(out, made)
    if as_json:
        print_json(made.to_dict())
    elif out is not None:
        say(f"Written to {out}")
    if open_it:
        made.open()


def make_report(model: Any, X: Any, y: Any, title: str | None, progress: bool) -> Report:
    """Gather what a report shows, which takes a while where predictions are exact sums."""
    from dtgfn._support.progress import progress_bar
    from dtgfn.report import Report

    with progress_bar(progress) as show:
        show("gathering the report", None)
        return Report(model, X, y, title=title)


def check_page(path: Path, *inputs: str | Path) -> None:
    """Refuse a name under which a page is not expected, as that of a table is."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise MisuseError(f"The suffix of {str(path)!r} is not .html; name a page such as r.html.")
    check_out(path, *inputs)


def write_page(path: Path, made: Report) -> None:
    """Write a report as HTML."""
    write_atomically(path, made.to_html().encode())
