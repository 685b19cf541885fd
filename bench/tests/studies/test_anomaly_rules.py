"""Rules that learn next to nothing: what each flags, on rows made for it."""

import numpy as np
from dtgfn_bench.studies.anomaly_rules import every_row, f1_by_split, giveaway_counts, outside

from dtgfn.datasets import Dataset


def made() -> Dataset:
    """Ten normal rows from 0 to 9, and two anomalies: one far away, one among them."""
    X = np.array([*range(10), 50, 4.5], dtype=float)[:, None]
    y = np.array([0] * 10 + [1] * 2)
    return Dataset(X, y, ("a",), ("normal", "anomaly"), "made")


def test_outside_flags_what_exceeds_the_training_rows():
    training = np.array([[0.0, 1.0], [2.0, 3.0]])
    rows = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 3.5], [-0.1, 2.0]])
    assert outside(training, rows).tolist() == [False, False, True, True]
    assert every_row(training, rows).all()


def test_f1_is_that_of_the_test_rows():
    data = made()
    # six of ten normal rows are learned from: four are left beside two anomalies
    assert f1_by_split(data, every_row, 3) == [2 * 2 / (6 + 2)] * 3
    assert f1_by_split(data, lambda _, X: X[:, 0] == 50, 2) == [2 * 1 / (1 + 2)] * 2


def test_a_value_that_only_anomalies_have_is_lacking_on_every_split():
    data = made()
    assert giveaway_counts(data, data.X[:, 0] == 50, 5) == (5, 1, 1)
    assert giveaway_counts(data, data.X[:, 0] >= 0, 5) == (0, 12, 2)
