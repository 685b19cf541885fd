"""The command line as a person uses it: real files, exit codes 0, 1 and 2, no tracebacks."""

import gzip
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn, one_sentence, write_tables
from sklearn.datasets import load_iris

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, load, save
from dtgfn.diagnostics import compare
from dtgfn.export import export
from dtgfn.report import Report


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
        *("fit", table, "--target", "species", "--inference", "exact", "--out", out),
        *("--max-depth", 2, "--n-thresholds", 9, "--random-state", 1),
    )
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    return out


def refusal(done):
    """Return the one sentence a refusal consists of."""
    assert done.stdout == ""
    return one_sentence(done, 1)


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


def test_demo_needs_and_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = dtgfn("demo", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["held_out"]["accuracy"] >= 0.9
    assert summary["default"]["held_out"]["accuracy"] >= 0.9
    assert summary["held_out"]["baseline"]["accuracy"] < 0.5
    assert abs(summary["gflownet"]["log_z_error"]) < 0.05
    assert abs(summary["gflownet"]["elbo_gap"]) < 0.05
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.long
def test_a_real_process_ends_in_one_sentence_too(tmp_path):
    done = process("show", "nowhere.dtgfn", cwd=tmp_path)
    assert "nowhere.dtgfn" in refusal(done)


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


@pytest.mark.parametrize(
    ("cells", "noted"),
    [
        ([f"{k},5" for k in range(8)], "column 'x' looks like numbers such as '0,5' but counts as"),
        ([f"{k} %" for k in range(8)], "column 'x' looks like numbers such as '0 %' but counts as"),
    ],
)
def test_numbers_written_otherwise_are_pointed_out(cells, noted, tmp_path):
    frame = pd.DataFrame({"x": cells, "y": [0, 1] * 4})
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = dtgfn("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact",
                 "--max-depth", 1, "--out", tmp_path / "m.dtgfn")  # fmt: skip
    assert noted in one_sentence(done, 0)


def test_numbers_that_parquet_holds_as_text_are_pointed_out(tmp_path):
    frame = pd.DataFrame({"x": [str(k) for k in range(8)], "y": [0, 1] * 4})
    frame.to_parquet(tmp_path / "t.parquet")
    done = dtgfn("fit", tmp_path / "t.parquet", "--target", "y", "--inference", "exact",
                 "--max-depth", 1, "--out", tmp_path / "m.dtgfn")  # fmt: skip
    assert "column 'x' holds numbers as text, 8 categories" in one_sentence(done, 0)


def test_a_single_class_is_pointed_out(tmp_path):
    pd.DataFrame({"x": [1, 2, 3], "y": "yes"}).to_csv(tmp_path / "t.csv", index=False)
    done = dtgfn("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact",
                 "--max-depth", 1, "--out", tmp_path / "m.dtgfn")  # fmt: skip
    assert "column 'y' holds 'yes' in every row" in one_sentence(done, 0)


def test_numbers_that_are_hardly_classes_are_pointed_out(tmp_path):
    pd.DataFrame({"x": np.arange(120.0), "y": np.arange(120) // 2}).to_csv(
        tmp_path / "t.csv", index=False
    )
    given = ("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth", 1)
    told = dtgfn(*given, "--out", tmp_path / "m.dtgfn")
    assert told.returncode == 0
    assert "60 different numbers" in told.stderr
    assert "--task regress" in told.stderr
    told = dtgfn(*given, "--task", "regress", "--out", tmp_path / "n.dtgfn")
    assert told.stderr == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    write_tables(path)
    exact = ("--inference", "exact", "--max-depth", 2, "--n-thresholds", 9, "--random-state", 0)
    for line in (
        ("fit", path / "data.csv", "--target", "y", "--out", path / "model.dtgfn"),
        ("fit", path / "prices.csv", "--task", "regress", "--target", "price",
         "--out", path / "prices.dtgfn"),
    ):  # fmt: skip
        done = dtgfn(*line, *exact)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    return path


def predicted(*arguments):
    done = dtgfn("predict", *arguments)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout))


def test_predictions_have_bounds_parts_priors_and_the_best_tree(folder):
    model, new = load(folder / "model.dtgfn"), folder / "new.csv"
    X = pd.read_csv(new).drop(columns="id")
    whole = predicted(folder / "model.dtgfn", new, "--interval", 0.8, "--uncertainty")
    bounds = model.predict_interval(X, 0.8)
    np.testing.assert_allclose(whole[["lower(yes)", "upper(yes)"]], bounds[:, 1], rtol=1e-12)
    parts = model.predict_uncertainty(X)
    np.testing.assert_allclose(whole["uncertainty(model)"], parts.model, rtol=1e-12)
    np.testing.assert_allclose(whole["uncertainty(noise)"], parts.noise, rtol=1e-12)
    best = predicted(folder / "model.dtgfn", new, "--tree", "best")
    np.testing.assert_allclose(best["p(yes)"], model.predict_proba(X, tree="best")[:, 1])
    prior = predicted(folder / "model.dtgfn", new, "--class-prior", "no=1,yes=3")
    expected = model.predict_proba(X, class_prior={"no": 1, "yes": 3})
    np.testing.assert_allclose(prior[["p(no)", "p(yes)"]], expected)


def test_numbers_come_with_intervals(folder):
    model = load(folder / "prices.dtgfn")
    X = pd.read_csv(folder / "new.csv").drop(columns="id")
    usual = predicted(folder / "prices.dtgfn", folder / "new.csv")
    np.testing.assert_allclose(usual["prediction"], model.predict(X))
    np.testing.assert_allclose(usual[["lower", "upper"]], model.predict_interval(X))
    wide = predicted(folder / "prices.dtgfn", folder / "new.csv", "--interval", 0.99)
    np.testing.assert_allclose(wide[["lower", "upper"]], model.predict_interval(X, 0.99))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"])
def test_tables_of_every_format_go_in_and_come_out(folder, suffix, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    read = {"sep": "\t"} if ".tsv" in suffix else {}
    if suffix == ".parquet":
        frame.to_parquet(source)
    else:
        frame.to_csv(source, index=False, **read)
    expected = predicted(folder / "model.dtgfn", folder / "new.csv", "--keep", "id,age")
    done = dtgfn("predict", folder / "model.dtgfn", source, "--keep", "id,age", "--out", out)
    assert done.stdout == f"20 predictions written to {out}\n"
    written = pd.read_parquet(out) if suffix == ".parquet" else pd.read_csv(out, **read)
    assert list(written.columns) == ["id", "age", "prediction", "p(no)", "p(yes)"]
    assert written["id"].tolist() == frame["id"].tolist()
    np.testing.assert_allclose(written["p(yes)"], expected["p(yes)"], rtol=1e-12)
    tab = ("--separator", "tab") if ".tsv" in suffix else ()
    piped = dtgfn("predict", folder / "model.dtgfn", "-", *tab, stdin=source.read_bytes())
    assert len(piped.stdout.splitlines()) == 21


def test_many_rows_are_predicted_piece_by_piece_in_their_order(folder, tmp_path, monkeypatch):
    expected = predicted(folder / "model.dtgfn", folder / "new.csv", "--keep", "id")
    monkeypatch.setattr("dtgfn.cli.predict.AT_ONCE", 7)
    pieces = predicted(folder / "model.dtgfn", folder / "new.csv", "--keep", "id")
    pd.testing.assert_frame_equal(pieces, expected, rtol=1e-12)


def test_rows_set_aside_are_not_fitted(folder, tmp_path):
    out = tmp_path / "m.dtgfn"
    line = ("fit", folder / "data.csv", "--target", "y", "--inference", "exact", "--max-depth", 1)
    done = dtgfn(*line, "--test-size", 0.25, "--random-state", 3, "--json", "--out", out)
    told = json.loads(done.stdout)
    assert (told["rows"], told["held_out"]["rows"]) == (60, 20)
    frame = pd.read_csv(folder / "data.csv")
    order = np.random.default_rng(3).permutation(80)
    kept, others = frame.iloc[np.sort(order[20:])], frame.iloc[np.sort(order[:20])]
    model = DTGFNClassifier(inference="exact", max_depth=1).fit(kept[["age", "colour"]], kept["y"])
    assert told["log_evidence"] == pytest.approx(model.log_evidence_, abs=1e-9)
    assert told["held_out"]["accuracy"] == model.score(others[["age", "colour"]], others["y"])
    kept.to_csv(tmp_path / "kept.csv", index=False)
    others.to_csv(tmp_path / "others.csv", index=False)
    line = ("fit", tmp_path / "kept.csv", *line[2:], "--held-out", tmp_path / "others.csv")
    again = json.loads(dtgfn(*line, "--json", "--out", out).stdout)
    assert again["held_out"]["confusion"] == told["held_out"]["confusion"]
    assert again["held_out"]["log_loss"] == pytest.approx(told["held_out"]["log_loss"])
    words = dtgfn(*line, "--out", out).stdout
    accuracy, baseline = (of["accuracy"] for of in (told["held_out"], told["held_out"]["baseline"]))
    said = f"accuracy {accuracy:.3f} (baseline {baseline:.3f}), log loss"
    assert f"Held-out rows (20, P({told['held_out']['event']})): {said}" in words
    assert dtgfn("show", out).stdout.count(said) == 1  # they stay in the file
    assert json.loads(dtgfn("report", out, "--json").stdout)["held_out"]["accuracy"] == accuracy
    assert told["held_out"]["row_numbers"] == np.sort(order[:20]).tolist()


def test_anomalies_are_found_and_scored(folder, tmp_path):
    normal = pd.read_csv(folder / "normal.csv")
    odd = pd.DataFrame({"width": [0.0, 40.0], "height": [0.0, -40.0], "weight": 0.0})
    odd.assign(kind=[1, -1]).to_csv(tmp_path / "held.csv", index=False)
    normal.assign(kind=1).to_csv(tmp_path / "normal.csv", index=False)
    out = tmp_path / "d.dtgfn"
    done = dtgfn(
        *("fit", tmp_path / "normal.csv", "--task", "anomalies", "--target", "kind"),
        *(
            "--n-trees",
            6,
            "--random-state",
            0,
            "--held-out",
            tmp_path / "held.csv",
            "--json",
            "--out",
            out,
        ),
    )
    assert json.loads(done.stdout)["held_out"]["auroc"] == 1.0
    expected = DTGFNAnomalyDetector(n_trees=6, random_state=0).fit(normal)
    told = predicted(out, tmp_path / "held.csv")
    np.testing.assert_allclose(told["score"], expected.score_samples(odd))
    assert told["prediction"].tolist() == [1, -1]


def test_codes_stay_text_and_odd_columns_are_pointed_out(tmp_path):
    n = 40
    frame = pd.DataFrame(
        {
            "id": [f"P{k}" for k in range(n)],
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "zip": ["01067", "80331"] * (n // 2),
            "size": np.arange(n) % 7,
            "width": [*map(str, range(n - 1)), "1.5.2"],
            "kind": ["007", "010"] * (n // 2),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    line = ("fit", tmp_path / "t.csv", "--target", "kind", "--inference", "exact", "--max-depth", 1)
    told = dtgfn(*line, "--out", tmp_path / "n.dtgfn")
    notes = told.stderr.splitlines()
    assert len(notes) == 5
    assert "Column 'zip' has cells such as 01067, which are read as numbers; name it in" in notes[0]
    assert "--text-columns" in notes[0]
    assert "Column 'kind' has cells such as 007" in notes[1]
    assert "column 'id' has another text in every row" in notes[2]
    assert "column 'day' looks like dates but counts as 40 categories" in notes[3]
    assert "column 'width' is mostly numbers but holds '1.5.2' in row 40, so all" in notes[4]
    assert "Columns: 2 numbers; 3 categories: 'id', 'day', 'width'" in told.stdout
    assert load(tmp_path / "n.dtgfn").classes_.tolist() == [7, 10]
    line = (*line, "--text-columns", "zip,kind", "--drop", "id,day,width")
    told = dtgfn(*line, "--out", tmp_path / "m.dtgfn")
    assert told.stderr == ""
    assert "Columns: 1 number; 1 category: 'zip'" in told.stdout
    model = load(tmp_path / "m.dtgfn")
    assert model.classes_.tolist() == ["007", "010"]
    frame[["zip", "size"]].to_csv(tmp_path / "new.csv", index=False)
    done = dtgfn("predict", tmp_path / "m.dtgfn", tmp_path / "new.csv")
    assert [line.split(",")[0] for line in done.stdout.splitlines()[1:]] == frame["kind"].tolist()
    scored = dtgfn("report", tmp_path / "m.dtgfn", "--data", tmp_path / "t.csv", "--target", "kind",
                   "--json")  # fmt: skip
    assert json.loads(scored.stdout)["held_out"]["accuracy"] == 1.0
    assert scored.stderr == ""


def test_every_setting_reaches_the_estimator(folder, tmp_path):
    out = tmp_path / "m.dtgfn"
    done = dtgfn(
        *("fit", folder / "data.csv", "--target", "y", "--inference", "smc", "--max-depth", 2),
        *("--n-thresholds", 7, "--binning", "quantile", "--split-penalty", "bcart:0.9,1.5"),
        *("--class-weight", "yes=2,no=1", "--temperature", 1.5, "--weighting", "uniform"),
        *("--n-trees", 50, "--time-budget", "none", "--n-jobs", 1, "--random-state", 4),
        *("--options", "n_particles=100", "--options", "n_sweeps=2", "--out", out, "--leaf-draws"),
    )
    assert done.returncode == 0, done.stderr
    settings = {
        "inference": "smc", "max_depth": 2, "n_thresholds": 7, "binning": "quantile",
        "split_penalty": ("bcart", 0.9, 1.5), "class_weight": {"yes": 2.0, "no": 1.0},
        "temperature": 1.5, "weighting": "uniform", "n_trees": 50, "time_budget": None,
        "n_jobs": None,  # of the machine, not of the model
        "random_state": 4, "options": {"leaf_draws": True, "n_particles": 100, "n_sweeps": 2},
    }  # fmt: skip
    params = load(out).get_params()
    assert {name: params[name] for name in settings} == settings


def test_a_doubtful_fit_is_noted_diagnosed_and_compared(folder, tmp_path):
    out = tmp_path / "m.dtgfn"
    done = dtgfn(
        *("fit", folder / "data.csv", "--target", "y", "--inference", "mcmc", "--max-depth", 3),
        *("--n-steps", 60, "--n-trees", 40, "--random-state", 0, "--n-thresholds", 19),
        *("--split-penalty", 0, "--options", "n_chains=2", "--out", out),
    )
    assert "may be off" in one_sentence(done, 0)
    told = json.loads(dtgfn("diagnose", out, "--json").stdout)
    assert told["level"] == "poor"
    assert "comparison" not in told
    assert dtgfn("diagnose", out).returncode == 0
    assert dtgfn("diagnose", out, "--strict").returncode == 1
    words = dtgfn("diagnose", out, "--exact").stdout
    assert "mcmc engine against the exact posterior: 40 trees" in words
    truth = json.loads(dtgfn("diagnose", out, "--exact", "--json").stdout)["comparison"]
    again = DTGFNClassifier(
        inference="exact", max_depth=3, n_thresholds=19, split_penalty=0.0, random_state=0
    ).fit(*(pd.read_csv(folder / "data.csv")[names] for names in (["age", "colour"], "y")))
    expected = compare(load(out).posterior_, again.posterior_).to_dict()
    assert truth["tree_variation"] == pytest.approx(expected["tree_variation"])
    far = dtgfn("diagnose", out, "--exact", "--time-budget", "1e-9")
    assert far.returncode == 0
    assert "the exact posterior is out of reach" in far.stderr
    assert "log Z is at least" in far.stdout
    assert ", for certain" in far.stdout


def test_an_exact_fit_is_beyond_doubt(folder):
    done = dtgfn("diagnose", folder / "model.dtgfn", "--strict", "--exact")
    assert done.returncode == 0
    assert done.stdout.startswith("GOOD  ")


SUFFIXES = {".txt": "text", ".dot": "dot", ".mmd": "mermaid", ".json": "json", ".onnx": "onnx"}
SUFFIXES |= {".sql": "sql", ".c": "c", ".js": "javascript", ".timbertrek.json": "timbertrek"}


@pytest.mark.parametrize(("suffix", "format"), SUFFIXES.items())
def test_export_writes_what_the_function_does(folder, tmp_path, suffix, format):
    out = tmp_path / f"tree{suffix}"
    assert dtgfn("export", folder / "model.dtgfn", "--out", out).returncode == 0
    expected = export(load(folder / "model.dtgfn"), format)
    written = out.read_bytes()
    assert written == (
        expected.encode() if isinstance(expected, str) else expected.SerializeToString()
    )


def test_export_of_a_statement_from_a_table(folder, tmp_path):
    out = tmp_path / "tree.sql"
    line = ("export", folder / "model.dtgfn", "--table", "all rows", "--keep", "id,the key")
    assert dtgfn(*line, "--out", out).returncode == 0
    expected = export(load(folder / "model.dtgfn"), "sql", table="all rows", keep=["id", "the key"])
    assert out.read_text() == expected
    assert dtgfn(*line, "--format", "sql").stdout.strip() == expected


def test_export_compresses_where_the_suffix_says_so(folder, tmp_path):
    out = tmp_path / "tree.json.gz"
    assert dtgfn("export", folder / "model.dtgfn", "--out", out).returncode == 0
    assert gzip.decompress(out.read_bytes()).decode() == export(
        load(folder / "model.dtgfn"), "json"
    )


def test_export_of_rules_and_of_other_trees(folder, tmp_path):
    model = load(folder / "model.dtgfn")
    out = tmp_path / "rules.csv"
    assert dtgfn("export", folder / "model.dtgfn", "--tree", "all", "--out", out).returncode == 0
    pd.testing.assert_frame_equal(pd.read_csv(out), model.rules("all"))
    for tree in ("best", "consensus", 3):
        done = dtgfn("export", folder / "model.dtgfn", "--tree", tree)
        assert done.stdout.strip() == model.describe(tree).strip()


def test_a_report_is_the_models(folder, tmp_path):
    out = tmp_path / "r.html"
    line = ("report", folder / "model.dtgfn", "--data", folder / "held.csv", "--target", "y")
    told = json.loads(dtgfn(*line, "--title", "Mine & yours", "--json").stdout)
    held = pd.read_csv(folder / "held.csv")
    expected = Report(load(folder / "model.dtgfn"), held[["age", "colour"]], held["y"],
                      title="Mine & yours").to_dict()  # fmt: skip
    assert json.loads(json.dumps(expected)) == told
    done = dtgfn(*line, "--title", "Mine & yours", "--out", out)
    assert done.stdout == f"Written to {out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    assert "Mine &amp; yours" in page
    assert "predict y (no or yes), learned from" in page  # by the name of the target


def test_the_demo_writes_a_model_and_a_report(tmp_path):
    model, page = tmp_path / "m.dtgfn", tmp_path / "r.html"
    done = dtgfn("demo", "--out", model, "--report", page)
    assert done.returncode == 0, done.stderr
    assert "iris: 120 training rows, 30 held out" in done.stdout
    assert "Held-out rows (30)           accuracy  log loss" in done.stdout
    assert "baseline: training shares" in done.stdout
    assert "nats below, its EUBO" in done.stdout
    assert load(model).posterior_.engine == "exact"
    assert "iris: the posterior over its trees" in page.read_text()
