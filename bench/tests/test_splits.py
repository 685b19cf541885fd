"""Sizes of the paper's splits, and what must hold of every split."""

import os
import random

import numpy as np
import pytest
from dtgfn_bench.splits import (
    STATED_SEED,
    anomaly_halves,
    auxiliary_released,
    auxiliary_rows,
    auxiliary_stated,
    holdout,
    median_filled,
    shift,
)
from hypothesis import given
from hypothesis import strategies as st

from dtgfn.datasets import Dataset, load_dataset

needs_data = pytest.mark.skipif(
    not os.environ.get("DTGFN_DATA_DIR"), reason="set DTGFN_DATA_DIR to the tables' folder"
)


def sizes(split):
    return [len(part) for part in split]


def check_parts(split, rows):
    assert sorted(np.concatenate(split).tolist()) == sorted(rows)


def counts(y, rows):
    return np.bincount(y[rows]).tolist()


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(
    ("n", "parts"), [(150, [120, 30]), (178, [142, 36]), (569, [455, 114]), (900, [720, 180])]
)
def test_a_fifth_is_held_out(n, parts, seed):
    split = holdout(n, seed)
    assert sizes(split) == parts
    check_parts(split, range(n))


def test_the_holdout_is_the_split_of_the_reference():
    from sklearn.model_selection import train_test_split

    data = load_dataset("wine")
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=3)
    train, test = holdout(178, 3)
    np.testing.assert_array_equal(data.X[train], X)
    np.testing.assert_array_equal(data.X[test], X_test)
    np.testing.assert_array_equal(data.y[train], y)
    np.testing.assert_array_equal(data.y[test], y_test)


@needs_data
def test_rows_where_the_copies_of_iris_differ_are_in_the_first_training_part():
    assert {34, 37} <= set(holdout(150, 1).train.tolist())


@pytest.mark.parametrize(
    ("n", "parts"), [(150, [105, 45]), (178, [124, 54]), (699, [489, 210]), (900, [630, 270])]
)
def test_the_stated_auxiliary_split_has_the_stated_sizes(n, parts):
    split = auxiliary_stated(n)
    assert sizes(split) == parts
    check_parts(split, range(n))


@needs_data
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("iris", [105, 45]),
        ("wine", [142, 36]),
        ("breast-cancer-original", [478, 205]),
        ("raisin", [630, 270]),
    ],
)
def test_the_released_auxiliary_split_has_the_released_sizes(name, parts):
    data = load_dataset(name)
    split = auxiliary_released(data)
    assert sizes(split) == parts
    check_parts(split, np.flatnonzero(~np.isnan(data.X).any(axis=1)))
    assert np.isfinite(data.X[np.concatenate(split)]).all()


def test_the_released_split_is_a_shuffle_by_python_that_leaves_its_state_alone():
    data = load_dataset("wine")
    state = random.getstate()
    split = auxiliary_released(data)
    assert random.getstate() == state
    rows = list(range(178))
    random.seed(STATED_SEED)
    random.shuffle(rows)
    random.setstate(state)
    assert split.train.tolist() == rows[:142]
    assert split.test.tolist() == rows[142:]


def test_other_tables_have_no_released_split():
    with pytest.raises(ValueError, match="table='breast-cancer' is not known; give one of iris"):
        auxiliary_released(load_dataset("breast-cancer"))


@needs_data
def test_incomplete_rows_are_filled_by_training_rows_alone():
    data = load_dataset("breast-cancer-original")
    train, test = auxiliary_stated(699)
    filled = median_filled(data.X, train)
    missing = np.isnan(data.X)
    assert missing.sum() == 16
    np.testing.assert_array_equal(filled[~missing], data.X[~missing])
    other = data.X.copy()
    other[test] = np.where(np.isnan(other[test]), np.nan, 99.0)
    again = median_filled(other, train)
    np.testing.assert_array_equal(again[missing], filled[missing])


@needs_data
@pytest.mark.parametrize(("reading", "parts"), [("released", [478, 205]), ("stated", [489, 210])])
def test_either_reading_gives_rows_without_gaps(reading, parts):
    data = load_dataset("breast-cancer-original")
    train, test, X = auxiliary_rows(data, reading)
    assert [len(train), len(test)] == parts
    assert np.isfinite(X[train]).all()
    assert np.isfinite(X[test]).all()


def test_another_reading_is_refused():
    with pytest.raises(ValueError, match="reading='guessed' is not known; give one of released"):
        auxiliary_rows(load_dataset("wine"), "guessed")


@needs_data
@pytest.mark.parametrize(
    ("column", "parts", "inside", "out", "test"),
    [
        ("age", [316, 80, 372], [312, 84], [188, 184], [63, 17]),
        ("bmi", [242, 61, 465], [250, 53], [250, 215], [49, 12]),
    ],
)
def test_the_shifts_of_pima_have_the_known_counts(column, parts, inside, out, test):
    data = load_dataset("pima")
    split = shift(data, column)
    assert sizes(split) == parts
    check_parts(split, range(768))
    assert counts(data.y, np.concatenate(split[:2])) == inside
    assert counts(data.y, split.out) == out
    assert counts(data.y, split.test) == test


def test_a_shift_by_another_column_is_refused():
    data = Dataset(np.zeros((3, 1)), np.zeros(3, np.int64), ("mass",), ("a",), "made")
    with pytest.raises(ValueError, match="column='mass' is not known; give one of age, bmi"):
        shift(data, "mass")


@needs_data
@pytest.mark.parametrize(
    ("name", "train", "normal", "anomalous"),
    [
        ("thyroid", 1840, 1839, 93),
        ("ecoli", 164, 163, 9),
        ("vertebral", 106, 104, 30),
        ("glass", 103, 102, 9),
    ],
)
def test_anomalies_are_all_tested_on(name, train, normal, anomalous):
    y = load_dataset(name).y
    split = anomaly_halves(y, seed=1)
    assert len(split.train) == train
    assert counts(y, split.test) == [normal, anomalous]


@given(st.lists(st.integers(0, 1), min_size=1, max_size=50), st.integers(0, 3))
def test_halves_hold_every_row_once_and_train_on_normal_ones(labels, seed):
    split = anomaly_halves(labels, seed)
    check_parts(split, range(len(labels)))
    assert not np.array(labels)[split.train].any()
    again = anomaly_halves(labels, seed)
    np.testing.assert_array_equal(split.train, again.train)


def test_seeds_give_other_splits():
    labels = np.zeros(40, int)
    assert anomaly_halves(labels, 1).train.tolist() != anomaly_halves(labels, 2).train.tolist()
    assert holdout(40, 1).test.tolist() != holdout(40, 2).test.tolist()
