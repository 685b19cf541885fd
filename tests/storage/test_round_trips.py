"""Whatever can be fitted can be saved, and whatever was saved loads and says the same."""

import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor, load, save
from dtgfn._support.archive import StorageError
from dtgfn.engines.rowsets.ranking import ranked_trees
from dtgfn.storage import model_file
from dtgfn.trees.batch import canonical_keys

pytestmark = pytest.mark.filterwarnings(
    "ignore::dtgfn.diagnostics.UntrustworthyFit", "ignore::RuntimeWarning"
)
FEW = {"n_trees": 8, "random_state": 0, "time_budget": None}
ENGINES = {
    "exact": {"inference": "exact"},
    "fixed": {"inference": "gfn", "options": {"hidden": (4,), "n_steps": 1, "n_evaluate": 4}},
    "free": {
        "inference": "gfn",
        "options": {"hidden": (4,), "n_steps": 1, "n_evaluate": 4, "leaf_order": "free"},
    },
    "mcmc": {"inference": "mcmc", "options": {"n_chains": 1, "n_steps": 50}},
    "smc": {"inference": "smc", "options": {"n_particles": 8, "n_sweeps": 1}},
}
SUM = {
    "ensemble": "sum",
    "random_state": 0,
    "time_budget": None,
    "options": {"n_summed": 3, "n_chains": 2, "n_sweeps": 9, "n_draws": 6},
}
QUICK = ("exact", "mcmc", "smc")  # the others are tried on fewer tables
NAMES = ("größe", "\N{DECIDUOUS TREE}", "", "a b", "\0")

numbers = st.sampled_from([0.0, 1.0, -1.0, 2.5, np.nan, 1e308, -1e308, 5e-324, 1e-300, 7.0])
texts = st.sampled_from(["a", "b", "ü", "\N{SNOWMAN}", "1", None])
columns = st.one_of(
    st.tuples(st.just("numbers"), st.lists(numbers, min_size=12, max_size=12)),
    st.tuples(st.just("texts"), st.lists(texts, min_size=12, max_size=12)),
    st.tuples(st.just("truth"), st.lists(st.booleans(), min_size=12, max_size=12)),
    st.tuples(st.just("constant"), st.just([3.0] * 12)),
    st.tuples(st.just("missing"), st.just([np.nan] * 12)),
)


@st.composite
def tables(draw):
    """Draw a frame of 1 to 12 rows with odd columns, and a weight for each row or None."""
    n_rows = draw(st.sampled_from([1, 2, 3, 12]))
    given = draw(st.lists(columns, min_size=1, max_size=3))
    frame = pd.DataFrame(
        {
            name: pd.Series(cells[:n_rows], dtype=object if kind == "texts" else None)
            for name, (kind, cells) in zip(NAMES, given, strict=False)
        }
    )
    weight = draw(st.sampled_from([None, 1.0, 0.3, 1e-9, 1e6]))
    return frame, None if weight is None else weight * np.arange(1.0, n_rows + 1)


labels = st.sampled_from(
    [np.array(values)[np.arange(12) % len(values)] for values in (
        [0], [0, 1], range(12), ["no", "ü", "yes"], [False, True], [-1.5e300, 2.0],
        [0, 2**64 - 1], [-(2**63), 5],
    )]
)  # fmt: skip
targets = st.sampled_from(
    [np.arange(12.0), np.zeros(12), 1e148 * np.arange(12.0), np.full(12, 1e-300)]
)
settings_of = st.fixed_dictionaries(
    {
        "max_depth": st.sampled_from([0, 1, 2, 3, 4]),
        "n_thresholds": st.sampled_from([1, 2, 5]),
        "split_penalty": st.sampled_from(["mdl", 0.0, 40.0, "bcart"]),
        "temperature": st.sampled_from([0.1, 1.0, 30.0]),
    }
)
sums_of = st.fixed_dictionaries(
    {"max_depth": st.sampled_from([0, 1, 4]), "n_thresholds": st.sampled_from([1, 5])}
)


def with_bags(engine, bagged):
    bags = {"ensemble": "bags", "options": {**engine.get("options", {}), "n_bags": 2}}
    return {**engine, **(bags if bagged else {})}


odd = examples(8, suppress_health_check=list(HealthCheck))


def there_and_back(model):
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "m"))
        return load(Path(folder, "m"))


def assert_same_posterior(again, model):
    ours, theirs = again.posterior_, model.posterior_
    assert canonical_keys(ours.trees) == canonical_keys(theirs.trees)
    assert again.describe() == model.describe()
    if hasattr(theirs.solution, "support"):
        ranked = [
            ranked_trees(p.solution.problem, p.solution.support, 5, run) for p in (ours, theirs)
        ]
        assert canonical_keys(ranked[0]) == canonical_keys(ranked[1])


def run(work, n_items):
    work(0, n_items)


@pytest.mark.parametrize("engine", QUICK)
@odd
@given(table=tables(), y=labels, chosen=settings_of, bagged=st.sampled_from([False, False, True]))
def test_classifiers_come_back(engine, table, y, chosen, bagged):
    frame, weight = table
    model = DTGFNClassifier(**FEW, **with_bags(ENGINES[engine], bagged), **chosen)
    model.fit(frame, y[: len(frame)], weight)
    again = there_and_back(model)
    np.testing.assert_allclose(
        again.predict_proba(frame), model.predict_proba(frame), rtol=0, atol=1e-12
    )
    assert again.classes_.tolist() == model.classes_.tolist()
    assert_same_posterior(again, model)


@pytest.mark.parametrize("engine", QUICK)
@odd
@given(table=tables(), y=targets, chosen=settings_of)
def test_regressors_come_back(engine, table, y, chosen):
    frame, weight = table
    model = DTGFNRegressor(**FEW, **ENGINES[engine], **chosen)
    model.fit(frame, y[: len(frame)], weight)
    again = there_and_back(model)
    scale = np.abs(y).max() + 1e-300
    np.testing.assert_allclose(
        again.predict(frame) / scale, model.predict(frame) / scale, rtol=0, atol=1e-9
    )
    assert_same_posterior(again, model)


@pytest.mark.parametrize("engine", QUICK)
@odd
@given(table=tables(), n_thresholds=st.sampled_from([1, 2, 5]), n_trees=st.sampled_from([1, 6]))
def test_detectors_come_back(engine, table, n_thresholds, n_trees):
    frame, weight = table
    given = {**FEW, "n_trees": n_trees, "n_thresholds": n_thresholds, "max_depth": 3}
    model = DTGFNAnomalyDetector(**given, **ENGINES[engine]).fit(frame, sample_weight=weight)
    again = there_and_back(model)
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    assert again.offset_ == model.offset_


@odd
@given(table=tables(), y=labels, chosen=sums_of)
def test_classifiers_of_sums_come_back(table, y, chosen):
    frame, weight = table
    model = DTGFNClassifier(**SUM, **chosen).fit(frame, y[: len(frame)], weight)
    again = there_and_back(model)
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(again.predict_interval(frame), model.predict_interval(frame))
    assert again.classes_.tolist() == model.classes_.tolist()


@odd
@given(table=tables(), y=targets, chosen=sums_of)
def test_regressors_of_sums_come_back(table, y, chosen):
    frame, weight = table
    model = DTGFNRegressor(**SUM, **chosen).fit(frame, y[: len(frame)], weight)
    again = there_and_back(model)
    mean, spread = model.predict(frame, return_std=True)
    np.testing.assert_array_equal(again.predict(frame, return_std=True), (mean, spread))
    np.testing.assert_array_equal(again.predict_interval(frame), model.predict_interval(frame))
    assert np.isfinite([mean, spread]).all()


ODD_TABLES = {
    "one row": [[1.0, 2.0]],
    "constant": [[1.0]] * 5,
    "missing": [[np.nan, 1.0], [np.nan, 2.0], [np.nan, 3.0]],
    "huge": [[1e308], [-1e308], [0.0], [1e307]],
}


@pytest.mark.parametrize("name", ODD_TABLES)
@pytest.mark.parametrize("engine", ["fixed", "free"])
def test_models_of_a_gflownet_come_back(engine, name):
    table = ODD_TABLES[name]
    y = np.arange(len(table)) % 2
    for kind in (DTGFNClassifier, DTGFNRegressor):
        model = kind(**FEW, **ENGINES[engine], max_depth=3, n_thresholds=3).fit(table, y)
        assert_same_posterior(there_and_back(model), model)


@pytest.mark.parametrize("name", ODD_TABLES)
def test_models_at_the_best_temperature_come_back(name):
    table = ODD_TABLES[name]
    model = DTGFNClassifier(**FEW, **ENGINES["exact"], max_depth=2, temperature="auto")
    again = there_and_back(model.fit(table, np.arange(len(table)) % 2))
    assert again.temperature == "auto"
    assert again.temperature_ == model.temperature_


def test_what_could_not_be_read_back_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "m.dtgfn"
    save(DTGFNClassifier(**FEW, **ENGINES["exact"], max_depth=1).fit([[1.0], [2.0]], [0, 1]), path)
    before = path.read_bytes()

    def refuse(*_):
        raise ValueError("it is odd")

    model = DTGFNClassifier(**FEW, **ENGINES["exact"], max_depth=2).fit([[1.0], [3.0]], [0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "_model_from", refuse)
        with pytest.raises(StorageError) as refusal:
            save(model, path)
    assert str(refusal.value) == (
        f"{str(path)!r} is left as it was: what was to be written is not a usable model: it is odd."
    )
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_brings_no_paths_and_no_threads(tmp_path):
    hidden = {"checkpoint": str(tmp_path / "there"), "callbacks": [print], "n_steps": 1}
    model = DTGFNClassifier(
        **{**FEW, **ENGINES["fixed"], "options": {**ENGINES["fixed"]["options"], **hidden}},
        max_depth=2,
        n_jobs=3,
        verbose=False,
    ).fit([[1.0], [2.0]] * 3, [0, 1] * 3)
    again = there_and_back(model)
    assert again.n_jobs is None
    assert again.options == {"hidden": [4], "n_steps": 1, "n_evaluate": 4}
    # Nor does one that somebody wrote by hand.
    kind = DTGFNClassifier
    params = kind(n_jobs=900, options={"checkpoint": "/tmp/y", "policy": "x"}).get_params()
    older = {"callbacks": "x", "checkpoint": "/tmp/x"}  # which were parameters
    read = model_file._params_from_json({**params, **older, "warm_start": True}, kind)
    assert read.keys() == params.keys()
    assert (read["n_jobs"], read["options"]) == (None, {})
    assert read["warm_start"] is False


def test_what_older_files_have_by_itself_is_an_option_now():
    older = {"leaf_draws": True, "preset": "default", "device": "cpu", "n_steps": 3, "loss": None}
    params = DTGFNClassifier(options={"hidden": [4]}).get_params() | older
    read = model_file._params_from_json(params, DTGFNClassifier)
    assert read["options"] == {"leaf_draws": True, "n_steps": 3, "hidden": [4]}
    usual = params | {"leaf_draws": False, "n_steps": None, "options": None}
    assert model_file._params_from_json(usual, DTGFNClassifier)["options"] is None


def test_files_that_count_bags_by_a_parameter_are_read():
    former = {k: v for k, v in DTGFNClassifier().get_params().items() if k != "ensemble"}
    read = model_file._params_from_json({**former, "n_bags": 7}, DTGFNClassifier)
    assert (read["ensemble"], read["options"]) == ("bags", {"n_bags": 7})
    none = model_file._params_from_json({**former, "n_bags": None}, DTGFNClassifier)
    assert (none["ensemble"], none["options"]) == (None, None)


def test_numbers_that_shrink_to_nearly_nothing_are_not_compressed(tmp_path):
    model = DTGFNClassifier(**{**FEW, "n_trees": 200_000}, **ENGINES["exact"], max_depth=1)
    model.fit([[1.0]] * 5, [0, 1, 0, 1, 0])
    save(model, tmp_path / "m")
    assert len(load(tmp_path / "m").posterior_.trees) == 200_000
    with zipfile.ZipFile(tmp_path / "m") as archive:
        total = sum(info.file_size for info in archive.infolist())
    assert total < 100 * (tmp_path / "m").stat().st_size or total < 64 << 20
