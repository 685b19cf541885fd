"""More rows: old trees weighed in closed form, policies carried over, equal answers in the end."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from enumeration import Case
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact, infer_gfn
from sklearn.datasets import load_iris
from thoroughness import examples

import dtgfn
from dtgfn import DTGFNClassifier, DTGFNRegressor
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.data.targets import encode_labels
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.engines.gfn.callbacks import Callback
from dtgfn.inference.extend import (
    append_rows,
    code_batch,
    extend_posterior,
    fewer_trees,
    reweigh,
    sum_rows,
)
from dtgfn.posterior.importance_weights import effective_sample_size
from dtgfn.posterior.prediction import average_outputs
from dtgfn.trees.batch import canonical_keys
from dtgfn.trees.score import Rows, log_reward, merge_rows

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
PARTS = np.array_split(ORDER, 3)
EXACT = {"engine": "exact", "max_depth": 3, "n_thresholds": 9, "n_trees": 200, "random_state": 0}
SMALL = {
    "n_scouts": 2,
    "n_forward": 8,
    "n_replay": 3,
    "evaluate_every": 3,
    "n_evaluate": 20,
    "hidden": (8,),
}


@pytest.fixture(autouse=True)
def _short_runs_may_be_doubtful():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        yield


def first(**changes):
    return dtgfn.infer(X[PARTS[0]], Y[PARTS[0]], **{**EXACT, **changes})


def cold(posterior, engine, **options):
    """The posterior of the same rows and score, from nothing."""
    column = posterior.binner.feature_column.astype(np.int32)
    return engine(posterior.rows, posterior.score, column=column, n_columns=4, n_jobs=1, **options)


def random_case(seed, prior="mdl", temperature=1.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, (30, 3))
    labels = ((codes[:, 0] > 2) ^ (rng.random(30) < 0.2)).astype(int)
    weight = rng.integers(1, 4, 30).astype(float) if seed % 2 else rng.random(30) + 0.1
    return Case(codes, labels, 2, weight, 3, split_penalty=prior, temperature=temperature)


def part(rows, chosen):
    return Rows(rows.codes[chosen], rows.target[chosen], rows.weight[chosen])


# Rows.


def test_equal_rows_are_merged_so_memory_is_bounded_by_distinct_rows():
    rng = np.random.default_rng(0)
    rows = Rows(np.zeros((0, 2), np.uint16), np.zeros(0, np.int32), np.zeros(0))
    for _ in range(50):
        codes = rng.integers(0, 3, (40, 2)).astype(np.uint16)
        rows = append_rows(rows, Rows(codes, rng.integers(0, 2, 40).astype(np.int32), np.ones(40)))
    assert len(rows.weight) <= 9 * 2
    assert rows.weight.sum() == 2000


def test_rows_of_weight_zero_are_absent_and_a_batch_of_them_changes_nothing():
    posterior = first()
    weight = np.zeros(50)
    same = extend_posterior(posterior, X[PARTS[1]], Y[PARTS[1]], sample_weight=weight)
    assert same is posterior
    weight[:7] = 2.0
    more = extend_posterior(posterior, X[PARTS[1]], Y[PARTS[1]], sample_weight=weight)
    assert more.rows.weight.sum() == 50 + 14


def test_cells_that_the_first_rows_did_not_have_fall_on_cuts_that_exist():
    posterior = first()
    odd = X[PARTS[1]].copy()
    odd[0, 0], odd[1, 1], odd[2, 2] = np.nan, 1e6, -1e6
    batch = code_batch(posterior, as_table(odd), Y[PARTS[1]])
    assert (batch.codes <= posterior.binner.n_cuts).all()
    more = extend_posterior(posterior, odd, Y[PARTS[1]])
    trees = more.solution.sample(200, np.random.default_rng(0))
    for feature, cut in zip(trees.feature.ravel(), trees.cut.ravel(), strict=True):
        if feature >= 0:
            more.rule(int(feature), int(cut))


def test_mistakes_are_named_in_a_sentence():
    posterior = first()
    with pytest.raises(ValueError, match=r"the label .*7.* in row 1.*classes= of the first"):
        extend_posterior(posterior, X[:2], np.array([0, 7]))
    with pytest.raises(ValueError, match="X has 3 features"):
        extend_posterior(posterior, X[:2, :3], Y[:2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        extend_posterior(posterior, X[:2], Y[:3])
    with pytest.raises(ValueError, match=r"sample_weight is -1.0 in row 1, but must be finite"):
        extend_posterior(posterior, X[:2], Y[:2], sample_weight=[1.0, -1.0])
    with pytest.raises(ValueError, match="more than 1e\\+09 rows' worth"):
        extend_posterior(posterior, X[:2], Y[:2], sample_weight=[1.0, 1e10])
    with pytest.raises(ValueError, match="'n_chains' is not an option of engine 'exact'"):
        extend_posterior(posterior, X[:2], Y[:2], n_chains=2)


def test_labels_of_any_kind_find_their_class():
    assert encode_labels(np.array([2.0, 1.0]), np.array([1, 2])).tolist() == [1, 0]
    assert encode_labels(np.array([True]), np.array([False, True])).tolist() == [1]
    mixed = np.array(["b", "a"], dtype=object)
    assert encode_labels(mixed, np.array(["a", "b"])).tolist() == [1, 0]


# The old trees.


@examples(25)
@given(
    seed=st.integers(0, 1000),
    n_old=st.integers(5, 29),
    prior=st.sampled_from(["mdl", "bcart", 1.0]),
    temperature=st.sampled_from([1.0, 3.0]),
)
def test_old_trees_are_weighed_as_if_all_rows_were_routed(seed, n_old, prior, temperature):
    case = random_case(seed, prior, temperature)
    options = {"column": case.columns, "n_columns": case.n_columns, "n_trees": 40}
    old = infer_exact(part(case.rows, slice(0, n_old)), case.score, random_state=0, **options)
    middle = (n_old + 30) // 2
    batches = [part(case.rows, slice(n_old, middle)), part(case.rows, slice(middle, 30))]
    known, counts, lifted = old, None, 0.0
    for batch in batches:
        known, counts = reweigh(known, batch, counts)
        lifted += known.diagnostics.get("evidence_lifted", 0.0)  # to what these trees add up to
    np.testing.assert_allclose(
        known.log_reward, log_reward(old.trees, case.rows, case.score), atol=1e-8
    )
    np.testing.assert_allclose(counts, sum_rows(old.trees, case.rows, case.score), atol=1e-9)
    change = (known.log_reward - old.log_reward) / temperature
    np.testing.assert_allclose(known.log_weight, change, atol=1e-8)
    assert known.diagnostics["ess"] == pytest.approx(effective_sample_size(change))
    expected = old.log_evidence + np.log(np.exp(change).mean()) + lifted
    assert known.log_evidence == pytest.approx(expected, abs=1e-8)
    assert known.solution is None


def test_weighed_trees_estimate_the_new_evidence_when_all_trees_were_possible():
    case = random_case(1)
    double = Rows(case.rows.codes, case.rows.target, 0.5 * case.rows.weight)
    options = {"column": case.columns, "n_columns": case.n_columns, "random_state": 0}
    old = infer_exact(case.rows, case.score, n_trees=20_000, **options)
    new = infer_exact(append_rows(case.rows, double), case.score, n_trees=1, **options)
    known, _ = reweigh(old, double)
    assert abs(known.log_evidence - new.log_evidence) < 5 * known.log_evidence_error
    assert known.log_evidence_error < 0.1


# Exact.


def test_the_order_of_batches_does_not_matter_and_all_at_once_is_the_same():
    posteriors = []
    for second, third in ((1, 2), (2, 1)):
        posterior = extend_posterior(first(), X[PARTS[second]], Y[PARTS[second]], random_state=0)
        posteriors.append(
            extend_posterior(posterior, X[PARTS[third]], Y[PARTS[third]], random_state=0)
        )
    one, other = posteriors
    assert one.log_evidence == other.log_evidence
    assert canonical_keys(one.trees) == canonical_keys(other.trees)
    rows = np.concatenate(PARTS)
    whole = code_batch(one, as_table(X[rows]), Y[rows])
    np.testing.assert_array_equal(one.rows.codes, merge_rows(whole).codes)
    codes = encode(one.binner, as_table(X))
    fresh = cold(one, infer_exact, n_trees=200)
    assert one.log_evidence == pytest.approx(fresh.log_evidence, abs=1e-9)
    np.testing.assert_allclose(
        average_outputs(one, codes), average_outputs(fresh, codes), atol=1e-9
    )
    instant = one.diagnostics["instant"]
    assert 0 < instant["ess"] < 1
    assert instant["log_evidence"] < one.log_evidence + 1


@pytest.mark.parametrize("engine", ["mcmc", "smc"])
def test_other_engines_infer_from_all_rows(engine):
    more = extend_posterior(first(engine=engine), X[PARTS[1]], Y[PARTS[1]], random_state=0)
    assert more.engine == engine
    assert more.rows.weight.sum() == 100
    np.testing.assert_allclose(more.log_reward, log_reward(more.trees, more.rows, more.score))


# The GFlowNet.


def test_a_finished_stream_has_the_evidence_of_all_rows_at_once():
    posterior = first(engine="gfn", n_jobs=1)
    binner = repr(posterior.binner)
    for rows in PARTS[1:]:
        posterior = extend_posterior(posterior, X[rows], Y[rows], random_state=0, n_jobs=1)
        assert posterior.diagnostics["stopped_because"] == "finished"
        answer = cold(posterior, infer_exact)
        assert posterior.log_evidence == pytest.approx(answer.log_evidence, abs=1e-6)
        assert posterior.best_log_mass == pytest.approx(answer.best_log_mass, abs=1e-6)
    assert repr(posterior.binner) == binner  # of the first rows
    assert posterior.classes.tolist() == np.unique(Y).tolist()


@pytest.mark.parametrize("leaf_order", ["fixed", "free"])
def test_a_warm_start_takes_network_and_replay(leaf_order):
    objective = {"fixed": "db", "free": "tb"}[leaf_order]
    options = {**SMALL, "leaf_order": leaf_order, "objective": objective, "n_jobs": 1}
    old = first(engine="gfn", max_depth=5, n_trees=50, time_budget=None, n_steps=30, **options)
    before = {k: v.clone() for k, v in old.solution.sampler.network.state_dict().items()}
    kept = set(canonical_keys(old.solution.state.replay.trees))
    moments = [v["exp_avg"].clone() for v in old.solution.state.optimizer.state.values()]
    seen = []

    class Watch(Callback):
        def on_start(self, state):
            network = state.sampler.network.state_dict()
            seen.append(all(torch.equal(network[name], before[name]) for name in before))
            replay = state.replay
            seen.append(kept <= set(canonical_keys(replay.trees)))
            reward = log_reward(replay.trees, state.sampler.rows, state.score)
            if leaf_order == "fixed":  # replayed trunks stand for all their continuations
                reward = state.sampler.retrace(replay.trees, None).log_reward
            seen.append(np.allclose(replay.log_reward, reward))

    more = extend_posterior(
        old,
        X[PARTS[1]],
        Y[PARTS[1]],
        time_budget=None,
        n_steps=30,
        random_state=0,
        callbacks=[Watch()],
        **options,
    )
    assert seen == [True, True, True]
    assert more.diagnostics["n_steps"] == 3
    # What it began with is as it was.
    network = old.solution.sampler.network.state_dict()
    assert all(torch.equal(network[name], before[name]) for name in before)
    now = [v["exp_avg"] for v in old.solution.state.optimizer.state.values()]
    assert all(torch.equal(*pair) for pair in zip(moments, now, strict=True))
    known, _ = reweigh(old, code_batch(old, as_table(X[PARTS[1]]), Y[PARTS[1]]))
    assert more.best_log_mass >= known.best_log_mass - 1e-9


def test_a_tenth_of_the_steps_is_trained_and_weights_stay_right():
    options = {**SMALL, "n_jobs": 1, "time_budget": None, "n_steps": 25}
    posterior = first(engine="gfn", max_depth=5, **options)
    posterior = extend_posterior(posterior, X[PARTS[1]], Y[PARTS[1]], random_state=0, **options)
    assert posterior.diagnostics["n_steps"] == 3
    assert len(posterior.trees) == 200
    np.testing.assert_allclose(
        posterior.log_reward, log_reward(posterior.trees, posterior.rows, posterior.score)
    )
    np.testing.assert_allclose(posterior.log_weight, posterior.log_reward - posterior.log_prob)


def test_a_policy_that_was_not_kept_is_trained_anew_from_the_trees():
    posterior = replace(first(engine="gfn", n_jobs=1), solution=None)
    more = extend_posterior(posterior, X[PARTS[1]], Y[PARTS[1]], random_state=0, n_jobs=1)
    assert more.log_evidence == pytest.approx(cold(more, infer_exact).log_evidence, abs=1e-6)


def test_other_settings_are_refused_with_the_way_out():
    posterior = first(engine="gfn", n_jobs=1, n_steps=1, max_depth=4)
    with pytest.raises(ValueError, match="set it back, or fit anew"):
        extend_posterior(posterior, X[PARTS[1]], Y[PARTS[1]], objective="tb", n_jobs=1)


def test_an_engine_can_start_warm_by_itself():
    case = random_case(3)
    options = {"column": case.columns, "n_columns": case.n_columns, "n_trees": 30, "n_jobs": 1}
    options |= {"random_state": 0, "time_budget": None}
    old = infer_gfn(part(case.rows, slice(0, 20)), case.score, **options)
    known, _ = reweigh(old, part(case.rows, slice(20, 30)))
    new = infer_gfn(case.rows, case.score, policy=old.solution, warm_start=known, **options)
    answer = infer_exact(case.rows, case.score, column=case.columns, n_columns=case.n_columns)
    assert new.log_evidence == pytest.approx(answer.log_evidence, abs=1e-6)


# The estimators.


def small(kind=DTGFNClassifier, **changes):
    settings = {"inference": "exact", "max_depth": 2, "n_thresholds": 5, "n_trees": 30}
    return kind(**{**settings, "random_state": 0, **changes})


def test_partial_fit_on_all_parts_is_a_fit_on_the_first_parts_thresholds():
    model = small()
    for part in PARTS:
        model.partial_fit(X[part], Y[part], classes=np.unique(Y))
    assert len(PARTS) > 1
    total = sum(len(Y[part]) for part in PARTS)
    assert model.posterior_.rows.weight.sum() == pytest.approx(total)
    answer = cold(model.posterior_, infer_exact)
    assert model.log_evidence_ == pytest.approx(answer.log_evidence, abs=1e-9)
    assert model.posterior_.best_log_mass == pytest.approx(answer.best_log_mass, abs=1e-9)


def test_a_class_may_come_later():
    first = Y[PARTS[0]] != np.unique(Y)[-1]
    rows, labels = X[PARTS[0]][first], Y[PARTS[0]][first]
    model = small().partial_fit(rows, labels, classes=np.unique(Y))
    before = model.predict_proba(X)
    assert before.shape[1] == len(np.unique(Y))
    assert before[:, -1].max() < 0.1
    model.partial_fit(X[PARTS[1]], Y[PARTS[1]])
    assert model.predict_proba(X)[:, -1].max() > 0.5


def test_numbers_stream_too():
    numbers = X[:, 0] * 2.0 + 1.0
    model = small(DTGFNRegressor)
    for part in PARTS:
        model.partial_fit(X[part], numbers[part])
    assert model.score(X, numbers) > 0.5


@pytest.mark.parametrize(
    ("changes", "given", "said"),
    [
        ({}, {}, "classes is None"),
        ({"class_weight": "balanced"}, {"classes": [0, 1]}, "class_weight='balanced'"),
    ],
)
def test_a_first_call_that_lacks_something_is_refused(changes, given, said):
    with pytest.raises(ValueError, match=said):
        small(**changes).partial_fit(X, Y, **given)


def test_another_engine_or_other_classes_cannot_go_on():
    model = small().partial_fit(X, Y, classes=np.unique(Y))
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, Y, classes=["other", "classes"])
    with pytest.raises(ValueError, match="inference='mcmc' cannot go on where 'exact' ended"):
        model.set_params(inference="mcmc").partial_fit(X, Y)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"n_trees": 0}, "n_trees=0"),
        ({"time_budget": -1}, "time_budget=-1"),
        ({"time_budget": "a"}, "time_budget='a'"),
        ({"n_jobs": -3}, "n_jobs=-3"),
    ],
)
def test_a_later_call_is_checked_like_a_first_one(changes, said):
    model = small().partial_fit(X, Y, classes=np.unique(Y)).set_params(**changes)
    with pytest.raises(ValueError, match=said):
        model.partial_fit(X, Y)


def test_weights_of_classes_that_a_batch_lacks_are_no_fault():
    model = small(class_weight={2: 5.0}).partial_fit(X, Y, classes=[0, 1, 2])
    model.partial_fit(X[:3], [0, 0, 0])
    with pytest.raises(ValueError, match="contains NaN"):
        small().partial_fit(X, Y, classes=[0.0, 1.0, 2.0, np.nan])


def test_of_very_many_rows_some_trees_are_weighed_from_first_to_last():
    every = first()
    assert fewer_trees(every, 100, 60.0) is every is fewer_trees(every, 10**9, None)
    some = fewer_trees(every, 10**6, 10.0)
    assert len(some.trees) == len(some.weights) == 50
    kept = np.linspace(0, 199, 50).astype(int)
    assert np.array_equal(some.log_reward, every.log_reward[kept])
    assert len(fewer_trees(every, 10**9, 0.1).trees) == 20
