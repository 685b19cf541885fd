"""Data dictionaries: read from anything, told in a sentence where they are bad, kept by files."""

import csv
import io

import pandas as pd
import pytest

import dtgfn
from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, with_labels
from dtgfn.data.dictionary import read_labels
from dtgfn.data.meanings import Meaning

TOLD = {
    "age": {"meaning": "age at <admission>", "unit": "years"},
    "sex": {"meaning": "sex", "categories": {0: "female", 1: "male"}},
    "town": {"categories": {"b": "Bern", "c": "Chur"}},
    "smokes": {"meaning": "smoker", "categories": {"true": "yes", "false": "no"}},
    "died": {"meaning": "death", "categories": {0: "alive", 1: "dead"}},
}
COLUMNS = {name: told for name, told in TOLD.items() if name != "died"}
CSV = """column,meaning,unit,categories
age,age at <admission>,years,
sex,sex,,0=female; 1=male
town,,,b=Bern|c=Chur
smokes,smoker,,"true=yes, false=no"
died,death,,0 = alive; 1 = dead
"""


def patients() -> tuple[pd.DataFrame, list[int]]:
    X = pd.DataFrame(
        {
            "age": [52.0, 60, 71, 38, 66, 45, 58, None] * 6,
            "sex": [0, 1, 1, 0, 1, 0, 0, 1] * 6,
            "town": list("abcabcab") * 6,
            "smokes": [True, False, False, True] * 12,
        }
    )
    return X, [0, 1, 1, 0, 1, 0, 1, 0] * 6


@pytest.fixture(scope="module")
def model():
    return DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9).fit(*patients())


def test_dicts_tables_and_files_say_the_same(tmp_path):
    path = tmp_path / "dictionary.csv"
    path.write_text(CSV, encoding="utf-8")
    wanted = read_labels(TOLD)
    assert wanted["age"] == Meaning("age at <admission>", "years")
    assert read_labels(path) == read_labels(str(path)) == wanted
    assert read_labels(pd.read_csv(path)) == wanted
    path.write_text(CSV.replace(",", ";", 0).replace("column", "Variable name"), encoding="utf-8")
    assert read_labels(path) == wanted


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["", "sep=", "\n"])
def test_files_of_every_spreadsheet_say_the_same(encoding, separator, first, tmp_path):
    rows = [
        ["Column", "meaning", "unit", "categories"],
        ["x", "X; of, all | ages\tor none", "", ""],
    ]
    rows += [["sex", "Sex", "", "0=f; 1=m"], [], ["age", "Age"]]
    written = io.StringIO()
    csv.writer(written, delimiter=separator).writerows(rows)
    head = first + separator + "\n" if first == "sep=" else first
    path = tmp_path / "dictionary.csv"
    path.write_bytes((head + written.getvalue()).encode(encoding))
    assert read_labels(path) == {
        "x": Meaning("X; of, all | ages or none", None),
        "sex": Meaning("Sex", None, (("0", "f"), ("1", "m"))),
        "age": Meaning("Age", None),
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"\xef\xbb\xbf\n\n", "it is empty"),
        (b"column,meaning\n", "labels are empty"),
        (b"column\nage\n", "it needs 'column' and one or more"),
        (b"column,meaning\nage,old,older\n", "the row of 'age' has 3 cells, its head 2"),
        (b'column,meaning\nage,"old\n', "unexpected end of data"),
        ("column,meaning\nage,\xc2ge\n".encode("latin-1"), "not text in UTF-8"),
        (b"PK\x03\x04\x00\x00", "not text in UTF-8"),
    ],
)
def test_a_bad_file_is_told_in_a_sentence(data, words, tmp_path):
    path = tmp_path / "dictionary.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words) as caught:
        read_labels(path)
    assert "\n" not in str(caught.value)


def test_what_is_read_speaks_by_it_and_predictions_stay(model, tmp_path):
    X, _ = patients()
    told = with_labels(model, TOLD, target="died")
    assert told.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    text = told.describe()
    assert "age at <admission> (years) <= " in text
    assert "alive" in text or "dead" in text
    assert str(told.decision_path(X.iloc[1])).startswith(
        ("The tree says dead", "The tree says alive")
    )
    dtgfn.save(told, tmp_path / "m.dtgfn")
    assert dtgfn.load(tmp_path / "m.dtgfn").describe() == text
    assert model.describe() != text  # the model itself is as it was
    assert told.importances().index.tolist() == model.importances().index.tolist()


def rules_of(kind, told):
    """Both sides of the first cut of a column of this kind."""
    binner = told.binner_
    from dtgfn.data.binning import rule

    feature = next(f for f in binner.features if f.name == kind and f.n_cuts)
    return rule(feature, 4 if kind == "sex" else 0)


def test_categories_booleans_and_codes_have_their_names(model):
    told = with_labels(model, TOLD, target="died")
    assert rules_of("sex", told) == ("sex is female", "sex is male")
    assert rules_of("smokes", told) == ("smoker is no", "smoker is yes")
    assert rules_of("town", told)[1] == "town is a"
    from dtgfn.explain.rules import Choice, Interval, condition_text

    assert condition_text(told.binner_, Choice(2, excluded=("b", "c"))) == (
        "town is none of Bern, Chur"
    )
    assert condition_text(told.binner_, Interval(1, 5, 10)) == "sex is male"
    assert condition_text(told.binner_, Interval(3, 0, 0)) == "smoker is no"


def test_detectors_numbers_and_sums_have_meanings(tmp_path):
    X, y = patients()
    few = {"n_trees": 8, "random_state": 0}
    detector = DTGFNAnomalyDetector(**few).fit(X)
    told = with_labels(detector, COLUMNS | {"age": "years of life"})
    report = told.report().to_dict()
    assert report["columns"][0]["label"] == "years of life"
    dtgfn.save(told, tmp_path / "d.dtgfn")
    assert dtgfn.load(tmp_path / "d.dtgfn").binner_.columns[1].meaning == read_labels(TOLD)["sex"]
    sums = DTGFNRegressor(
        ensemble="sum", random_state=0, options={"n_summed": 5, "n_sweeps": 8}, time_budget=None
    ).fit(X, [float(value) for value in y])
    with pytest.warns(dtgfn.DataHint, match="'died'"):
        told = sums.report(labels=TOLD).to_dict()
    assert told["columns"][0]["label"] == "age at <admission>"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, "labels are empty"),
        ({"aeg": "age"}, "none of which is a column"),
        ({"age": 3}, "give a text"),
        ({"age": {"menaing": "x"}}, "it takes 'meaning'"),
        ({"age": {"unit": 3}}, "as its unit"),
        ({"age": {"categories": {"old": "aged"}}}, "holds numbers"),
        ({"town": {"categories": {"z": "Zug"}}}, "none of which it has"),
        ({"smokes": {"categories": {"maybe": "?"}}}, "other categories than true and false"),
        ({"sex": {"categories": "0=f; 0=m"}}, "'0' twice"),
        ({"sex": {"categories": "female, male"}}, "write '1=male"),
        ({"sex": {"categories": 7}}, "give a dict"),
        ({"age": "x" * 300}, "300 letters"),
        (7, "labels are a int"),
        (pd.DataFrame({"a": [1]}), "it needs 'column'"),
        (pd.DataFrame({"column": ["age", "age"], "unit": ["y", "z"]}), "'age' twice"),
        (pd.DataFrame({"column": ["age"], "name": ["x"], "unit": ["y"]}), "keep one of them"),
        ("nowhere.csv", "no data dictionary"),
    ],
)
def test_a_bad_dictionary_is_told_in_a_sentence(model, labels, words):
    with pytest.raises((ValueError, TypeError, OSError), match=words) as caught:
        with_labels(model, labels)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
