"""The report of sums of trees: its numbers are the model's, and no single tree is shown."""

import json

import numpy as np
import pandas as pd
import pytest
from reported import SUM, case

from dtgfn import DTGFNClassifier, diagnostics, evaluate
from dtgfn.report import Report
from dtgfn.report.report import gather

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")


@pytest.mark.parametrize("kind", ["sums", "summed numbers"])
def test_its_numbers_are_the_models(kind):
    model, X, report = case(kind)
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert report["trust"] == diagnostics.verdict(model.posterior_)
    ranked = model.importances()
    assert [row["name"] for row in report["importances"]] == ranked.index.tolist()
    assert report["importances"][0]["splits"] == ranked["splits"].iloc[0]
    assert (report["trees"], report["forest"], report["co_occurrence"]) == ([], None, None)
    row = report["rows"][0]
    table = pd.DataFrame([row["values"]])[list(X.columns)]
    table = table.astype(X.drop(columns="colour").dtypes)
    if kind == "sums":
        np.testing.assert_allclose(row["probability"], model.predict_proba(table)[0])
    else:
        assert row["prediction"] == pytest.approx(model.predict(table)[0])


@pytest.mark.parametrize("kind", ["sums", "summed numbers"])
def test_dependence_is_of_the_most_important_columns(kind):
    model, _, report = case(kind)
    assert [each["column"] for each in report["dependence"]] == model.importances().index.tolist()
    first = report["dependence"][0]
    told = model.partial_dependence(first["column"])
    assert first["values"] == list(dict.fromkeys(told["value"]))
    for output in first["outputs"]:
        same = told[told["output"] == output["name"]]
        np.testing.assert_allclose(output["mean"], same["mean"])  # the table is small
        assert len(output["low"]) == len(output["high"]) == len(first["values"])


def test_held_out_rows_are_scored_if_given():
    model, X, report = case("sums")
    assert report["held_out"]["rows"] == 60
    assert case("summed numbers").report["held_out"] is None
    y = model.predict(X)
    assert gather(model, X, y)["held_out"] == evaluate(model, X, y)
    with pytest.raises(ValueError, match="y is given without X"):
        gather(model, None, y)


def test_two_classes_are_told_by_the_second():
    X = np.arange(40.0)[:, None]
    model = DTGFNClassifier(ensemble="sum", options=SUM, random_state=0).fit(X, X[:, 0] > 20)
    report = Report(model).to_dict()
    assert [output["name"] for output in report["dependence"][0]["outputs"]] == ["True"]
    assert "Sums of decision trees" in Report(model).to_html()
    assert report["title"] == "Sums of decision trees"
    assert {series["key"] for series in report["history"]["series"]} == {
        "leaf_scale",
        "mean_splits",
    }
