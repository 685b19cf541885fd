"""The bench commands, from the command line: what they write, keep and refuse."""

import json
import subprocess
import sys

import dtgfn_bench
import pytest
from dtgfn_bench.studies import STUDIES
from typer.testing import CliRunner

import dtgfn
from dtgfn.cli.app import app


def bench(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


def test_both_distributions_are_of_one_version():  # a release has one tag
    assert dtgfn_bench.__version__ == dtgfn.__version__


def test_list_names_every_experiment(tmp_path):
    listed = bench("list", "--results", str(tmp_path)).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert [name for name in names if name != "study"] == [
        "single-trees", "ensembles", "readings", "shift", "anomaly", "bayesian-trees", "xor",
        "budget", "cost", "search-space", "fidelity", "mini-batches",
    ]  # fmt: skip
    assert [line.split()[1] for line in listed.splitlines() if line.startswith("study")] == list(
        STUDIES
    )


def test_run_writes_records_and_pages_and_a_second_run_measures_nothing(tmp_path):
    first = bench("run", "search-space", "--quick", "--jobs", "1", "--results", str(tmp_path))
    assert first.exit_code == 0, first.output
    folder = tmp_path / "quick"
    records = (folder / "search-space.jsonl").read_text()
    assert all(json.loads(line)["status"] == "done" for line in records.splitlines())
    assert "# " in (folder / "search-space.md").read_text()
    assert "<html" in (folder / "search-space.html").read_text()
    again = bench("run", "search-space", "--quick", "--jobs", "1", "--results", str(tmp_path))
    assert "0 of" in again.stderr
    assert (folder / "search-space.jsonl").read_text() == records
    shown = bench("table", "search-space", "--quick", "--results", str(tmp_path)).stdout
    assert shown == (folder / "search-space.md").read_text()


def test_notes_by_hand_are_part_of_the_page(tmp_path):
    (tmp_path / "quick" / "notes").mkdir(parents=True)
    (tmp_path / "quick" / "notes" / "search-space.md").write_text("What the paper claims holds.\n")
    bench("run", "search-space", "--quick", "--jobs", "1", "--results", str(tmp_path))
    for suffix in ("md", "html"):
        page = (tmp_path / "quick" / f"search-space.{suffix}").read_text()
        assert "What the paper claims holds." in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "ensmbles"], "There is no experiment 'ensmbles'; did you mean 'ensembles'?"),
        (["table", "xor"], "There are no records of 'xor'"),
        (["run", "xor", "--methods", "forrest"], "There is no method 'forrest'"),
        (["run", "xor", "--jobs", "0"], "--jobs 0 is no number of processes"),
        (["run", "xor", "--tables", "iris"], "There is no table 'iris'"),
        (["run", "xor", "--methods", "icl"], "No cell of 'xor' has"),
        (["run", "xor", "--seeds", "77"], "No cell of 'xor' has"),
        (["run", "xor", "--seeds", "1,-2"], "--seeds '-2' is no seed"),
    ],
)
def test_a_mistake_gets_one_sentence(tmp_path, arguments, sentence):
    command = [sys.executable, "-m", "dtgfn.cli", "bench", *arguments, "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rnu"], "No such command 'rnu'; did you mean 'run'?"),
        (["run", "xor", "--jobs", "two"], "Invalid value for '--jobs'"),
    ],
)
def test_misuse_gets_one_sentence_as_that_of_other_commands(arguments, sentence):
    command = [sys.executable, "-m", "dtgfn.cli", "bench", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
