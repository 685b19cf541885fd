"""Commands of other distributions: cheap until called, and one sentence where they are missing."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from dtgfn.cli import plugins

# The entry points of the group are hidden, as if the distribution were not installed.
HIDDEN = """
import importlib.metadata as metadata
found = metadata.entry_points
metadata.entry_points = lambda **wanted: found(**{**wanted, "group": "nothing"})
from dtgfn.cli import main
main()
"""
AFTER_HELP = """
import sys
from dtgfn.cli.app import app
from typer.testing import CliRunner
shown = CliRunner().invoke(app, ["--help"])
assert shown.exit_code == 0 and "bench" in shown.stdout, shown.output
print([name for name in sys.modules if name.split(".")[0] in ("dtgfn_bench", "torch", "sklearn")])
"""


def python(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "ensembles", "--quick")])
def test_without_the_distribution_there_is_a_sentence_and_an_exit_code(arguments):
    done = python(HIDDEN, "bench", *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "dtgfn: `dtgfn bench` comes with dtgfn-bench, which is not installed; run `pip install "
        "dtgfn-bench`, or `pip install ./bench` in a clone of the repository.\n"
    )


def test_without_the_distribution_the_help_says_so():
    done = python(HIDDEN, "--help")
    assert done.returncode == 0
    assert "(Not installed: dtgfn-bench.)" in done.stdout


def test_the_help_imports_nothing_of_a_plugin():
    done = python(AFTER_HELP)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_a_plugin_is_loaded_when_it_is_called(monkeypatch):
    loaded = []
    pretend = typer.Typer()

    @pretend.command()
    def greet(name: str) -> None:
        """Say hello."""
        typer.echo(f"hello {name}")

    @pretend.command()
    def leave() -> None:
        """Say goodbye."""

    class Entry(EntryPoint):
        def load(self):
            loaded.append(self.name)
            return pretend

    entry = Entry("other", "pretend:app", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])
    app = typer.Typer()
    plugins.add_plugins(app)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    assert loaded == []
    assert CliRunner().invoke(app, ["other", "greet", "Ada"]).stdout == "hello Ada\n"
    assert "Say goodbye." in CliRunner().invoke(app, ["other", "--help"]).stdout
    assert CliRunner().invoke(app, ["other", "sing"]).exit_code == 2
    assert set(loaded) == {"other"}
