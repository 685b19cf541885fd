"""The paper's splits of tables into training and test rows, as row numbers."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Int64s
from dtgfn._support.checks import check_choice
from dtgfn.datasets import Dataset

STATED_SEED = 123456789  # of the table of further Bayesian trees
SHIFT_SEED = 42

# Seed and share of the splits that the authors of DCC-Tree released.
_RELEASED = {
    "iris": (STATED_SEED, 0.7),
    "wine": (STATED_SEED, 0.8),
    "breast-cancer-original": (STATED_SEED, 0.7),
    "raisin": (1, 0.7),
}
# The last value of the distribution that is trained on.
_SHIFTS = {"age": 29.0, "bmi": 30.0}


class Split(NamedTuple):
    """Numbers of the training rows and of the test rows."""

    train: Int64s
    test: Int64s


class Shift(NamedTuple):
    """Training and test rows of one distribution, and the rows of the other, ``out``."""

    train: Int64s
    test: Int64s
    out: Int64s


def holdout(n: int, seed: int) -> Split:
    """Four fifths and one fifth, not stratified: Iris, Wine, Breast cancer (D) and Raisin.

    >>> [len(part) for part in holdout(150, seed=1)]
    [120, 30]
    """
    return _plain(np.arange(n), 0.2, seed)


def auxiliary_stated(n: int, seed: int = STATED_SEED) -> Split:
    """Seven tenths and three tenths of all rows, as the paper's sizes say; not stratified.

    Of Breast cancer (O) this takes the 16 incomplete rows too; the paper does not say how it
    filled them, `median_filled` is our reading.
    """
    return _plain(np.arange(n), 0.3, seed)


def auxiliary_released(data: Dataset) -> Split:
    """The split that the authors of DCC-Tree released; rows with missing values are left out."""
    check_choice("table", data.name, _RELEASED)
    seed, share = _RELEASED[data.name]
    order = np.flatnonzero(~np.isnan(data.X).any(axis=1)).tolist()
    random.Random(seed).shuffle(order)
    n_train = int(share * len(order))
    return Split(np.array(order[:n_train]), np.array(order[n_train:]))


def auxiliary_rows(data: Dataset, reading: str) -> tuple[Int64s, Int64s, npt.NDArray[np.float64]]:
    """Training rows, test rows and the table without missing values, by a reading of the splits.

    "released" is `auxiliary_released`, "stated" is `auxiliary_stated`.
    """
    check_choice("reading", reading, ("released", "stated"))
    stated = reading == "stated"
    train, test = auxiliary_stated(len(data.X)) if stated else auxiliary_released(data)
    return train, test, median_filled(data.X, train)


def median_filled(X: npt.NDArray[np.float64], train: Int64s) -> npt.NDArray[np.float64]:
    """The table with every missing value replaced by its column's median over training rows.

    >>> X = np.array([[1.0], [3.0], [np.nan], [50.0]])
    >>> median_filled(X, np.array([0, 1, 2])).ravel().tolist()
    [1.0, 3.0, 2.0, 50.0]
    """
    return np.where(np.isnan(X), np.nanmedian(X[train], axis=0), X)


def shift(data: Dataset, column: str, seed: int = SHIFT_SEED) -> Shift:
    """Pima by "bmi" or "age": the low rows in four fifths and one fifth, and the high rows.

    A body mass index of zero stands for a missing one and counts as low, as in the paper.
    """
    check_choice("column", column, _SHIFTS)
    inside = data.X[:, data.feature_names.index(column)] <= _SHIFTS[column]
    train, test = _plain(np.flatnonzero(inside), 0.2, seed)
    return Shift(train, test, np.flatnonzero(~inside))


def anomaly_halves(labels: npt.ArrayLike, seed: int) -> Split:
    """Half of the normal rows (0), and one, for training; the others and the anomalies for testing.

    >>> train, test = anomaly_halves([0, 0, 0, 0, 1], seed=0)
    >>> len(train), test[-1]
    (3, np.int64(4))
    """
    anomalous = np.asarray(labels) != 0
    normal = np.random.default_rng(seed).permutation(np.flatnonzero(~anomalous))
    n_train = len(normal) // 2 + 1
    return Split(normal[:n_train], np.concatenate([normal[n_train:], np.flatnonzero(anomalous)]))


def _plain(rows: Int64s, test_share: float, seed: int) -> Split:
    from sklearn.model_selection import train_test_split

    parts: Any = train_test_split(rows, test_size=test_share, random_state=seed)
    return Split(*parts)
