"""What leaves the package says, and predicts, what the trees in it say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx_sessions import run_onnx
from random_posterior import make_posterior, mixed_frame, numeric_frame
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier, export_text, plot_tree
from thoroughness import examples

import dtgfn
from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, infer
from dtgfn._support.printable import visible
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.explain import shap_values
from dtgfn.explain.tree_set import take_trees
from dtgfn.export import dot, export, from_json, mermaid
from dtgfn.export.formats import FORMATS
from dtgfn.posterior.prediction import average_outputs, average_trees, leaf_probabilities
from dtgfn.trees.batch import route
from dtgfn.trees.leaf_models import DirichletLeaf

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

few = examples(25)
seeds = st.integers(0, 2**32 - 1)
HOSTILE = [
    'a "quoted" \\N name',
    "two\nlines\t;",
    "<b>&amp;#x27;</b>%%{init}%%",
    "größe [°C] `é` {|}",
]


def case(kind: str, seed: int, n_rows: int = 60, **options):
    """A random posterior, the frame it comes from, and other rows of the same kind."""
    rng = np.random.default_rng(seed)
    make = {"mixed": mixed_frame, "numeric": numeric_frame}[kind]
    frame = make(n_rows, rng)
    posterior = make_posterior(frame, rng.choice(["a", "b", "ü"], n_rows), seed=seed, **options)
    return posterior, frame, make(200, rng)


def ours(posterior, X, trees="all"):
    """Weighted average over all copies of trees, by the package's own loop."""
    batch, weight = posterior.trees, posterior.weights
    if trees == "best":
        batch, weight = posterior.best_tree, np.ones(1)
    codes = encode(posterior.binner, as_table(X))
    return average_trees(batch, weight, posterior.rows, posterior.score, codes)


def stump(names=("x0",)):
    """A posterior whose best tree is one split of the first column."""
    X = np.tile([[1.0], [2.0], [8.0], [9.0]], (5, len(names)))
    frame = pd.DataFrame(X, columns=list(names))
    return infer(frame, ["no", "no", "yes", "yes"] * 5, engine="exact", max_depth=1, n_thresholds=3)


# Door.


def test_unknown_formats_and_trees_are_refused_in_a_sentence():
    posterior = stump()
    with pytest.raises(ValueError, match=r"format='pdf' is not known; give one of text, dot"):
        export(posterior, "pdf")
    with pytest.raises(
        ValueError, match=r"dot shows one tree, not all; .* json or sklearn or onnx or sql or c or"
    ):
        export(posterior, "dot", trees="all")
    with pytest.raises(ValueError, match=r"'worst' names no tree; give 'best', 'consensus'"):
        export(posterior, "json", trees="worst")
    with pytest.raises(ValueError, match=r"tree=1000 is out of range; give an index from 0 to 999"):
        export(posterior, "text", trees=1000)
    with pytest.raises(ValueError, match=r"tree is a batch of 2 trees; give a batch of one"):
        export(posterior, "mermaid", trees=posterior.trees[:2])
    with pytest.raises(TypeError, match=r"A dict has no trees; give a fitted model"):
        export({}, "text")


def test_models_without_a_posterior_are_refused_in_a_sentence():
    with pytest.raises(NotFittedError, match=r"This DTGFNClassifier instance is not fitted yet"):
        export(DTGFNClassifier(), "text")
    rows = np.random.default_rng(0).normal(size=(40, 2))
    detector = DTGFNAnomalyDetector(n_trees=1, max_depth=1, random_state=0)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        export(detector, "json")
    with pytest.raises(TypeError, match="A DTGFNAnomalyDetector has no single posterior to"):
        export(detector.fit(rows), "json")


def test_every_format_takes_a_model_a_posterior_and_any_tree():
    X = [[1.0], [2.0], [8.0], [9.0]] * 5
    model = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3, n_trees=20)
    model.fit(X, ["no", "no", "yes", "yes"] * 5)
    for name, (_, many, _) in FORMATS.items():
        for trees in ("best", None, "consensus", 3, model.best_tree_, *["all"] * many):
            assert str(export(model, name, trees=trees)) == str(
                export(model.posterior_, name, trees=trees)
            )


def test_files_appear_whole_or_not_at_all(tmp_path):
    posterior = stump()
    path = tmp_path / "tree.dot"
    path.write_text("before")
    assert path.read_text() != export(posterior, "dot", path=path) == path.read_text()
    export(posterior, "onnx", path=tmp_path / "tree.onnx")
    onnx.checker.check_model(str(tmp_path / "tree.onnx"))
    with pytest.raises(ValueError, match="cannot be written; give a file in a folder that exists"):
        export(posterior, "dot", path=tmp_path / "nowhere" / "tree.dot")
    with pytest.raises(ValueError, match="leave out path and use joblib"):
        export(posterior, "sklearn", path=tmp_path / "tree.pkl")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree.dot", "tree.onnx"]


def test_trees_read_from_json_can_be_exported_again():
    posterior, *_ = case("mixed", 2)
    again = from_json(export(posterior, "json"))
    for name in ("text", "dot", "mermaid"):
        assert export(again, name).count("rows") == export(posterior, name).count("rows")
    with pytest.raises(ValueError, match="This format shows one tree, not 20"):
        export(from_json(export(posterior, "json", trees="all")), "dot")


@dataclass(frozen=True)
class OwnLeaf:
    """A leaf model of one's own, which only the engines know."""

    n_sums = n_outputs = 3

    def terms(self, weight=None):
        return DirichletLeaf(3).terms(weight)

    def normalise(self, outputs):
        return outputs


def test_leaves_of_ones_own_are_drawn_but_not_exported():
    posterior, *_ = case("mixed", 1)
    own = replace(posterior, score=replace(posterior.score, leaf=OwnLeaf()))
    first = take_trees(posterior)
    leaf = np.flatnonzero(first.trees.feature[0] < 0)[0]
    said = ", ".join(f"{number:.6g}" for number in first.value[0, leaf])
    for name, (_, many, _) in FORMATS.items():
        if many:
            with pytest.raises(ValueError, match="neither classes nor numbers"):
                export(own, name)
        else:
            assert said in export(own, name)


@pytest.mark.parametrize("library", ["onnx", "shap"])
def test_a_library_that_is_not_there_is_named_with_its_extra(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'dtgfn\[{library}\]'"):
        export(stump(), "onnx") if library == "onnx" else shap_values(stump(), [[1.0]])


def test_codes_without_columns_can_be_exported_too():
    posterior, *_ = case("mixed", 3)
    bare = replace(posterior, binner=None, classes=None)
    expected = ours(posterior, mixed_frame(60, np.random.default_rng(3)))
    codes = bare.rows.codes.astype(float)
    assert np.allclose(from_json(export(bare, "json", trees="all")).average(codes), expected)
    assert "code " in export(bare, "dot")


# Drawings.


@pytest.mark.parametrize("name", ["dot", "mermaid", "text"])
def test_missing_values_and_categories_are_drawn_in_words(name):
    posterior, *_ = case("mixed", 1)
    seen = "".join(export(posterior, name, trees=b) for b in range(20))
    assert "colour is not " in seen
    assert " is present" in seen
    assert "flag is false" in seen


def dot_labels(text):
    """The labels of a dot text, read by the rules of its quoted strings."""
    line = re.compile(r'  (n\d+|n\d+ -> n\d+) \[label="((?:[^"\\]|\\.)*)"\];')
    body = text.splitlines()[3:-1]
    assert all(line.fullmatch(each) for each in body)
    return [line.fullmatch(each)[2] for each in body]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out_of_dot(name):
    labels = dot_labels(export(stump([name]), "dot"))
    shown, rows = labels[0].rsplit("\\n", 1)
    assert rows == "20 rows"
    plain = re.sub(r"\\(.)", r"\1", shown).replace("&amp;", "&")
    assert plain == visible(name) + " <= 5"


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("name", HOSTILE)
def test_graphviz_reads_dot_and_shows_the_name(name):
    run = subprocess.run(
        ["dot", "-Tjson"], input=export(stump([name]), "dot"), text=True, capture_output=True
    )
    assert run.returncode == 0
    assert run.stderr == ""
    drawn = json.loads(run.stdout)
    assert len(drawn["objects"]) == 3
    assert len(drawn["edges"]) == 2
    text = "".join(op["text"] for op in drawn["objects"][0]["_ldraw_"] if op["op"] == "T")
    assert text == visible(name) + " <= 520 rows"


@given(st.text())
def test_no_text_ends_its_label(text):
    quoted = dot.escape(text)
    assert re.fullmatch(r'(?:[^"\\]|\\["\\])*', quoted)
    assert quoted.isprintable()
    label = mermaid.escape(text)
    assert label.isprintable()
    assert not set(re.sub(r"#\d+;", "", label)) & mermaid.SPECIAL


@pytest.mark.parametrize("name", HOSTILE)
def test_names_cannot_break_out_of_mermaid(name):
    lines = export(stump([name]), "mermaid").splitlines()
    assert lines[0] == "flowchart TD"
    assert lines[4:] == ["  n0 -->|yes| n1", "  n0 -->|no| n2"]
    label = re.fullmatch(r'  n0\["([^"<>`%{}]*)<br/>20 rows"\]', lines[1])[1]
    plain = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label)
    assert plain == visible(name) + " <= 5"


# Numbers.


@pytest.mark.parametrize("kind", ["mixed", "numeric"])
def test_regressions_agree_in_every_format(kind):
    rng = np.random.default_rng(11)
    make = {"mixed": mixed_frame, "numeric": numeric_frame}[kind]
    posterior = make_posterior(make(60, rng), rng.normal(1000.0, 50.0, 60))
    new = make(100, rng)
    if kind == "numeric":
        new = new[~too_close(posterior, new).any(axis=1)]
    outputs = leaf_probabilities(posterior.trees, posterior.rows, posterior.score)
    reached = route(posterior.trees, encode(posterior.binner, as_table(new)))
    means = np.array([out[k, 1] for out, k in zip(outputs, reached, strict=True)])
    leaf = posterior.score.leaf
    expected = leaf.location + leaf.scale * (posterior.weights @ means)
    text = export(posterior, "json", trees="all")
    again = from_json(text)
    assert np.allclose(again.average(new)[:, 0], expected, rtol=1e-12)
    assert export(again, "json") == text
    rows = new.astype("float64") if kind == "numeric" else new
    assert np.allclose(export(posterior, "sklearn", trees="all").predict(rows), expected)
    (value,) = run_onnx(export(posterior, "onnx", trees="all"), new)
    assert np.allclose(value[:, 0], expected, rtol=1e-6)
    first = take_trees(posterior)
    some_leaf = np.flatnonzero(first.trees.feature[0] < 0)[0]
    for name in ("text", "dot", "mermaid"):
        assert f"{first.value[0, some_leaf, 0]:.6g}" in export(posterior, name)


# What the model predicts.


def noisy(n_rows: int = 120):
    """Rows of three classes that no tree gets all right, and others."""
    rng = np.random.default_rng(0)
    frame = mixed_frame(n_rows, rng)
    place = (frame["length"] > 0).to_numpy() + (frame["colour"] == "red").to_numpy()
    place = np.where(rng.random(n_rows) < 0.25, rng.integers(0, 3, n_rows), place)
    return frame, np.array(["a", "b", "ü"])[place], mixed_frame(200, rng)


def fitted(**options):
    frame, labels, new = noisy()
    model = DTGFNClassifier(
        max_depth=3,
        n_thresholds=7,
        n_trees=60,
        temperature=3.0,
        n_jobs=1,
        random_state=0,
        **options,
    )
    return model.fit(frame, labels), new


@pytest.fixture(scope="module")
def bagged():
    return fitted(inference="smc", ensemble="bags", options={"n_bags": 5})


def check_all_trees(model, new):
    """Trees in memory, in a document and in ONNX say what the model does."""
    expected = model.predict_proba(new)
    assert np.abs(take_trees(model, "all").average(new) - expected).max() < 1e-12
    again = from_json(export(model, "json", trees="all"))
    assert np.abs(again.average(new) - expected).max() < 1e-12
    label, probability = run_onnx(export(model, "onnx", trees="all"), new)
    assert np.abs(probability - expected).max() < 1e-6
    assert (label == model.predict(new)).all()
    return expected


def test_all_trees_predict_as_the_model_whatever_its_weighting():
    model, new = fitted(inference="mcmc", options={"n_steps": 20_000})
    said = {}
    for weighting in ("importance", "uniform", "posterior"):
        said[weighting] = check_all_trees(model.set_params(weighting=weighting), new)
    assert np.abs(said["posterior"] - said["uniform"]).max() > 1e-3
    of_posterior = take_trees(model.posterior_, "all").average(new)
    assert np.abs(of_posterior - said["importance"]).max() < 1e-12


def test_all_trees_of_bags_predict_as_sharply_as_the_model(bagged):
    model, new = bagged
    sharpness = model.posterior_.solution.sharpness
    assert abs(sharpness - 1) > 0.05
    expected = check_all_trees(model, new)
    assert np.abs(ours(model.posterior_, new) - expected).max() > 1e-3
    assert take_trees(model.posterior_, "all").sharpness == sharpness
    assert take_trees(model, 3).sharpness == take_trees(model).sharpness == 1
    best = take_trees(model).average(new)
    assert np.allclose(best, model.predict_proba(new, tree="best"), atol=1e-12)


@pytest.mark.parametrize("sharpness", [0.1, 10.0])
def test_onnx_sharpens_by_any_power(sharpness):
    posterior, _, new = case("numeric", 8)
    chosen = replace(take_trees(posterior, "all"), sharpness=sharpness)
    _, probability = run_onnx(export(chosen, "onnx"), new)
    expected = ours(posterior, new) ** sharpness
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.abs(probability - expected).max() < 1e-6
    assert np.allclose(chosen.average(new), expected)


def test_a_vote_cannot_sharpen(bagged):
    model, new = bagged
    with pytest.raises(ValueError, match=r"Bags predict the power .* to json or onnx\."):
        export(model, "sklearn", trees="all")
    one = export(model, "sklearn", trees="best")
    assert np.allclose(one.predict_proba(new), model.predict_proba(new, tree="best"), atol=1e-12)


# JSON.


@few
@given(seeds)
def test_json_read_back_predicts_the_same(seed):
    posterior, _, new = case("mixed", seed)
    text = export(posterior, "json", trees="all")
    again = from_json(text)
    assert np.allclose(again.average(new), ours(posterior, new), atol=1e-12)
    assert export(again, "json") == text


def test_json_is_the_documented_document():
    document = json.loads(export(stump(["length"]), "json"))
    tree = document["trees"][0]
    assert document["columns"] == [
        {"name": "length", "kind": "number", "categories": [], "has_missing": False}
    ]
    assert document["classes"] == ["no", "yes"]
    assert document["sharpness"] == 1
    assert tree["weight"] == 1
    assert tree["root"]["test"] == {"column": 0, "at_most": 5.0}
    assert tree["root"]["counts"] == [10, 10]
    assert tree["root"]["then"]["value"] == pytest.approx([10.1 / 10.2, 0.1 / 10.2])


def holds(test, row):
    """A test of the document, by its documentation alone."""
    cell = row.iloc[test["column"]]
    missing = pd.isna(cell)
    if "present" in test:
        return not missing
    if "is_not" in test:
        return missing or cell != test["is_not"]
    if missing:
        return False
    return cell <= test["at_most"] if "at_most" in test else bool(cell) is test["is"]


def test_json_can_be_followed_by_its_documentation_alone():
    posterior, _, new = case("mixed", 5)
    document = json.loads(export(posterior, "json", trees="all"))
    found = np.zeros((len(new), 3))
    for i in range(len(new)):
        for tree in document["trees"]:
            node = tree["root"]
            while "test" in node:
                node = node["then" if holds(node["test"], new.iloc[i]) else "else"]
            found[i] += tree["weight"] * np.array(node["value"])
    assert np.allclose(found, ours(posterior, new))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.update(format="x"), "its format is not 'dtgfn-trees'"),
        (lambda d: d.update(version=2), "its version is not 1"),
        (lambda d: d.update(sharpness=0), "its sharpness is no number above zero"),
        (lambda d: d.update(sharpness="2"), "its sharpness is no number above zero"),
        (lambda d: d.update(trees=[]), "it has no list of trees"),
        (lambda d: d.update(classes=[1, 1]), "its classes are not distinct"),
        (lambda d: d.pop("columns"), "it has no list of columns"),
        (lambda d: d.pop("named"), "'named' must be bool"),
        (lambda d: d["trees"][0].update(weight=-1), "a tree's weight is no number"),
        (lambda d: d["trees"][0].update(weight=0.5), "its weights do not add up to one"),
        (lambda d: d["trees"][0]["root"].pop("else"), "a split lacks a side"),
        (lambda d: d["trees"][0]["root"].update(value=[1]), "a node's value is not 2 numbers"),
        (lambda d: d["trees"][0]["root"].update(then=3), "a node is no object"),
        (lambda d: d["trees"][0]["root"]["test"].update(column=1), "a column that does not exist"),
        (lambda d: d["trees"][0]["root"]["test"].update(at_most="x"), "a threshold is no number"),
        (lambda d: d["trees"][0]["root"]["test"].update(x=1), "a test is no test"),
        (
            lambda d: d["trees"][0]["root"].update(test={"column": 0, "is_not": "red"}),
            "column 'x0' cannot be asked 'is_not' with 'red'",
        ),
    ],
)
def test_documents_of_strangers_are_refused_in_a_sentence(change, fault):
    document = json.loads(export(stump(), "json"))
    change(document)
    with pytest.raises(ValueError, match=re.escape(fault)):
        from_json(json.dumps(document))


def test_a_document_without_sharpness_is_not_sharpened():
    document = json.loads(export(stump(), "json"))
    del document["sharpness"]
    assert from_json(json.dumps(document)).sharpness == 1
    numbers = make_posterior(np.arange(20.0)[:, None], np.arange(20.0))
    document = json.loads(export(numbers, "json")) | {"sharpness": 2.0}
    with pytest.raises(ValueError, match="numbers have no sharpness but 1"):
        from_json(json.dumps(document))


def test_what_is_no_json_is_refused():
    for text in ("", "[", "[]", "[" * 100_000):
        with pytest.raises(ValueError, match="not"):
            from_json(text)


# scikit-learn.


def too_close(posterior, X):
    """Cells [n, columns] that lie above a threshold by less than float32 can tell."""
    cells = np.asarray(X.astype("float64"))
    found = np.zeros(cells.shape, dtype=bool)
    for place, spec in enumerate(posterior.binner.columns):
        for threshold in spec.thresholds:
            same = cells[:, place].astype(np.float32) == np.float32(threshold)
            found[:, place] |= same & (cells[:, place] > threshold)
    return found


@few
@given(seeds)
def test_sklearn_tree_on_raw_columns_agrees(seed):
    posterior, frame, new = case("numeric", seed)
    tree = export(posterior, "sklearn")
    assert isinstance(tree, DecisionTreeClassifier)
    for rows in (frame, new):
        told = ~too_close(posterior, rows).any(axis=1)
        raw = rows.astype("float64")[told]
        assert np.allclose(tree.predict_proba(raw), ours(posterior, rows, "best")[told], atol=1e-12)
    assert tree.predict(raw).dtype.kind == "U"
    assert told.sum() > 100


@few
@given(seeds)
def test_sklearn_pipeline_on_codes_agrees_on_every_kind_of_column(seed):
    posterior, frame, new = case("mixed", seed)
    pipeline = export(posterior, "sklearn")
    for rows in (frame, new):
        assert np.allclose(pipeline.predict_proba(rows), ours(posterior, rows, "best"), atol=1e-12)


def test_shap_explains_the_forest_of_all_trees_with_their_weights():
    shap = pytest.importorskip("shap")
    X = np.round(np.random.default_rng(0).normal(size=(60, 3)), 2)
    y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    posterior = infer(X, y, engine="smc", max_depth=2, n_trees=50, random_state=0, n_jobs=1)
    forest, rows = export(posterior, "sklearn", trees="all"), posterior.encode(X)
    assert len(forest.estimators_) > 1
    expected = average_outputs(posterior, rows)
    np.testing.assert_allclose(forest.predict_proba(X), expected, atol=1e-12)
    assert (forest.predict(X) == posterior.classes[expected.argmax(axis=1)]).all()
    explainer = shap.TreeExplainer(forest)
    told = explainer.shap_values(X[::12]).sum(axis=1) + explainer.expected_value
    np.testing.assert_allclose(told, expected[::12], atol=1e-9)


@pytest.mark.parametrize("columns", ["raw", "codes"])
def test_sklearn_vote_of_all_trees_agrees(columns):
    posterior, _, new = case("numeric", 4)
    vote = export(posterior, "sklearn", trees="all", columns=columns)
    rows = new[~too_close(posterior, new).any(axis=1)].astype("float64")
    expected = ours(posterior, rows)
    assert np.allclose(vote.predict_proba(rows), expected, atol=1e-12)
    assert (vote.predict(rows) == posterior.classes[expected.argmax(axis=1)]).all()


# Whole doubles and their neighbours at every scale, so that float32 rounds many across a threshold.
numbers = st.integers(-(2**30), 2**30).map(lambda k: k / 2**20 + 0.1)


@few
@given(
    st.lists(numbers, min_size=8, max_size=30, unique=True),
    st.sampled_from(["midpoint", "uniform"]),
)
def test_sklearn_tree_sends_every_float32_row_the_same_way(values, binning):
    single = np.array(values, dtype=np.float32)
    X = single[:, None]
    labels = np.arange(len(X)) % 2
    posterior = make_posterior(X, labels, n_trees=1, n_thresholds=30, binning=binning)
    tree = export(posterior, "sklearn", dtype="float32")
    for rows in (X, np.nextafter(X, np.float32(np.inf)), np.nextafter(X, -np.float32(np.inf))):
        assert (tree.predict_proba(rows) == ours(posterior, rows, "best")).all()


@few
@given(
    st.lists(numbers, min_size=8, max_size=30, unique=True),
    st.sampled_from(["midpoint", "uniform"]),
)
def test_sklearn_tree_keeps_double_rows_unless_float32_cannot_tell(values, binning):
    X = np.array(values)[:, None]
    posterior = make_posterior(
        X, np.arange(len(X)) % 2, n_trees=1, n_thresholds=30, binning=binning
    )
    thresholds = posterior.binner.features[0].thresholds
    rows = np.concatenate([X.ravel(), thresholds, thresholds * 1.0001, thresholds * 0.9999])[
        :, None
    ]
    rows = rows[~too_close(posterior, rows)[:, 0]]
    tree = export(posterior, "sklearn")
    assert (tree.predict_proba(rows) == ours(posterior, rows, "best")).all()


def test_sklearn_tree_can_be_printed_plotted_and_stored(tmp_path):
    posterior, frame, _ = case("numeric", 2)
    tree = export(posterior, "sklearn")
    assert "|--- class: " in export_text(tree, feature_names=list(frame.columns))
    pytest.importorskip("matplotlib").use("Agg")
    assert len(plot_tree(tree)) >= tree.tree_.node_count
    joblib.dump(tree, tmp_path / "tree.joblib")
    again = joblib.load(tmp_path / "tree.joblib")
    raw = frame.astype("float64")
    assert (again.predict_proba(raw) == tree.predict_proba(raw)).all()
    assert (tree.tree_.n_node_samples > 0).all()


def test_sklearn_refuses_what_it_cannot_hold():
    posterior, *_ = case("mixed", 1)
    with pytest.raises(ValueError, match=r"takes numbers, but 'colour', 'shape' have categories"):
        export(posterior, "sklearn", columns="raw")
    with pytest.raises(ValueError, match="columns='x' is not known; give one of auto, raw, codes"):
        export(posterior, "sklearn", columns="x")
    with pytest.raises(ValueError, match="dtype='int' is not known; give one of float64, float32"):
        export(posterior, "sklearn", dtype="int")


def test_code_columns_of_the_pipeline_have_names():
    posterior, *_ = case("mixed", 1)
    names = export(posterior, "sklearn")["codes"].get_feature_names_out().tolist()
    assert names[:5] == ["length", "width", "flag", "maybe", "colour is blue"]
    assert names[-1] == "shape is missing"


# ONNX.


@few
@given(seeds, st.sampled_from(["mixed", "numeric"]), st.sampled_from(["best", "all"]))
def test_onnx_agrees(seed, kind, trees):
    posterior, _, new = case(kind, seed)
    label, probability = run_onnx(export(posterior, "onnx", trees=trees), new)
    expected = ours(posterior, new, trees)
    assert np.abs(probability - expected).max() < 1e-6
    top = np.sort(expected, axis=1)
    clear = top[:, -1] > top[:, -2] + 1e-6
    assert (label == posterior.classes[expected.argmax(axis=1)])[clear].all()


def test_onnx_agrees_for_a_thousand_trees_and_whole_number_classes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 8)), columns=[f"c{k}" for k in range(8)])
    posterior = make_posterior(X, rng.integers(3, 6, 300), n_trees=1000, depth=5, n_thresholds=99)
    assert len(take_trees(posterior, "all").trees) > 900
    label, probability = run_onnx(export(posterior, "onnx", trees="all"), X)
    assert np.abs(probability - ours(posterior, X)).max() < 1e-6
    assert label.dtype == np.int64
    assert set(label) <= {3, 4, 5}


def test_onnx_routes_doubles_that_float32_cannot_tell_apart():
    X = np.repeat([0.1, np.nextafter(0.1, 1), np.nextafter(np.nextafter(0.1, 1), 1)], 5)[:, None]
    labels = np.repeat([0, 1, 0], 5)
    posterior = make_posterior(X, labels, n_trees=3, n_thresholds=5, binning="midpoint")
    _, probability = run_onnx(export(posterior, "onnx", trees="all"), pd.DataFrame(X))
    expected = ours(posterior, X)
    assert np.ptp(expected[:, 0]) > 0.1
    assert np.abs(probability - expected).max() < 1e-6


def test_onnx_carries_names_version_and_classes():
    posterior, frame, _ = case("mixed", 1)
    for source, trees in ((posterior, "all"), (make_posterior(frame, np.arange(60.0)), "best")):
        model = export(source, "onnx", trees=trees)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        said = session.get_modelmeta().custom_metadata_map
        columns = json.loads(said["columns"])
        assert [column["name"] for column in columns] == list(frame.columns)
        assert columns[4]["categories"] == ["blue", "green", "grey", "red"]
        labels = None if source.classes is None else source.classes.tolist()
        assert json.loads(said["classes"]) == labels
        assert said["dtgfn_version"] == model.producer_version == dtgfn.__version__


def test_onnx_refuses_what_it_cannot_tell():
    rng = np.random.default_rng(0)
    texts = np.where(rng.random(40) < 0.5, "", "x").astype(object)
    texts[:9] = None
    labels = rng.integers(0, 2, 40)
    with pytest.raises(ValueError, match="'t' has both empty texts and missing cells"):
        export(make_posterior(pd.DataFrame({"t": texts}), labels), "onnx")
    for name in ("label", ""):
        frame = pd.DataFrame({name: ["a", "b"] * 20})
        with pytest.raises(ValueError, match=f"another use for the name '{name}'; rename"):
            export(make_posterior(frame, labels), "onnx")
