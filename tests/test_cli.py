"""The command line as a person uses it: real files, exit codes 0, 1 and 2, no tracebacks."""

import io
import json
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, load, save
from dtgfn.cli import main


class Ending(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def dtgfn(*arguments, stdin=""):
    """Run the command line in this process, as its console script would."""
    out, err = io.StringIO(), io.StringIO()
    streams = mock.patch.multiple(
        sys,
        argv=["dtgfn", *map(str, arguments)],
        stdin=io.TextIOWrapper(io.BytesIO(stdin.encode())),
    )
    with streams, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
    return Ending(code, out.getvalue(), err.getvalue())


def process(*arguments, cwd):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "dtgfn.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    iris = load_iris(as_frame=True)
    frame = iris.data.assign(species=iris.target_names[iris.target])
    path = tmp_path_factory.mktemp("data") / "iris.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table):
    out = table.with_name("iris.dtgfn")
    done = dtgfn(
        *("fit", table, "--target", "species", "--engine", "exact", "--out", out),
        *("--max-depth", 2, "--n-thresholds", 9, "--random-state", 1),
    )
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    return out


def refusal(done):
    """Return the one sentence a refusal consists of."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("dtgfn: ")
    return lines[0]


def test_fit_writes_the_model_the_estimator_makes(table, model):
    frame = pd.read_csv(table)
    X, y = frame.drop(columns="species"), frame["species"]
    expected = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9, random_state=1).fit(
        X, y
    )
    loaded = load(model)
    assert loaded.log_evidence_ == expected.log_evidence_
    np.testing.assert_allclose(loaded.predict_proba(X), expected.predict_proba(X), atol=1e-12)


def test_show_tells_evidence_rules_and_columns(model):
    done = dtgfn("show", model)
    assert done.returncode == 0
    for words in ("log evidence", "Most probable tree", "petal", "Probability that a column"):
        assert words in done.stdout
    shown = json.loads(dtgfn("show", model, "--json").stdout)
    assert shown["engine"] == "exact"
    assert sum(shown["size_probability"]) == pytest.approx(1)
    assert shown["columns"][0]["inclusion"] >= shown["columns"][-1]["inclusion"]


def test_predict_writes_probabilities_that_equal_the_models(table, model, tmp_path):
    out = tmp_path / "p.csv"
    done = dtgfn("predict", model, table, "--out", out)
    assert done.returncode == 0, done.stderr
    written = pd.read_csv(out)
    X = pd.read_csv(table).drop(columns="species")
    assert list(written.columns) == ["prediction", "p(setosa)", "p(versicolor)", "p(virginica)"]
    np.testing.assert_allclose(written.iloc[:, 1:], load(model).predict_proba(X), atol=1e-12)
    assert (written["prediction"] == load(model).predict(X)).all()
    assert list(tmp_path.iterdir()) == [out]


def test_predict_reads_standard_input_and_writes_standard_output(table, model):
    done = dtgfn("predict", model, "-", stdin=table.read_text())
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 151
    as_json = json.loads(dtgfn("predict", model, table, "--json").stdout)
    assert as_json["rows"] == 150


def test_demo_runs_without_files_or_network(tmp_path):
    done = process("demo", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["held_out"]["accuracy"] >= 0.9
    assert list(tmp_path.iterdir()) == []


def test_refusals_are_one_sentence(table, model, tmp_path):
    out = tmp_path / "m.dtgfn"
    fit = ("fit", table, "--out", out, "--target")
    assert "nowhere.csv" in refusal(dtgfn("fit", "nowhere.csv", "--out", out, "--target", "y"))
    assert "'species'" in refusal(dtgfn(*fit, "specis"))
    assert "classes" in refusal(dtgfn(*fit, "petal width (cm)"))
    assert "max_depth=-1" in refusal(dtgfn(*fit, "species", "--max-depth", -1))
    assert "magic" in refusal(dtgfn(*fit, "species", "--engine", "magic"))
    assert "split_penalty='x'" in refusal(dtgfn(*fit, "species", "--split-penalty", "x"))
    assert "time_budget" in refusal(
        dtgfn(*fit, "species", "--engine", "exact", "--max-depth", 12, "--time-budget", "0.5")
    )
    large = tmp_path / "large.csv"
    large.write_text("a,y\n1,10000000000000000000\n2,20000000000000000000\n")
    assert "too large" in refusal(dtgfn("fit", large, "--target", "y", "--out", out))
    alone = tmp_path / "alone.csv"
    alone.write_text("y\na\nb\n")
    assert "no column besides" in refusal(dtgfn("fit", alone, "--target", "y", "--out", out))
    folder = tmp_path / "none" / "m.dtgfn"
    assert "none" in refusal(dtgfn("fit", table, "--target", "species", "--out", folder))
    assert "not a dtgfn model" in refusal(dtgfn("show", table))
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    assert "petal" in refusal(dtgfn("predict", model, other))
    text = tmp_path / "text.csv"
    text.write_text(table.read_text().replace("5.1,3.5", "five,3.5", 1))
    assert "'five'" in refusal(dtgfn("predict", model, text))
    assert not out.exists()


def test_inputs_and_foreign_files_are_never_overwritten(table, model, tmp_path):
    copy, other = tmp_path / "copy.csv", tmp_path / "notes.txt"
    copy.write_bytes(table.read_bytes())
    other.write_text("precious")
    archive = tmp_path / "book.xlsx"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("sheet.xml", "precious")
    fit = ("fit", copy, "--target", "species", "--max-depth", 1, "--out")
    assert "own input" in refusal(dtgfn(*fit, copy))
    assert "not a dtgfn model" in refusal(dtgfn(*fit, other))
    assert "not a dtgfn model" in refusal(dtgfn(*fit, archive))
    assert dtgfn(*fit, tmp_path / "m.dtgfn").returncode == 0
    assert dtgfn(*fit, tmp_path / "m.dtgfn").returncode == 0  # a model may replace a model
    assert "own input" in refusal(dtgfn("predict", model, copy, "--out", copy))
    assert "own input" in refusal(dtgfn("predict", model, copy, "--out", model))
    assert copy.read_bytes() == table.read_bytes()
    assert other.read_text() == "precious"
    load(model)


def test_a_real_process_ends_in_one_sentence_too(tmp_path):
    done = process("show", "nowhere.dtgfn", cwd=tmp_path)
    assert "nowhere.dtgfn" in refusal(done)


def test_misuse_exits_with_two():
    assert dtgfn("fit").returncode == 2
    assert dtgfn("frobnicate").returncode == 2
    assert (
        dtgfn("fit", "x.csv", "--target", "y", "--out", "m", "--max-depth", "two").returncode == 2
    )


def test_help_has_an_example_for_each_command():
    for command in ("demo", "fit", "predict", "show"):
        done = dtgfn(command, "--help")
        assert done.returncode == 0
        assert f"dtgfn {command}" in done.stdout.replace("\n", " ")
    assert dtgfn("--version").stdout.startswith("dtgfn ")


def test_weights_column(table, tmp_path):
    frame = pd.read_csv(table)
    frame["w"] = np.arange(len(frame)) % 3
    weighted, repeated = tmp_path / "w.csv", tmp_path / "r.csv"
    frame.to_csv(weighted, index=False)
    frame.loc[frame.index.repeat(frame["w"])].drop(columns="w").to_csv(repeated, index=False)
    options = ("--target", "species", "--max-depth", 1, "--json", "--out", tmp_path / "m.dtgfn")
    one = dtgfn("fit", weighted, "--sample-weight", "w", *options)
    two = dtgfn("fit", repeated, *options)
    evidence = [json.loads(done.stdout)["log_evidence"] for done in (one, two)]
    assert evidence[0] == pytest.approx(evidence[1], abs=1e-9)


def test_a_detector_in_a_file_can_be_shown_and_asked(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    model = DTGFNAnomalyDetector(n_trees=5, random_state=0).fit(X)
    save(model, tmp_path / "detector.dtgfn")
    pd.DataFrame({"a": [0.0, 50.0], "b": [0.0, -50.0], "other": 1}).to_csv(
        tmp_path / "new.csv", index=False
    )
    told = dtgfn("show", tmp_path / "detector.dtgfn")
    assert "Anomaly detector" in told.stdout
    told = dtgfn("predict", tmp_path / "detector.dtgfn", tmp_path / "new.csv")
    frame = pd.read_csv(io.StringIO(told.stdout))
    assert frame["prediction"].tolist() == [1, -1]


def test_numbers_that_are_hardly_classes_are_pointed_out(tmp_path):
    pd.DataFrame({"x": np.arange(120.0), "y": np.arange(120) // 2}).to_csv(
        tmp_path / "t.csv", index=False
    )
    given = ("fit", tmp_path / "t.csv", "--target", "y", "--engine", "exact", "--max-depth", 1)
    told = dtgfn(*given, "--out", tmp_path / "m.dtgfn")
    assert told.returncode == 0
    assert "60 different numbers" in told.stderr
    assert "--task regress" in told.stderr
    told = dtgfn(*given, "--task", "regress", "--out", tmp_path / "n.dtgfn")
    assert told.stderr == ""
