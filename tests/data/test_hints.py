"""Columns that are hardly meant as they were read: one class of warning, one implementation."""

import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn, one_sentence

from dtgfn import DataHint, DTGFNAnomalyDetector, DTGFNClassifier, infer, load, read_table
from dtgfn.cli.messages import in_flags
from dtgfn.data.hints import oddities
from dtgfn.data.tables import as_table

N = 40
SMALL = {"inference": "exact", "max_depth": 1, "n_thresholds": 3}
ODD = {
    "day": (pd.date_range("2024-01-01", periods=N).astype(str), "looks like dates but counts as"),
    "paid": ([f"{k},5" for k in range(N)], "read the file with decimal=','"),
    "price": ([f"€ {k % 9}.50" for k in range(N)], "looks like numbers such as '€ 0.50'"),
    "width": ([*map(str, range(N - 1)), "n/k"], "holds 'n/k' in row 39, so all of it counts"),
    "text": ([str(k % 8) for k in range(N)], "holds numbers as text, 8 categories"),
    "mixed": ([1, "red"] * (N // 2), "mixes numbers such as 1 with text such as 'red'"),
    "truth": ([2, True] * (N // 2), "mixes truth values with numbers, so true counts as 1"),
    "name": ([f"P{k}" for k in range(N)], "has another text in every row, as an identifier has"),
    "customerId": (np.arange(N)[::-1] * 7, "has another whole number in every row"),
    "Unnamed: 0": (np.arange(N), "has another whole number in every row"),
}
FINE = {
    "colour": ["red", "blue"] * (N // 2),
    "declared": pd.Categorical([f"P{k}" for k in range(N)]),
    "year": np.arange(1980, 1980 + N),
    "grid": np.arange(N) / 2,
    "idle": np.arange(N),
    "gaps": [None, "a"] * (N // 2),
}
Y = np.arange(N) % 2


def frame(columns):
    return pd.DataFrame({name: list(cells) if isinstance(cells, list) else cells
                         for name, cells in columns.items()})  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_each_odd_column_is_told_with_a_way_out(name):
    cells, said = ODD[name]
    found = dict(oddities(as_table(frame({name: cells, **FINE}))))
    assert list(found) == [name]
    assert said in found[name]
    assert ";" in found[name]


def test_what_is_plain_or_declared_is_not_odd():
    assert dict(oddities(as_table(frame(FINE)))) == {}


@pytest.mark.parametrize("fit", [
    lambda X: DTGFNClassifier(**SMALL).fit(X, Y),
    lambda X: DTGFNAnomalyDetector(n_trees=2, random_state=0).fit(X),
    lambda X: infer(X, Y, engine="exact", max_depth=1, n_thresholds=3),
])  # fmt: skip
def test_python_is_warned_in_one_class_that_can_be_silenced(fit):
    X = frame({"day": ODD["day"][0], "size": np.arange(N) % 7})
    with pytest.warns(DataHint, match="Column 'day' looks like dates") as told:
        fitted = fit(X)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():  # nothing but hints, and none at prediction
        warnings.simplefilter("ignore", DataHint)
        fit(X)
    if hasattr(fitted, "predict"):
        fitted.predict(X)


def test_the_command_line_says_the_same(tmp_path):
    X = frame({name: cells for name, (cells, _) in ODD.items() if name not in ("text", "truth")})
    X.assign(y=Y).to_csv(tmp_path / "t.csv", index=False)
    done = dtgfn("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth",
                 1, "--out", tmp_path / "m.dtgfn")  # fmt: skip
    wanted = [
        in_flags(f"dtgfn: column {name!r} {oddity}, or --drop {name!r}.")
        for name, oddity in oddities(
            read_table(tmp_path / "t.csv"), keep="name it in --text-columns", first_row=1
        )
        if name != "y"
    ]
    assert len(wanted) == 7
    assert done.stderr.splitlines() == wanted


def test_other_encodings_and_decimal_commas(tmp_path):
    text = "größe;preis;y\n1,5;grün;0\n2,25;weiß;1\n" * 3
    lines = text.splitlines()
    text = "\n".join(lines[:1] + [line for line in lines if not line.startswith("größe")]) + "\n"
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    table = read_table(tmp_path / "t.csv", separator=";", encoding="cp1252", decimal=",")
    assert table.names == ("größe", "preis", "y")
    assert table.columns[0].values.tolist() == [1.5, 2.25] * 3
    assert table.columns[1].values.tolist() == ["grün", "weiß"] * 3
    written = ("--separator", ";", "--encoding", "cp1252", "--decimal", ",")
    line = ("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth", 1)
    refused = one_sentence(dtgfn(*line, "--separator", ";", "--out", tmp_path / "m.dtgfn"), 1)
    assert "or give --encoding cp1252" in refused
    assert dtgfn(*line, *written, "--out", tmp_path / "m.dtgfn").returncode == 0
    predicted = dtgfn("predict", tmp_path / "m.dtgfn", tmp_path / "t.csv", *written)
    assert [row.split(",")[0] for row in predicted.stdout.split()[1:]] == ["0", "1"] * 3


def test_all_problems_of_a_file_are_told_at_once(tmp_path):
    def told(text, *more):
        (tmp_path / "t.csv").write_text(text)
        done = dtgfn("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *more)
        assert done.returncode == 1
        return done.stderr

    found = told("a,a,,y\n1,2,3,0\n1,2\n1,2,3,4,5\n" + "1,2,3,1\n" * 5)
    for problem in ("Column 3", "Duplicated column name 'a'", "Line 3", "line 4 differs, too"):
        assert problem in found
    found = told("a,b,y\n1,inf,0\ninf,2,1\n3,4,1\n")
    assert "Column 'a' of" in found
    assert "Column 'b' of" in found
    more = ("--drop", "no", "--text-columns", "zip", "--sample-weight", "w")
    found = told("a,w,y\n1,1,0\n2,-1,\n3,1,1\n", *more)
    for problem in ("'no'", "'zip'", "Column 'w' is -1 in row 2", "Column 'y' is empty in row 2"):
        assert problem in found


def test_rows_without_a_target_can_be_left_out(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "1,no\n2,\n3,yes\n" * 8)
    line = ("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth", 1,
            "--drop-missing-target", "--test-size", 0.25, "--random-state", 0)  # fmt: skip
    done = dtgfn(*line, "--json", "--out", tmp_path / "m.dtgfn")
    assert "8 of 24 rows have no 'y' and are left out" in one_sentence(done, 0)
    aside = load(tmp_path / "m.dtgfn").held_out_["row_numbers"]
    assert len(aside) == 4
    assert all(number % 3 != 1 for number in aside)  # numbers of the file's rows
