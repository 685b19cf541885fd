"""The command line and the terminal: colours, bars, pipes, completion, and how soon it is there."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from command_line import dtgfn
from extras import needs_bench
from terminal import DTGFN, SOON, on_a_terminal
from thoroughness import long_but

from dtgfn import DTGFNClassifier, save
from dtgfn._support import progress
from dtgfn.cli.console import shows_colours


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.dtgfn"
    X = np.random.default_rng(0).random((40, 3))
    fitted = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9, random_state=0)
    save(fitted.fit(X, X[:, 0] > X[:, 1]), path)
    return path


def test_help_is_there_before_any_library_is():
    code = (
        "import sys\n"
        "from dtgfn.cli import main\n"
        "for line in sys.argv[1:]:\n"
        "    sys.argv = ['dtgfn', *line.split()]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "heavy = {'numpy', 'pandas', 'sklearn', 'numba', 'torch', 'scipy', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    lines = ["--help", "fit --help", "--version", "fti", "fit --max-dept 3"]
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--split-penalty" in done.stdout
    assert "--max-dept;" in done.stderr


def test_pipes_get_no_escape_codes(model):
    for line in (("diagnose", model), ("show", model), ("--help",), ("fit", "--help"), ("fti",)):
        done = dtgfn(*line)
        assert "\x1b" not in done.stdout + done.stderr


def test_colours_are_for_terminals_and_for_those_who_insist(model):
    line = [*DTGFN, "diagnose", str(model)]
    assert on_a_terminal(line)[1].startswith("\x1b[32mGOOD\x1b[0m")
    with mock.patch.dict(os.environ, {"FORCE_COLOR": "1"}):
        assert "\x1b[32mGOOD" in dtgfn("diagnose", model).stdout
    with mock.patch.dict(os.environ, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        assert "\x1b" not in dtgfn("diagnose", model).stdout


def test_a_dumb_terminal_and_those_who_want_none_get_no_colours(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    ours, theirs = pty.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as terminal:
        for kind, coloured in (("dumb", False), ("xterm", True)):
            monkeypatch.setenv("TERM", kind)
            assert shows_colours(terminal) == coloured
        monkeypatch.setenv("NO_COLOR", "1")
        assert not shows_colours(terminal)


BAR = f"""{SOON}
with progress.progress_bar(True) as show:
    show("counting", 0.5, "sheep")
    appeared.wait()
    if len(sys.argv) > 1:
        raise SystemExit(3)
"""


@pytest.mark.parametrize("dies", [[], ["dies"]])
def test_a_bar_appears_and_leaves_nothing_behind(dies):
    code, told = on_a_terminal([sys.executable, "-c", BAR, *dies])
    assert code == (3 if dies else 0)
    assert "counting" in told
    assert "sheep" in told
    assert told.count("\x1b[?25l") == told.count("\x1b[?25h") == 1  # the cursor comes back
    after = told[told.rindex("\x1b[?25h") :]
    assert not re.search(r"[a-z]{3}", after)
    assert "\x1b[2K" in told  # the line is wiped


def test_what_is_done_at_once_needs_no_bar():
    quick = (
        "from dtgfn._support import progress\n"
        "progress.PATIENCE = 3600\n"
        "with progress.progress_bar(True) as p: p('counting', 1.0)"
    )
    code, told = on_a_terminal([sys.executable, "-c", quick])
    assert (code, told) == (0, "")


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_EVERY", 0.05)
    lines = []
    with progress.progress_bar(True) as show:
        show("counting", 0.5, "sheep")
        while len(lines) < 2:
            time.sleep(0.01)
            lines += capsys.readouterr().err.splitlines()
    assert all(re.fullmatch(r"dtgfn: counting 50% after \d+ s, sheep", line) for line in lines)


def test_quiet_and_json_show_no_progress(model, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LOG_EVERY", 0.001)
    table = tmp_path / "t.csv"
    rows = np.random.default_rng(0).random((3000, 4))
    np.savetxt(table, rows, delimiter=",", header="x0,x1,x2,y", comments="")
    line = ("predict", model, table, "--out", tmp_path / "p.csv")
    assert "dtgfn: " in dtgfn(*line).stderr
    assert dtgfn(*line, "--quiet").stderr == ""
    assert dtgfn(*line, "--json").stderr == ""


@pytest.mark.parametrize(
    "ask", long_but(["fit --help"], ["export MODEL --tree all --format json", "fit --help"])
)
def test_a_reader_that_goes_away_is_no_failure(model, ask):
    command = f'set -o pipefail; "$0" -m dtgfn.cli {ask.replace("MODEL", str(model))} | head -1'
    done = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_an_interrupt_while_the_commands_are_read_is_as_quiet_as_later():
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'dtgfn.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from dtgfn.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_work_that_cannot_tell_how_far_it_is_claims_no_share(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_EVERY", 0.01)
    told = ""

    def wait_for(line):
        nonlocal told
        while line not in told:
            time.sleep(0.01)
            told += capsys.readouterr().err

    with progress.progress_bar(True) as show:
        show("reading", 0.5)
        wait_for("dtgfn: reading 50% after")
        show("comparing", None)
        wait_for("dtgfn: comparing after")
    assert "comparing 5" not in told


@pytest.mark.parametrize("ask", long_but(["--version"], ["--version", "show"]))
def test_a_full_disk_behind_standard_output_is_told(model, ask):
    line = ("show", model) if ask == "show" else (ask,)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*DTGFN, *line], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.startswith(b"dtgfn: Standard output cannot be written: No space left")
    assert done.stderr.count(b"\n") == 1


def test_an_interrupted_command_leaves_nothing_behind(tmp_path):
    out = tmp_path / "m.dtgfn"
    process = subprocess.Popen(
        [*DTGFN, "fit", "-", "--target", "y", "--out", str(out)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write("a,y\n" + "1,2\n" * 100_000)  # more than a pipe holds, so it is being read
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=300)
    assert process.returncode == 130, told
    assert "Traceback" not in told[1]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_training_is_kept_told_and_no_success(tmp_path, monkeypatch):
    from dtgfn.engines.gfn import trainer

    table, out = tmp_path / "t.csv", tmp_path / "m.dtgfn"
    rows = np.random.default_rng(0).random((40, 3)).round(3)
    rows[:, 2] = rows[:, 0] > rows[:, 1]
    np.savetxt(table, rows, delimiter=",", header="a,b,y", comments="", fmt="%g")
    real = trainer.step

    def step(state):
        real(state)
        if state.step == 2:
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C does

    monkeypatch.setattr(trainer, "step", step)
    line = ("fit", table, "--target", "y", "--max-depth", "4", "--n-trees", "20", "--out", out)
    more = ("--options", "objective=tb")  # which is not done after two steps
    for asked in ((), ("--json",), ("--test-size", "0.2")):
        done = dtgfn(*line, *more, "--quiet", *asked)
        assert done.returncode == 130, done
        assert f"dtgfn: interrupted: training ended early; {str(out)!r} holds" in done.stderr
        assert dtgfn("predict", out, table).returncode == 0
        out.unlink()
    bags = ("--ensemble", "bags", "--n-bags", "3", "--inference", "gfn")
    done = dtgfn(*line, *more, "--quiet", *bags)
    assert (done.returncode, out.exists()) == (130, False)  # the other bags are not there


@pytest.mark.long
def test_a_terminated_command_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen(
        [*DTGFN, "fit", "-", "--target", "y", "--out", str(tmp_path / "m.dtgfn")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdin.write("a,y\n" + "1,2\n" * 100_000)  # more than a pipe holds, so it is being read
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=300)
    assert (process.returncode, told[1]) == (143, "")
    assert list(tmp_path.iterdir()) == []


def with_streams(line, redirections):
    """Run a command with streams as a shell redirects them."""
    words = ["bash", "-c", f'"$0" "$@" {redirections}', *DTGFN, *map(str, line)]
    return subprocess.run(words, capture_output=True, text=True)


@pytest.mark.parametrize("ask", long_but(["predict"], ["predict", "show", "--version"]))
def test_a_closed_standard_output_is_told(model, tmp_path, ask):
    table = tmp_path / "t.csv"
    table.write_text("x0,x1,x2\n0.1,0.2,0.3\n")
    line = {"predict": ("predict", model, table), "show": ("show", model)}.get(ask, (ask,))
    done = with_streams(line, ">&-")
    assert done.returncode == 1
    assert done.stderr == (
        "dtgfn: Standard output is closed; send it to a file, or to /dev/null.\n"
    )


@pytest.mark.long
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_without_a_standard_error_results_are_the_same(model, tmp_path, redirection):
    table = tmp_path / "t.csv"
    table.write_text("x0,x1,x2\n0.1,0.2,0.3\n")
    done = with_streams(("predict", model, table), redirection)
    assert (done.returncode, done.stdout) == (0, dtgfn("predict", model, table).stdout)
    refused = with_streams(("predict", model, tmp_path / "nothing.csv"), redirection)
    assert (refused.returncode, refused.stdout) == (1, "")


def test_a_mistake_ends_as_one_though_nobody_can_be_told():
    done = with_streams(("fti",), "2>&-")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.long
def test_a_closed_standard_input_is_an_empty_one(model):
    done = with_streams(("predict", model, "-"), "<&-")
    assert done.returncode == 1
    assert done.stderr.startswith("dtgfn: standard input is empty;")


@pytest.mark.long
def test_a_model_is_written_though_nobody_reads_what_is_said_of_it(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "m.dtgfn"
    table.write_text("a,y\n" + "1,2\n2,3\n" * 20)
    line = ("fit", table, "--target", "y", "--inference", "exact", "--max-depth", "1", "--out", out)
    done = with_streams(line, "| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")
    assert out.exists()


@pytest.mark.long
def test_a_terminal_without_letters_gets_them_spelled_out_and_no_wrong_data(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "m.dtgfn"
    table.write_text("a,y\n" + "1,größe\n2,漢\n" * 20, encoding="utf-8")
    line = ["fit", table, "--target", "y", "--inference", "exact", "--max-depth", "1", "--out", out]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*DTGFN, *line], capture_output=True, text=True, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout
    line = [*DTGFN, "predict", out, table, "--quiet"]
    done = subprocess.run(line, capture_output=True, text=True, env=ascii_only)
    assert done.returncode == 1
    assert done.stderr.startswith("dtgfn: Standard output cannot hold ")


def completed(words, **environment):
    """What a shell is offered for the last of these words."""
    asked = {"_DTGFN_COMPLETE": "complete_bash", "COMP_WORDS": words, **environment}
    asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    with mock.patch.dict(os.environ, asked):
        return dtgfn().stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("dtgfn d", ["demo", "diagnose", "data"]),
        ("dtgfn fit --inf", ["--inference"]),
        ("dtgfn fit --inference ", ["gfn", "exact", "mcmc", "smc"]),
        ("dtgfn fit t.csv --task a", ["anomalies"]),
        ("dtgfn export m.dtgfn --format m", ["mermaid"]),
        ("dtgfn export m.dtgfn --tree ", ["best", "consensus", "paper", "all"]),
        ("dtgfn data fetch wi", ["wine"]),
        pytest.param("dtgfn bench run se", ["search-space"], marks=needs_bench),
        pytest.param("dtgfn bench table xo", ["xor"], marks=needs_bench),
        ("dtgfn demo --table ", ["iris", "wine", "breast-cancer"]),
    ],
)
def test_shells_complete(words, offered):
    assert completed(words) == offered


def test_the_script_for_a_shell_is_shown():
    done = subprocess.run(
        ["bash", "-c", '"$0" -m dtgfn.cli --show-completion; true', sys.executable],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "_DTGFN_COMPLETE=complete_bash" in done.stdout, done.stderr
    assert "complete -o default -F" in done.stdout  # file names where nothing else fits
