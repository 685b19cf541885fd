"""The commands of ``dtgfn data``: which tables there are, and fetching them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dtgfn.cli.console import print_json, say
from dtgfn.cli.options import AsJson, MisuseError

app = typer.Typer(help="The tables of the paper: list and fetch.", no_args_is_help=True)


def _complete(incomplete: str) -> list[str]:
    """Offer tables to a shell."""
    from dtgfn.datasets.registry import ENTRIES

    return [name for name in ENTRIES if name.startswith(incomplete)]


@app.command("list")
def list_tables(as_json: AsJson = False) -> None:
    """List the tables, and where each is found now.

    Examples:
      dtgfn data list

    """
    found = _tables()
    if as_json:
        print_json({"tables": found})
        return
    header = ("name", "rows", "columns", "classes", "found", "licence")
    lines: list[tuple[str, ...]] = [header]
    lines += [
        tuple("to be fetched" if row[name] is None else str(row[name]) for name in header)
        for row in found
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        say("  ".join(padded).rstrip())


@app.command("fetch")
def fetch_tables(
    names: Annotated[
        list[str] | None, typer.Argument(help="Tables to fetch.", autocompletion=_complete)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Fetch every table.")] = False,
) -> None:
    """Make sure that tables are on this machine, and are the right ones.

    Examples:
      dtgfn data fetch wine breast-cancer

    """
    from dtgfn.data.tables import TableError
    from dtgfn.datasets.lookup import load_dataset, whereabouts
    from dtgfn.datasets.registry import ENTRIES, find_entry

    if every == bool(names):
        raise MisuseError("Name the tables to fetch, or give --all.")
    chosen = list(ENTRIES) if every else [find_entry(name).name for name in names or ()]
    failures = []
    for name in chosen:
        try:
            load_dataset(name)
        except TableError as error:  # the others may still be had
            failures.append(str(error))
        else:
            say(f"{name}: {whereabouts(name)}")
    if failures:
        raise TableError(" ".join(failures))


def _tables() -> list[dict[str, Any]]:
    from dtgfn.datasets.lookup import whereabouts
    from dtgfn.datasets.registry import ENTRIES

    return [
        {
            "name": name,
            "title": entry.title,
            "rows": entry.n_rows,
            "columns": entry.n_features,
            "classes": len(entry.class_names),
            "found": whereabouts(name),
            "licence": entry.licence,
            "citation": entry.citation,
            "sources": [source.url for source in entry.sources],
        }
        for name, entry in ENTRIES.items()
    ]
