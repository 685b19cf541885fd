"""Studies: each has a file and a command, and its page says how it was made."""

import inspect
import os
from importlib import import_module
from pathlib import Path

import pytest
from dtgfn_bench import origin, studies, study
from dtgfn_bench.studies import STUDIES
from dtgfn_bench.studies.isolated import run_each_isolated, run_isolated
from dtgfn_bench.studies.reporting import Report
from typer.testing import CliRunner

from dtgfn.cli.app import app


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_file_with_a_run(name):
    module = import_module(f"dtgfn_bench.studies.{name.replace('-', '_')}")
    report, *options = inspect.signature(module.run, eval_str=True).parameters.values()
    assert report.annotation is Report
    for option in options:
        assert isinstance(option.default, option.annotation), option


def test_every_file_with_a_run_is_listed():
    folder = Path(studies.__file__).parent
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    found = {name.replace("_", "-") for name, text in texts.items() if "\ndef run(" in text}
    assert found == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_its_help_names_its_options(name):
    shown = CliRunner().invoke(app, ["bench", "study", name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "--results" in shown.stdout


def test_a_page_says_how_it_was_made(tmp_path, monkeypatch):
    def run(report, *, tables: int = 2):
        report.part = "few"
        report.head("table", "rows")
        for table in range(tables):
            report.row(f"made {table}", table)
        report.say("Done.")
        report.failed = True

    monkeypatch.setitem(STUDIES, "speed", "Pretend")
    monkeypatch.setattr(import_module("dtgfn_bench.studies.speed"), "run", run)
    arguments = ["bench", "study", "speed", "--tables", "1", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    page = (tmp_path / "studies" / "speed-few.md").read_text()
    assert page.startswith("# Pretend\n\n- Command: `dtgfn bench study speed")
    assert f"- Machine: {origin.machine_class().replace('_', chr(92) + '_')}\n- Date: " in page
    assert page.endswith("| table | rows |\n| --- | --- |\n| made 0 | 0 |\n\nDone.\n")


def test_the_command_is_as_typed(monkeypatch):
    words = "dtgfn bench study exact"
    monkeypatch.setattr("sys.argv", ["/x/dtgfn", "bench", "study", "exact", "--penalty", "a b"])
    assert study._typed(words) == "dtgfn bench study exact --penalty 'a b'"
    monkeypatch.setattr("sys.argv", ["pytest"])
    assert study._typed(words) == words


def test_the_commit_is_the_repositorys(monkeypatch):
    answers = {"rev-parse": "abc1234", "status": ""}
    monkeypatch.setattr(origin, "_git", lambda folder, what, *rest: answers[what])
    assert origin.commit.__wrapped__() == "abc1234"
    answers["status"] = " M a.py"
    assert origin.commit.__wrapped__() == "abc1234 (changed)"
    answers["rev-parse"] = ""
    assert origin.commit.__wrapped__() == ""


def test_outside_a_repository_git_says_nothing(tmp_path):
    assert origin._git(tmp_path, "rev-parse", "HEAD") == ""


def test_isolated_calls_are_in_fresh_processes_with_the_environment():
    assert run_isolated(os.getenv, "DTGFN_PRETEND", environment={"DTGFN_PRETEND": "1"}) == "1"
    assert os.getenv("DTGFN_PRETEND") is None
    pids = run_each_isolated(os.getpid, [(), (), ()], n_processes=1)
    assert len({os.getpid(), *pids}) == 4


def test_exact_measures_the_published_evidence():
    exact = import_module("dtgfn_bench.studies.exact")
    problem, log_z, _ = exact.PROBLEMS[0]
    assert exact.measure(problem, "paper")["log_evidence"] == pytest.approx(log_z, abs=1e-4)


def test_the_interval_of_a_study_holds_the_exact_evidence():
    problem = import_module("dtgfn_bench.problems").Problem("iris-sklearn", 9, 3)
    study_of = import_module("dtgfn_bench.studies.exact_interval")
    found = study_of.measure(study_of.Setting(problem), 0.2, True)
    assert found["lower"] <= found["exact"] + 1e-6
    assert found["exact"] <= found["upper"] + 1e-6
    assert found["looked"] > 1
