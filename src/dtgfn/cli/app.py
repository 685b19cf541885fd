"""All commands under one name, and how a run ends."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import dtgfn
from dtgfn.cli import bench, data
from dtgfn.cli.demo import demo
from dtgfn.cli.fit import fit
from dtgfn.cli.predict import predict
from dtgfn.cli.show import show

app = typer.Typer(
    help="The Bayesian posterior over decision trees of a table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, fit, predict, show):
    app.command()(command)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence on standard error."""
    from dtgfn.engines.exact.budget import BudgetExceeded

    try:
        app()
    except (ValueError, TypeError, OSError, MemoryError, BudgetExceeded) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output went away (as `head` does); that is no failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sentence = " ".join(str(error).split()) or "there is not enough memory for this table."
        print(f"dtgfn: {sentence}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"dtgfn {dtgfn.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """The Bayesian posterior over decision trees of a table."""
