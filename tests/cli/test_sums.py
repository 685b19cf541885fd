"""Sums of trees at the command line: every command works, or refuses in one sentence."""

import json

import pandas as pd
import pytest
from command_line import dtgfn, one_sentence
from sklearn.datasets import load_diabetes, load_iris

from dtgfn import load

FEW = ["--ensemble", "sum", "--n-summed", "6", "--n-chains", "2", "--n-sweeps", "30"]
FEW += ["--n-draws", "20", "--random-state", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sums")
    iris = load_iris(as_frame=True)
    iris.data.assign(species=iris.target_names[iris.target]).to_csv(path / "iris.csv", index=False)
    load_diabetes(as_frame=True).frame.to_csv(path / "diabetes.csv", index=False)
    return path


@pytest.fixture(scope="module")
def classifier(folder):
    out = folder / "iris.dtgfn"
    done = dtgfn("fit", folder / "iris.csv", "--target", "species", *FEW, "--out", out)
    assert done.returncode == 0, done
    return out, done.stdout


@pytest.fixture(scope="module")
def regressor(folder):
    out = folder / "diabetes.dtgfn"
    task = "--task", "regress", "--target", "target", "--test-size", "0.3"
    done = dtgfn("fit", folder / "diabetes.csv", *task, *FEW, "--out", out, "--json")
    assert done.returncode == 0, done
    return out, json.loads(done.stdout)


def test_fit_tells_draws_chains_and_columns(classifier, regressor):
    _, text = classifier
    assert "Posterior over sums of trees (fit: " in text
    assert "draws            20 of 3 x 6 trees, " in text
    assert "chains           2 of 30 sweeps at least: R-hat " in text
    assert "Share of the splits that are on a column:\n  petal " in text
    assert "How far straight lines part the rows (standard deviation, log odds):\n  " in text
    _, told = regressor
    assert (told["draws"], told["summed_trees"]) == (20, 6)
    assert sum(column["splits"] for column in told["columns"]) == pytest.approx(1)
    assert told["held_out"]["rows"] == 133
    spreads = [line["spread"] for line in told["lines"]]
    assert spreads == sorted(spreads, reverse=True)


def test_show_repeats_it(classifier, regressor):
    path, text = classifier
    shown = dtgfn("show", path).stdout
    assert shown.strip() in text
    path, told = regressor
    assert json.loads(dtgfn("show", path, "--json").stdout)["columns"] == told["columns"]


def test_predict_says_what_the_model_does(classifier, regressor, folder):
    model = load(classifier[0])
    X = pd.read_csv(folder / "iris.csv").drop(columns="species")
    out = folder / "said.csv"
    asked = "--interval", "0.8", "--uncertainty", "--out", out
    assert dtgfn("predict", classifier[0], folder / "iris.csv", *asked).returncode == 0
    said = pd.read_csv(out)
    assert said["p(setosa)"].to_numpy() == pytest.approx(model.predict_proba(X)[:, 0])
    wanted = model.predict_uncertainty(X).model
    assert said["uncertainty(model)"].to_numpy() == pytest.approx(wanted)
    done = dtgfn("predict", regressor[0], folder / "diabetes.csv", "--out", out)
    assert done.returncode == 0
    assert (pd.read_csv(out).eval("lower < prediction < upper")).all()


def test_diagnose_judges_the_chains(classifier):
    told = json.loads(dtgfn("diagnose", classifier[0], "--json").stdout)
    assert told["engine"] == "sums"
    assert [item["key"] for item in told["items"]][:2] == ["r_hat", "apart"]
    assert "Accepted proposals" in dtgfn("diagnose", classifier[0]).stdout
    refusal = one_sentence(dtgfn("diagnose", classifier[0], "--exact"), 1)
    assert "leave out --exact" in refusal


def test_report_and_export_write_files(classifier, regressor, folder):
    page = folder / "report.html"
    held = "--data", folder / "iris.csv", "--target", "species"
    assert dtgfn("report", classifier[0], *held, "--out", page).returncode == 0
    assert "How predictions depend on a column" in page.read_text()
    told = json.loads(dtgfn("report", regressor[0], "--json").stdout)
    assert told["dependence"]
    pytest.importorskip("onnx")
    onnx = folder / "sum.onnx"
    assert dtgfn("export", classifier[0], "--out", onnx).returncode == 0
    assert onnx.stat().st_size > 1000


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("export MODEL", "text holds single trees, not sums of trees; give format onnx"),
        ("export MODEL --format json", "json holds single trees"),
        ("export MODEL --out OUT.csv", "A sum of trees has no single tree; use"),
        ("export MODEL --out OUT.onnx --tree best", "A sum of trees has no single tree; use"),
        ("predict MODEL TABLE --tree best", "--tree best is of a posterior over single trees"),
    ],
)
def test_what_needs_a_single_tree_is_refused(classifier, folder, command, told):
    names = {"MODEL": classifier[0], "TABLE": folder / "iris.csv"}
    words = [
        str(names.get(word, word)).replace("OUT", str(folder / "x")) for word in command.split()
    ]
    assert told in one_sentence(dtgfn(*words), 1)


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        ("--n-summed 3", 1, "--n-summed 3 is for --ensemble sum; leave it out"),
        ("--ensemble sum --inference exact", 1, "--inference exact is for single trees and bags"),
        ("--ensemble sum --n-summed 0", 1, "--n-summed 0 is out of range"),
        ("--ensemble sum --n-draws many", 2, "--n-draws is wrong: 'many' is not a whole number"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(folder, flags, code, told):
    given = folder / "iris.csv", "--target", "species", "--out", folder / "no.dtgfn"
    assert told in one_sentence(dtgfn("fit", *given, *flags.split()), code)
