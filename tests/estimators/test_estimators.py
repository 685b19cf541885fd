"""DTGFNClassifier and infer: scikit-learn's contract, tables of all kinds, clear refusals."""

import copy
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from thoroughness import long_but

import dtgfn
from dtgfn import DTGFNClassifier, infer
from dtgfn.data.tables import split_column
from dtgfn.posterior import prediction
from dtgfn.posterior.prediction import average_trees
from dtgfn.trees.batch import route


def small(**changes):
    settings = {"max_depth": 2, "n_thresholds": 7, "n_trees": 50, "random_state": 0}
    return DTGFNClassifier(**{"inference": "exact", **settings, **changes})


@parametrize_with_checks([small()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@parametrize_with_checks(
    [
        small(inference="gfn", max_depth=3),
        small(inference="mcmc", options={"n_steps": 5000}),
        small(inference="smc", options={"n_particles": 200}),
    ]
)
def test_scikit_learn_checks_of_every_engine(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def test_names_come_out_where_names_went_in(iris):
    X, y = iris
    model = small().fit(X, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert "petal" in model.describe()


def test_frames_arrays_and_polars_give_the_same_posterior(iris):
    X, y = iris
    polars = pytest.importorskip("polars")
    model = small().fit(X, y)
    frame = polars.from_pandas(X)
    from_polars = small().fit(frame, y)
    from_array = small().fit(X.to_numpy(), y)
    expected = model.predict_proba(X)
    assert model.log_evidence_ == from_polars.log_evidence_ == from_array.log_evidence_
    np.testing.assert_array_equal(from_polars.predict_proba(frame), expected)
    np.testing.assert_array_equal(from_array.predict_proba(X.to_numpy()), expected)
    assert from_polars.feature_names_in_.tolist() == list(X.columns)


def test_text_booleans_and_missing_values_need_no_preprocessing():
    rng = np.random.default_rng(0)
    n = 120
    colour = rng.choice(["red", "green", "blue"], n).astype(object)
    height = rng.normal(size=n)
    y = np.where((colour == "red") ^ (np.nan_to_num(height) > 0.5), "yes", "no")
    height[rng.random(n) < 0.1] = np.nan
    colour[rng.random(n) < 0.1] = None
    member = rng.random(n) < 0.5
    X = pd.DataFrame({"colour": colour, "height": height, "member": member})
    model = small(max_depth=3).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.8
    used = dict(zip(X.columns, model.posterior_.column_inclusion, strict=True))
    assert used["colour"] > 0.99 > 0.5 > used["member"]
    # An unseen category is no known category, a missing number counts as larger than any.
    unseen = pd.DataFrame({"colour": ["violet", "orange"], "height": 9.0, "member": True})
    probability = model.predict_proba(unseen)
    np.testing.assert_allclose(probability[0], probability[1])
    assert not np.allclose(probability[0], model.predict_proba(unseen.assign(colour="red"))[0])


def test_a_new_missing_number_is_routed_as_the_largest():
    X = pd.DataFrame({"a": np.arange(40.0)})
    y = (X["a"] > 20).astype(int)
    model = small(max_depth=1).fit(X, y)
    new = pd.DataFrame({"a": [np.nan, 1e9]})
    missing, largest = model.predict_proba(new)
    np.testing.assert_allclose(missing, largest)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0]], ["only"]),  # n = 1, one class
        ([[1.0], [2.0], [3.0]], ["a", "a", "a"]),
        ([[5.0, 1.0], [5.0, 1.0]], [0, 1]),  # constant columns, duplicate rows
        ([[1.0], [2.0]], [0, 1]),
        ([[np.nan], [np.nan]], [0, 1]),
    ],
)
def test_degenerate_tables_work(X, y):
    model = small().fit(X, y)
    probability = model.predict_proba(X)
    assert probability.shape == (len(y), len(set(y)))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)


@pytest.mark.parametrize("n_columns", long_but([1000], [1000, 10_000]))
def test_thousands_of_columns_work_at_depth_one(n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, n_columns))
    y = (X[:, 77] > 0).astype(int)
    model = small(max_depth=1).fit(X, y)
    assert model.posterior_.column_inclusion.argmax() == 77


def test_integer_weights_equal_repeated_rows(iris):
    X, y = iris
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    for binning in ("uniform", "quantile", "midpoint"):
        weighted = small(binning=binning).fit(X, y, sample_weight=weight)
        repeated = small(binning=binning).fit(X.loc[X.index.repeat(weight)], y.repeat(weight))
        assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-9)
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)


def test_prediction_is_the_average_over_many_sampled_trees():
    X, y = load_wine(return_X_y=True)
    model = small(n_thresholds=5, n_trees=20_000).fit(X, y)
    posterior = model.posterior_
    codes = posterior.rows.codes
    sampled = average_trees(
        posterior.trees, posterior.weights, posterior.rows, posterior.score, codes
    )
    np.testing.assert_allclose(model.predict_proba(X), sampled, atol=0.02)


def test_test_rows_do_not_touch_the_fit(iris):
    X, y = iris
    model = small().fit(X, y)
    before = model.log_evidence_, model.predict_proba(X[:5])
    model.predict_proba(X * 100 - 7)
    assert model.log_evidence_ == before[0]
    np.testing.assert_array_equal(model.predict_proba(X[:5]), before[1])


def test_works_in_pipelines_searches_and_clones(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), small())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.85
    search = GridSearchCV(small(), {"max_depth": [1, 2]}, cv=3).fit(X, y)
    assert search.best_params_ == {"max_depth": 2}
    assert clone(small(split_penalty=("bcart", 0.9, 1.0))).split_penalty == ("bcart", 0.9, 1.0)


def test_random_state_decides_the_samples_and_nothing_else(iris):
    X, y = iris
    one, same, other = (small(random_state=s).fit(X, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.posterior_.trees.feature, same.posterior_.trees.feature)
    assert (one.posterior_.trees.feature != other.posterior_.trees.feature).any()
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_pickle_round_trip(iris):
    X, y = iris
    model = small().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_best_tree_is_at_least_as_probable_as_any_sample(iris):
    X, y = iris
    model = small(n_trees=2000).fit(X, y)
    posterior = model.posterior_
    assert posterior.best_log_reward >= posterior.log_reward.max() - 1e-9
    leaves = route(model.best_tree_, posterior.rows.codes)
    assert len(np.unique(leaves)) == model.best_tree_.n_splits[0] + 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_depth": -1}, ["max_depth", "-1", "0 to 30"]),
        ({"max_depth": 2.5}, ["max_depth", "2.5"]),
        ({"n_thresholds": 0}, ["n_thresholds", "0", "1 to 65000"]),
        ({"binning": "even"}, ["binning", "even", "uniform"]),
        ({"leaf_concentration": 0}, ["leaf_concentration", "0", "1e-06 to"]),
        ({"split_penalty": "occam"}, ["split_penalty", "occam", "mdl"]),
        ({"split_penalty": -1.0}, ["split_penalty", "-1.0"]),
        ({"temperature": float("nan")}, ["temperature", "nan"]),
        ({"n_trees": 0}, ["n_trees", "0", "1 to"]),
        ({"time_budget": -5}, ["time_budget", "-5"]),
        ({"n_jobs": 0}, ["n_jobs", "0"]),
        ({"inference": "magic"}, ["inference", "magic", "exact"]),
    ],
)
def test_impossible_parameters_are_refused_in_fit_by_name_value_and_range(changes, words):
    model = DTGFNClassifier(**{"inference": "exact", "max_depth": 1, **changes})
    with pytest.raises(ValueError, match=words[0]) as caught:
        model.fit([[1.0], [2.0]], [0, 1])
    for word in words:
        assert word in str(caught.value)


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match="row 1 has no label"):
        infer([[1.0], [2.0]], np.array(["a", None], dtype=object))
    with pytest.raises(ValueError, match=r"such as 0.5, not classes"):
        infer([[1.0], [2.0]], [1.0, 0.5])
    with pytest.raises(ValueError, match="one value per row"):
        infer([[1.0], [2.0]], [1, 2, 3])
    with pytest.raises(ValueError, match="requires y"):
        small().fit([[1.0]], None)
    with pytest.raises(ValueError, match="zero in every row"):
        small().fit([[1.0], [2.0]], [0, 1], sample_weight=[0, 0])


def test_a_class_without_weight_does_not_exist():
    X, y = np.arange(30.0)[:, None], np.repeat(["a", "b", "c"], 10)
    weight = np.repeat([1.0, 1.0, 0.0], 10)
    weighted = small().fit(X, y, sample_weight=weight)
    absent = small().fit(X[:20], y[:20])
    assert weighted.classes_.tolist() == ["a", "b"]
    assert weighted.log_evidence_ == absent.log_evidence_


def test_identifiers_and_astronomic_weights_are_refused():
    X = np.arange(1500.0)[:, None]
    with pytest.raises(ValueError, match=r"1500 distinct labels.*1000"):
        infer(X, np.arange(1500))
    with pytest.raises(ValueError, match="sample_weight sums to"):
        small().fit(X, X[:, 0] > 700, sample_weight=np.full(1500, 1e9))


def test_many_classes_work():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 70, 300)
    X = np.column_stack([y % 7, y // 7 + rng.normal(size=300)])
    model = small().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_all_cores_may_be_asked_for_the_scikit_learn_way(iris):
    X, y = iris
    assert small(n_jobs=-1).fit(X, y).log_evidence_ == small(n_jobs=1).fit(X, y).log_evidence_


def test_files_go_in_through_read_table(tmp_path, iris):
    X, y = iris
    X.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    target, table = split_column(dtgfn.read_table(tmp_path / "t.csv"), "y")
    model = small().fit(table, target.values.astype(int))
    assert model.log_evidence_ == small().fit(X, y).log_evidence_
    assert model.feature_names_in_.tolist() == list(X.columns)


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError):
        small().predict([[1.0]])
    with pytest.raises(NotFittedError):
        small().describe()


def test_hopeless_problems_are_refused_with_a_way_out():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(dtgfn.BudgetExceeded, match=r"sub-problems.*max_depth.*GFlowNet"):
        DTGFNClassifier(inference="exact", max_depth=6, time_budget=1).fit(X, y)


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="max_dept"):
        DTGFNClassifier(max_dept=3)
    for engine in ("gfn", "exact", "mcmc", "smc"):
        with pytest.raises(ValueError, match=r"'max_dept' is not .* did you mean 'max_depth'"):
            infer([[1.0]], [1], engine=engine, max_dept=3)


@pytest.mark.parametrize(
    "changes",
    [{"objective": "TB"}, {"leaf_order": "free"}, {"device": "cuda"}, {"preset": "paper"}],
)
def test_what_only_training_knows_is_refused_elsewhere(changes):
    with pytest.raises(ValueError, match=f"{next(iter(changes))}=.* is for inference='gfn'"):
        small(inference="mcmc", options=changes).fit([[1.0], [2.0]] * 5, [0, 1] * 5)


def test_options_reach_every_engine(iris):
    X, y = iris
    chains = small(inference="mcmc", options={"n_steps": 500, "n_chains": 2})
    with pytest.warns(dtgfn.diagnostics.UntrustworthyFit, match="R-hat|independent") as told:
        chains.fit(X, y)
    assert told[0].filename == __file__
    assert chains.posterior_.diagnostics["steps_per_chain"] == [500, 500]


# What else a classifier says of a row.


@pytest.fixture(scope="module")
def sampled(iris):
    X, y = iris
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", dtgfn.diagnostics.UntrustworthyFit
        )  # first splits take longer to mix
        return small(inference="mcmc", options={"n_steps": 100_000}, n_trees=200).fit(X, y)


def test_weightings_differ_and_unknown_ones_are_refused(sampled, iris):
    X, _ = iris
    found = {}
    for weighting in ("importance", "uniform", "posterior"):
        model = sampled.set_params(weighting=weighting)
        found[weighting] = model.predict_proba(X)
    np.testing.assert_allclose(found["importance"], found["uniform"])  # chains draw evenly
    assert np.abs(found["posterior"] - found["uniform"]).max() > 1e-3
    with pytest.raises(ValueError, match="weighting='best' is not known"):
        sampled.set_params(weighting="best").predict(X)
    sampled.set_params(weighting="importance")


def test_one_tree_predicts_alone(sampled, iris):
    X, _ = iris
    alone = sampled.predict_proba(X, tree="best")
    leaves = route(sampled.best_tree_, sampled.posterior_.rows.codes)[0]
    assert len(np.unique(alone.round(9), axis=0)) <= len(np.unique(leaves))
    assert (sampled.predict(X, tree="best") == alone.argmax(axis=1)).all()
    with pytest.raises(ValueError, match="tree='worst' is not known"):
        sampled.predict(X, tree="worst")


def test_intervals_hold_probabilities_and_uncertainty_adds_up(sampled, iris):
    X, _ = iris
    few = X[::15]
    probability, bounds = sampled.predict_proba(few), sampled.predict_interval(few, level=0.99)
    assert bounds.shape == (*probability.shape, 2)
    assert ((bounds[..., 0] <= probability) & (probability <= bounds[..., 1])).all()
    parts = sampled.predict_uncertainty(few)
    np.testing.assert_allclose(parts.total, parts.noise + parts.model)
    with pytest.raises(ValueError, match="level=2"):
        sampled.predict_interval(few, level=2)


def test_leaf_draws_are_noisy_and_repeatable(sampled, iris):
    X, _ = iris
    mean = sampled.predict_proba(X[:20])
    options = sampled.options
    sampled.set_params(options={**options, "leaf_draws": True})
    drawn = [sampled.predict_proba(X[:20]) for _ in range(2)]
    sampled.set_params(options=options)
    np.testing.assert_array_equal(*drawn)  # random_state is a number
    np.testing.assert_allclose(drawn[0], mean, atol=0.1)
    assert np.abs(drawn[0] - mean).max() > 1e-4


def test_predicting_leaves_the_estimator_as_it_was(sampled, iris):
    X, _ = iris
    fresh = pickle.loads(pickle.dumps(sampled))
    np.testing.assert_array_equal(fresh.predict_proba(X), sampled.predict_proba(X))
    assert "_predictors" not in sampled.__getstate__()


def test_counting_is_done_once_a_fit_and_again_where_something_was_set(iris, monkeypatch):
    X, y = iris
    counts = []
    count = prediction.count_trees
    monkeypatch.setattr(prediction, "count_trees", lambda *given: counts.append(1) or count(*given))
    model = small(weighting="posterior").fit(X, y)
    assert not counts
    before = model.predict_proba(X)
    model.predict_uncertainty(X[:3])
    model.predict_interval(X[:3])
    assert len(counts) == 1
    uniform = model.set_params(weighting="uniform").predict_proba(X)
    assert len(counts) == 2
    assert np.abs(uniform - before).max() > 1e-6
    one = np.where(np.arange(len(model.posterior_.trees)) == 0, 0.0, -np.inf)
    model.posterior_ = replace(model.posterior_, log_weight=one, solution=None)  # by hand, too
    alone = model.set_params(weighting="importance").predict_proba(X)
    assert np.abs(alone - uniform).max() > 1e-6
    model.set_params(weighting="posterior").fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.predict_proba(X), before)
    assert not hasattr(clone(model), "posterior_")


def test_a_fit_that_failed_is_no_fit():
    model = small()
    with pytest.raises(ValueError, match="not classes"):
        model.fit([[1.0], [2.0]], [0.5, 1.5])
    with pytest.raises(NotFittedError):
        model.predict([[1.0]])
