"""What ArviZ is given: chains by draws, and its own numbers agree with ours."""

import sys

import numpy as np
import pytest
from random_posterior import make_posterior
from sklearn.datasets import load_iris

from dtgfn import DTGFNClassifier, DTGFNRegressor, SumPredictor, infer

arviz = pytest.importorskip("arviz", reason="arviz is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
X, Y = load_iris(return_X_y=True, as_frame=True)
SUM = {"n_summed": 5, "n_chains": 3, "n_sweeps": 20, "n_draws": 12}


def test_chains_of_mcmc_are_told_apart():
    posterior = infer(
        X, Y, engine="mcmc", max_depth=2, n_thresholds=9, n_trees=202, n_steps=4000, random_state=0
    )
    data = posterior.to_arviz().posterior
    assert dict(data.sizes) == {"chain": 4, "draw": 50, "column": 4}
    assert data["column"].values.tolist() == list(X.columns)
    # 202 trees of four chains: 51, 51, 50, 50
    reward = posterior.log_reward
    for chain, first in enumerate((0, 51, 102, 152)):
        part = slice(first, first + 50)
        np.testing.assert_array_equal(data["log_reward"].values[chain], reward[part])
        np.testing.assert_array_equal(data["n_splits"][chain], posterior.trees.n_splits[part])
    assert np.abs(data["uses"].mean(("chain", "draw")) - posterior.column_inclusion).max() < 0.02
    assert float(arviz.rhat(data[["log_reward"]])["log_reward"]) > 0.9


def test_independent_draws_are_one_chain_and_weighted_ones_refused():
    posterior = infer(X, Y, engine="exact", max_depth=1, n_thresholds=3, n_trees=30)
    assert dict(posterior.to_arviz().posterior.sizes) == {"chain": 1, "draw": 30, "column": 4}
    with pytest.raises(ValueError, match=r"The draws of random are weighted, .* 'mcmc' or 'exact'"):
        make_posterior(X, Y.to_numpy()).to_arviz()
    bags = DTGFNClassifier(ensemble="bags", max_depth=1, options={"n_bags": 2}).fit(X, Y)
    with pytest.raises(ValueError, match="Bags are many posteriors"):
        bags.posterior_.to_arviz()


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_sums_are_what_they_predict(kind):
    y = {"two": Y > 0, "three": Y, "numbers": X["sepal width (cm)"]}[kind]
    estimator = DTGFNRegressor if kind == "numbers" else DTGFNClassifier
    posterior = estimator(ensemble="sum", random_state=0, options=SUM).fit(X, y).posterior_
    data = posterior.to_arviz().posterior
    assert (data.sizes["chain"], data.sizes["draw"]) == (3, 4)
    assert data["column_use"].sum("column").values == pytest.approx(np.ones((3, 4)))
    predictor = SumPredictor(posterior)
    average = predictor.average_sums(posterior.rows.codes)
    sums = data["sums"].mean(("chain", "draw")).values
    if kind == "numbers":
        sums = posterior.leaf.location + posterior.leaf.scale * sums
        noise = float((data["noise"] ** 2).mean())
        assert noise == pytest.approx(predictor.moments(posterior.rows.codes)[1].noise[0])
    np.testing.assert_allclose(sums, average if kind == "three" else average[:, 0])
    assert ("class" in data.dims) == (kind == "three")


def test_without_arviz_its_extra_is_named(monkeypatch):
    posterior = infer(X, Y, engine="exact", max_depth=1, n_thresholds=3, n_trees=3)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'dtgfn\[arviz\]'"):
        posterior.to_arviz()
