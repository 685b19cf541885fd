"""Scores on held-out rows: each number against a direct computation."""

import json

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn.evaluation import calibration_error, class_scores, evaluate

QUICK = {"inference": "exact", "max_depth": 2, "n_thresholds": 9, "n_jobs": 1, "random_state": 0}


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = load_iris().target_names[y]
    test = np.arange(len(X)) % 3 == 0
    return X[~test], names[~test], X[test], names[test]


@pytest.fixture(scope="module")
def classifier(flowers):
    return DTGFNClassifier(**QUICK).fit(flowers[0], flowers[1])


@pytest.fixture(scope="module")
def regressor(flowers):
    X = flowers[0]
    return DTGFNRegressor(**QUICK).fit(X.iloc[:, :3], X.iloc[:, 3])


@pytest.fixture(scope="module")
def detector():
    X = np.random.default_rng(0).normal(size=(150, 2))
    return DTGFNAnomalyDetector(n_trees=20, random_state=0, n_jobs=1).fit(X)


def test_classification_by_hand():
    probability = np.array([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1], [0.5, 0.5]])
    found = class_scores(probability, np.array([0, 1, 1, 0]))
    assert found["accuracy"] == 0.75
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.6, 0.1, 0.5]).mean())
    assert found["brier"] == pytest.approx((0.08 + 0.32 + 1.62 + 0.5) / 4)
    # bins .5-.6, .6-.7, .8-.9, .9-1: one row each
    assert found["calibration_error"] == pytest.approx((0.5 + 0.4 + 0.2 + 0.9) / 4)


def test_a_class_that_was_given_no_chance_costs_much_but_not_everything():
    found = class_scores(np.array([[1.0, 0.0]]), np.array([1]))
    assert found["log_loss"] == pytest.approx(-np.log(1e-15))


def test_confident_and_right_is_calibrated():
    assert calibration_error(np.ones(2), np.array([True, True])) == 0


def test_scores_of_classes(classifier, flowers):
    X, y = flowers[2:]
    got = evaluate(classifier, X, y)
    probability, codes = classifier.predict_proba(X), np.searchsorted(classifier.classes_, y)
    assert got["accuracy"] == metrics.accuracy_score(y, classifier.predict(X))
    assert got["log_loss"] == pytest.approx(metrics.log_loss(codes, probability))
    assert got["brier"] == pytest.approx(((probability - np.eye(3)[codes]) ** 2).sum() / len(X))
    gaps = [b["rows"] * abs(b["mean_probability"] - b["share_right"]) for b in got["reliability"]]
    assert got["calibration_error"] == pytest.approx(sum(gaps) / len(X))
    assert got["rows"] == len(X)
    json.dumps(got, allow_nan=False)


def test_reliability_and_confusion_count_every_row_once(classifier, flowers):
    X, y = flowers[2:]
    got = evaluate(classifier, X, y, n_bins=7)
    assert sum(b["rows"] for b in got["reliability"]) == len(X)
    for b in got["reliability"]:
        assert b["low"] <= b["mean_probability"] <= b["high"]
        assert b["high"] - b["low"] == pytest.approx(1 / 7)
    right = sum(b["rows"] * b["share_right"] for b in got["reliability"])
    assert right == pytest.approx(got["accuracy"] * len(X))
    wanted = metrics.confusion_matrix(y, classifier.predict(X), labels=classifier.classes_)
    assert got["confusion"] == {
        "labels": ["setosa", "versicolor", "virginica"],
        "counts": wanted.tolist(),
    }


def test_scores_of_numbers(regressor, flowers):
    X, y = flowers[2].iloc[:, :3], flowers[2].iloc[:, 3]
    got = evaluate(regressor, X, y)
    prediction = regressor.predict(X)
    assert got["rmse"] == pytest.approx(metrics.root_mean_squared_error(y, prediction))
    assert got["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(y, prediction))
    assert got["r2"] == pytest.approx(metrics.r2_score(y, prediction))
    inside = [low <= truth <= high for truth, _, low, high in got["points"]]
    assert got["coverage"] == pytest.approx(np.mean(inside))
    assert got["level"] == 0.9
    assert 0.8 <= got["coverage"] <= 1.0


def test_at_most_three_hundred_points_are_kept_but_all_count(regressor, flowers):
    X, y = flowers[2].iloc[:, :3], flowers[2].iloc[:, 3]
    order = np.random.default_rng(0).permutation(np.tile(np.arange(len(X)), 20))
    many = X.iloc[order]
    got = evaluate(regressor, many, y.iloc[order])
    assert got["rows"] == len(many) > 500
    assert len(got["points"]) == 300
    assert got["coverage_rows"] == 500
    assert got["coverage"] == pytest.approx(evaluate(regressor, X, y)["coverage"], abs=0.03)
    assert got["rmse"] == pytest.approx(evaluate(regressor, X, y)["rmse"])


def test_a_single_number_has_no_r2(regressor, flowers):
    X, y = flowers[2].iloc[:1, :3], flowers[2].iloc[:1, 3]
    assert evaluate(regressor, X, y)["r2"] is None


def test_anomalies_may_be_named_in_three_ways(detector):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(40, 2)), rng.uniform(4, 8, size=(10, 2))])
    odd = np.repeat([False, True], [40, 10])
    got = evaluate(detector, X, odd)
    assert got == evaluate(detector, X, np.where(odd, -1, 1))
    assert got == evaluate(detector, X, odd.astype(int))
    score = -detector.score_samples(X)
    assert got["auroc"] == metrics.roc_auc_score(odd, score) > 0.95
    assert got["average_precision"] == metrics.average_precision_score(odd, score)
    flagged = detector.predict(X) == -1
    assert got["f1"] == metrics.f1_score(odd, flagged)
    assert got["confusion"]["counts"] == metrics.confusion_matrix(odd, flagged).tolist()
    assert got["anomalies"] == 10


def test_without_anomalies_nothing_can_be_ranked(detector):
    got = evaluate(detector, np.zeros((3, 2)), [1, 1, 1])
    assert got["anomalies"] == 0
    assert got["auroc"] is got["average_precision"] is got["f1"] is None


def test_labels_are_matched_as_a_file_would_spell_them():
    model = DTGFNClassifier(**QUICK).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    for y in ([0, 1], [0.0, 1.0], ["0", "1"], np.array([False, True]).astype(int)):
        assert evaluate(model, [[1.0], [2.0]], y)["accuracy"] == 1.0


def test_what_cannot_be_scored_is_told_in_a_sentence(classifier, regressor, detector, flowers):
    X, y = flowers[2:]
    with pytest.raises(ValueError, match=r"X has 50 rows and y has 49 values"):
        evaluate(classifier, X, y[1:])
    with pytest.raises(ValueError, match=r"'tulip', no class of the model; it knows 'setosa'"):
        evaluate(classifier, X, np.where(y == "setosa", "tulip", y))
    with pytest.raises(ValueError, match="y is None"):
        evaluate(classifier, X, None)
    with pytest.raises(ValueError, match="'red', which is not a number"):
        evaluate(regressor, X.iloc[:, :3], np.array(["red"] * len(X)))
    with pytest.raises(ValueError, match=r"'0', '2', '-1'; give 1 for normal rows"):
        evaluate(detector, np.zeros((3, 2)), [0, 2, -1])
    with pytest.raises(ValueError, match=r"'0', '1', '-1'; give 1 for normal rows"):
        evaluate(detector, np.zeros((3, 2)), [0, 1, -1])
    with pytest.raises(ValueError, match="n_bins=0"):
        evaluate(classifier, X, y, n_bins=0)
    with pytest.raises(ValueError, match="feature names"):
        evaluate(classifier, X.iloc[:, :2], y)
    with pytest.raises(TypeError, match="cannot be scored"):
        evaluate(metrics, X, y)


def test_two_classes_are_scored_as_by_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] + rng.normal(size=120) > 0.8, "yes", "no")
    model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9).fit(X[:80], y[:80])
    proba, truth = model.predict_proba(X[80:]), y[80:]
    for positive, column in ((None, 1), ("yes", 1), ("no", 0)):
        found = evaluate(model, X[80:], truth, positive=positive)
        happened = truth == model.classes_[column]
        assert found["event"] == model.classes_[column]
        assert found["auc"] == metrics.roc_auc_score(happened, proba[:, column])
        wanted = metrics.average_precision_score(happened, proba[:, column])
        assert found["average_precision"] == wanted
        assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, proba), rel=1e-12)
        wanted = metrics.brier_score_loss(happened, proba[:, column])
        assert found["brier"] == pytest.approx(wanted, rel=1e-12)
    share = (y[:80] == "yes").mean()
    constant = np.tile([1 - share, share], (40, 1))
    baseline = evaluate(model, X[80:], truth)["baseline"]
    assert baseline["log_loss"] == pytest.approx(metrics.log_loss(truth, constant))
    assert baseline["auc"] == 0.5
    assert baseline["average_precision"] == pytest.approx((truth == "yes").mean())
    with pytest.raises(ValueError, match="positive='maybe' is no class of the model"):
        evaluate(model, X[80:], truth, positive="maybe")


def test_training_rows_that_pass_as_held_out_are_seen():
    from dtgfn.evaluation import seen_share

    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    for model, y in (
        (DTGFNClassifier(inference="exact", max_depth=1), (X[:, 0] > 0).astype(int)),
        (DTGFNRegressor(inference="exact", max_depth=1), X[:, 0] ** 3),
    ):
        model.fit(X[:60], y[:60])
        assert seen_share(model, X[:60], y[:60]) == 1.0
        assert seen_share(model, X[60:], y[60:]) < 0.2
