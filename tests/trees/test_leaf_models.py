"""Leaf models: marginals and predictions against integrals, and a model of one's own."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import gammaln
from thoroughness import examples

from dtgfn.data.targets import check_numbers
from dtgfn.inference.infer import infer
from dtgfn.trees.custom_leaf import CustomLeaf
from dtgfn.trees.leaf_models import (
    DirichletLeaf,
    NormalLeaf,
    add_row,
    fit_dirichlet,
    fit_normal,
    log_marginal,
    row_mass,
    write_outputs,
)

numbers = st.floats(-3, 3).map(lambda value: round(value, 3))
normal_leaves = st.builds(
    NormalLeaf,
    strength=st.sampled_from([0.01, 0.1, 2.0]),
    shape=st.sampled_from([1.1, 1.5, 4.0]),
    spread=st.sampled_from([0.01, 0.25, 3.0]),
)
slow_start = examples(40)


def sums_of(leaf, target, weight=None):
    weight = np.ones(len(target)) if weight is None else weight
    sums = np.zeros(leaf.n_sums)
    for value, w in zip(target, weight, strict=True):
        add_row(sums, value, w, leaf.terms())
    return sums


def predictive(leaf, seen):
    """Student t of the next number: the textbook's update, row by row."""
    n = len(seen)
    mean = sum(seen) / (leaf.strength + n)
    spread = leaf.spread + 0.5 * (sum(z * z for z in seen) - (leaf.strength + n) * mean**2)
    shape = leaf.shape + n / 2
    width = math.sqrt(spread * (leaf.strength + n + 1) / (shape * (leaf.strength + n)))
    return stats.t(2 * shape, mean, width)


@slow_start
@given(normal_leaves, st.lists(numbers, min_size=1, max_size=8))
def test_normal_marginal_is_a_product_of_predictive_densities(leaf, z):
    expected = sum(predictive(leaf, z[:i]).logpdf(value) for i, value in enumerate(z))
    value = log_marginal(sums_of(leaf, z), leaf.terms())
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@slow_start
@given(normal_leaves, st.lists(numbers, min_size=1, max_size=8))
def test_normal_outputs_are_moments_of_the_predictive_distribution(leaf, z):
    out = np.zeros(leaf.n_outputs)
    write_outputs(sums_of(leaf, z), leaf.terms(), out)
    expected = predictive(leaf, z)
    np.testing.assert_allclose(out[:2], [1.0, expected.mean()], rtol=1e-9, atol=1e-9)
    assert out[3] - out[1] ** 2 == pytest.approx(expected.var(), rel=1e-8)
    rows = leaf.strength + len(z)
    assert out[2] * (rows + 1) / rows == pytest.approx(expected.var(), rel=1e-8)


def test_normal_marginal_is_the_integral_over_mean_and_variance():
    leaf, z = NormalLeaf(strength=0.5, shape=2.0, spread=0.7), [0.3, -1.0, 0.4]

    def normal(value, mean, variance):
        return math.exp(-((value - mean) ** 2) / (2 * variance)) / math.sqrt(math.tau * variance)

    def integrand(mean, variance):
        likelihood = math.prod(normal(value, mean, variance) for value in z)
        of_variance = leaf.spread**leaf.shape / math.gamma(leaf.shape)
        of_variance *= variance ** (-leaf.shape - 1) * math.exp(-leaf.spread / variance)
        return likelihood * normal(mean, 0.0, variance / leaf.strength) * of_variance

    expected, _ = integrate.dblquad(integrand, 1e-4, 60.0, -20.0, 20.0)
    value = math.exp(log_marginal(sums_of(leaf, z), leaf.terms()))
    assert value == pytest.approx(expected, rel=1e-3)


def test_a_scale_costs_every_row_its_logarithm():
    z = [0.3, -1.0, 0.4]
    plain, scaled = NormalLeaf(), NormalLeaf(scale=5.0)
    lost = log_marginal(sums_of(plain, z), plain.terms())
    lost -= log_marginal(sums_of(scaled, z), scaled.terms())
    assert lost == pytest.approx(3 * math.log(5.0))


@pytest.mark.parametrize("leaf", [DirichletLeaf(3, 0.3), NormalLeaf()])
def test_whole_weights_count_as_rows_and_may_be_tabulated(leaf):
    target, weight = [2, 0, 1], np.array([3.0, 1.0, 2.0])
    sums = sums_of(leaf, target, weight)
    np.testing.assert_allclose(sums, sums_of(leaf, np.repeat(target, [3, 1, 2])))
    cached, computed = leaf.terms(weight), leaf.terms()
    assert cached.gammas.shape[-1] == 7
    assert computed.gammas.shape[-1] == leaf.terms(np.array([0.5])).gammas.shape[-1] == 0
    assert log_marginal(sums, cached) == pytest.approx(log_marginal(sums, computed), rel=1e-11)
    assert row_mass(sums, cached) == 6.0


def test_dirichlet_table_holds_log_gammas():
    table = DirichletLeaf(3, 0.3).terms(np.array([2.0, 100.0, 3.0])).gammas
    np.testing.assert_allclose(table[0], gammaln(np.arange(106) + 0.3) - gammaln(0.3))


def test_the_normal_leaf_takes_its_scale_from_the_target():
    y, weight = np.array([1.0, 5.0, 9.0]), np.array([1.0, 2.0, 1.0])
    leaf = fit_normal(NormalLeaf(), y, weight)
    assert (leaf.location, leaf.scale) == pytest.approx((5.0, math.sqrt(8.0)))
    assert fit_normal(NormalLeaf(), np.full(3, 7.0), weight).scale == 1.0


@pytest.mark.parametrize("value", [0, -0.1, math.inf, math.nan, "1", None, True, 1j])
def test_concentration_must_be_in_range(value):
    with pytest.raises(ValueError, match="give a number from") as error:
        fit_dirichlet(DirichletLeaf(1, value), np.arange(2))
    assert f"leaf_concentration={value!r}" in str(error.value)


@pytest.mark.parametrize(
    ("leaf", "name"),
    [
        (NormalLeaf(strength=0.0), "mean_strength"),
        (NormalLeaf(shape=1.0), "noise_shape"),
        (NormalLeaf(spread=-1.0), "noise_spread"),
    ],
)
def test_normal_priors_must_be_in_range(leaf, name):
    with pytest.raises(ValueError, match=f"{name}=.*give a number from"):
        fit_normal(leaf, np.arange(3.0), np.ones(3))


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (["red", "blue"], "'red', which is not a number; use DTGFNClassifier"),
        ([1.0, math.nan], "NaN: row 1"),
        ([math.inf, 1.0], "infinity in row 0"),
        ([1e200, 1.0], "1e\\+200.*rescale"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(y, said):
    with pytest.raises(ValueError, match=said):
        check_numbers(np.array(y))


def add_count(sums, target, weight, numbers):
    sums[0] += weight
    sums[1] += weight * target


def count_marginal(sums, numbers):
    shape, rate = numbers[0] + sums[1], numbers[1] + sums[0]
    prior = numbers[0] * math.log(numbers[1]) - math.lgamma(numbers[0])
    return prior + math.lgamma(shape) - shape * math.log(rate)


def count_outputs(sums, numbers, out):
    out[0] = (numbers[0] + sums[1]) / (numbers[1] + sums[0])


def count_mass(sums, numbers):
    return sums[0]


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(60, 2)).astype(float)
    return X, rng.poisson(np.where(X[:, 0] > 1.5, 9.0, 1.0))


def poisson(shape=1.0):
    functions = (add_count, count_marginal, count_outputs, count_mass)
    return CustomLeaf(2, 1, *functions, numbers=(shape, 1.0))


@pytest.mark.long  # compiles every loop for this leaf; its quick relative is below
def test_a_leaf_model_of_ones_own_works(counts):
    X, y = counts
    settings = {"leaf": poisson(), "max_depth": 2, "n_thresholds": 3, "random_state": 0}
    posterior = infer(X, y, engine="exact", **settings)
    assert posterior.best_tree.feature[0, 0] == 0
    low, high = posterior.solution.average(np.array([[0, 0], [3, 0]], dtype=np.uint16))
    assert low[0] == pytest.approx(1.0, abs=0.5)
    assert high[0] == pytest.approx(9.0, abs=1.0)
    smc = infer(X, y, engine="smc", n_sweeps=20, **settings)
    assert smc.mean_splits == pytest.approx(posterior.mean_splits, abs=0.2)


def test_the_prior_of_a_leaf_of_ones_own_matters_and_names_it(counts):
    X, y = counts
    settings = {"engine": "exact", "max_depth": 0, "n_thresholds": 3}
    ours, theirs = (infer(X, y, leaf=poisson(shape), **settings) for shape in (1.0, 9.0))
    assert ours.log_evidence != theirs.log_evidence
    assert repr(poisson()) == repr(poisson()) != repr(poisson(2.0))
