"""What a stranger is told: one sentence that names the thing, the value and the way out."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from dtgfn import DataHint, DTGFNClassifier, DTGFNRegressor, load, save

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.random(12), "b": RNG.random(12)})
LABELS = np.array([0, 1] * 6)
NUMBERS = RNG.random(12)
DAYS = pd.Series(pd.date_range("2020", periods=12))
SMALL = {"inference": "exact", "max_depth": 1, "n_thresholds": 3}


def classify(X=X, y=LABELS, sample_weight=None, **changes):
    return DTGFNClassifier(**SMALL | changes).fit(X, y, sample_weight=sample_weight)


def regress(X=X, y=NUMBERS, sample_weight=None, **changes):
    return DTGFNRegressor(**SMALL | changes).fit(X, y, sample_weight=sample_weight)


def one_sentence(text):
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert len(text) < 330
    return True


def told(error, work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(error) as caught:
            work()
    return str(caught.value)


PARAMETERS = [
    ({"inference": "exat"}, "inference='exat' is not known; give one of gfn, exact, mcmc, smc"),
    ({"binning": "even"}, "binning='even' is not known; give one of auto, uniform"),
    ({"split_penalty": "mld"}, "split_penalty='mld' is not a prior; give"),
    ({"split_penalty": -1}, "split_penalty=-1 is not a prior; give"),
    ({"max_depth": -1}, "max_depth=-1 is out of range; give a whole number from 0 to 30"),
    ({"max_depth": 100}, "max_depth=100 is out of range; give a whole number from 0 to 30"),
    ({"max_depth": "3"}, "max_depth='3' is out of range; give a whole number from 0 to 30"),
    ({"max_depth": None}, "max_depth=None is out of range; give a whole number"),
    ({"n_thresholds": 0}, "n_thresholds=0 is out of range; give a whole number from 1 to 65000"),
    ({"leaf_concentration": 0}, "leaf_concentration=0 is out of range; give a number from"),
    ({"leaf_concentration": "x"}, "leaf_concentration='x' is out of range"),
    ({"temperature": 0}, "temperature=0 is"),
    ({"temperature": "hot"}, "temperature='hot' is"),
    ({"n_trees": 0}, "n_trees=0 is out of range; give a whole number from 1"),
    ({"time_budget": -1}, "time_budget=-1 is not usable; give seconds above 0, or None"),
    ({"time_budget": "1m"}, "time_budget='1m' is not usable"),
    ({"n_jobs": 0}, "n_jobs=0 is out of range; give a whole number from 1"),
    ({"random_state": "a"}, "random_state='a' is not usable; give a whole number"),
    ({"random_state": -1}, "random_state=-1 is not usable; give a whole number"),
    ({"weighting": "uni"}, "weighting='uni' is not known; give one of uniform"),
    ({"options": {"leaf_draws": "no"}}, "leaf_draws='no' is not known; give True or False"),
    ({"options": [1]}, "options=[1] is not usable; give a dict"),
    ({"warm_start": True}, "warm_start=True is for inference='gfn', not 'exact'; leave it out"),
    ({"options": {"leaf_darws": True}}, "'leaf_darws' is not an option of engine 'exact'; did you"),
    (
        {"options": {"memory_buget": 1}},
        "'memory_buget' is not an option of engine 'exact'; did you",
    ),
    (
        {"options": {"objective": "tb"}},
        "objective='tb' is for inference='gfn', not 'exact'; leave it out",
    ),
    ({"options": {"callbacks": [print]}}, "is for inference='gfn', not 'exact'; leave it out"),
    ({"class_weight": "balance"}, "class_weight='balance' is not known; give 'balanced', a dict"),
    ({"class_weight": {0: -1, 1: 1}}, "class_weight[0]=-1 is out of range; give a number from 0"),
    ({"class_weight": {"q": 2}}, "class_weight names 'q', none of the classes '0', '1'; spell"),
    (
        {"inference": "gfn", "options": {"preset": "papr"}},
        "preset='papr' is not known; give one of default",
    ),
    (
        {"inference": "gfn", "options": {"device": "gpu"}},
        "device='gpu' is not known; give auto, cpu",
    ),
    (
        {"inference": "gfn", "options": {"n_steps": -5}},
        "n_steps=-5 is out of range; give a whole number",
    ),
    (
        {"inference": "gfn", "options": {"checkpoint": "/no/where"}},
        "there is no folder '/no'; make it",
    ),
]


@pytest.mark.parametrize(("changes", "said"), PARAMETERS, ids=str)
def test_parameters(changes, said):
    text = told(ValueError, lambda: classify(**changes))
    assert said in text
    assert one_sentence(text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"noise_shape": 0.5}, "noise_shape=0.5 is out of range; give a number from 1.001"),
        ({"noise_share": -1}, "noise_share=-1 is out of range; give a number from"),
        ({"mean_strength": 0}, "mean_strength=0 is out of range; give a number from"),
        ({"random_state": "a"}, "random_state='a' is not usable; give"),
    ],
)
def test_parameters_of_the_regressor(changes, said):
    text = told(ValueError, lambda: regress(**changes))
    assert said in text
    assert one_sentence(text)


TARGETS = [
    (classify, None, "requires y to be passed, but the target y is None"),
    (classify, [0, 1], "X has 12 rows, but y has shape (2,); give one value per row"),
    (classify, "a", "y='a' is no column; y should be a 1d array with one value per row"),
    (
        classify,
        np.c_[LABELS, LABELS],
        "got an array of shape (12, 2) instead; fit a model for each",
    ),
    (classify, [np.nan, 1.0] * 6, "Input y contains NaN: row 0 has no label; drop such rows"),
    (classify, np.array(["a", None] * 6, object), "NaN: row 1 has no label; drop such rows"),
    (classify, pd.array([0, 1, None] * 4, "Int64"), "NaN: row 2 has no label; drop such rows"),
    (classify, [np.inf, 1.0] * 6, "Input y contains infinity in row 0; give class labels"),
    (classify, [0.5, 1.0] * 6, "y holds numbers such as 0.5, not classes; bin it, or use DTGFNReg"),
    (classify, np.array([1, "a"] * 6, object), "y mixes text, 'a', with 1; make all of it text"),
    (classify, [Decimal(1), Decimal(2)] * 6, "y holds a Decimal, Decimal('1'); give text, whole"),
    (classify, LABELS + 1j, "Complex data not supported: y holds complex numbers; give real"),
    (classify, DAYS, "y holds dates or times; turn them into numbers"),
    (regress, ["a", "b"] * 6, "y holds 'a', which is not a number; use DTGFNClassifier"),
    (regress, [np.nan, 1.0] * 6, "Input y contains NaN: row 0 has no target; drop such rows"),
    (regress, [1.0, np.inf] * 6, "Input y contains infinity in row 1; give finite numbers"),
    (regress, [1e200, 1.0] * 6, "y holds 1e+200, larger than 1e+150; rescale it"),
    (regress, NUMBERS + 1j, "Complex data not supported: y holds complex numbers; give real"),
    (regress, DAYS, "y holds dates or times; turn them into numbers"),
    (regress, DAYS - DAYS[0], "y holds dates or times; turn them into numbers"),
]


@pytest.mark.parametrize(("fit", "y", "said"), TARGETS, ids=range(len(TARGETS)))
def test_targets(fit, y, said):
    text = told(ValueError, lambda: fit(y=y))
    assert said in text
    assert one_sentence(text)


def test_more_labels_than_classes():
    many = pd.DataFrame({"a": range(1500)})
    text = told(ValueError, lambda: classify(many, np.arange(1500)))
    assert "y has 1500 distinct labels, but at most 1000 classes" in text
    assert one_sentence(text)


WEIGHTS = [
    (np.ones(3), "sample_weight has shape (3,), but must have one weight for each of the 12 rows"),
    (2.0, "sample_weight has shape (), but must have one weight for each of the 12 rows"),
    (-np.ones(12), "sample_weight is -1.0 in row 0, but must be finite and >= 0"),
    (np.full(12, np.nan), "sample_weight is nan in row 0, but must be finite and >= 0"),
    (np.zeros(12), "sample_weight is zero in every row; give at least one row some weight"),
    (["a"] * 12, "sample_weight holds no numbers; give one number per row"),
]


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize(("weight", "said"), WEIGHTS, ids=range(len(WEIGHTS)))
def test_weights(weight, said, class_weight):
    text = told(ValueError, lambda: classify(sample_weight=weight, class_weight=class_weight))
    assert said in text
    assert one_sentence(text)


COLUMNS = [
    (X.assign(a=np.inf), ValueError, "Column 'a' contains infinity or a value too large"),
    (X.assign(a=1j), ValueError, "column 'a' holds complex numbers; split them"),
    (X.assign(a=DAYS), ValueError, "Column 'a' holds dates or times; turn it into numbers"),
    (X.assign(a=DAYS - DAYS[0]), ValueError, "Column 'a' holds times of day, durations or"),
    (X.assign(a=DAYS.dt.to_period("D")), ValueError, "Column 'a' holds times of day"),
    (X.assign(a=[datetime.date(2020, 1, 1)] * 12), ValueError, "Column 'a' holds dates or times"),
    (X.assign(a=[[1]] * 12), TypeError, "Column 'a' holds a list"),
    (pd.concat([X, X], axis=1), ValueError, "Duplicated column name 'a', 'b'; give every column"),
    (X.iloc[:0], ValueError, "Found array with 0 sample(s)"),
    (X[[]], ValueError, "Found array with 0 feature(s)"),
    (np.zeros((12, 2, 2)), ValueError, "Found array with dim 3, expected 2: rows by columns"),
    (np.zeros(12), ValueError, "Expected 2D array, got 1D array instead. Reshape your data"),
    (X["a"], ValueError, "Expected 2D array, got 1D array instead. Reshape your data"),
    ([[1, 2], [1]], ValueError, "The rows differ in length (1 and 2 cells); give every row"),
    (None, ValueError, "X is None, not a table; give rows by columns"),
    ("data.csv", ValueError, "There is no file 'data.csv'; check the path."),
    ({"a": [1, 2]}, ValueError, "X is a dict, not a table; give rows by columns"),
    ({1, 2}, ValueError, "X is a set, not a table; give rows by columns"),
    (iter([1]), ValueError, "X is a list_iterator, not a table; give rows by columns"),
    ([{"a": 1}] * 12, ValueError, "X is a list of dicts; give rows by columns"),
    (np.zeros(12, dtype=[("a", float)]), ValueError, "X is an array of records; give rows by"),
]


@pytest.mark.parametrize(("table", "error", "said"), COLUMNS, ids=range(len(COLUMNS)))
def test_columns(table, error, said):
    text = told(error, lambda: classify(table))
    assert said in text
    assert one_sentence(text)


NEW_ROWS = [
    (X[["a"]], "now missing:\n- b"),
    (X.rename(columns={"a": "z"}), "unseen at fit time:\n- z"),
    (X.to_numpy()[:, :1], "X has 1 features, but DTGFNClassifier is expecting 2"),
    (X.assign(a="x"), "Column 'a' was a number in training but now holds 'x'; give a number"),
    (X.assign(a=np.inf), "Column 'a' contains infinity"),
    (X.iloc[:0], "Found array with 0 sample(s)"),
    ([1.0, 2.0], "Expected 2D array, got 1D array instead. Reshape your data"),
]


@pytest.mark.parametrize(("rows", "said"), NEW_ROWS, ids=range(len(NEW_ROWS)))
def test_new_rows(rows, said):
    model = classify()
    assert said in told(ValueError, lambda: model.predict(rows))


def test_predictions():
    model = classify()
    for work, said in (
        (lambda: model.predict(X, tree="bst"), "tree='bst' is not known; give one of None, best"),
        (lambda: model.predict_interval(X, level=90), "level=90 is not usable; give a probability"),
        (lambda: regress().predict_interval(X, level=0), "level=0 is not usable; give a prob"),
    ):
        text = told(ValueError, work)
        assert said in text
        assert one_sentence(text)


@pytest.mark.parametrize("model", [DTGFNClassifier(), DTGFNRegressor()], ids=str)
def test_an_unfitted_estimator_says_so(model):
    for name in ("log_evidence_", "best_tree_", "binner_"):
        assert not hasattr(model, name)
        with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
            getattr(model, name)
    with pytest.raises(NotFittedError, match=r"not fitted yet\. Call 'fit'"):
        model.predict(X)


def test_exact_inference_out_of_reach():
    wide = RNG.random((500, 10))
    fit = {"max_depth": 6, "n_thresholds": 99, "time_budget": 1}
    text = told(Exception, lambda: classify(wide, RNG.integers(0, 2, 500), **fit))
    assert "Exact inference would need about" in text
    assert "'gfn'" in text


def test_model_files(tmp_path):
    path = tmp_path / "model.dtgfn"
    assert "No such file" in told(ValueError, lambda: load(path))
    path.write_bytes(b"garbage" * 100)
    assert "is not a dtgfn model" in told(ValueError, lambda: load(path))
    path.unlink()
    save(classify(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in told(ValueError, lambda: load(path))


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (pd.Series(LABELS, dtype="Int64"), "i"),
        (pd.Series(LABELS == 1, dtype="boolean"), "b"),
        (pd.Series(["a", "b"] * 6, dtype="string"), "O"),
        (pd.Series(["a", "b"] * 6, dtype="category"), "O"),
        (np.array([0, 1] * 6, dtype=object), "i"),
        (["no", "yes"] * 6, "U"),
        (np.zeros(12), "f"),  # a single class
    ],
    ids=range(7),
)
def test_labels_keep_their_kind(y, kind):
    model = classify(y=y)
    assert model.classes_.dtype.kind == kind
    assert set(model.predict(X)) <= set(np.asarray(y).tolist())


@pytest.mark.parametrize(
    "table",
    [
        X.assign(a=pd.array([1, None] * 6, "Int64")),
        X.assign(a=pd.Categorical(["u", "v"] * 6)),
        X.assign(a=[Decimal("1.5"), None] * 6),
        X.assign(a=np.nan),
        X.assign(a=pd.cut(X["b"], 3)),
        X.assign(a=[1, "x"] * 6),
        X.set_axis([0, 1], axis=1),
    ],
    ids=range(7),
)
def test_tables_that_may_come(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataHint)  # of text among numbers
        probability = classify(table).predict_proba(table)
    assert np.allclose(probability.sum(axis=1), 1.0)
