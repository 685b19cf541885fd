"""Files whose content was changed, with all checksums right: a usable model or one sentence."""

import copy
import random

import numpy as np
import pandas as pd
import pytest
from model_parts import read_parts, write_parts

from dtgfn import (
    DTGFNAnomalyDetector,
    DTGFNClassifier,
    DTGFNRegressor,
    SumPosterior,
    infer,
    load,
    save,
)
from dtgfn._support.archive import StorageError
from dtgfn.diagnostics import verdict

# Models to change need not be good ones.
pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")

rng = np.random.default_rng(3)
X = pd.DataFrame(
    {
        "a": np.where(rng.random(50) < 0.1, np.nan, rng.normal(size=50)),
        "b": rng.choice(["red", "green", "blue", None], 50),
        "c": rng.random(50) < 0.5,
    }
)
LABELS = np.where(X["a"].fillna(1) > 0, "yes", np.where(X["c"], "no", "maybe"))
NUMBERS = np.where(X["a"].fillna(1) > 0, 3.0, 1.0) + 0.3 * rng.normal(size=50)
COMMON = {"n_thresholds": 5, "n_trees": 20, "random_state": 0}
FEW = {"n_particles": 20, "n_sweeps": 1}
SUM = {"n_summed": 3, "n_chains": 2, "n_sweeps": 12, "n_draws": 6}
DRAWN = {**FEW, "leaf_draws": True}
MODELS = {
    "exact": (DTGFNClassifier(inference="exact", max_depth=3, **COMMON), LABELS),
    "numbers": (DTGFNRegressor(inference="exact", max_depth=2, **COMMON), NUMBERS),
    "sampled": (
        DTGFNClassifier(inference="smc", max_depth=4, options=DRAWN, **COMMON),
        LABELS,
    ),
    "bags": (
        DTGFNClassifier(
            inference="smc", max_depth=3, ensemble="bags", options={**FEW, "n_bags": 3}, **COMMON
        ),
        LABELS,
    ),
    "sums": (
        DTGFNClassifier(ensemble="sum", max_depth=3, n_thresholds=5, random_state=0, options=SUM),
        LABELS,
    ),
    "sums of numbers": (
        DTGFNRegressor(ensemble="sum", max_depth=3, n_thresholds=5, random_state=0, options=SUM),
        NUMBERS,
    ),
    "detector": (DTGFNAnomalyDetector(max_depth=3, options=FEW, **COMMON), None),
}
WHOLE = [0, -1, 1, 2, 7, 64, 65_535, 65_536, 2**31 - 1, -(2**31), 2**63 - 1]
REAL = [0.0, -1.0, 0.5, 2.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e150]
VALUES = [None, -1, 0, 1, 31, 1e308, 10**30, 0.5, "", "exact", [], {}, [None], True, 65_535, 1001]
TYPES = ["?", "i1", "u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8"]


def places(value, path=()):
    """Yield the path of everything inside."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def change_meta(meta, dice):
    by_length = {}
    for path in places(meta):
        by_length.setdefault(len(path), []).append(path)
    *above, key = dice.choice(by_length[dice.choice(sorted(by_length))])
    for step in above:
        meta = meta[step]
    chance = dice.random()
    if chance < 0.2:
        del meta[key]
    elif chance < 0.4 and type(meta[key]) in (int, float):
        meta[key] = meta[key] * dice.choice([-1, 2, 0.5, 1e6]) + dice.choice([0, 1, -1])
    else:
        meta[key] = copy.deepcopy(dice.choice(VALUES))


def with_values(array, dice):
    """Set some values, or all, to odd ones."""
    array = array.copy()
    count = dice.choice([1, 1, 2, array.size])
    value = dice.choice(REAL if array.dtype.kind == "f" else WHOLE)
    if array.dtype.kind in "iu":
        value = int(np.clip(value, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max))
    with np.errstate(all="ignore"):
        for index in dice.sample(range(array.size), min(count, array.size)):
            array.flat[index] = value
    return array


def change_array(arrays, dice):
    name = dice.choice(sorted(arrays))
    array, other = arrays[name], dice.choice(sorted(arrays))
    if array.ndim == 0:
        arrays[name] = np.array(dice.choice(REAL))
        return
    order = [dice.randrange(len(array)) for _ in range(len(array))]
    changes = [
        lambda: with_values(array, dice),
        lambda: with_values(array, dice),
        lambda: array.astype(dice.choice(TYPES)),
        lambda: array[: len(array) // 2],
        lambda: np.concatenate([array, array]),
        lambda: array[:0],
        lambda: array[order],
        lambda: array[..., None],
        lambda: array.T,
        lambda: arrays[other],
    ]
    chosen = dice.randrange(len(changes) + 1)
    if chosen == len(changes):
        del arrays[name]
        return
    with np.errstate(all="ignore"):
        arrays[name] = changes[chosen]()


def changed(parts, dice):
    head, meta, arrays = parts[0], copy.deepcopy(parts[1]), dict(parts[2])
    for _ in range(dice.choice([1, 1, 1, 2])):
        if dice.random() < 0.35:
            change_meta(meta, dice)
        else:
            change_array(arrays, dice)
    return head, meta, arrays


def assert_sensible(model):
    """Check that everything that a loaded model says is a number."""
    if isinstance(model, DTGFNAnomalyDetector):
        assert np.isfinite(model.score_samples(X)).all()
        return
    of_sums = isinstance(model.posterior_, SumPosterior)
    readings = (None,) if of_sums else (None, "best")
    if isinstance(model, DTGFNRegressor):
        for tree in readings:
            assert np.isfinite(model.predict(X, return_std=True, tree=tree)).all()
        assert np.isfinite(model.predict_interval(X[:3])).all()
    else:
        for tree in readings:
            probability = model.predict_proba(X, tree=tree)
            assert ((probability >= 0) & (probability <= 1 + 1e-9)).all()
            np.testing.assert_allclose(probability.sum(axis=1), 1, atol=1e-6)
    if of_sums:
        assert verdict(model.posterior_)["sentence"]
        return
    assert model.describe()
    if model.posterior_.solution is not None:
        model.posterior_.solution.sample(3, np.random.default_rng(0))


OF_ANOTHER_TABLE = ("X lacks columns", "X has", "The feature names", "Column '")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, (model, y) in MODELS.items():
        save(model.fit(X, y), folder / name)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_a_changed_file_is_a_usable_model_or_refused(saved, tmp_path, name):
    parts, path = read_parts(saved / name), tmp_path / "m.dtgfn"
    refusals, loaded = [], 0
    for seed in range(60):
        write_parts(path, *changed(parts, random.Random(f"{name} {seed}")))
        try:
            model = load(path)
        except StorageError as refusal:
            refusals.append(str(refusal))
            continue
        loaded += 1
        try:
            assert_sensible(model)
        except ValueError as error:  # the columns may have got another name or kind
            if not str(error).startswith(OF_ANOTHER_TABLE):
                raise
    assert min(loaded, len(refusals)) > 3  # both do happen
    assert all(told.startswith(repr(str(path))) and told.endswith(".") for told in refusals)
    assert not any("\n" in told or len(told) > len(str(path)) + 250 for told in refusals)


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@pytest.mark.parametrize("leaf_order", ["fixed", "free"])
def test_a_changed_checkpoint_is_taken_up_or_refused(tmp_path, leaf_order):
    path = tmp_path / "run.dtgfn"
    table, y = X[["a"]], LABELS == "yes"
    given = {"max_depth": 3, "n_thresholds": 4, "n_trees": 5, "hidden": (4,), "random_state": 0}
    given |= {"leaf_order": leaf_order, "time_budget": None, "checkpoint": path, "n_jobs": 1}
    given |= {"exact_tails": 1, "n_evaluate": 10, "n_forward": 10, "n_replay": 2}
    infer(table, y, n_steps=2, **given)
    parts = read_parts(path)
    refused = 0
    for seed in range(25):
        dice = random.Random(f"{leaf_order} {seed}")
        head, meta, arrays = changed(parts, dice)
        name = dice.choice([name for name in sorted(arrays) if arrays[name].dtype.kind == "f"])
        if arrays[name].size:
            arrays[name] = arrays[name].copy()
            with np.errstate(all="ignore"):
                arrays[name].flat[dice.randrange(arrays[name].size)] = dice.choice(REAL)
        write_parts(path, head, meta, arrays)
        try:
            posterior = infer(table, y, n_steps=3, **given)
        except StorageError:
            refused += 1
        else:
            assert np.isfinite(posterior.weights).all()
    assert 5 < refused < 25  # both do happen


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_a_network_of_nan_is_refused(tmp_path):
    path = tmp_path / "run.dtgfn"
    given = {"leaf_order": "free", "max_depth": 3, "n_thresholds": 4, "hidden": (4,), "n_trees": 5}
    given |= {"random_state": 0, "time_budget": None, "checkpoint": path}
    infer(X[["a"]], LABELS, n_steps=1, **given)
    head, meta, arrays = read_parts(path)
    for value in (np.nan, np.inf, 1e38):
        for name in ("network.0", "network.3"):
            broken = arrays | {name: np.full_like(arrays[name], value)}
            write_parts(path, head, meta, broken)
            with pytest.raises(StorageError, match="not finite, or endless"):
                infer(X[["a"]], LABELS, n_steps=2, **given)
