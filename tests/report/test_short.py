"""The first screen of a report: every number in its words against one computed here."""

import math

import numpy as np
import pandas
import pytest

import dtgfn
from dtgfn import DTGFNClassifier, DTGFNRegressor, evaluate, with_labels
from dtgfn.evaluation import calibration_error, reliability
from dtgfn.report.page import render_page
from dtgfn.report.report import gather
from dtgfn.report.short import _chance_alone

FEW = {"inference": "exact", "ensemble": None, "n_thresholds": 5, "random_state": 0, "n_trees": 200}
NUMBER_OF_ROWS = 90


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    n = 2 * NUMBER_OF_ROWS
    X = pandas.DataFrame(
        {
            "status": rng.choice(["< 0", "0 to 200", "none, closed"], n),
            "age": rng.integers(20, 70, n).astype(float),
            "noise": rng.normal(size=n),
        }
    )
    X.loc[::9, "age"] = np.nan
    risky = (X["status"] == "< 0").to_numpy() & ~(X["age"] > 40).to_numpy()
    bad = np.where(rng.random(n) < 0.08, ~risky, risky).astype(int)
    price = 10.0 * risky + rng.normal(size=n)
    return X, pandas.Series(bad, name="default"), pandas.Series(price, name="price")


def halves(X, y):
    first = np.arange(len(X)) < NUMBER_OF_ROWS
    return X[first], y[first], X[~first], y[~first]


def percent(share):
    return f"{100 * share:.{1 if share < 0.0995 else 0}f} %"


def test_classes_are_told_of_the_model_and_of_the_tree_alone(table):
    old, y, new, truth = halves(table[0], table[1])
    model = DTGFNClassifier(max_depth=2, **FEW).fit(old, y)
    report = gather(model, new, truth)
    said = report["short"]["quality"]
    right = (model.predict(new) == truth).mean()
    alone = (model.predict(new, tree="best") == truth).mean()
    frequent = (truth == y.mode()[0]).mean()
    assert f"the model is right for {percent(right)}" in said
    assert f"The one tree alone is right for {percent(alone)}." in said
    assert f"the most frequent class is right for {percent(frequent)}" in said
    off = evaluate(model, new, truth)["calibration_error"]
    assert f"off by {percent(off)} on average" in said
    assert report["short"]["tree"]["intro"].startswith("The most probable tree asks")
    sampled = DTGFNClassifier(max_depth=2, **FEW | {"inference": "smc"}).fit(old, y)
    assert "most probable tree known asks" in gather(sampled)["short"]["tree"]["intro"]
    first, *_ = report["short"]["tree"]["rules"]
    assert "default = 1 with probability" in first
    assert report["title"] == "Decision trees for default"
    assert "predict default (0 or 1), learned from 90 rows" in render_page(report)


def test_the_target_is_called_as_a_dictionary_does(table):
    old, y, *_ = halves(table[0], table[1])
    model = DTGFNClassifier(max_depth=1, **FEW).fit(old, y.to_numpy())
    assert gather(model)["title"] == "Decision trees"
    told = {"default": {"categories": {0: "repaid", 1: "lost"}}}
    assert gather(with_labels(model, told, "default"))["title"] == "Decision trees for default"
    told["default"]["meaning"] = "end of the loan"
    called = gather(with_labels(model, told, "default"))
    assert called["title"] == "Decision trees for end of the loan"
    assert "lost with probability" in called["short"]["tree"]["rules"][0]


def test_categories_that_read_like_rules_are_in_quotes(table):
    old, y, *_ = halves(table[0], table[1])
    model = DTGFNClassifier(max_depth=2, **FEW).fit(old, y)
    rules = gather(model)["short"]["tree"]["rules"]
    assert any('status is not "< 0"' in rule for rule in rules)


def test_numbers_are_told_beside_the_mean_of_the_training_rows(table, tmp_path):
    old, y, new, truth = halves(table[0], table[2])
    model = DTGFNRegressor(max_depth=2, **FEW).fit(old, y)
    said = gather(model, new, truth)["short"]["quality"]

    def off(prediction):
        return f"{math.sqrt(((prediction - truth) ** 2).mean()):.3g}"

    assert f"the model is typically off by {off(model.predict(new))};" in said
    assert f"always saying the mean of the rows it has seen is off by {off(y.mean())}." in said
    assert f"The one tree alone is off by {off(model.predict(new, tree='best'))}." in said
    scores = evaluate(model, new, truth)
    assert scores["baseline"]["mean_absolute_error"] == pytest.approx(abs(truth - y.mean()).mean())
    model.held_out_ = scores
    dtgfn.save(model, tmp_path / "m.dtgfn")
    again = dtgfn.load(tmp_path / "m.dtgfn")
    assert again.held_out_["baseline"] == scores["baseline"]
    told = gather(again)
    assert told["title"] == "Decision trees for price"
    assert f"is off by {off(y.mean())}" in told["short"]["quality"]
    dtgfn.save(model, tmp_path / "bare.dtgfn", rows=False)
    assert evaluate(dtgfn.load(tmp_path / "bare.dtgfn"), new, truth)["baseline"] is None


def test_a_model_that_predicts_nothing_is_not_to_be_acted_on(table):
    old, y, new, truth = halves(table[0], table[1])
    shuffled = 1 - truth.to_numpy()  # as if the world had turned
    model = DTGFNClassifier(max_depth=2, **FEW).fit(old, y)
    assert "do not act on it" not in gather(model, new, truth)["short"]["trust"]["sentence"]
    trust = gather(model, new, shuffled)["short"]["trust"]
    assert trust["level"] == "fair"
    assert "do not act on it" in trust["sentence"]


def test_a_column_that_decides_and_that_the_tree_does_without_is_named():
    rng = np.random.default_rng(7)
    X = pandas.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
    y = ((X["a"] > 0) & (rng.random(50) < 0.95)) ^ (
        (X["b"] > 0.3) & (X["a"] <= 0) & (rng.random(50) < 0.5)
    )
    model = DTGFNClassifier(max_depth=3, **FEW).fit(X, y)
    report = gather(model)
    needed = {row["name"] for row in report["importances"] if row["inclusion"] >= 0.5}
    assert needed == {"a", "b"}
    assert not any(" b " in rule for rule in report["short"]["tree"]["rules"])
    assert "It leaves out b, which more than half of all trees" in report["short"]["tree"]["intro"]


def test_what_chance_makes_of_a_calibration_error_is_what_draws_say():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1.0, 80)
    drawn = [calibration_error(p, rng.random(80) < p) for _ in range(2000)]
    said = _chance_alone(reliability(p, rng.random(80) < p, 10))
    assert said == pytest.approx(np.mean(drawn), rel=0.05)
