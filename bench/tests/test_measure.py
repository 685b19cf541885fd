"""The numbers in every table, by hand; and that no method ever gets a test row."""

import numpy as np
import pytest
from dtgfn_bench import method_lookup
from dtgfn_bench.contract import Method
from dtgfn_bench.experiment import Cell
from dtgfn_bench.experiments import anomaly, bayesian_trees, shift, single_trees, xor
from dtgfn_bench.measure import detection_metrics, measure_classifier

from dtgfn.datasets import load_dataset
from dtgfn.datasets.lookup import whereabouts


def test_detection_by_hand():
    training = np.array([0.0, 2.0])  # mean 1, standard deviation 1: the threshold is 3
    scores = np.array([9.0, 4.0, 3.0, 2.0, 1.0])
    anomalous = np.array([1, 0, 1, 0, 0])
    found = detection_metrics(scores, training, anomalous)
    assert found["f1_two_std"] == 0.5  # 9 and 4 are flagged: one right, one wrong, one missed
    assert found["f1_known"] == 0.5  # the same two
    assert found["auroc"] == pytest.approx(5 / 6)
    assert found["average_precision"] == pytest.approx((1 + 2 / 3) / 2)


def test_papers_rule_by_hand():
    """Nine zeros and a one: mean 0.1, standard deviation 0.3, so 0.7 is the threshold."""
    anomalous = np.array([1] + [0] * 9)
    training = np.array([0.0, 2.0])  # by our rule the threshold is 3
    for far, f1 in ((1.0, 1.0), (5.0, 1.0)):  # the paper's rule knows no scale
        scores = np.r_[far, np.zeros(9)]
        assert detection_metrics(scores, training, anomalous)["f1_two_std_test"] == f1
    exactly = np.array([4.0, -1.0, -1.0, -1.0, -1.0])  # mean 0, standard deviation 2: "at least"
    assert detection_metrics(exactly, training, anomalous[:5])["f1_two_std_test"] == 1
    half = np.array([1.0, 1.0, 0.0, 0.0])  # more than a fifth are never two deviations off
    assert detection_metrics(half, training, anomalous[:4])["f1_two_std_test"] == 0


@pytest.mark.parametrize("score", [0.0, 0.1, 1 / 3])
def test_papers_rule_flags_none_of_equal_scores(score):
    """Their mean may be off by a rounding error, and their standard deviation as small."""
    anomalous = np.array([1, 1] + [0] * 41)
    found = detection_metrics(np.full(43, score), np.zeros(3), anomalous)
    assert found["f1_two_std_test"] == 0


def test_equal_scores_gain_nothing_from_the_order_of_rows():
    anomalous = np.array([1, 1, 0, 0, 0])
    found = detection_metrics(np.zeros(5), np.zeros(3), anomalous)
    assert found["f1_known"] == 0
    assert found["auroc"] == 0.5


class Spy:
    """Remembers the rows it is trained on, and counts those that it is asked about."""

    training = None
    asked: int = 0
    seen_again: int = 0

    def fit(self, rows, seed):
        assert np.isfinite(rows.X).all()
        type(self).training = {row.tobytes() for row in rows.X}
        type(self).asked = type(self).seen_again = 0
        self.X, self.n_classes = rows.X, max(rows.n_classes, 2)
        return self

    def _count(self, X):
        if X is not self.X:
            type(self).asked += len(X)
            type(self).seen_again += sum(row.tobytes() in self.training for row in X)

    def predict_proba(self, X):
        self._count(X)
        return np.full((len(X), self.n_classes), 1 / self.n_classes)

    def score(self, X):
        self._count(X)
        return np.arange(len(X), dtype=float)

    def training_scores(self):
        return np.zeros(3)

    def size(self):
        return None


@pytest.mark.parametrize(
    ("experiment", "table", "variant", "n_asked"),
    [
        (single_trees, "wine", {}, 36),
        (single_trees, "breast-cancer", {}, 114),
        (single_trees, "raisin", {}, 180),
        (shift, "bmi", {}, 61 + 465),
        (shift, "age", {}, 80 + 372),
        (anomaly, "ecoli", {}, 163 + 9),
        (anomaly, "vertebral", {}, 104 + 30),
        (bayesian_trees, "raisin", {"reading": "released"}, 270),
        (bayesian_trees, "breast-cancer-original", {"reading": "stated"}, 210),
        (xor, "xor-real-6", {"kind": "real", "noise": 6}, 200),
    ],
)
def test_no_test_row_is_trained_on(monkeypatch, experiment, table, variant, n_asked):
    spy = Method("spy", "Spy", lambda rows, seed: Spy().fit(rows, seed), "note")
    monkeypatch.setitem(method_lookup.METHODS, "spy", spy)
    source = {"bmi": "pima", "age": "pima"}.get(table, table)
    if not source.startswith("xor") and whereabouts(source) is None:
        pytest.skip(f"{source} is not here; set DTGFN_DATA_DIR to the tables' folder")
    cell = Cell(experiment.EXPERIMENT.name, table, "spy", 42, {}, variant)
    experiment.EXPERIMENT.measure(cell)
    assert Spy.asked == n_asked
    repeats = n_repeated_rows(table)
    assert Spy.seen_again <= repeats


def n_repeated_rows(table):
    """Rows of a table that stand in it more than once, and so may be on both sides."""
    if table in ("bmi", "age") or table.startswith("xor"):
        return 0
    X = np.nan_to_num(load_dataset(table).X)
    _, count = np.unique(X, axis=0, return_counts=True)
    return int(count[count > 1].sum())


def test_one_fit_answers_for_every_set_of_test_rows(monkeypatch):
    spy = Method("spy", "Spy", lambda rows, seed: Spy().fit(rows, seed), "note")
    monkeypatch.setitem(method_lookup.METHODS, "spy", spy)
    from dtgfn_bench.contract import TrainingRows

    rows = TrainingRows(np.zeros((4, 1)), np.array([0, 0, 0, 1]), 2, "made")
    tests = {"in_": (np.ones((2, 1)), np.array([0, 0])), "out_": (np.ones((1, 1)), np.array([1]))}
    found = measure_classifier("spy", {}, rows, 0, tests)
    assert (found["in_accuracy"], found["out_accuracy"]) == (1.0, 0.0)
    assert found["training_accuracy"] == 0.75
    assert found["size"] is None
    assert found["fit_cpu_seconds"] >= 0
