"""DPDT: its greedy cuts, its optimum over the proposed tests, and CART as a special case."""

from __future__ import annotations

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals.cuts import all_cuts, impurity_left
from dtgfn_bench.rivals.dpdt import Planner, fit_dpdt
from single_rows import small_rows, training_errors
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.tree import DecisionTreeClassifier


@pytest.mark.parametrize("seed", range(10))
def test_greedy_cut_has_the_least_entropy(seed):
    rows = small_rows(seed, n_classes=3)
    index = np.flatnonzero(np.random.default_rng(seed).random(40) < 0.6)
    cuts = all_cuts(rows.X[index], rows.y[index], 3)
    loss = impurity_left(cuts, 1.0, np.ones(1))[0]
    best = int(np.flatnonzero(loss < loss.min() + 1e-9)[0])
    greedy = Planner(rows, (1,), 0.0).greedy(index)
    assert (greedy.feature, greedy.threshold) == (cuts.feature[best], cuts.threshold[best])
    below = rows.X[index, greedy.feature] <= greedy.threshold
    np.testing.assert_array_equal(greedy.below, index[below])
    np.testing.assert_array_equal(greedy.above, index[~below])


def exhaustive(planner: Planner, index, depth: int) -> float:
    """The least cost over all plans, without memory or bounds."""
    y = planner.rows.y[index]
    costs = [len(y) - np.bincount(y).max()]
    if depth < len(planner.generator_depths):
        for feature, threshold in planner.proposals(index, planner.generator_depths[depth]):
            below = planner.rows.X[index, feature] <= threshold
            sides = [exhaustive(planner, side, depth + 1) for side in (index[below], index[~below])]
            costs.append(planner.zeta * len(y) + sum(sides))
    return min(costs)


@pytest.mark.parametrize("zeta", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_plan_is_the_best_of_all(seed, zeta):
    rows = small_rows(seed, n=30)
    planner = Planner(rows, (3, 2, 1), zeta)
    everyone = np.arange(30)
    assert planner.plan(everyone).cost == pytest.approx(exhaustive(planner, everyone, 0))


def test_cost_of_a_plan_is_its_errors_and_tests():
    rows = small_rows(7, n=60)
    free = fit_dpdt(rows, 1, generator_depths=(4, 4, 1), zeta=0.0)
    cost = Planner(rows, (4, 4, 1), 0.0).plan(np.arange(60)).cost
    assert training_errors(free, rows) == cost
    assert fit_dpdt(rows, 1, generator_depths=(4, 4, 1), zeta=0.99).size() == 1


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_never_worse_than_cart_on_training_rows(load):
    X, y = load(return_X_y=True)
    rows = TrainingRows(X, y.astype(np.int64), int(y.max()) + 1, "table")
    cart = DecisionTreeClassifier(criterion="entropy", max_depth=4, random_state=0).fit(X, y)
    errors = round((1 - cart.score(X, y)) * len(y))
    own_cart = fit_dpdt(rows, 1, generator_depths=(1, 1, 1, 1), zeta=0.0)
    planned = fit_dpdt(rows, 1, generator_depths=(4, 2, 1, 1), zeta=0.0)
    assert training_errors(planned, rows) <= training_errors(own_cart, rows)
    assert training_errors(planned, rows) <= errors


def test_parity_is_learned():
    # Entropy sees nothing in the first test of a parity: only looking ahead shows its worth.
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5, float)
    rows = TrainingRows(corners, (corners.sum(axis=1) % 2).astype(np.int64), 2, "parity")
    assert training_errors(fit_dpdt(rows, 1, generator_depths=(2, 1), zeta=0.0), rows) == 0
