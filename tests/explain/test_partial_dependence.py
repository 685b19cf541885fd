"""Partial dependence against its slow twins: predictions of changed copies, and scikit-learn."""

import numpy as np
import pandas
import pytest
import sklearn.inspection

from dtgfn import DTGFNClassifier, DTGFNRegressor, SumPredictor
from dtgfn.explain.column_dependence import column_bins, partial_dependence


def table(n_rows=80):
    rng = np.random.default_rng(5)
    X = pandas.DataFrame(
        {
            "age (years)": rng.integers(18, 80, n_rows).astype(float),
            "smoker": rng.random(n_rows) < 0.4,
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "side": rng.choice(["left", "right"], n_rows),
        }
    )
    X.loc[::9, "age (years)"] = np.nan
    X.loc[::11, "colour"] = None
    risk = X["smoker"] + (X["age (years)"] > 50) + (X["colour"] == "red") - 1.0
    return X, risk + 0.5 * rng.normal(size=n_rows)


X, NUMBERS = table()
CLASSES = np.where(NUMBERS > 1, "high", np.where(NUMBERS > 0, "middle", "low"))
SMALL = {"max_depth": 2, "n_thresholds": 4, "random_state": 0, "n_jobs": 1, "n_trees": 60}
SUM = {"n_summed": 5, "n_chains": 2, "n_sweeps": 12, "n_draws": 8}
SUM = {"ensemble": "sum", "options": SUM, "n_thresholds": 4, "random_state": 0, "n_jobs": 1}
# One value of every bin that trees can tell apart.
VALUES = {
    "age (years)": None,
    "smoker": [False, True],
    "colour": ["blue", "green", "red", None],
    "side": ["left", "right"],
}


@pytest.fixture(scope="module")
def models():
    made = {
        "exact": DTGFNClassifier(inference="exact", **SMALL),
        "sampled": DTGFNClassifier(inference="mcmc", options={"n_steps": 4000}, **SMALL),
        "bagged": DTGFNClassifier(
            inference="exact", ensemble="bags", options={"n_bags": 6}, **SMALL
        ),
        "by reward": DTGFNClassifier(inference="exact", weighting="posterior", **SMALL),
        "numbers": DTGFNRegressor(inference="exact", **SMALL),
        "sums": DTGFNClassifier(**SUM),
        "sums of numbers": DTGFNRegressor(**SUM),
    }
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few trees are no good fit, and need not be
        for name, model in made.items():
            model.fit(X, NUMBERS if "numbers" in name else CLASSES)
    return made


def values_of(model, column):
    if VALUES[column] is not None:
        return VALUES[column]
    cuts = model.binner_.columns[0].thresholds
    return [cuts[0] - 1, *(cuts[:-1] + cuts[1:]) / 2, cuts[-1] + 1, np.nan]


def changed(column, value):
    copy = X.copy()
    copy[column] = pandas.Series([value] * len(X), index=X.index, dtype=X[column].dtype)
    return copy


KINDS = ["exact", "sampled", "bagged", "by reward", "numbers", "sums", "sums of numbers"]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("column", VALUES)
def test_the_mean_is_the_mean_prediction_of_changed_copies(models, name, column):
    model = models[name]
    predict = model.predict if "numbers" in name else model.predict_proba
    told = model.partial_dependence(column, X)
    slow = [predict(changed(column, value)).mean(axis=0) for value in values_of(model, column)]
    assert told["mean"].to_numpy() == pytest.approx(np.ravel(slow), abs=1e-9)


@pytest.mark.parametrize("name", ["exact", "numbers"])
def test_the_band_holds_the_trees_own_dependence(models, name):
    model, level = models[name], 0.8
    posterior = model.posterior_
    told = partial_dependence(model, "age (years)", X, level=level)
    from dtgfn.explain.tree_set import take_trees

    values = values_of(model, "age (years)")
    each = np.array(
        [
            [take_trees(model, b).average(changed("age (years)", v)).mean(axis=0) for v in values]
            for b in range(len(posterior.trees))
        ]
    ).reshape(len(posterior.trees), -1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(each, tails, axis=0, method="inverted_cdf")
    assert told["low"].to_numpy() == pytest.approx(low, abs=1e-9)
    assert told["high"].to_numpy() == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize("name", ["sums", "sums of numbers"])
def test_the_band_holds_the_draws_own_dependence(models, name):
    model, level = models[name], 0.8
    told = partial_dependence(model, "age (years)", X, level=level)
    predictor = SumPredictor(model.posterior_)
    each = [
        predictor.draws(model.posterior_.encode(changed("age (years)", value))).mean(axis=0)
        for value in values_of(model, "age (years)")
    ]
    each = np.moveaxis(np.reshape(each, (6, 8, -1)), 1, 0).reshape(8, -1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(each, tails, axis=0, method="inverted_cdf")
    assert told["low"].to_numpy() == pytest.approx(low, abs=1e-9)
    assert told["high"].to_numpy() == pytest.approx(high, abs=1e-9)


def test_of_many_rows_sums_are_asked_at_even_steps(models, monkeypatch):
    monkeypatch.setattr("dtgfn.explain.column_dependence.MOST_ROWS", 40)
    model = models["sums of numbers"]
    every = np.unique(np.linspace(0, len(X) - 1, 40).round().astype(int))
    told = model.partial_dependence("smoker", X)
    wanted = [model.predict(changed("smoker", value))[every].mean() for value in (False, True)]
    assert told["mean"].tolist() == pytest.approx(wanted)
    assert told["rows"].sum() == len(X)


def test_scikit_learn_finds_the_same_means():
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    y = (numbers[:, 0] + 0.3 * numbers[:, 1] > 0).astype(int)
    model = DTGFNClassifier(inference="exact", **SMALL).fit(numbers, y)
    told = partial_dependence(model, 0, numbers)
    told = told[told.output == "1"]
    found = sklearn.inspection.partial_dependence(
        model, numbers, [0], method="brute", response_method="predict_proba", grid_resolution=30
    )
    grid, average = found["grid_values"][0], found["average"][0]
    ends = told["up_to"].to_numpy()
    assert average == pytest.approx(told["mean"].to_numpy()[np.searchsorted(ends, grid)], abs=1e-9)


def test_training_rows_are_the_rows_if_none_are_given(models):
    for name in ("exact", "numbers", "sums", "sums of numbers"):
        for column in VALUES:
            own, given = (models[name].partial_dependence(column, rows) for rows in (None, X))
            pandas.testing.assert_frame_equal(own, given)


def test_rows_are_counted_in_their_bins(models):
    told = models["exact"].partial_dependence("colour")
    first = told[told.output == "high"].set_index("value")["rows"]
    counted = X["colour"].value_counts()
    assert first.drop("missing").to_dict() == counted.to_dict()
    assert first["missing"] == X["colour"].isna().sum()


def test_a_column_that_never_varies_has_one_bin():
    with_constant = X.assign(constant=1.0, word="same", truth=True)
    model = DTGFNClassifier(inference="exact", **SMALL).fit(with_constant, CLASSES)
    for column in ("constant", "word", "truth"):
        told = model.partial_dependence(column)
        mean = model.predict_proba(with_constant).mean(axis=0)
        assert told["mean"].to_numpy() == pytest.approx(mean)
        assert told["rows"].tolist() == [len(X)] * 3


def test_bins_say_their_values(models):
    bins = column_bins(models["exact"].binner_, 1)
    assert bins.name == ["false", "true"]
    assert column_bins(models["exact"].binner_, 2).name == ["blue", "green", "red", "missing"]


def test_bad_input_gets_a_sentence(models):
    model = models["exact"]
    with pytest.raises(ValueError, match=r"no column 'agee'; the columns are 'age \(years\)'"):
        partial_dependence(model, "agee")
    with pytest.raises(ValueError, match="no column 9"):
        partial_dependence(model, 9)
    with pytest.raises(ValueError, match="no column True"):
        partial_dependence(model, True)
    with pytest.raises(ValueError, match="level"):
        partial_dependence(model, 0, level=90)
    with pytest.raises(ValueError, match="lacks columns"):
        partial_dependence(model, 0, X.drop(columns="colour"))
