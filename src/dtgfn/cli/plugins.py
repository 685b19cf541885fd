"""Commands that other distributions bring, found by entry point and loaded when they are called."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

GROUP = "dtgfn.commands"
KNOWN = {"bench": "dtgfn-bench"}  # command and the distribution that brings it


class MissingDistributionError(ImportError):
    """A command was called whose distribution is not installed."""


def add_plugins(app: typer.Typer) -> None:
    """Add every command of the group, and a sentence in place of those that are not installed.

    Parameters
    ----------
    app : typer.Typer
        The command line to add them to.  Nothing of theirs is imported until one is called.

    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name, entry in sorted(found.items()):
        help_text = entry.dist.metadata["Summary"] if entry.dist else None
        plugin = typer.Typer(cls=_lazy_group(entry), help=help_text, no_args_is_help=True)
        app.add_typer(plugin, name=name)
    for name in sorted(KNOWN.keys() - found.keys()):
        _add_missing(app, name)


def _lazy_group(entry: EntryPoint) -> type[TyperGroup]:
    """A group whose commands are those of the app behind an entry point."""

    class PluginGroup(TyperGroup):
        """Commands of another distribution."""

        def list_commands(self, ctx: Any) -> list[str]:
            """Their names; this imports them."""
            return list(self._app().list_commands(ctx))

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of a name, or None; this imports all of them."""
            return self._app().get_command(ctx, cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """Find a command, or refuse with a guess among those that there are."""
            self.commands = self._app().commands
            return super().resolve_command(ctx, args)

        def _app(self) -> Any:
            loaded: Any = typer.main.get_command(entry.load())
            return loaded

    return PluginGroup


def _add_missing(app: typer.Typer, name: str) -> None:
    distribution = KNOWN[name]

    def say_what_is_missing(
        arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    ) -> None:
        raise MissingDistributionError(
            f"`dtgfn {name}` comes with {distribution}, which is not installed; run `pip install "
            f"{distribution}`, or `pip install ./{name}` in a clone of the repository."
        )

    app.command(
        name,
        help=f"(Not installed: {distribution}.)",
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )(say_what_is_missing)
