"""The study of shifted rows: every row is asked about once, by a model that has not seen it."""

import numpy as np
import pytest
from dtgfn_bench.contract import Method
from dtgfn_bench.studies import shift_ceiling
from dtgfn_bench.studies.shift_ceiling import FOLDS, fold_accuracies


class Knower:
    """Knows the labels of the rows that it was trained on, and says one that is none elsewhere."""

    def __init__(self, rows, asked):
        self.known = dict(zip(rows.X[:, 0], rows.y, strict=True))
        self.asked = asked

    def predict_proba(self, X):
        self.asked += X[:, 0].tolist()
        return np.eye(3)[[self.known.get(x, 2) for x in X[:, 0]]]


def test_no_fold_asks_about_rows_that_it_has_learned_from(monkeypatch):
    asked: list[float] = []
    knower = Method("knower", "Knower", lambda rows, seed: Knower(rows, asked), note="")
    monkeypatch.setattr(shift_ceiling, "find_method", lambda name: knower)
    monkeypatch.setattr("dtgfn_bench.measure.find_method", lambda name: knower)
    X, y = np.arange(41.0)[:, None], np.arange(41) % 2
    assert fold_accuracies("knower", X, y, "made", 0, False) == [0.0] * FOLDS
    assert sorted(asked) == X[:, 0].tolist()


@pytest.mark.parametrize("signal", [True, False])
def test_what_is_found_is_what_can_be_found(signal):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0 if signal else rng.random(200) > 0.5).astype(np.int64)
    mean = np.mean(fold_accuracies("logistic", X, y, "made", 0, True))
    assert mean > 0.9 if signal else 0.35 < mean < 0.65
