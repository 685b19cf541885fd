"""Further Bayesian trees: which figure of the paper stands beside which row, and drawn trees."""

import numpy as np
import pytest
from dtgfn_bench import drawn_trees
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments.bayesian_trees import EXPERIMENT, cells
from dtgfn_bench.ours.classifiers import fit_default
from sklearn.datasets import load_iris


def rows_of(records):
    blocks = EXPERIMENT.render(records)
    return {row[0]: row[1:] for row in blocks[1].rows}


def test_printed_figures_stand_beside_drawn_trees_of_samplers_and_the_mixture():
    metrics = {"accuracy": 0.9, "draw_accuracy": 0.8, "size": 5.0, "fit_cpu_seconds": 1.0}
    records = [Record(cell, "key", {}, "done", metrics) for cell in cells(False)]
    shown = rows_of(records)
    assert shown["HMC-DF, one drawn tree"][0].startswith("0.800 ± 0.000\npaper 0.906")
    assert shown["HMC-DF, average"][0].startswith("**0.900** ± 0.000\n5.0")
    assert "paper 0.911" in shown["DCC-Tree, cut to a fifth of its search"][0]
    assert "paper 0.916" in shown["BCART, one drawn tree"][1]
    assert not any("paper" in cell for cell in shown["BCART, average"])
    assert shown["DT-GFN, as printed"][0] == "paper 0.977"


def test_every_method_has_five_seeds_on_both_readings():
    found = cells(False)
    assert len(found) == len({str(cell) for cell in found}) == 12 * 4 * 2 * 5


@pytest.mark.parametrize("weighting", ["importance", "uniform"])
def test_the_accuracy_of_a_drawn_tree_is_the_mean_of_trees_asked_one_by_one(weighting):
    X, y = load_iris(return_X_y=True)
    rows = TrainingRows(X[::2], y[::2].astype(np.int64), 3, "iris")
    fitted = fit_default(
        rows, 0, max_depth=2, n_thresholds=9, inference="smc", n_trees=20, weighting=weighting
    )
    posterior = fitted.model.posterior_
    codes = posterior.encode(X[1::2])
    right = []
    for b in range(20):
        one = posterior.trees[[b]]
        leaf = drawn_trees.route(one, codes)[0]
        home = drawn_trees.route(one, posterior.rows.codes)[0]
        votes = [np.bincount(rows.y[home == at], minlength=3).argmax() for at in leaf]
        right.append((votes == y[1::2]).mean())
    weights = posterior.weights if weighting == "importance" else np.full(20, 1 / 20)
    expected = weights @ right
    got = drawn_trees.draw_accuracy(fitted, X[1::2], y[1::2])
    assert got == pytest.approx(expected)
    assert drawn_trees.draw_accuracy(object(), X, y) is None
