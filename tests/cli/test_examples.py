"""Every example in the help texts and on the page about the command line runs as written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from command_line import dtgfn, write_tables
from extras import WITH_BENCH
from thoroughness import long_but

from dtgfn.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def commands(group, path=()):
    """Every command there is, with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def examples_in(text):
    """Lines that call dtgfn, a backslash at the end joined with the next line."""
    whole = re.sub(r"\\\n\s*", "", text)
    lines = (line.strip() for line in whole.splitlines())
    return [line for line in lines if re.match(r"(cat \S+ \| )?dtgfn ", line)]


IN_HELP = [line for command in COMMANDS.values() for line in examples_in(command.help)]
IN_PAGE = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    for line in examples_in(block)
]
EVERY = list(dict.fromkeys(IN_HELP + IN_PAGE))
# Each has a relative that is quick.
SLOW = {
    "dtgfn warm-up",
    "dtgfn demo",  # both in test_cli.py, where more is asked of them
    "dtgfn demo --out model.dtgfn --report report.html",
    "cat new.csv | dtgfn predict model.dtgfn - --tree best",
    "dtgfn fit prices.csv --task regress --target price --out prices.dtgfn",
    "dtgfn fit data.csv --target y --labels dictionary.csv --out model.dtgfn",
    "dtgfn bench run search-space --quick",
    "dtgfn fit data.csv --target y --ensemble sum --n-summed 100 --n-sweeps 400 --out sum.dtgfn",
    'dtgfn given model.dtgfn "root: age"',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the tables and the models that examples name."""
    path = tmp_path_factory.mktemp("examples")
    write_tables(path)
    small = (
        "--labels",
        path / "dictionary.csv",
        "--inference",
        "exact",
        "--max-depth",
        2,
        "--n-thresholds",
        9,
        "--quiet",
    )
    done = dtgfn("fit", path / "data.csv", "--target", "y", *small, "--out", path / "model.dtgfn")
    assert done.returncode == 0, done.stderr
    return path


def test_every_command_has_an_example():
    assert set(EVERY) >= SLOW
    named = {words: command for words, command in COMMANDS.items() if words[0] != "bench"}
    assert [" ".join(words) for words in named] == [
        "demo", "fit", "predict", "show", "report", "diagnose", "given", "export", "warm-up",
        "data list",
        "data fetch",
    ]  # fmt: skip
    for words, command in COMMANDS.items() if WITH_BENCH else named.items():
        call = f"dtgfn {' '.join(words)}"
        assert any(call in line for line in examples_in(command.help)), call
        if words != ("bench", "table"):
            assert any(call in line for line in IN_PAGE), call


@pytest.mark.parametrize("line", long_but([line for line in EVERY if line not in SLOW], EVERY))
def test_an_example_runs_as_written(line, folder, monkeypatch):
    monkeypatch.chdir(folder)
    if line.startswith("dtgfn bench ") and not WITH_BENCH:
        pytest.skip("dtgfn-bench is not installed")
    if "|" in line:
        function = f'dtgfn() {{ {shlex.quote(sys.executable)} -m dtgfn.cli "$@"; }}; '
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", function + line], capture_output=True, text=True
        )
    else:
        done = dtgfn(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout or "bench run" in line
    words = shlex.split(line)
    if "--out" in words:
        assert (folder / words[words.index("--out") + 1]).stat().st_size > 0
