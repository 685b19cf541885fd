"""Ordered categories keep their order, and dates become days where that is asked for."""

import datetime
import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pytest
from command_line import dtgfn
from hypothesis import given
from hypothesis import strategies as st

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, infer, load, save, with_labels
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.scales import days_of_text
from dtgfn.data.tables import TableError, as_table
from dtgfn.explain import take_trees
from dtgfn.export import from_json

N = 40
SMALL = {"inference": "exact", "max_depth": 1, "n_thresholds": 99, "random_state": 0}
DAYS = pd.Series(pd.date_range("2024-01-01", periods=N))
LATE = (np.arange(N) > 25).astype(int)
LEVELS = ["small", "medium", "large", "huge"]
SIZE = np.array(LEVELS)[np.arange(N) % 4]
BIG = (np.arange(N) % 4 >= 2).astype(int)


@given(st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2400, 1, 1)))
def test_days_are_those_of_the_calendar(when):
    wanted = (when - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    assert days_of_text(when.isoformat()) == pytest.approx(wanted, abs=1e-9)
    assert days_of_text(f"{when:%d.%m.}{when.year}") == np.floor(wanted)


@pytest.mark.parametrize("text", ["", "1/2/2024", "2024", "31.02.2024", "soon"])
def test_what_is_no_date_is_none(text):
    assert days_of_text(text) is None or text == "2024"


def test_days_reach_both_ends_of_the_calendar_in_every_zone():
    assert days_of_text("0001-01-01T00:00+05:00") == pytest.approx(-719162 - 5 / 24)
    assert days_of_text("9999-12-31T23:00-05:00") == pytest.approx(2932896 + 28 / 24)
    assert np.isnan(days_of_text("NaT"))
    assert days_of_text("20240301") == days_of_text("2024-03-01")


def test_edges_of_the_calendar_are_fitted_and_predicted():
    texts = ["0001-01-01T00:00+05:00", "1600-05-05", "NaT", "20240301"] * 5
    texts += ["2500-01-01T00:00Z", "9999-12-31T23:59-05:00"] * 9
    late = np.array([0] * 20 + [1] * 18)
    X = pd.DataFrame({"day": texts})
    model = DTGFNClassifier(**SMALL, dates="number").fit(X, late)
    assert "day (days since 1970-01-01) <= " in model.describe()
    known = X["day"].to_numpy() != "NaT"
    assert (model.predict(X)[known] == late[known]).all()
    objects = pd.Series([np.datetime64("2024-03-01"), np.datetime64("NaT")], dtype=object)
    np.testing.assert_array_equal(
        model.predict_proba(pd.DataFrame({"day": objects})), model.predict_proba(X)[[3, 2]]
    )


FORMS = {
    "pandas": DAYS,
    "objects": pd.Series([day.date() for day in DAYS], dtype=object),
    "ISO": DAYS.dt.strftime("%Y-%m-%d"),
    "dots": DAYS.dt.strftime("%d.%m.%Y"),
    "zone": DAYS.dt.tz_localize("UTC"),
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_of_every_form_are_the_same_days(form, tmp_path):
    X = pd.DataFrame({"day": FORMS[form]})
    model = DTGFNClassifier(**SMALL, dates="number").fit(X, LATE)
    assert "day (days since 1970-01-01) <= 197" in model.describe()
    assert (model.predict(X) == LATE).all()
    for other in FORMS.values():  # a cell is the day that it is, however it is written
        np.testing.assert_array_equal(
            model.predict_proba(pd.DataFrame({"day": other})), model.predict_proba(X)
        )
    save(model, tmp_path / "m.dtgfn")
    again = load(tmp_path / "m.dtgfn")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(
        again.predict_proba(pl.DataFrame({"day": DAYS.tolist()})), model.predict_proba(X)
    )
    with pytest.raises(ValueError, match=r"now holds 'soon'; give a date"):
        model.predict(pd.DataFrame({"day": ["soon"]}))


@pytest.mark.parametrize(
    "times",
    [
        pd.period_range("2020-01", periods=N, freq="M"),
        pd.to_timedelta(np.arange(N), "D"),
        [datetime.time(i % 24) for i in range(N)],
    ],
    ids=["periods", "durations", "times of day"],
)
@pytest.mark.parametrize("dates", [None, "number"])
def test_what_no_setting_reads_is_not_said_to_be_read_by_one(times, dates):
    asked = {} if dates is None else {"dates": dates}
    with pytest.raises(TableError, match=r"'when' holds times of day, durations or periods; turn"):
        DTGFNClassifier(**SMALL, **asked).fit(pd.DataFrame({"when": times}), LATE)


def test_dates_are_refused_unless_they_are_asked_for():
    X = pd.DataFrame({"day": DAYS})
    for fit in (
        lambda: DTGFNClassifier(**SMALL).fit(X, LATE),
        lambda: infer(X, LATE, engine="exact", max_depth=1),
    ):
        with pytest.raises(TableError, match=r"dates='number' does that"):
            fit()
    with pytest.raises(TableError, match="dates='text' is not known"):
        DTGFNClassifier(**SMALL, dates="text").fit(X, LATE)
    numbers = DTGFNClassifier(**SMALL).fit(pd.DataFrame({"day": np.arange(N)}), LATE)
    with pytest.raises(ValueError, match="holds dates, but was a number"):
        numbers.predict(X)
    texts = DTGFNClassifier(**SMALL).fit(pd.DataFrame({"day": SIZE}), BIG)
    with pytest.raises(ValueError, match="holds dates, but was text"):
        texts.predict(X)


def test_text_that_spells_dates_stays_text_where_training_had_text():
    some = pd.DataFrame({"day": ["2024-01-01", "2024-06-01"] * 9})
    model = DTGFNClassifier(**SMALL)
    with pytest.warns(UserWarning, match="looks like dates"):
        model.fit(some, [0, 1] * 9)
    assert model.predict(some[:2]).tolist() == [0, 1]


ORDERED = {
    "pandas": pd.DataFrame({"size": pd.Categorical(SIZE, LEVELS, ordered=True)}),
    "polars": pl.DataFrame({"size": pl.Series(SIZE.tolist(), dtype=pl.Enum(LEVELS))}),
}


@pytest.mark.parametrize("library", ORDERED)
def test_ordered_categories_keep_their_order(library, tmp_path):
    X = ORDERED[library]
    model = DTGFNClassifier(**SMALL).fit(X, BIG)
    assert model.binner_.features[0].thresholds.tolist() == [0.5, 1.5, 2.5]
    assert "size is small or medium" in model.describe()
    assert "size is large or huge" in model.describe()
    save(model, tmp_path / "m.dtgfn")
    for known in (model, load(tmp_path / "m.dtgfn")):
        assert (known.predict(X) == BIG).all()
        texts = pd.DataFrame({"size": ["huge", "small", None]})
        # Another order, and text, are read by the names of the levels.
        turned = pd.DataFrame({"size": pd.Categorical(texts["size"], LEVELS[::-1], ordered=True)})
        np.testing.assert_array_equal(known.predict(texts)[:2], [1, 0])
        np.testing.assert_array_equal(known.predict_proba(turned), known.predict_proba(texts))
        with pytest.raises(ValueError, match=r"'size' now holds 'tiny'; give one of 'small', 'med"):
            known.predict(pd.DataFrame({"size": ["tiny"]}))


@pytest.mark.parametrize("trees", ["best", "all"])
def test_trees_from_json_read_levels_and_dates(trees):
    X = ORDERED["pandas"].assign(day=DAYS)
    model = DTGFNClassifier(**SMALL | {"max_depth": 2}, dates="number").fit(X, BIG ^ LATE)
    again = from_json(model.export("json", trees=trees))
    assert [spec.scale for spec in again.binner.columns] == [s.scale for s in model.binner_.columns]
    np.testing.assert_allclose(again.average(X), take_trees(model, trees).average(X), atol=1e-12)
    texts = pd.DataFrame({"size": SIZE, "day": DAYS.dt.strftime("%d.%m.%Y")})
    np.testing.assert_array_equal(again.average(texts), again.average(X))
    with pytest.raises(ValueError, match=r"'size' now holds 'tiny'; give one of 'small', 'med"):
        again.average(texts.assign(size="tiny"))


def test_models_of_text_and_detectors_read_levels_as_text():
    text = pd.DataFrame({"size": SIZE})
    model = DTGFNClassifier(**SMALL).fit(text, BIG)
    np.testing.assert_array_equal(model.predict_proba(ORDERED["pandas"]), model.predict_proba(text))
    X = ORDERED["pandas"].assign(other=np.arange(N) % 7)
    detector = DTGFNAnomalyDetector(n_trees=3, random_state=0).fit(X)
    plain = DTGFNAnomalyDetector(n_trees=3, random_state=0).fit(X.astype({"size": object}))
    np.testing.assert_array_equal(detector.score_samples(X), plain.score_samples(X))


def test_reports_and_exports_know_both(tmp_path):
    X = ORDERED["pandas"].assign(day=DAYS)
    model = DTGFNClassifier(**SMALL | {"max_depth": 2}, dates="number").fit(X, BIG ^ LATE)
    report = model.report(X, BIG ^ LATE).to_dict()
    assert report["held_out"]["accuracy"] == 1.0
    assert len(model.report().to_dict()["rows"]) == 2
    with pytest.raises(ValueError, match="'day' are dates, which every database counts"):
        model.export("sql")
    ordered = DTGFNClassifier(**SMALL).fit(ORDERED["pandas"], BIG)
    with sqlite3.connect(":memory:") as connection:
        pd.DataFrame({"size": [*SIZE, None]}).to_sql("data", connection, index=False)
        said = connection.execute(ordered.export("sql", table="data")).fetchall()
    wanted = ordered.predict_proba(pd.DataFrame({"size": [*SIZE, None]}), tree="best")
    np.testing.assert_allclose(np.array(said), wanted, atol=1e-12)
    module = ordered.export("javascript")
    assert '"kind": "level", "categories": ["small", "medium", "large", "huge"]' in module
    assert '{"small", "medium", "large", "huge"}' in ordered.export("c")


def test_a_data_dictionary_leaves_the_scale():
    X = ORDERED["pandas"].assign(day=DAYS)
    model = DTGFNClassifier(**SMALL | {"max_depth": 2}, dates="number").fit(X, BIG ^ LATE)
    labels = {"size": {"meaning": "Size", "categories": {"huge": "XXL"}}, "day": "Opened"}
    named = with_labels(model, labels)
    assert "Size is large or XXL" in named.describe()
    assert "Opened (days since 1970-01-01) <= 197" in named.describe()
    np.testing.assert_array_equal(named.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="its levels are 'small', 'medium'"):
        with_labels(model, {"size": {"categories": {"tiny": "XS"}}})


def test_a_table_of_new_rows_is_that_of_training_but_for_dates():
    assert as_table(ORDERED["pandas"]).columns[0].values.tolist() == [0.0, 1.0, 2.0, 3.0] * 10
    assert as_new_table(pd.DataFrame({"day": DAYS})).columns[0].values[0] == 19723.0


def test_the_command_line_takes_dates(tmp_path):
    frame = pd.DataFrame({"day": FORMS["dots"], "y": LATE})
    frame.to_csv(tmp_path / "t.csv", index=False)
    line = ("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth", 1)
    told = dtgfn(*line, "--out", tmp_path / "m.dtgfn")
    assert "make them days with --dates number, or --drop 'day'" in told.stderr
    told = dtgfn(*line, "--dates", "number", "--out", tmp_path / "m.dtgfn")
    assert told.returncode == 0
    assert told.stderr == ""
    predicted = dtgfn("predict", tmp_path / "m.dtgfn", tmp_path / "t.csv").stdout.split()[1:]
    assert [row.split(",")[0] for row in predicted] == [str(y) for y in LATE]
