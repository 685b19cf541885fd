"""Large files on the command line: read in chunks, fitted and predicted as in memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn, one_sentence

from dtgfn.cli import inputs

FIT = ["--target", "y", "--inference", "exact", "--max-depth", "2", "--n-thresholds", "9"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng, n = tmp_path_factory.mktemp("large"), np.random.default_rng(0), 3000
    frame = pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(n)],
            "age": rng.integers(18, 90, n),
            "colour": rng.choice(["red", "blue"], n),
            "w": rng.integers(1, 3, n),
        }
    )
    chance = np.where((frame.age > 50) & (frame.colour == "red"), 0.9, 0.1)
    frame["y"] = np.where(rng.random(n) < chance, "yes", "no")
    frame["flag"] = (frame.y == "yes").astype(int)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", row_group_size=700)
    frame[:200].to_csv(folder / "held.csv", index=False)
    (folder / "parts").mkdir()
    for k in range(3):
        frame[k::3].to_parquet(folder / "parts" / f"{k}.parquet", index=False)
    return folder


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(inputs, "LARGE", 10_000)


def fitted(folder, name, *flags, out="m.dtgfn"):
    done = dtgfn("fit", folder / name, *FIT, "--json", "--out", folder / out, *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "parts"])
def test_a_large_file_gives_the_model_of_a_small_one(folder, name, large, monkeypatch):
    flags = ["--drop", "id,flag", "--sample-weight", "w", "--class-weight", "yes=2"]
    there = fitted(folder, name, *flags, out=f"{name}.large")
    monkeypatch.setattr(inputs, "LARGE", 10**12)
    here = fitted(folder, "rows.csv", *flags, out=f"{name}.small")
    assert there["rows"] == here["rows"]
    assert there["log_evidence"] == pytest.approx(here["log_evidence"], abs=1e-6)


def test_a_large_file_is_announced_and_scored_on_held_out_rows(folder, large):
    done = dtgfn(
        "fit", folder / "rows.csv", *FIT, "--drop", "id,flag,w", "--held-out", folder / "held.csv",
        "--out", folder / "m.dtgfn",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Columns: 1 number; 1 category: 'colour'" in done.stdout
    assert "is large, so it is read in chunks, twice" in done.stderr
    assert "average precision" in done.stdout  # of the held-out rows


def test_whole_numbers_are_classes_and_can_be_weighed(folder, large):
    flags = ["--target", "flag", "--drop", "id,y,w", "--class-weight", "1=2"]
    assert fitted(folder, "rows.csv", *flags)["rows"] > 3000


OUTS = ["p.csv", "p.tsv.gz", "p.parquet"]


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_predictions_stream_and_stay_in_order(folder, out, name, large, monkeypatch):
    fitted(folder, "rows.csv", "--drop", "id,flag,w", out="p.dtgfn")
    monkeypatch.setattr("dtgfn.data.sources.LEAST_AT_ONCE", 100)
    monkeypatch.setattr("dtgfn.data.sources.CELLS_AT_ONCE", 1)
    predict = ["predict", folder / "p.dtgfn", folder / name, "--keep", "id", "--uncertainty"]
    there = dtgfn(*predict, "--out", folder / out)
    assert there.returncode == 0, there.stderr
    assert there.stdout == f"3000 predictions written to {folder / out}\n"
    monkeypatch.setattr(inputs, "LARGE", 10**12)
    here = dtgfn(*predict, "--out", "-")
    (folder / "here.csv").write_text(here.stdout)
    frame = read(folder / out)
    pd.testing.assert_frame_equal(frame, read(folder / "here.csv"), check_dtype=False)
    assert frame["id"].tolist() == [f"r{k}" for k in range(3000)]


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t" if ".tsv" in path.name else ",")


def test_predictions_of_a_large_file_go_to_standard_output_and_json(folder, large):
    fitted(folder, "rows.csv", "--drop", "id,flag,w", out="p.dtgfn")
    lines = dtgfn("predict", folder / "p.dtgfn", folder / "rows.csv").stdout.splitlines()
    assert len(lines) == 3001
    said = dtgfn("predict", folder / "p.dtgfn", folder / "rows.csv", "--json").stdout
    assert json.loads(said)["rows"] == 3000


def test_mistakes_with_large_files_are_one_sentence(folder, large, tmp_path):
    out = ["--out", tmp_path / "m.dtgfn"]
    rows = folder / "rows.csv"
    said = one_sentence(dtgfn("fit", rows, *FIT, "--test-size", "0.2", *out), 2)
    assert "--test-size is for tables in memory" in said
    assert "did you mean 'y'?" in one_sentence(dtgfn("fit", rows, "--target", "Y", *out), 1)
    missing = dtgfn("fit", rows, *FIT, "--drop", "nope", *out)
    assert "There is no column 'nope'" in one_sentence(missing, 1)
    held = dtgfn("fit", rows, *FIT, "--held-out", folder / "none.csv", *out)
    assert "There is no file" in one_sentence(held, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_prediction_that_fails_in_the_middle_writes_nothing(folder, large, tmp_path):
    fitted(folder, "rows.csv", "--drop", "id,flag,w", out="p.dtgfn")
    text = (folder / "rows.csv").read_text()
    (tmp_path / "bad.csv").write_text(text + "r,old,red,1,no,0\n")
    done = dtgfn("predict", folder / "p.dtgfn", tmp_path / "bad.csv", "--out", tmp_path / "p.csv")
    assert "'age' was a number in training but now holds 'old'" in one_sentence(done, 1)
    lacks = pd.read_csv(folder / "rows.csv").drop(columns="age")
    lacks.to_csv(tmp_path / "lacks.csv", index=False)
    done = dtgfn("predict", folder / "p.dtgfn", tmp_path / "lacks.csv", "--out", tmp_path / "p.csv")
    assert "The table lacks 'age'" in one_sentence(done, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "lacks.csv"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)),) * 2)
from dtgfn.cli import main
main()
"""


@pytest.mark.long
def test_a_process_fits_and_predicts_a_file_larger_than_its_memory(tmp_path):
    """A survey of 2.2 GB in a process that may use 1.8 GB of addresses, libraries included."""
    rng, n = np.random.default_rng(0), 250_000
    answers = np.array(["strongly agree with this", "rather agree with this", "disagree"], object)
    frame = pd.DataFrame({f"q{j}": answers[rng.integers(0, 2 + j % 2, n)] for j in range(6)})
    frame["y"] = np.where((frame.q1 == "disagree") ^ (rng.random(n) < 0.1), "yes", "no")
    text = frame.to_csv(index=False, header=False).encode()
    with (tmp_path / "big.csv").open("wb") as file:
        file.write((",".join(frame.columns) + "\n").encode())
        n_copies = 2_200_000_000 // len(text) + 1
        for _ in range(n_copies):
            file.write(text)
    limit = 1_800_000_000
    assert (tmp_path / "big.csv").stat().st_size > limit

    def limited(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, str(limit), *map(str, arguments)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    said = json.loads(
        limited("fit", tmp_path / "big.csv", *FIT, "--n-jobs", 1, "--time-budget", 2000, "--json",
                "--out", tmp_path / "m.dtgfn")
    )  # fmt: skip
    assert said["rows"] == n * n_copies
    limited("predict", tmp_path / "m.dtgfn", tmp_path / "big.csv", "--out", tmp_path / "p.parquet")
    import pyarrow.parquet

    assert pyarrow.parquet.ParquetFile(tmp_path / "p.parquet").metadata.num_rows == n * n_copies
    names = {path.name for path in Path(tmp_path).iterdir()}
    assert names == {"big.csv", "m.dtgfn", "p.parquet"}
