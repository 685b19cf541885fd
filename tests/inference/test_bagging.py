"""The bagged posterior: where its trees come from, and what it says of rows it did not see."""

import json
import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from enumeration import Case, Enumeration
from keyword_engines import infer_exact
from scipy.special import entr
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtgfn import DTGFNClassifier
from dtgfn.engines import Run, find_engine
from dtgfn.engines.exact.engine import ExactEngine
from dtgfn.explain.tree_set import take_trees
from dtgfn.inference.bagging import Bags, infer_bagged, out_of_bag
from dtgfn.inference.outside import best_power
from dtgfn.inference.resampling import BagOptions
from dtgfn.posterior.prediction import Predictor, average_outputs, average_trees, sharpened
from dtgfn.posterior.uncertainty import credible_interval, uncertainty
from dtgfn.trees.batch import canonical_keys, node_sums, route

RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 5, (40, 6)).astype(np.uint16)
LABELS = (CODES[:, 0] + CODES[:, 3] > 4).astype(np.int64)
CASE = Case(CODES, LABELS, 2, max_depth=2, column=(0, 0, 1, 2, 3, 3))
SMALL = {"n_trees": 20, "n_thresholds": 7, "max_depth": 2, "random_state": 0, "n_jobs": 1}


class Watched(ExactEngine):
    """The exact engine, which notes something of every call."""

    def __init__(self, note) -> None:
        super().__init__()
        object.__setattr__(self, "note", note)

    def infer(self, rows, score, run, options):
        self.note(rows, score)
        return super().infer(rows, score, run, options)


def bag(case=CASE, engine="exact", **options):
    given = {"n_bags": 8, "n_trees": 80, "random_state": 0, **options}
    engine = find_engine(engine) if isinstance(engine, str) else engine
    of_bags = {name: given.pop(name) for name in ("n_bags", "column_share") if name in given}
    own = {name: given.pop(name) for name in engine.option_names if name in given}
    run = Run(column=case.columns, n_columns=case.n_columns, **given)
    options = engine.read_options(own)
    return infer_bagged(engine, case.rows, case.score, run, options, BagOptions(**of_bags))


def bagged(n_bags, **changes):
    few = {"n_bags": n_bags}
    return DTGFNClassifier(inference="smc", ensemble="bags", options=few, **SMALL, **changes)


def test_trees_of_a_bag_split_on_its_columns_only():
    posterior = bag(column_share=0.5)
    bags = posterior.solution
    assert isinstance(bags, Bags)
    used = [set() for _ in range(8)]
    for b, tree in zip(bags.bag, posterior.trees.feature, strict=True):
        used[b] |= {CASE.column[f] for f in tree if f >= 0}
    assert max(map(len, used)) <= 2
    assert len(set.union(*used)) > 2


def test_bags_share_the_trees_and_hold_as_many_rows_as_there_are():
    bags = bag(n_trees=83).solution
    assert np.bincount(bags.bag).tolist() == [10, 10, 11, 10, 10, 11, 10, 11]
    assert (bags.copies.sum(axis=1) == 40).all()
    assert len(set(map(bytes, bags.copies))) == 8


def test_every_leaf_holds_training_rows():
    posterior = bag(engine="smc", n_particles=20, n_sweeps=1)
    assert np.isfinite(posterior.log_reward).all()
    rows, leaf = CASE.rows, CASE.score.leaf
    _, n_rows = node_sums(posterior.trees, rows.codes, rows.target, rows.weight, leaf)
    reached = route(posterior.trees, CASE.rows.codes)
    assert (np.take_along_axis(n_rows, reached, axis=1) > 0).all()


def test_each_bag_is_the_posterior_of_its_rows():
    """With all columns, frequencies of trees in a bag are their probabilities given its rows."""
    case = Case(CODES[:12, :2], LABELS[:12], 2, max_depth=1)
    posterior = bag(case, n_bags=2, n_trees=8000, column_share=1.0)
    bags = posterior.solution
    for b in range(2):
        copies = bags.copies[b]
        inside = copies > 0
        mine = case.but(codes=case.codes[inside], labels=case.labels[inside], weight=copies[inside])
        listed = Enumeration(mine)
        by_splits = np.bincount(posterior.trees[bags.bag == b].n_splits, minlength=2) / 4000
        np.testing.assert_allclose(by_splits, listed.size_probability, atol=0.04)


def test_fewer_columns_pay_less_for_a_split():
    seen = []
    engine = Watched(lambda rows, score: seen.append(score.prior.penalty))
    bag(engine=engine, column_share=0.5)
    assert seen[0] == pytest.approx(CASE.score.prior.penalty - math.log(2))


def test_out_of_bag_is_the_average_of_trees_that_never_saw_the_row():
    posterior = bag()
    bags = posterior.solution
    found = out_of_bag(posterior)
    everyone = np.arange(40)
    for i in (0, 7, 23):
        blind = bags.copies[bags.bag, i] == 0
        others = everyone != i
        leaf = route(posterior.trees[blind], CASE.rows.codes)
        told = []
        for at in leaf:
            together = others & (at == at[i])
            same = (LABELS[together] == LABELS[i]).sum()
            told.append((same + 0.1) / (together.sum() + 0.2))
        right, wrong = np.mean(told) ** bags.sharpness, (1 - np.mean(told)) ** bags.sharpness
        assert found.log_prob[i] == pytest.approx(math.log(right / (right + wrong)))
        assert found.effective[i] == pytest.approx(blind.mean())
    assert posterior.diagnostics["out_of_bag_log_score"] == pytest.approx(found.score)


def test_the_best_sharpness_mends_what_was_blunted():
    rng = np.random.default_rng(3)
    truth = rng.dirichlet([0.5, 0.5, 0.5], 20_000)
    target = np.array([rng.choice(3, p=p) for p in truth], dtype=np.int32)
    blunt = sharpened(truth, 0.4)
    assert best_power(blunt, target, np.ones(20_000)) == pytest.approx(2.5, rel=0.05)
    assert best_power(blunt[:0], target[:0], np.ones(0)) == 1.0


@pytest.mark.parametrize("weighting", ["importance", "uniform"])
def test_predictions_are_the_sharpened_average(weighting):
    posterior = bag()
    bags = posterior.solution
    assert bags.sharpness != 1
    even = np.full(len(posterior.trees), 1 / len(posterior.trees))
    plain = average_trees(posterior.trees, even, CASE.rows, CASE.score, CODES)
    told = average_outputs(posterior, CODES, weighting=weighting)
    np.testing.assert_allclose(told, sharpened(plain, bags.sharpness))
    assert (told.argmax(axis=1) == plain.argmax(axis=1)).all()


@pytest.mark.parametrize(
    "choice", [{"tree": "best"}, {"weighting": "posterior"}, {"leaf": "dirichlet"}]
)
def test_one_tree_and_other_weights_are_not_sharpened(choice):
    posterior = bag()
    blunt = replace(posterior, solution=replace(posterior.solution, sharpness=1.0))
    told, plain = (average_outputs(p, CODES, random_state=1, **choice) for p in (posterior, blunt))
    np.testing.assert_array_equal(told, plain)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.4])
def test_uncertainty_is_the_entropy_of_what_is_predicted(power):
    posterior = bag()
    posterior = replace(posterior, solution=replace(posterior.solution, sharpness=power))
    blunt = replace(posterior, solution=replace(posterior.solution, sharpness=1.0))
    found, plain = (uncertainty(Predictor(p), CODES) for p in (posterior, blunt))
    entropy = entr(average_outputs(posterior, CODES)).sum(axis=1)
    np.testing.assert_allclose(found.total, entropy)
    assert (found.total == found.noise + found.model).all()
    assert min(found.noise.min(), found.model.min()) >= 0
    np.testing.assert_allclose(found.noise / found.total, plain.noise / plain.total)


def test_the_parts_are_zero_where_nothing_is_uncertain():
    case = Case(CODES, np.zeros(40, np.int64), 1, max_depth=2)
    posterior = bag(case)
    posterior = replace(posterior, solution=replace(posterior.solution, sharpness=2.0))
    found = uncertainty(Predictor(posterior), CODES)
    assert not np.stack([found.total, found.noise, found.model]).any()


def test_intervals_are_of_the_probabilities_before_sharpening():
    posterior = bag()
    blunt = replace(posterior, solution=replace(posterior.solution, sharpness=1.0))
    found, plain = (credible_interval(Predictor(p), CODES) for p in (posterior, blunt))
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("weighting", ["importance", "uniform"])
def test_the_estimator_says_what_its_posterior_says(weighting):
    model = bagged(5, weighting=weighting)
    model.fit(CODES.astype(float), LABELS)
    told = model.predict_proba(CODES.astype(float))
    codes = model.posterior_.rows.codes
    np.testing.assert_allclose(told, average_outputs(model.posterior_, codes))
    np.testing.assert_allclose(take_trees(model, "all").average(CODES.astype(float)), told)
    entropy = entr(told).sum(axis=1)
    np.testing.assert_allclose(model.predict_uncertainty(CODES.astype(float)).total, entropy)


def test_a_row_in_every_bag_has_no_weight():
    posterior = bag(n_bags=2, n_trees=4)
    bags = posterior.solution
    always = (bags.copies > 0).all(axis=0)
    assert always.any()
    found = out_of_bag(posterior)
    assert (found.weight[always] == 0).all()
    assert found.score == pytest.approx(found.log_prob[~always].mean())


def test_the_same_seed_gives_the_same_trees_and_more_can_be_drawn():
    first, second = bag(), bag()
    assert canonical_keys(first.trees) == canonical_keys(second.trees)
    more = first.solution.sample(200, np.random.default_rng(0))
    assert set(canonical_keys(more)) <= set(canonical_keys(first.trees))


def test_constant_columns_are_not_counted_and_a_constant_table_works():
    case = Case(np.zeros((10, 2), np.uint16), np.arange(10) % 2, 2, max_depth=2)
    posterior = bag(case)
    assert posterior.trees.n_splits.max() == 0


def test_bags_hold_as_many_rows_as_there_is_weight():
    light = bag(CASE.but(weight=np.full(40, 0.25)))
    heavy = bag(CASE.but(weight=np.full(40, 20.0)))
    assert (light.solution.copies.sum(axis=1) == 10).all()
    assert (heavy.solution.copies.sum(axis=1) == 800).all()
    assert light.mean_splits < heavy.mean_splits


def test_a_bag_weighs_what_all_rows_do():
    seen = []
    engine = Watched(lambda rows, score: seen.append(rows.weight.sum()))
    for weight in (0.001, 0.33, 1.0, 1.49):
        seen.clear()
        bag(CASE.but(weight=np.full(40, weight)), engine, n_bags=3, n_trees=3)
        np.testing.assert_allclose(seen, 40 * weight)


def test_a_row_of_weight_three_counts_as_three_rows():
    """In distribution: which bags come of a seed depends on how the rows are written down."""
    noisy = LABELS ^ (np.arange(40) % 7 == 0)
    times = np.arange(40) % 3 + 1
    once = CASE.but(labels=noisy, weight=times.astype(float), max_depth=1)
    thrice = CASE.but(
        codes=np.repeat(CODES, times, axis=0),
        labels=np.repeat(noisy, times),
        weight=np.ones(times.sum()),
        max_depth=1,
    )
    weighted, repeated = (bag(case, n_bags=250, n_trees=250) for case in (once, thrice))
    for posterior in (weighted, repeated):
        assert (posterior.solution.copies.sum(axis=1) == times.sum()).all()
    near = {"atol": 0.12}
    np.testing.assert_allclose(weighted.column_inclusion, repeated.column_inclusion, **near)
    told, again = (average_outputs(posterior, CODES) for posterior in (weighted, repeated))
    np.testing.assert_allclose(told, again, **near)
    of_weighted, of_repeated = out_of_bag(weighted), out_of_bag(repeated)
    assert of_weighted.score == pytest.approx(of_repeated.score, abs=0.05)
    assert of_weighted.effective.mean() == pytest.approx(math.exp(-1), abs=0.03)
    assert of_repeated.effective.mean() == pytest.approx(math.exp(-1), abs=0.03)


def _reasons(_):
    reason = (
        "Bags are drawn at random: tables that say the same in weights and in repeated rows "
        "draw different bags from one seed, and agree in distribution (tested above)."
    )
    return {f"check_sample_weight_equivalence_on_{k}_data": reason for k in ("dense", "sparse")}


@pytest.mark.long
@parametrize_with_checks(
    [
        DTGFNClassifier(
            inference="smc",
            ensemble="bags",
            options={"n_bags": 10, "n_particles": 10, "n_sweeps": 1},
            **SMALL,
        )
    ],
    expected_failed_checks=_reasons,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_no_row_out_of_bag_is_no_score():
    model = bagged(4).fit([[1.0]], [0])
    told = model.posterior_.diagnostics
    assert told["out_of_bag_log_score"] is None
    assert told["sharpness"] == 1.0
    json.dumps(told, allow_nan=False)
    assert out_of_bag(model.posterior_).score == 0.0  # an even guess of one class
    assert model.predict_proba([[2.0]]) == pytest.approx(1.0)


def test_no_row_out_of_bag_leaves_the_temperature_alone():
    model = bagged(4, temperature="auto")
    assert model.fit([[1.0]], [0]).temperature_ == 1.0


def test_a_share_of_columns_may_be_a_list():
    listed, paired = bag(column_share=[0.5, 1.0]), bag(column_share=(0.5, 1.0))
    assert canonical_keys(listed.trees) == canonical_keys(paired.trees)


def test_bags_are_averaged_like_any_sampled_trees():
    """So with the threads that were asked for, and with nothing kept but by the estimator."""
    posterior = bag()
    assert not Predictor(posterior).knows_average
    one, two = (average_outputs(posterior, CODES, n_jobs=n) for n in (1, 2))
    np.testing.assert_allclose(one, two)
    assert set(vars(posterior.solution)) == {f.name for f in fields(Bags)}


def test_predicting_makes_no_pickle_larger():
    model = bagged(5).fit(CODES.astype(float), LABELS)
    before = len(pickle.dumps(model))
    told = model.predict_proba(CODES.astype(float))
    average_outputs(model.posterior_, model.posterior_.rows.codes)
    assert len(pickle.dumps(model)) == before
    assert model.posterior_.solution.copies.dtype == np.uint8
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(CODES.astype(float)), told)


def test_many_copies_of_a_row_are_counted_in_full():
    heavy = bag(CASE.but(weight=np.array([1000.0, *np.ones(39)])), n_bags=2, n_trees=2)
    assert heavy.solution.copies.dtype == np.uint16
    assert (heavy.solution.copies.sum(axis=1) == 1039).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bags": 1}, "n_bags=1 is out of range"),
        ({"column_share": 0.0}, "column_share=0.0 is out of range"),
        ({"column_share": 1.5}, "column_share=1.5 is out of range"),
        ({"column_share": (0.8, 0.2)}, "two such, ascending"),
        ({"column_share": [0.2]}, "two such, ascending"),
        ({"column_share": "half"}, "column_share='half' is out of range"),
        ({"n_trees": 1}, "n_trees=1 leaves nothing to average"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        bag(**options)


def test_a_posterior_without_bags_is_refused():
    posterior = infer_exact(CASE.rows, CASE.score, column=CASE.columns, n_columns=4, n_trees=5)
    with pytest.raises(ValueError, match="not bagged"):
        out_of_bag(posterior)
