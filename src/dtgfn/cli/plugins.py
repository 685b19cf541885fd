"""Commands that other distributions bring, found by entry point, or a word on what lacks."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

GROUP = "dtgfn.commands"
KNOWN = {"bench": "dtgfn-bench"}  # command and the distribution that brings it


def add_plugins(app: typer.Typer) -> None:
    """Add every command of the group, and a sentence in place of those that are not installed."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name, entry in sorted(found.items()):
        app.add_typer(entry.load(), name=name)
    for name in sorted(KNOWN.keys() - found.keys()):
        app.command(
            name,
            help=f"(Not installed: {KNOWN[name]}.)",
            context_settings={"ignore_unknown_options": True, "help_option_names": []},
        )(_absent(name))


def _absent(name: str):  # type: ignore[no-untyped-def]
    def say_what_lacks(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        raise typer.BadParameter(
            f"`dtgfn {name}` comes with {KNOWN[name]}, which is not installed; run `pip install "
            f"{KNOWN[name]}`, or in a clone of the repository `pip install ./{name}`."
        )

    return say_what_lacks
