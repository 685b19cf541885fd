"""Plots of sums of trees: what is about columns is drawn, what is about single trees is refused."""

import numpy as np
import pytest

from dtgfn import DTGFNClassifier, DTGFNRegressor, plots

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
figure = pytest.importorskip("matplotlib.figure")
FEW = {"n_summed": 4, "n_chains": 2, "n_sweeps": 12, "n_draws": 8}
SUM = {"ensemble": "sum", "options": FEW, "random_state": 0, "n_thresholds": 9}
X = np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture(scope="module")
def models():
    classes = np.where(X[:, 0] > 0.5, "high", np.where(X[:, 0] > -0.5, "middle", "low"))
    return DTGFNClassifier(**SUM).fit(X, classes), DTGFNRegressor(**SUM).fit(X, X[:, 0])


def axes():
    return figure.Figure().subplots()


def test_importances_are_drawn(models):
    for model in models:
        ax = plots.plot_importances(model, measure="gain", ax=axes())
        assert ax.get_xlabel() == "variance that its splits make, 90% interval"
        assert [label.get_text() for label in ax.get_yticklabels()] == ["x0", "x1"]


def test_dependence_is_drawn(models):
    classifier, regressor = models
    ax = plots.plot_dependence(classifier, 0, ax=axes())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "P(class)")
    ax = plots.plot_dependence(classifier, "x1", of="low", ax=axes())
    assert ax.get_ylabel() == "P(low)"
    ax = plots.plot_dependence(regressor.posterior_, "x0", ax=axes())
    assert ax.get_ylabel() == "prediction"


@pytest.mark.parametrize("name", ["plot_tree", "plot_sizes", "plot_history", "plot_forest"])
def test_single_trees_are_refused(models, name):
    with pytest.raises(TypeError, match="A sum of trees has no single tree; use importances"):
        getattr(plots, name)(models[0])
