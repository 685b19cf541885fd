"""Two classes: trees, scores and reports tell P(event), where there is one."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn, one_sentence
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

from dtgfn import DataHint, DTGFNClassifier, evaluate, load, save, tree_text
from dtgfn.explain import decision_path

SMALL = {"inference": "exact", "max_depth": 1, "n_thresholds": 3}
X = np.array([[1.0], [2.0], [8.0], [9.0]] * 5)
Y = np.array(["no", "no", "yes", "yes"] * 5)


def fitted(y=Y, **given):
    return DTGFNClassifier(**SMALL, **given).fit(X, y)


@pytest.mark.parametrize(
    ("y", "positive", "said"),
    [
        (Y, None, ["no  0.990", "yes  0.990"]),
        (Y, "yes", ["P(yes) 0.010", "P(yes) 0.990"]),
        (Y, "no", ["P(no) 0.990", "P(no) 0.010"]),
        (Y == "yes", None, ["P(True) 0.010", "P(True) 0.990"]),
        ((Y == "yes").astype(int), None, ["P(1) 0.010", "P(1) 0.990"]),
        ((Y == "yes").astype(int), "0", ["P(0) 0.990", "P(0) 0.010"]),
    ],
)
def test_leaves_tell_the_chance_of_the_event(y, positive, said):
    model = fitted(y, positive=positive)
    leaves = [line.split("  (")[0].strip() for line in model.describe().splitlines()[1::2]]
    assert leaves == said
    assert tree_text(model) == model.describe()


def test_paths_reports_and_files_keep_the_event(tmp_path):
    model = fitted(positive="yes")
    assert str(decision_path(model, [1.0])).startswith("The tree says no (P(yes) 0.010), because")
    save(model, tmp_path / "m.dtgfn")
    again = load(tmp_path / "m.dtgfn")
    assert again.describe() == model.describe()
    report = again.report(X, Y).to_dict()
    assert report["fit"]["event"] == "yes"
    assert "P(yes) 0.990" in report["trees"][0]["text"]
    assert report["held_out"]["event"] == "yes"
    sums = DTGFNClassifier(positive="no", options={"n_sweeps": 10}, random_state=0).fit(X, Y)
    drawn = sums.report().to_dict()["dependence"]
    assert [output["name"] for output in drawn[0]["outputs"]] == ["no"]


def test_scores_are_scikit_learns_of_the_event(tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 2))
    y = np.where(rng.random(200) < 1 / (1 + np.exp(-2 * Z[:, 0])), "bad", "good")
    model = DTGFNClassifier(**SMALL, positive="bad").fit(Z[:100], y[:100])
    scores, chance = evaluate(model, Z[100:], y[100:]), model.predict_proba(Z[100:])
    happened = y[100:] == "bad"
    assert scores["event"] == "bad"
    assert scores["auc"] == pytest.approx(roc_auc_score(happened, chance[:, 0]))
    assert scores["average_precision"] == pytest.approx(
        average_precision_score(happened, chance[:, 0])
    )
    assert scores["brier"] == pytest.approx(brier_score_loss(happened, chance[:, 0]))
    assert scores["log_loss"] == pytest.approx(log_loss(y[100:], chance))


@pytest.mark.parametrize(
    ("y", "positive", "said"),
    [(Y, "maybe", "is no class of the model"), (np.arange(20) % 3, 1, "is for two classes")],
)
def test_an_event_that_is_none_is_refused_before_the_fit(y, positive, said):
    with pytest.raises(ValueError, match=said):
        fitted(y, positive=positive)


def test_a_rare_class_is_pointed_out():
    Z, y = np.arange(200.0)[:, None] % 7, np.array(["good"] * 198 + ["bad"] * 2)
    with pytest.warns(DataHint, match="'bad' is 2 of 200 rows, .* with positive='bad'"):
        DTGFNClassifier(**SMALL).fit(Z, y)
    with pytest.warns(DataHint, match="beside their baseline.$"):
        DTGFNClassifier(**SMALL, positive="bad").fit(Z, y)


def test_the_command_line_tells_the_event(tmp_path):
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.dtgfn"
    done = dtgfn("fit", tmp_path / "t.csv", "--target", "y", "--inference", "exact", "--max-depth",
                 1, "--positive", "no", "--out", model)  # fmt: skip
    assert "P(no) 0.990" in done.stdout
    assert "P(no) 0.990" in dtgfn("show", model).stdout
    assert "P(yes) 0.990" in dtgfn("show", model, "--positive", "yes").stdout
    told = dtgfn("report", model, "--positive", "yes", "--json", "--data", tmp_path / "t.csv",
                 "--target", "y")  # fmt: skip
    assert json.loads(told.stdout)["held_out"]["event"] == "yes"
    assert "is no class of the model" in one_sentence(dtgfn("show", model, "--positive", "x"), 1)
