"""Model files: they bring back the same model, and refuse whatever is not one."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from dtgfn import DTGFNClassifier, load, save
from dtgfn._support.archive import StorageError
from dtgfn.trees.batch import canonical_keys


def fitted(**changes):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=80),
            "b": rng.choice(["red", "green", "blue", None], 80),
            "c": rng.random(80) < 0.5,
        }
    )
    X.loc[rng.random(80) < 0.1, "a"] = np.nan
    y = np.where(X["a"].fillna(1) > 0, "yes", "no")
    settings = {"max_depth": 3, "n_thresholds": 5, "n_trees": 40, "random_state": 3, **changes}
    return X, y, DTGFNClassifier(inference="exact", **settings).fit(X, y)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"split_penalty": ("bcart", 0.9, 1.0)},
        {"split_penalty": "bcart", "max_depth": 1},
        {"temperature": 4.0, "max_depth": 4, "split_penalty": 2.5},
        {"max_depth": 0},
        {"random_state": np.random.RandomState(0)},
    ],
)
def test_a_loaded_model_is_the_saved_one(tmp_path, changes):
    X, _, model = fitted(**changes)
    path = tmp_path / "m.dtgfn"
    save(model, path)
    again = load(path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.describe() == model.describe()
    assert again.log_evidence_ == model.log_evidence_
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert again.n_features_in_ == 3
    saved, loaded = (canonical_keys(m.posterior_.trees) for m in (model, again))
    assert loaded == saved
    sampled = again.posterior_.solution.sample(10, np.random.default_rng(5))
    expected = model.posterior_.solution.sample(10, np.random.default_rng(5))
    np.testing.assert_array_equal(sampled.cut, expected.cut)
    params = {**model.get_params(), "random_state": again.random_state}
    assert again.get_params() == params


@pytest.mark.parametrize(
    "labels", [[0, 1, 2], [False, True], ["a", "b"], [1.0, 2.0], np.array(["x", "yy"], object)]
)
def test_labels_of_every_kind_come_back(tmp_path, labels):
    y = np.asarray(labels).repeat(10)
    X = np.arange(len(y), dtype=float)[:, None]
    model = DTGFNClassifier(inference="exact", max_depth=1, n_trees=5)
    save(model.fit(X, y), tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.classes_.dtype.kind == model.classes_.dtype.kind


def test_models_from_weighted_rows_come_back(tmp_path):
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).random(len(y))
    model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=5, n_trees=5).fit(
        X, y, weight
    )
    save(model, tmp_path / "m")
    np.testing.assert_allclose(
        load(tmp_path / "m").predict_proba(X), model.predict_proba(X), atol=1e-12
    )


def test_the_file_holds_no_raw_values_and_no_pickle(tmp_path):
    _, _, model = fitted()
    path = tmp_path / "m.dtgfn"
    save(model, path)
    with zipfile.ZipFile(path) as archive:
        assert {name.rsplit(".", 1)[1] for name in archive.namelist()} == {"json", "npy"}


def rewrite(path, change):
    """Rewrite a model file after ``change(meta, arrays)``, with all checksums right."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(entries["meta.json"])
    arrays = {
        name: np.load(io.BytesIO(data)) for name, data in entries.items() if name.endswith(".npy")
    }
    change(meta, arrays)
    entries["meta.json"] = json.dumps(meta).encode()
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, array)
        entries[name] = stream.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def _set(name, value):
    def change(meta, arrays):
        array = arrays[f"arrays/{name}.npy"]
        array.flat[-1 if array.size > 1 else 0] = value

    return change


def _replace(name, make):
    def change(meta, arrays):
        arrays[f"arrays/{name}.npy"] = make(arrays[f"arrays/{name}.npy"])

    return change


def _meta(*keys, value):
    def change(meta, arrays):
        for key in keys[:-1]:
            meta = meta[key]
        meta[keys[-1]] = value

    return change


HOSTILE = {
    "code past the columns": _replace("rows.codes", lambda a: a[:, :-1]),
    "label": _set("rows.target", 7),
    "negative label": _set("rows.target", -1),
    "weight": _set("rows.weight", np.nan),
    "zero weight": _set("rows.weight", 0.0),
    "tree child": _replace("trees.left", lambda a: np.full_like(a, 1 << 20)),
    "tree cycle": _replace("trees.left", lambda a: np.zeros_like(a)),
    "tree feature": _replace("trees.feature", lambda a: np.full_like(a, 99)),
    "tree count": _replace("trees.n_nodes", lambda a: np.full_like(a, 1 << 20)),
    "best tree": _replace("best.feature", lambda a: np.full_like(a, 99)),
    "support bits": _replace("support.0.bits", lambda a: np.full_like(a, 2**64 - 1)),
    "support empty": _replace("support.0.bits", lambda a: np.zeros_like(a)),
    "support words": _replace("support.0.bits", lambda a: np.hstack([a, a])),
    "support child": _replace("support.0.left", lambda a: np.full_like(a, 1 << 20)),
    "support negative child": _replace("support.0.right", lambda a: np.full_like(a, -1)),
    "support feature": _replace("support.0.feature", lambda a: np.full_like(a, 99)),
    "support start": _set("support.0.start", 1 << 40),
    "support order": _replace("support.0.start", lambda a: a[::-1].copy()),
    "support cut": _replace("support.0.high", lambda a: np.zeros_like(a)),
    "support probability": _replace("support.0.probability", lambda a: a * 2),
    "support stop": _replace("support.0.stop", lambda a: np.concatenate([a, a])),
    "support negative stop": _replace("support.0.stop", lambda a: a - 2),
    "support nan": _replace("support.0.probability", lambda a: a * np.nan),
    "support beyond the codes": _replace("support.0.high", lambda a: a + 60_000),
    "support sides": _replace("support.0.left", lambda a: a[::-1].copy()),
    "cut beyond the thresholds": _replace("trees.cut", lambda a: np.full_like(a, 5)),
    "code beyond the thresholds": _set("rows.codes", 9),
    "the same row twice": _replace("rows.codes", np.zeros_like),
    "no trees": lambda meta, arrays: [
        arrays.__setitem__(name, array[:0])
        for name, array in arrays.items()
        if name.startswith(("arrays/trees.", "arrays/log_"))
    ],
    "tree weights of nan": _replace("log_weight", lambda a: a * np.nan),
    "infinite tree weights": _set("log_weight", np.inf),
    "tree weights of nothing": _replace("log_weight", lambda a: a - np.inf),
    "rewards of nan": _set("log_reward", np.nan),
    "half precision": _replace("log_weight", lambda a: a.astype(np.float16)),
    "a wider type": _replace("trees.left", lambda a: a.astype(np.int64)),
    "a narrower type": _replace("trees.feature", lambda a: a.astype(np.int8)),
    "inclusion": _set("column_inclusion", 2.0),
    "sizes": _replace("size_probability", lambda a: np.full(10_000, 1e-4)),
    "best reward": _meta("best_log_reward", value="large"),
    "engine": _meta("engine", value="magic"),
    "diagnostics": _meta("diagnostics", value=[1]),
    "history": _meta("history", value=["step"]),
    "weighting": _meta("params", "weighting", value="heavy"),
    "seed": _meta("params", "random_state", value="x"),
    "ensemble": _meta("params", "ensemble", value="heap"),
    "leaf draws": _meta("params", "options", value={"leaf_draws": "no"}),
    "options": _meta("params", "options", value=[1]),
    "other names": _meta("feature_names", value=["a", "b", "d"]),
    "array type": _replace("log_reward", lambda a: a.astype(np.int64)),
    "array shape": _replace("log_reward", lambda a: a[:-1]),
    "array axes": _replace("log_reward", lambda a: a[:, None]),
    "max depth": _meta("score", "max_depth", value=30),
    "max depth type": _meta("score", "max_depth", value="3"),
    "classes": _meta("classes", value=["no"]),
    "class kind": _meta("classes", value=[["no"], {"yes": 1}]),
    "concentration": _meta("score", "leaf", "concentration", value=-1),
    "estimator": _meta("estimator", value="os.system"),
    "parameter": _meta("params", "evil", value=1),
    "binner": _meta("binner", value={}),
    "names": _meta("feature_names", value=["a"]),
    "no meta": lambda meta, arrays: meta.clear(),
}


def deep_tree(depth):
    """Arrays of one tree that goes right only."""
    n_nodes = 2 * depth + 1
    inner = np.arange(n_nodes) % 2 == 0
    inner[-1] = False
    left = np.where(inner, np.arange(n_nodes) + 1, -1)
    tree = {"feature": np.where(inner, 0, -1), "cut": np.zeros(n_nodes), "left": left}
    found = {name: array[None, :].astype(np.int32) for name, array in tree.items()}
    return found | {"n_nodes": np.array([n_nodes], np.int32)}


@pytest.mark.parametrize("depth", [4, 31, 20_000])
def test_a_tree_deeper_than_the_model_is_refused(saved, tmp_path, depth):
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)

    def change(meta, arrays):
        for name, array in deep_tree(depth).items():
            arrays[f"arrays/best.{name}.npy"] = array

    rewrite(path, change)
    with pytest.raises(StorageError, match="a tree is deeper than its 3 levels"):
        load(path)


def tiled(times):
    def change(meta, arrays):
        for name in arrays:
            if name.startswith(("arrays/trees.", "arrays/log_")):
                arrays[name] = np.concatenate([arrays[name]] * times)

    return change


def wide(width):
    """Room that no tree uses."""

    def change(meta, arrays):
        for name in ("feature", "cut", "left"):
            array = arrays[f"arrays/trees.{name}.npy"]
            room = np.zeros((len(array), width), array.dtype) - (name != "cut")
            arrays[f"arrays/trees.{name}.npy"] = np.hstack([array, room])

    return change


def test_room_that_is_not_used_takes_none(saved, tmp_path):
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)
    rewrite(path, wide(1000))
    trees = load(path).posterior_.trees
    assert trees.feature.shape[1] == trees.n_nodes.max() < 16


def test_many_copies_of_a_tree_are_one_to_predict_with(saved, tmp_path):
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)
    rewrite(path, tiled(100))
    X, _, model = fitted()
    again = load(path)
    assert len(again.posterior_.trees) == 4000
    np.testing.assert_allclose(
        again.set_params(weighting="uniform").predict_proba(X),
        model.set_params(weighting="uniform").predict_proba(X),
    )


DRAWN = {"leaf_draws": True}
BOMBS = {
    "leaves of classes": ("MOST_BYTES", 1000, tiled(50), "for .* leaves"),
    "rows down trees": ("MOST_STEPS", 1000, tiled(1), "trees would have to be counted on"),
    "draws of leaves": ("MOST_DRAWS", 100, _meta("params", "options", value=DRAWN), "would draw"),
    "pairs of cuts": ("MOST_PAIRS", 10, tiled(1), "would sum more than"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_arrays_become_is_counted_before(saved, tmp_path, monkeypatch, name):
    limit, value, change, sentence = BOMBS[name]
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)
    rewrite(path, change)
    load(path)
    monkeypatch.setattr(f"dtgfn.storage.limits.{limit}", value)
    with pytest.raises(StorageError, match=sentence):
        load(path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.dtgfn"
    save(fitted()[2], path)
    return path.read_bytes()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_contents_are_refused_before_any_loop_sees_them(saved, tmp_path, name):
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)
    rewrite(path, HOSTILE[name])
    with pytest.raises(StorageError) as caught:
        load(path)
    assert "m.dtgfn" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rewriting_without_a_change_is_harmless(saved, tmp_path):
    path = tmp_path / "m.dtgfn"
    path.write_bytes(saved)
    rewrite(path, lambda meta, arrays: None)
    X, _, model = fitted()
    np.testing.assert_array_equal(load(path).predict_proba(X), model.predict_proba(X))


def test_random_damage_gives_the_model_or_a_refusal(saved, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "m.dtgfn"
    refused = 0
    for _ in range(60):
        damaged = bytearray(saved)
        for place in rng.integers(0, len(saved), 3):
            damaged[place] = rng.integers(256)
        path.write_bytes(bytes(damaged[: rng.integers(1, len(saved) + 1)]))
        try:
            load(path)
        except StorageError:
            refused += 1
    assert refused > 50


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save(DTGFNClassifier(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_class_weights_come_back(tmp_path):
    X, y = [[1.0], [2.0]] * 9, [0, 1] * 9
    model = DTGFNClassifier(inference="exact", max_depth=1, class_weight={0: 1, np.int64(1): 3})
    save(model.fit(X, y), tmp_path / "model.dtgfn")
    assert load(tmp_path / "model.dtgfn").class_weight == {0: 1.0, 1: 3.0}
