"""A user's mistake on the command line: one sentence with the thing, the value and the way out."""

import gzip
import resource
import sys
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn, one_sentence, write_tables
from extras import mark_bench

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, save
from dtgfn._support.archive_writing import write_archive
from dtgfn.cli.app import main
from dtgfn.cli.messages import sentence_of
from dtgfn.storage.model_file import KIND, VERSION

SMALL = {"max_depth": 1, "n_thresholds": 3}
CSV = "a,colour,y,num\n" + "".join(
    f"{k},{'red' if k % 3 else 'blue'},{k % 2},{k / 7}\n" for k in range(1, 20)
)
FIT = ("fit", "d.csv", "--out", "m.dtgfn", "--max-depth", "1", "--n-thresholds", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of tables, models and things that are neither."""
    path = tmp_path_factory.mktemp("mistakes")
    frame = write_tables(path)
    X = frame[["age", "colour"]]
    save(DTGFNClassifier(inference="exact", **SMALL).fit(X, frame["y"]), path / "model.dtgfn")
    numbers = DTGFNRegressor(inference="exact", **SMALL).fit(X, frame["age"] * 1.5)
    save(numbers, path / "numbers.dtgfn")
    bare = DTGFNClassifier(inference="exact", **SMALL).fit(X.to_numpy(), frame["y"])
    save(bare, path / "bare.dtgfn")
    normal = pd.read_csv(path / "normal.csv")
    save(DTGFNAnomalyDetector(n_trees=3, random_state=0).fit(normal), path / "detector.dtgfn")
    write_archive(path / "newer.dtgfn", KIND, VERSION + 1, {}, {})
    write_archive(path / "other.dtgfn", "something", 1, {}, {})
    whole = (path / "model.dtgfn").read_bytes()
    (path / "cut.dtgfn").write_bytes(whole[: len(whole) // 2])
    (path / "empty.csv").write_text("")
    (path / "latin.csv").write_bytes("a,y\nnaïve,1\n".encode("latin-1"))
    (path / "wide.csv").write_bytes("a,y\n1,2\n".encode("utf-16"))
    (path / "cut.csv.gz").write_bytes(gzip.compress(CSV.encode())[:40])
    (path / "fake.csv.gz").write_text(CSV)
    (path / "fake.parquet").write_text(CSV)
    (path / "table.xlsx").write_bytes(b"PK")
    (path / "text.csv").write_text("age,colour\nold,red\n")
    (path / "few.csv").write_text("age\n3\n")
    (path / "infinite.csv").write_text("age,colour,y\ninf,red,1\n2,blue,0\n")
    (path / "foreign.csv").write_text("age,colour,y\n30,red,maybe\n")
    (path / "kept.csv").write_text("age,colour,prediction\n30,red,1\n")
    (path / "zeros.csv").write_bytes("a,y\n1,2\n3,4\n".encode("utf-16-le"))
    (path / "precious.txt").write_text("precious")
    (path / "sub").mkdir()
    return path


FILES = [
    (1, "fit nope.csv --target y --out m.dtgfn", "There is no file 'nope.csv'; check the path"),
    (1, "fit sub --target y --out m.dtgfn", "'sub' is a folder without Parquet files"),
    (1, "fit empty.csv --target y --out m.dtgfn", "'empty.csv' is empty; give it names"),
    (1, "fit latin.csv --target y --out m.dtgfn", "is not UTF-8 text (byte 0xef); save it as UTF-"),
    (1, "fit wide.csv --target y --out m.dtgfn", "is not UTF-8 text (byte 0xff: UTF-16, it seems)"),
    (1, "fit cut.csv.gz --target y --out m.dtgfn", "'cut.csv.gz' cannot be read: Compressed file"),
    (1, "fit fake.csv.gz --target y --out m.dtgfn", "'fake.csv.gz' cannot be read: Not a gzipped"),
    (1, "fit fake.parquet --target y --out m.dtgfn", "'fake.parquet' cannot be read as Parquet"),
    (1, "fit table.xlsx --target y --out m.dtgfn", "The suffix of 'table.xlsx' is not one of .csv"),
    (1, "fit codes.txt --target y --out m.dtgfn", "is not one of .csv, .csv.gz, .tsv, .tsv.gz, .p"),
    (1, "fit infinite.csv --target y --out m.dtgfn", "of 'infinite.csv' contains infinity, or a"),
    (1, "fit /proc/self/mem --separator , --target y --out m.dtgfn", "cannot be read: Input/outpu"),
    (1, "fit data.csv --target y --out data.csv", "--out 'data.csv' would overwrite its own input"),
    (1, "fit data.csv --target y --out sub", "'sub' is a directory; name a file in it"),
    (1, "fit data.csv --target y --out no/m.dtgfn", "There is no directory 'no' to write 'm.dtgfn"),
    (1, "fit data.csv --target y --out precious.txt", "exists and is not a dtgfn model; choose"),
    (1, "fit data.csv --target y --text-columns zip --out m.dtgfn", "There is no column 'zip'; th"),
    (1, "fit data.csv --target y --drop agee --out m.dtgfn", "no column 'agee'; did you mean 'age"),
    (2, "fit data.csv --target y --separator ab --out m.dtgfn", "--separator 'ab' is not one char"),
    (1, "predict model.dtgfn nope.csv", "There is no file 'nope.csv'; check the path"),
    (1, "predict nope.dtgfn new.csv", "There is no file 'nope.dtgfn'; check the path"),
    (1, "predict data.csv new.csv", "'data.csv' is not a dtgfn model; give a file"),
    (1, "predict empty.csv new.csv", "'empty.csv' is empty; give a file that dtgfn fit"),
    (1, "predict newer.dtgfn new.csv", "'newer.dtgfn' was written by a newer dtgfn"),
    (1, "predict other.dtgfn new.csv", "'other.dtgfn' holds"),
    (1, "predict cut.dtgfn new.csv", "'cut.dtgfn' is damaged"),
    (1, "predict sub new.csv", "'sub' is a directory"),
    (1, "predict model.dtgfn few.csv", "The table lacks 'colour', which the model is fitted with"),
    (1, "predict model.dtgfn text.csv", "'age' was a number in training but now holds 'old'"),
    (1, "predict bare.dtgfn new.csv", "knows 2 columns by their position, but the table has 3"),
    (1, "predict model.dtgfn new.csv --keep idd", "no column 'idd'; did you mean 'id'?"),
    (1, "predict model.dtgfn new.csv --out new.csv", "would overwrite its own input"),
    (2, "predict model.dtgfn new.csv --out p.xlsx", "The suffix of --out 'p.xlsx' is not one of"),
    (1, "predict model.dtgfn new.csv --interval 90", "--interval 90.0 is not usable; give a prob"),
    (2, "predict model.dtgfn new.csv --tree bst", "--tree bst is not known; give one of best"),
    (2, "predict model.dtgfn new.csv --class-prior even", "--class-prior even is not known; give"),
    (1, "predict model.dtgfn new.csv --class-prior a=1,b=2", "--class-prior names 'a', 'b', not t"),
    (2, "predict model.dtgfn new.csv --class-prior a=1,b", "--class-prior is wrong: 'a=1,b' has n"),
    (2, "predict numbers.dtgfn new.csv --class-prior uniform", "is for models of classes; leave i"),
    (2, "predict detector.dtgfn normal.csv --uncertainty", "--uncertainty is not for an anomaly"),
    (1, "show nope.dtgfn", "There is no file 'nope.dtgfn'; check the path"),
    (1, "show model.dtgf", "There is no file 'model.dtgf'; check the path"),
    (1, "predict model.dtgfn kept.csv --keep prediction", "--keep 'prediction' is also the name"),
    (2, "report model.dtgfn --out data.csv", "The suffix of 'data.csv' is not .html; name a page"),
    (2, "demo --report data.csv", "The suffix of 'data.csv' is not .html; name a page"),
    (1, "fit data.csv --target y --out -", "--out - would be text on standard output"),
    (2, "fit data.csv --target y --drop y --out m.dtgfn", "--target 'y' is among --drop as well"),
    (2, "fit data.csv --target y --sample-weight y --out m.dtgfn", "are both 'y'; name two column"),
    (2, "fit data.csv --target y --checkpoint m.dtgfn --out m.dtgfn", "are both 'm.dtgfn'; name"),
    (1, "fit data.csv --separator . --target y --out m.dtgfn", "has commas, not '.', between its"),
    (1, "fit zeros.csv --target y --out m.dtgfn", "holds zero bytes, which no text has; save it"),
    (1, "bench table xor --results sub", "dtgfn bench run xor measures them"),
    (2, "report model.dtgfn", "There is nothing to do; give --out report.html, --open or --json"),
    (2, "report model.dtgfn --target y --out r.html", "--target names the truth in held-out rows"),
    (1, "report model.dtgfn --data held.csv --target z --out r.html", "no column 'z' in the he"),
    (1, "report model.dtgfn --data foreign.csv --target y --out r.html", "holds 'maybe', no class"),
    (1, "report model.dtgfn --out no/r.html", "There is no directory 'no' to write 'r.html' in"),
    (1, "diagnose detector.dtgfn", "is an anomaly detector, whose trees have no one posterior"),
    (2, "diagnose model.dtgfn --exact --time-budget 0", "--time-budget 0 is out of range; give se"),
    (2, "export model.dtgfn --format xml", "--format xml is not known; give one of text, dot"),
    (2, "export model.dtgfn --format sklearn", "is an object of Python, not a file; in Python"),
    (2, "export model.dtgfn --format onnx", "--format onnx is not text; name a file with --out"),
    (2, "export model.dtgfn --out tree.png", "The suffix of --out 'tree.png' is not one of .txt"),
    (2, "export model.dtgfn --table t", "--table t is for --format sql; leave it out"),
    (2, "export model.dtgfn --tree bst", "--tree bst names no tree; give best, consensus, paper,"),
    (1, "export model.dtgfn --tree 100000", "is out of range; give an index from 0 to 999"),
    (1, "export model.dtgfn --tree all --format dot", "dot shows one tree, not all; give another"),
    (1, "export detector.dtgfn", "whose trees have no one posterior to export"),
    (2, "demo --table irsi", "--table irsi is not known; give one of iris, wine, breast-cancer"),
    (1, "demo --out no/m.dtgfn", "There is no directory 'no' to write 'm.dtgfn' in"),
    (2, "data fetch", "Name the tables to fetch, or give --all"),
    (1, "data fetch rasin", "'rasin'"),
    (1, "bench run xorr", "There is no experiment 'xorr'; did you mean 'xor'?"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [pytest.param(*row, id=row[1], marks=mark_bench(row[1])) for row in FILES],
)
def test_files_and_models(code, line, said, folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_size for path in folder.iterdir()}
    done = dtgfn(*line.split())
    assert said in one_sentence(done, code)
    assert done.stdout == ""
    assert {path: path.stat().st_size for path in folder.iterdir()} == before


TARGETS = [
    (CSV, "--target Y", "There is no column 'Y'; did you mean 'y'? the columns are"),
    (CSV, "--target nope", "There is no column 'nope'; the columns are 'a', 'colour'"),
    (CSV, "--target num", "'num' holds numbers such as 0.142857, not classes; add --task regress"),
    (CSV, "--target colour --task regress", "Column 'colour' holds 'red', which is not a number"),
    (CSV, "--target y --sample-weight colour", "Column 'colour' holds no numbers to use as --sam"),
    (CSV, "--target y --sample-weight z", "There is no column 'z'; the columns are"),
    (CSV, "--target y --held-out nope.csv", "There is no file 'nope.csv'; check the path"),
    (CSV, "--target y --held-out few.csv", "The table lacks 'colour', 'num', which the model is"),
    (CSV, "--target y --held-out odd.csv", "'odd.csv' holds '7', no class of the training rows"),
    (CSV, "--target y --test-size 0.001", "--test-size 0.001 leaves 0 of 19 rows to score on"),
    ("a,y\n1,0\n2,\n", "--target y", "Column 'y' is empty in row 2 of the table; drop such"),
    ("a,y\n1,\n2,\n", "--target y", "Column 'y' is empty in every row; drop such rows"),
    ("y\n1\n0\n", "--target y", "There is no column besides 'y'; add some to predict it from"),
    ("a;y\n1;0\n2;1\n", "--target y", "has semicolons, not commas, between its names; save it wit"),
    ("a;y\n1;0\n2;1\n", "--target y", "commas, or give --separator ';'."),
    ("a\ty\n1\t0\n", "--target y", "has tabs, not commas, between its names; save it with"),
    ("", "--target y", "is empty; give it names in the first line, then rows"),
    ("a,y\n", "--target y", "but no rows below it; give it names in the first line"),
    ("a,y\n1,2\n1,2,3\n", "--target y", "has 3 cells, but the first line names 2 columns"),
    ("a,y\n1,2\n1\n", "--target y", "has 1 cell, but the first line names 2 columns"),
    ("a,,y\n1,2,3\n", "--target y", "Column 2 of 'd.csv' has no name in the first line; name it"),
    ("a,a,y\n1,2,0\n", "--target y", "Duplicated column name 'a'; give every column its own"),
    ("a,y\n1,90071992547409930\n2,1\n", "--target y", "too large to be told apart; add --text-col"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "said"), TARGETS, ids=range(len(TARGETS)))
def test_tables_and_targets(text, line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(text)
    (tmp_path / "few.csv").write_text("a,y\n1,0\n")
    (tmp_path / "odd.csv").write_text("a,colour,y,num\n1,red,7,0.5\n")
    done = dtgfn(*FIT, "--inference", "exact", *line.split())
    assert said in one_sentence(done, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.csv", "few.csv", "odd.csv"]


VALUES = [
    (1, "--max-depth -1", "--max-depth -1 is out of range; give a whole number from 0 to"),
    (1, "--max-depth 99", "--max-depth 99 is out of range; give a whole number from 0 to"),
    (2, "--max-depth two", "--max-depth is wrong: 'two' is not a whole number"),
    (1, "--n-thresholds 0", "--n-thresholds 0 is out of range; give a whole number from 1"),
    (1, "--leaf-concentration 0", "--leaf-concentration 0.0 is out of range; give a number from"),
    (1, "--split-penalty mld", "--split-penalty mld is not a prior; give"),
    (1, "--split-penalty bcart:2,1", "--split-penalty ('bcart', 2.0, 1.0) is not a prior; give"),
    (1, "--temperature hot", "--temperature hot is not known; give a number from 0.01"),
    (1, "--temperature 0", "--temperature 0.0 is"),
    (1, "--n-trees 0", "--n-trees 0 is out of range; give a whole number from 1"),
    (2, "--n-trees many", "--n-trees is wrong: 'many' is not a whole number"),
    (1, "--time-budget 0", "--time-budget 0.0 is not usable; give seconds above 0, or None"),
    (2, "--time-budget 1m", "--time-budget is wrong: '1m' is not a number"),
    (1, "--n-jobs 0", "--n-jobs 0 is out of range; give a whole number from 1"),
    (1, "--random-state -1", "--random-state -1 is not usable; give a whole number"),
    (1, "--class-weight heavy", "--class-weight heavy is not known; give 'balanced'"),
    (1, "--class-weight q=2", "--class-weight names 'q', none of the classes '0', '1'; spell"),
    (1, "--ensemble bags --n-bags -3", "--n-bags -3 is out of range"),
    (1, "--n-bags 3", "--n-bags 3 is for --ensemble bags; leave it out, or choose that"),
    (2, "--ensemble boost", "--ensemble boost is not known; give one of bags"),
    (2, "--weighting even", "--weighting even is not known; give one of importance"),
    (2, "--inference exat", "--inference exat is not known; give one of gfn, exact, mcmc, smc"),
    (2, "--binning even", "--binning even is not known; give one of auto, uniform"),
    (2, "--task regres", "--task regres is not known; give one of classify, regress, anomalies"),
    (2, "--test-size 2", "--test-size 2.0 is out of range; give a share between 0 and 1"),
    (2, "--test-size half", "--test-size is wrong: 'half' is not a number"),
    (2, "--test-size 0.5 --held-out d.csv", "are two ways to the same; give one of them"),
    (1, "--options n_chains=3", "'n_chains' is not an option of engine 'exact'; it has memory_bud"),
    (1, "--options memory_budget=lots", "memory_budget='lots' is out of range; give a whole"),
    (1, "--options memory_budget=0", "memory_budget=0 is out of range; give a whole number of"),
    (1, "--options memory_budget=-5", "memory_budget=-5 is out of range; give a whole number of"),
    (1, "--options memory_budget=true", "memory_budget=True is out of range; give a whole"),
    (1, "--time-budget nan", "--time-budget nan is not usable; give seconds above 0, or None"),
    (1, "--options max_depth=3", "--max-depth is a parameter, not an option of engine 'exact'"),
    (2, "--class-weight 0=1,0=2", "--class-weight is wrong: '0=1,0=2' has '0' twice; see --help"),
    (2, "--options n_chains", "--options is wrong: 'n_chains' is no option, as in n_particles=500"),
    (1, "--objective tb", "--objective tb is for --inference gfn, not 'exact'; leave it out"),
    (1, "--checkpoint c.pt", "is for --inference gfn, not 'exact'; leave it out"),
    (1, "--options memory_budget=1", "Exact inference"),
    (2, "--task regress --leaf-draws", "--leaf-draws is not for --task regress; leave it out"),
    (2, "--task anomalies --n-bags 3", "--n-bags is not for --task anomalies; leave it out"),
    (2, "--task anomalies --binning quantile", "--binning is not for --task anomalies; leave it"),
    (2, "--contamination 0.1", "--contamination is not for --task classify; leave it out"),
    (1, "--task regress --noise-shape 0.5", "--noise-shape 0.5 is out of range; give a number"),
    (1, "--task anomalies --contamination 0.9", "--contamination 0.9 is not a rule; give"),
    (1, "--task anomalies --columns-per-tree 0", "--columns-per-tree 0 is out of range; give"),
    (2, "--engine exact", "There is no option --engine; did you mean --inference?"),
    (2, "--max-dept 3", "There is no option --max-dept; did you mean --max-depth?"),
    (2, "--frobnicate", "There is no option --frobnicate; see dtgfn fit --help"),
    (2, "more.csv", "(more.csv); see dtgfn fit --help"),
    (2, "--target", "Option '--target' requires an argument; see dtgfn"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "line", "said"), VALUES, ids=[line for _, line, _ in VALUES])
def test_values_of_flags(code, line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(CSV.replace(",num", ",n"))
    words = line.split()
    usual = [] if "--inference" in words else ["--inference", "exact"]
    done = dtgfn(*FIT, "--target", "y", *usual, *words)
    assert said in one_sentence(done, code)
    assert [path.name for path in tmp_path.iterdir()] == ["d.csv"]


MISUSE = [
    ("fti", "No such command 'fti'; did you mean 'fit'?"),
    ("frobnicate", "No such command 'frobnicate'; see dtgfn --help"),
    ("fit", "Missing argument 'data'; see dtgfn fit --help"),
    ("fit d.csv --target y", "Missing option '--out'; see dtgfn fit --help"),
    ("fit d.csv --out m.dtgfn", "--target is missing; name the column to predict"),
    ("predict m.dtgfn", "Missing argument 'data'; see dtgfn predict --help"),
    ("show", "Missing argument 'model'; see dtgfn show --help"),
    ("show m.dtgfn --jsn", "There is no option --jsn; did you mean --json?"),
    ("predict m.dtgfn d.csv --interval wide", "--interval is wrong: 'wide' is not a number"),
    ("diagnose m.dtgfn --time-budget long", "--time-budget is wrong: 'long' is not a number"),
]


@pytest.mark.parametrize(("line", "said"), MISUSE, ids=[line for line, _ in MISUSE])
def test_misuse(line, said):
    assert said in one_sentence(dtgfn(*line.split()), 2)


@contextmanager
def little_room():
    """A limit on the size of files, which stands for a full disk; no longer, as pytest writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "line",
    [
        "predict model.dtgfn new.csv --out {}/p.csv",
        "report model.dtgfn --out {}/r.html --quiet",
        "export model.dtgfn --out {}/tree.json --quiet",
        "fit data.csv --target y --inference exact --max-depth 1 --n-thresholds 3 --quiet "
        "--out {}/m.dtgfn",
    ],
    ids=["predict", "report", "export", "fit"],
)
def test_no_room_on_the_disk_leaves_nothing_behind(line, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    with little_room():
        done = dtgfn(*line.format(tmp_path).split())
    assert "File too large" in one_sentence(done, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_a_bare_array_says_that_positions_count(folder, monkeypatch):
    monkeypatch.chdir(folder)
    done = dtgfn("predict", "bare.dtgfn", "new.csv", "--drop", "id")
    assert done.returncode == 0
    assert "columns count by their position: 'age', 'colour'" in done.stderr
    assert len(done.stdout.splitlines()) == 21


def test_errors_of_the_machine_are_sentences_too():
    assert sentence_of(MemoryError()).startswith("There is not enough memory for this; give fewer")
    gone = OSError(13, "Permission denied", "x.csv")
    assert sentence_of(gone) == "'x.csv': Permission denied."
    for bug in (KeyError("x"), ValueError("shapes (2,) (3,)"), IndexError("out of range.")):
        assert sentence_of(bug) is None


def test_a_bug_says_that_it_is_one_and_how_to_see_more(monkeypatch, capsys):
    def load(path, labels):
        raise KeyError(str(path))

    monkeypatch.setattr("dtgfn.cli.show.load_model", load)
    monkeypatch.setattr(sys, "argv", ["dtgfn", "show", "m.dtgfn"])
    monkeypatch.delenv("DTGFN_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("dtgfn: this is a bug (KeyError: 'm.dtgfn'); please report it")
    assert "DTGFN_TRACEBACK=1" in told
    monkeypatch.setenv("DTGFN_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main()


def test_numpy_is_no_excuse(folder, monkeypatch):
    """A table whose cells cannot be counted must not end in numpy's words."""
    monkeypatch.chdir(folder)
    rows = pd.DataFrame({"age": [np.nan, 1.0], "colour": ["red", None]})
    rows.to_csv("holes.csv", index=False)
    assert dtgfn("predict", "model.dtgfn", "holes.csv").returncode == 0
    (folder / "holes.csv").unlink()


def test_a_zero_byte_is_refused_wherever_it_is(tmp_path):
    table = tmp_path / "t.csv"
    for place in (0, 2000):  # beyond what is looked at first
        rows = [f"{k % 7},x,{'pq'[k % 2]}" for k in range(2001)]
        rows[place] = "1,x\0,p"
        table.write_text("\n".join(["a,b,y", *rows, ""]))
        done = dtgfn("fit", table, "--target", "y", "--out", tmp_path / "m.dtgfn")
        assert "holds zero bytes" in one_sentence(done, 1)
