"""Tsallis trees: the impurity's known cases, the shared grid, and the choice of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from dtgfn_bench.rivals.cuts import all_cuts, impurity_left, tsallis
from dtgfn_bench.rivals.single_tree import SingleTree
from dtgfn_bench.rivals.tsallis import TsallisTrees, fit_tsallis
from hypothesis import given, settings
from hypothesis import strategies as st
from single_rows import small_rows, training_errors
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.tree import DecisionTreeClassifier

ONE = np.ones(1)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4).filter(any))
def test_known_cases(counts):
    share = np.array(counts) / sum(counts)
    column = np.array(counts, float)[:, None]
    gini = tsallis(column, 2.0, ONE)[0, 0]
    assert gini == pytest.approx(1 - (share**2).sum())
    entropy = -sum(p * np.log(p) for p in share if p > 0)
    assert tsallis(column, 1.0, ONE)[0, 0] == pytest.approx(entropy)
    assert tsallis(column, 1.0 + 1e-6, 3 * ONE)[0, 0] == pytest.approx(3 * entropy, abs=1e-4)
    if len(counts) == 2:
        kearns_mansour = 4 * np.sqrt(share[0] * share[1])
        assert tsallis(column, 0.5, 2 * ONE)[0, 0] == pytest.approx(kearns_mansour)


@given(st.integers(0, 1000))
@settings(max_examples=25)
def test_cuts_are_all_cuts(seed):
    rows = small_rows(seed, n=12, n_classes=3)
    cuts = all_cuts(rows.X, rows.y, 3)
    listed = [
        (feature, (low + high) / 2)
        for feature in range(3)
        for low, high in zip(*(np.unique(rows.X[:, feature])[s] for s in (np.s_[:-1], np.s_[1:])))  # noqa: B905
    ]
    assert list(zip(cuts.feature, cuts.threshold, strict=True)) == listed
    for place, (feature, threshold) in enumerate(listed):
        below = rows.X[:, feature] <= threshold
        np.testing.assert_array_equal(cuts.below[:, place], np.bincount(rows.y[below], minlength=3))
        np.testing.assert_array_equal(
            cuts.above[:, place], np.bincount(rows.y[~below], minlength=3)
        )


def test_neighbouring_floats_are_parted():
    low = 1.0
    high = np.nextafter(low, 2)
    cuts = all_cuts(np.array([[low], [high]]), np.array([0, 1]), 2)
    assert low <= cuts.threshold[0] < high


@pytest.mark.parametrize(("criterion", "alpha"), [("gini", 2.0), ("entropy", 1.0)])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_scikit_learn_cuts_as_well(criterion, alpha, load):
    # At each node of scikit-learn's tree no cut has less impurity than the one it took.
    X, y = load(return_X_y=True)
    tree = DecisionTreeClassifier(criterion=criterion, max_depth=4, random_state=0).fit(X, y)
    path = tree.decision_path(X).toarray().astype(bool)
    nodes = tree.tree_
    unit = np.log(2) if criterion == "entropy" else 1.0
    for node in np.flatnonzero(nodes.children_left >= 0):
        cuts = all_cuts(X[path[:, node]], y[path[:, node]], 3)
        sides = [nodes.children_left[node], nodes.children_right[node]]
        taken = unit * (nodes.n_node_samples[sides] * nodes.impurity[sides]).sum()
        assert impurity_left(cuts, alpha, ONE).min() == pytest.approx(taken, abs=1e-6)


def test_pairs_grown_together_are_those_grown_alone():
    rows = small_rows(1, n=60, n_classes=3)
    pairs = [(alpha, beta) for alpha in (0.5, 1.1, 2.0, 6.0) for beta in (1.0, 4.0, 8.0)]
    together = TsallisTrees(rows, pairs, 4, 11).grow()
    assert len({grown.split for grown in together.values()}) > 1
    for place, pair in enumerate(pairs):
        assert TsallisTrees(rows, [pair], 4, 11).grow()[0] == together[place]
        assert (
            training_errors(SingleTree(together[place].split, rows), rows) == together[place].errors
        )


def test_first_best_pair_is_chosen():
    rows = small_rows(2, n=60, n_classes=3)
    pairs = [(alpha, beta) for alpha in (0.5, 2.0, 6.0) for beta in (1.0, 8.0)]
    trees = TsallisTrees(rows, pairs, 3, 11).grow()
    errors = [trees[place].errors for place in range(len(pairs))]
    chosen = fit_tsallis(rows, 1, alphas=(0.5, 2.0, 6.0), betas=(1.0, 8.0), depth=3, min_split=11)
    first = SingleTree(trees[errors.index(min(errors))].split, rows)
    np.testing.assert_array_equal(chosen.predict_proba(rows.X), first.predict_proba(rows.X))


def test_small_nodes_stay_leaves():
    rows = small_rows(3, n=10)
    assert TsallisTrees(rows, [(2.0, 1.0)], 5, 11).grow()[0].split is None
    assert TsallisTrees(rows, [(2.0, 1.0)], 5, 10).grow()[0].split is not None
