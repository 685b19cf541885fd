"""Bags of numbers: what is said of rows out of bag, how sharp, and that all doors say the same."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtgfn import DTGFNRegressor, load, save
from dtgfn.engines import Run, find_engine
from dtgfn.explain.tree_set import take_trees
from dtgfn.inference import outside
from dtgfn.inference.bagging import infer_bagged, out_of_bag
from dtgfn.inference.resampling import BagOptions
from dtgfn.posterior.prediction import Predictor, average_trees
from dtgfn.trees.batch import route
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.score import Rows, make_score

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 5, (40, 4)).astype(np.uint16)
Z = (CODES[:, 0] > 2) + 0.5 * (CODES[:, 1] > 1) + 0.3 * RNG.normal(size=40)
LEAF = NormalLeaf(location=3.0, scale=2.0, strength=0.1, shape=1.5, spread=0.125)
SMALL = {"n_trees": 24, "n_thresholds": 7, "max_depth": 2, "random_state": 0, "n_jobs": 1}
ENGINES = {
    "exact": {},
    "smc": {"n_particles": 20, "n_sweeps": 1},
    "mcmc": {"n_chains": 1, "n_steps": 200},
    "gfn": {"n_steps": 1, "hidden": (4,), "n_evaluate": 4},
}


def bag(weight=None, n_bags=8, n_trees=48, leaf=LEAF):
    rows = Rows(CODES, Z, np.ones(40) if weight is None else weight)
    score = make_score(leaf, n_features=4, n_thresholds=4, max_depth=2)
    engine = find_engine("exact")
    run = Run(column=np.arange(4, dtype=np.int32), n_columns=4, n_trees=n_trees, random_state=0)
    return infer_bagged(engine, rows, score, run, engine.read_options({}), BagOptions(n_bags))


def one_students(z, weight):
    """Predictive distribution of a leaf of rows z [n], by the textbook."""
    n, mean = weight.sum(), weight @ z / (LEAF.strength + weight.sum())
    shape = LEAF.shape + n / 2
    spread = LEAF.spread + 0.5 * (weight @ z**2 - (weight @ z) ** 2 / (LEAF.strength + n))
    width = math.sqrt(spread * (LEAF.strength + n + 1) / (shape * (LEAF.strength + n)))
    return student(2 * shape, mean, width)


def left_out(posterior, i, sharpness):
    """Log density of row i by the trees that never saw it, counted one row at a time."""
    bags, rows = posterior.solution, posterior.rows
    own = min(rows.weight[i], 1.0)
    told = []
    for tree, b in enumerate(bags.bag):
        part = (1 - 1 / max(rows.weight[i], 1.0)) ** bags.copies[b, i]
        leaf = route(posterior.trees[[tree]], CODES)[0]
        weight = np.where(leaf == leaf[i], rows.weight, 0.0)
        weight[i] -= own
        told.append((part, one_students(Z, weight)))
    total = sum(part for part, _ in told)
    mean = sum(part * each.mean() for part, each in told) / total
    at = mean + math.sqrt(sharpness) * (Z[i] - mean)
    density = sum(part * each.pdf(at) for part, each in told) / total
    return math.log(math.sqrt(sharpness) * density / LEAF.scale)


@pytest.mark.parametrize("heavy", [False, True])
def test_out_of_bag_is_the_mixture_of_trees_that_never_saw_the_row(heavy):
    posterior = bag(np.arange(40) % 3 + 0.5 if heavy else None)
    found = out_of_bag(posterior)
    for i in (0, 7, 23, 38):
        expected = left_out(posterior, i, posterior.sharpness)
        assert found.log_prob[i] == pytest.approx(expected, abs=1e-9)
    assert posterior.diagnostics["out_of_bag_log_score"] == pytest.approx(found.score)


def test_the_sharpness_has_the_best_score():
    posterior = bag(n_bags=20, n_trees=100)
    best = posterior.sharpness
    assert abs(best - 1) > 0.01

    def score(sharpness):
        solution = replace(posterior.solution, sharpness=sharpness)
        return out_of_bag(replace(posterior, solution=solution)).score

    assert score(best) > max(score(1.3 * best), score(best / 1.3))


def test_the_best_sharpness_mends_what_was_widened():
    """Two trees agree on a distribution that is three times as wide as the truth."""
    n = 5000
    truth = np.random.default_rng(1).normal(size=n)
    rows = Rows(np.zeros((n, 1), np.uint16), truth, np.ones(n))
    heard = outside.OutsideNumbers(rows, LEAF, 2)
    wide = outside.Students(np.full(2 * n, 1e6), np.zeros(2 * n), np.full(2 * n, 3.0))
    row = np.tile(np.arange(n), 2)
    heard.add(outside.HeardNumbers(row, np.ones(2 * n), wide, 2))
    assert heard.best_sharpness() == pytest.approx(9.0, rel=0.1)


def test_of_a_large_table_some_rows_are_judged(monkeypatch):
    whole = bag()
    monkeypatch.setattr(outside, "MOST_DENSITIES", 20 * 48)
    some = bag()
    np.testing.assert_allclose(out_of_bag(some).weight.size, 20)
    assert some.sharpness == pytest.approx(whole.sharpness, rel=0.5)


def test_sharpness_narrows_about_the_mean():
    posterior = bag()
    power = posterior.sharpness
    even = np.full(len(posterior.trees), 1 / len(posterior.trees))
    plain = average_trees(posterior.trees, even, posterior.rows, posterior.score, CODES)
    told = Predictor(posterior).average(CODES)
    np.testing.assert_allclose(told[:, :2], plain[:, :2])
    np.testing.assert_allclose(told[:, 2], plain[:, 2] / power)
    spread = plain[:, 3] - plain[:, 1] ** 2
    np.testing.assert_allclose(told[:, 3] - told[:, 1] ** 2, spread / power)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3))
    return X, 10 + 4 * (X[:, 0] > 0) + X[:, 1] + rng.normal(size=120)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_every_engine_bags_numbers(table, engine):
    X, y = table
    options = {"n_bags": 4, **ENGINES[engine]}
    model = DTGFNRegressor(
        inference=engine, ensemble="bags", options=options, time_budget=None, **SMALL
    ).fit(X, y)
    assert model.posterior_.n_bags == 4
    assert model.score(X, y) > 0.3


@pytest.fixture(scope="module")
def bagged(table):
    options = {"n_bags": 12, **ENGINES["smc"]}
    return DTGFNRegressor(inference="smc", ensemble="bags", options=options, **SMALL).fit(*table)


def test_deviation_parts_and_intervals_agree(bagged, table):
    X = table[0]
    power = bagged.posterior_.sharpness
    assert abs(power - 1) > 0.02
    blunt = DTGFNRegressor(**bagged.get_params())
    solution = replace(bagged.posterior_.solution, sharpness=1.0)
    blunt._keep(replace(bagged.posterior_, solution=solution))
    blunt.n_features_in_ = 3
    (mean, spread), (same, plain) = (m.predict(X, return_std=True) for m in (bagged, blunt))
    np.testing.assert_allclose(mean, same)
    np.testing.assert_allclose(spread, plain / math.sqrt(power))
    parts, parts_before = (m.predict_uncertainty(X) for m in (bagged, blunt))
    np.testing.assert_allclose(parts.total, parts.noise + parts.model)
    np.testing.assert_allclose(parts.noise / parts.total, parts_before.noise / parts_before.total)
    bounds, before = (m.predict_interval(X, 0.8) for m in (bagged, blunt))
    narrowed = mean[:, None] + (before - mean[:, None]) / math.sqrt(power)
    np.testing.assert_allclose(bounds, narrowed)
    np.testing.assert_array_equal(  # one tree is as it is
        bagged.predict_interval(X, tree="best"), blunt.predict_interval(X, tree="best")
    )


def test_intervals_hold_what_they_promise():
    rng = np.random.default_rng(4)
    X, new = rng.random((400, 4)), rng.random((2000, 4))

    def made(X):
        return np.sin(6 * X[:, 0]) + 2 * X[:, 1] + 0.4 * rng.normal(size=len(X))

    model = DTGFNRegressor(
        inference="smc", ensemble="bags", options={"n_bags": 50}, n_trees=200, random_state=0
    ).fit(X, made(X))
    low, high = model.predict_interval(new, 0.9).T
    y = made(new)
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.05)


def test_a_file_keeps_the_sharpness(bagged, table, tmp_path):
    save(bagged, tmp_path / "bags.dtgfn")
    again = load(tmp_path / "bags.dtgfn")
    X = table[0]
    np.testing.assert_allclose(
        again.predict(X, return_std=True), bagged.predict(X, return_std=True)
    )
    np.testing.assert_allclose(again.predict_interval(X), bagged.predict_interval(X))


@pytest.mark.parametrize("form", ["json", "sklearn", "onnx"])
def test_exports_predict_the_mean(bagged, table, form):
    X, mean = table[0], bagged.predict(table[0])
    assert take_trees(bagged, "all").sharpness == 1
    made = bagged.export(form, trees="all")
    if form == "json":
        from dtgfn.export import from_json

        np.testing.assert_allclose(from_json(made).average(X)[:, 0], mean)
    elif form == "sklearn":
        np.testing.assert_allclose(made.predict(X), mean)
    else:
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(made.SerializeToString())
        np.testing.assert_allclose(session.run(None, {"X": X})[0][:, 0], mean, rtol=1e-5)


def test_bags_of_numbers_cannot_be_streamed(bagged):
    with pytest.raises(AttributeError) as refusal:
        _ = bagged.partial_fit
    assert "ensemble='bags' cannot be streamed" in str(refusal.value.__cause__)


def test_one_row_is_never_out_of_bag():
    options = {"n_bags": 4, **ENGINES["smc"]}
    model = DTGFNRegressor(inference="smc", ensemble="bags", options=options, **SMALL)
    told = model.fit([[1.0]], [5.0]).posterior_
    assert told.diagnostics["out_of_bag_log_score"] is None
    assert told.sharpness == 1.0
    assert math.isfinite(out_of_bag(told).score)


def test_a_leaf_of_ones_own_is_refused():
    own = SimpleNamespace(n_sums=3, n_outputs=4, terms=LEAF.terms)
    with pytest.raises(TypeError, match="neither classes nor numbers; bags leave rows out"):
        bag(leaf=own)


def test_bags_of_numbers_know_all_columns_unless_told():
    assert BagOptions().shares_for(LEAF) == (1.0, 1.0)
    assert BagOptions(column_share=0.5).shares_for(LEAF) == (0.5, 0.5)


@pytest.mark.long
@parametrize_with_checks(
    [
        DTGFNRegressor(
            inference="smc", ensemble="bags", options={"n_bags": 10, **ENGINES["smc"]}, **SMALL
        )
    ],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "Bags are drawn row by row, at random."
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
