"""All commands under one name, and how a run ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from dtgfn._version import __version__
from dtgfn.cli import data
from dtgfn.cli.console import note, open_streams, say
from dtgfn.cli.demo import demo
from dtgfn.cli.diagnose import diagnose
from dtgfn.cli.export import export
from dtgfn.cli.fit import fit
from dtgfn.cli.given import given
from dtgfn.cli.messages import sentence_of, sentence_of_misuse
from dtgfn.cli.options import MisuseError
from dtgfn.cli.plugins import add_plugins
from dtgfn.cli.predict import predict
from dtgfn.cli.report import report
from dtgfn.cli.show import show
from dtgfn.cli.warm_up import warm_up

HELP = "The Bayesian posterior over decision trees of a table."
# Of typer's own errors only this one is public, in every version of it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, fit, predict, show, report, diagnose, given, export, warm_up):
    app.command()(command)
app.add_typer(data.app, name="data")
add_plugins(app)


class Terminated(BaseException):
    """SIGTERM, as an exception, so that bars and half-written files are cleared away."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let the first SIGTERM raise ``Terminated`` here; a forked process ends as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process, before = os.getpid(), signal.getsignal(signal.SIGTERM)

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the second one does not wait
        if os.getpid() != process:
            os.kill(os.getpid(), signal.SIGTERM)
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence on standard error."""
    # Else numba's messages are coloured by a library that writes an escape code at the end.
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
    try:
        with _terminable():
            open_streams()
            code = app(prog_name="dtgfn", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Terminated:
        code = 143
    except SystemExit:  # only from rich and click, when the reader of the help goes away
        code = 0
    except typer.Abort:
        code = 1
    except UsageError as error:
        code = 2
        if type(error).__name__ != "NoArgsIsHelpError":  # which has printed the help already
            note(sentence_of_misuse(error))
    except Exception as error:
        code = _tell(error)
    sys.exit(code if isinstance(code, int) else 0)


def _tell(error: Exception) -> int:
    """Tell an error in a sentence; one that nobody expected is a bug, and says so."""
    sentence = sentence_of(error)
    if sentence is None:
        if os.environ.get("DTGFN_TRACEBACK"):
            raise error
        sentence = (
            f"this is a bug ({type(error).__name__}: {error}); please report it with the traceback "
            "that DTGFN_TRACEBACK=1 in the environment shows."
        )
    note(sentence)
    return 2 if isinstance(error, MisuseError) else 1


def _version(value: bool) -> None:
    if value:
        say(f"dtgfn {__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take what comes before a command."""
