"""Rivals that libraries or torch train: one set of promises, kept by all of them."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from dtgfn_bench import seen_classes
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.rivals import (
    additive,
    balanced,
    bart,
    boosters,
    deep,
    forests,
    pretrained,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris

METHODS = (
    *forests.METHODS,
    *boosters.METHODS,
    *balanced.METHODS,
    *deep.METHODS,
    *additive.METHODS,
    *bart.METHODS,
    *pretrained.METHODS,
)
# Smaller still than the quick settings: promises, not scores, are checked here.
SMALL = {
    "n_trees": 10,
    "n_blocks": 1,
    "epochs": 2,
    "max_iterations": 5,
    "max_rounds": 20,
    "outer_bags": 1,
    "n_warm_starts": 2,
    "n_draws": 3,
}
TREES = {method.name for family in (forests, boosters, bart) for method in family.METHODS}
TREES |= {method.name for method in balanced.METHODS if "n_trees" in method.settings}

every_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def small_fit(method: Method, rows: TrainingRows, seed: int = 3):
    for module in method.needs:
        pytest.importorskip(module, reason=f"{method.label} is {module}'s")
    quick = {**method.settings, **method.quick}
    small = {name: SMALL[name] for name in quick if name in SMALL}
    return method.fit(rows, seed, **{**quick, **small})


def iris_rows(lacking: int | None = None) -> TrainingRows:
    X, y = load_iris(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:60]
    some = some[y[some] != lacking]
    return TrainingRows(X[some], y[some].astype(np.int64), 3, "iris")


class GlobalState:
    """What a fit must leave as it was."""

    def __init__(self) -> None:
        self.numpy = np.random.get_state()  # noqa: NPY002
        self.python = random.getstate()
        self.torch = torch.random.get_rng_state()

    def unchanged(self) -> bool:
        now = GlobalState()
        return (
            self.python == now.python
            and torch.equal(self.torch, now.torch)
            and all(np.array_equal(a, b) for a, b in zip(self.numpy, now.numpy, strict=True))
        )


@every_method
def test_promises(method, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, _ = load_iris(return_X_y=True)
    rows = iris_rows()
    before = GlobalState()
    fitted = small_fit(method, rows)
    probability = fitted.predict_proba(X)
    assert before.unchanged()

    assert probability.shape == (len(X), 3)
    assert probability.dtype == np.float64
    assert np.all(np.isfinite(probability))
    assert np.all(probability >= 0)
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-12)

    random.random()
    np.random.random()  # noqa: NPY002
    torch.rand(1)
    again = small_fit(method, rows)
    np.testing.assert_array_equal(again.predict_proba(X), probability)

    if method.name in TREES:
        assert fitted.size() >= 1
        assert fitted.size() == again.size()
    else:
        assert fitted.size() is None
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


@every_method
def test_class_absent_from_training(method):
    X, _ = load_iris(return_X_y=True)
    probability = small_fit(method, iris_rows(lacking=1)).predict_proba(X)
    assert probability.shape == (len(X), 3)
    assert np.all(probability[:, 1] == 0)
    np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-12)


@every_method
def test_single_class_in_training(method):
    X, y = load_breast_cancer(return_X_y=True)
    rows = TrainingRows(X[y == 1][:20], y[y == 1][:20].astype(np.int64), 2, "breast-cancer")
    fitted = small_fit(method, rows)
    np.testing.assert_array_equal(fitted.predict_proba(X[:4]), [[0, 1]] * 4)


def test_names_differ():
    assert len({method.name for method in METHODS}) == len(METHODS)
    assert len({method.label for method in METHODS}) == len(METHODS)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_spread_puts_columns_where_their_classes_are(data):
    n_classes = data.draw(st.integers(1, 6))
    seen = sorted(data.draw(st.sets(st.integers(0, n_classes - 1), min_size=1)))
    weights = data.draw(
        st.lists(st.floats(0.01, 1), min_size=len(seen), max_size=len(seen)), label="weights"
    )
    probability = np.array([weights]) / np.sum(weights)
    spread = seen_classes.spread(probability, np.array(seen), n_classes)
    expected = dict(zip(seen, probability[0], strict=True))
    np.testing.assert_allclose(spread[0], [expected.get(code, 0) for code in range(n_classes)])


class TestSizes:
    """Counts of nodes against each library's own other account of its trees."""

    def estimator(self, family, name, rows):
        (method,) = (method for method in family.METHODS if method.name == name)
        fitted = small_fit(method, rows)
        return fitted.estimator, fitted.size()

    def test_xgboost(self):
        estimator, size = self.estimator(boosters, "xgboost", iris_rows())
        table = estimator.get_booster().trees_to_dataframe()
        assert size == pytest.approx(len(table) / table["Tree"].nunique())

    def test_lightgbm(self):
        estimator, size = self.estimator(boosters, "lightgbm", iris_rows())
        table = estimator.booster.trees_to_dataframe()
        assert size == pytest.approx(len(table) / table["tree_index"].nunique())

    def test_catboost_counts_a_value_per_class(self):
        estimator, size = self.estimator(boosters, "catboost", iris_rows())
        assert size == pytest.approx(2 * 3 * np.mean(estimator.get_tree_leaf_counts()) - 1)
        estimator, size = self.estimator(boosters, "catboost", iris_rows(lacking=0))
        assert size == pytest.approx(2 * np.mean(estimator.get_tree_leaf_counts()) - 1)

    def test_bart(self):
        estimator, size = self.estimator(bart, "bart", iris_rows(lacking=0))
        (chain,) = estimator.chains
        draws = chain.forest_container_mean
        counts = [
            draws.num_nodes(draw, tree)
            for draw in range(draws.num_samples())
            for tree in range(estimator.n_trees)
        ]
        assert size == pytest.approx(np.mean(counts))

    def test_forest(self):
        estimator, size = self.estimator(forests, "forest", iris_rows())
        leaves = [tree.get_n_leaves() for tree in estimator.estimators_]
        assert size == pytest.approx(np.mean([2 * n - 1 for n in leaves]))


def test_a_method_that_cannot_run_says_what_it_needs_and_how_to_get_it():
    (method,) = pretrained.METHODS
    absent = replace(method, needs=("no_such_module",))
    assert absent.missing() == "needs no_such_module, which no extra installs"
    more = replace(absent, install="dtgfn-bench[more]")
    assert more.missing() == "needs no_such_module: pip install 'dtgfn-bench[more]'"
    assert replace(absent, needs=("numpy",)).missing() is None
