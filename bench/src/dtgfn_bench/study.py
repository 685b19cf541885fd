"""The command ``dtgfn bench study``: a subcommand for each study, imported when it is asked."""

from __future__ import annotations

import inspect
import shlex
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dtgfn_bench.studies import FOLDER, STUDIES

Results = Annotated[Path, typer.Option(help="Folder of results.")]


class StudyGroup(TyperGroup):
    """Commands by the names of studies, whose modules are imported one at a time."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the studies."""
        return list(STUDIES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a study; None if there is none of that name."""
        if cmd_name not in STUDIES:
            return None
        single = typer.Typer(add_completion=False)
        command = study_command(cmd_name)
        single.command(cmd_name, help=command.__doc__, short_help=STUDIES[cmd_name])(command)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=StudyGroup,
    help="Further measurements that the docs quote, one table each.",
    no_args_is_help=True,
)


def study_command(name: str) -> Callable[..., None]:
    """A command that runs a study: its options are the parameters of the module's ``run``."""
    from dtgfn_bench.studies.reporting import Report

    module = import_module(f"dtgfn_bench.studies.{name.replace('-', '_')}")
    _, *options = inspect.signature(module.run, eval_str=True).parameters.values()

    def command(*, results: Path, **chosen: Any) -> None:
        words = f"dtgfn bench study {name}"
        report = Report(name, STUDIES[name], _typed(words), results / FOLDER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.run(report, **chosen)
        path = report.write()
        print(f"{name}: {path}", file=sys.stderr)
        if report.failed:
            raise typer.Exit(1)

    keyword = inspect.Parameter.KEYWORD_ONLY
    where = inspect.Parameter("results", keyword, default=Path("results"), annotation=Results)
    parameters = [*(each.replace(kind=keyword) for each in options), where]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__doc__ = module.__doc__
    return command


def _typed(words: str) -> str:
    """The command as it was typed, or, called from Python, without options."""
    typed = shlex.join(["dtgfn", *sys.argv[1:]])
    return typed if typed.startswith(words) else words
