"""Every single-tree rival keeps the contract; CART and ConTree are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals import dpdt, greedy, maptree, optimal, tsallis
from dtgfn_bench.rivals.single_tree import SingleTree, Split
from single_rows import small_rows, training_errors
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

METHODS = {
    method.name: method
    for module in (greedy, tsallis, dpdt, optimal, maptree)
    for method in module.METHODS
}


def fit(name: str, rows: TrainingRows, seed: int = 1, **changes):
    method = METHODS[name]
    if method.missing():
        pytest.skip(method.missing())
    return method.fit(rows, seed, **{**method.settings, **method.quick, **changes})


@pytest.mark.parametrize("name", METHODS)
def test_contract(name):
    X, y = load_iris(return_X_y=True)
    rows = TrainingRows(X, y.astype(np.int64), 3, "iris")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fitted = fit(name, rows)
    probability = fitted.predict_proba(X)
    assert probability.shape == (150, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert training_errors(fitted, rows) <= 10
    assert fitted.size() >= 5
    assert fitted.size() % 2 == 1
    assert fit(name, rows).predict_proba(X).tobytes() == probability.tobytes()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("name", METHODS)
def test_a_class_without_rows_keeps_its_column(name):
    rows = small_rows(3)
    gap = TrainingRows(rows.X, 2 * rows.y, 4, "small")
    probability = fit(name, gap).predict_proba(rows.X)
    assert probability.shape == (40, 4)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert set(probability.argmax(axis=1)) <= {0, 2}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("alike", ["labels", "rows"])
def test_nothing_to_split(name, alike):
    rows = small_rows(4)
    X, y = (rows.X, np.zeros_like(rows.y)) if alike == "labels" else (np.ones((40, 3)), rows.y)
    fitted = fit(name, TrainingRows(X, y, 2, "small"))
    assert fitted.size() == 1
    assert (fitted.predict_proba(X).argmax(axis=1) == np.bincount(y).argmax()).all()


def test_leaves_hold_training_frequencies():
    rows = TrainingRows(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 1, 1]), 2, "four")
    split = Split(0, 1.5, None, Split(0, 9.0))
    plain = SingleTree(split, rows)
    np.testing.assert_allclose(
        plain.predict_proba(np.array([[1.5], [1.6], [10.0]])), [[0.5, 0.5], [0, 1], [0, 1]]
    )
    assert plain.size() == 5
    smooth = SingleTree(split, rows, mass=1.0).predict_proba(np.array([[2.0]]))
    np.testing.assert_allclose(smooth, [[0.25, 0.75]])


def test_cart_takes_the_best_of_its_restarts():
    rows = small_rows(30, d=5, n_classes=3)
    states = np.random.default_rng(2).integers(2**31, size=20).tolist()
    accuracy = [
        DecisionTreeClassifier(max_depth=3, random_state=state)
        .fit(rows.X, rows.y)
        .score(rows.X, rows.y)
        for state in states
    ]
    assert len(set(accuracy)) > 1
    fitted = fit("cart-gini", rows, seed=2, depth=3, n_restarts=20)
    assert 1 - training_errors(fitted, rows) / 40 == pytest.approx(max(accuracy))


@pytest.mark.parametrize("seed", range(5))
def test_optimum_equals_brute_force(seed):
    rows = small_rows(seed, n=30, n_classes=3)

    def fewest(index, depth):
        y = rows.y[index]
        best = len(y) - np.bincount(y).max() if len(y) else 0
        if depth and best:
            for feature in range(3):
                for value in range(6):
                    below = rows.X[index, feature] <= value
                    sides = fewest(index[below], depth - 1), fewest(index[~below], depth - 1)
                    best = min(best, sum(sides))
        return best

    fitted = fit("quant-bnb", rows, depth=2)
    assert training_errors(fitted, rows) == fewest(np.arange(30), 2)
    assert fitted.size() <= 7
