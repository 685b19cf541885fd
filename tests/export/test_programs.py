"""SQL, C and JavaScript, run where they belong, say what the model says."""

from __future__ import annotations

import math
import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from browsers import running_chromium
from foreign_programs import cells, compile_c, run_c, run_duckdb, run_javascript, run_sqlite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_posterior import make_posterior, mixed_frame
from thoroughness import examples

from dtgfn import DTGFNClassifier, DTGFNRegressor
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.explain.tree_set import take_trees
from dtgfn.export import export, program, sql
from dtgfn.export.c_source import c_literal
from dtgfn.posterior.prediction import average_trees

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
CLOSE = 1e-9
SUM = {"n_summed": 6, "n_chains": 2, "n_sweeps": 12, "n_draws": 8}
SUM = {"ensemble": "sum", "options": SUM, "n_thresholds": 9, "random_state": 0, "n_jobs": 1}
HOSTILE = [
    'a "quoted" name',
    "it's; DROP TABLE data; --",
    "*/ int main(void) { return system(0); } /*",
    '"]; window.hacked = 1; //</script>',
    "two\nlines\t\\",
    "größe [°C] `é` ${1} ??/ %s",
    "SELECT",
    "__proto__",
    "\u2028x",
]


@pytest.fixture(scope="module")
def page():
    """A page of Chromium that says nothing of its own."""
    with contextmanager(running_chromium)() as browser:
        opened, wrong = browser.new_page(), []
        opened.on("console", lambda message: wrong.append(message.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        yield opened
        assert wrong == []


def check(source, expected, new, page, folder, trees="all"):
    """Run a source in all targets on rows [n], of which [n, K] is expected."""
    posterior = getattr(source, "posterior_", source)
    binner = source.binner if hasattr(source, "binner") else posterior.binner
    classes = source.classes if hasattr(source, "classes") else posterior.classes
    n_classes = 0 if classes is None else len(classes)
    options = {} if hasattr(source, "sharpness") and hasattr(source, "value") else {"trees": trees}
    statement = export(source, "sql", keep=["row key"], **options)
    scale = max(1.0, float(np.abs(expected).max()))
    for run in (run_sqlite, run_duckdb):
        assert np.abs(run(statement, new) - expected).max() < CLOSE * scale, run.__name__
    said = run_c(export(source, "c", **options), new, binner, n_classes, folder)
    assert np.abs(said - expected).max() < CLOSE * scale
    found = run_javascript(page, export(source, "javascript", **options), new)
    assert np.abs(found["said"] - expected).max() < CLOSE * scale
    if n_classes:
        top = np.sort(expected, axis=1)[:, -2:]
        clear = top[:, -1] - top[:, 0] > 1e-6 if n_classes > 1 else np.ones(len(new), dtype=bool)
        labels = np.array(found["classes"])[expected.argmax(axis=1)]
        assert (np.array(found["labels"]) == labels)[clear].all()


def ours(posterior, X, trees):
    """P(class), or a number, by the package's own loop [n, K]."""
    batch, weight = posterior.trees, posterior.weights
    if trees == "best":
        batch, weight = posterior.best_tree, np.ones(1)
    codes = encode(posterior.binner, as_table(X))
    outputs = average_trees(batch, weight, posterior.rows, posterior.score, codes)
    leaf = posterior.score.leaf
    return (
        outputs if posterior.classes is not None else leaf.location + leaf.scale * outputs[:, 1:2]
    )


# Tables of any names, texts and numbers.

names = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), max_size=5))
names = names.filter(lambda name: name and "\0" not in name and name.casefold() != "row key")
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
texts = st.one_of(st.sampled_from([*HOSTILE, "", "True", "1", "NULL"]), texts)
floats = st.floats(allow_nan=False, allow_infinity=False, width=64).map(lambda x: x + 0.0)
floats = st.one_of(floats, st.integers(-40, 40).map(lambda k: k / 10), st.sampled_from([0.1, 0.3]))
KINDS = {"number": floats, "boolean": st.booleans(), "text": texts}


@st.composite
def tables(draw):
    """A frame to learn from, and other rows: unseen texts, missing cells, doubles next door."""
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.casefold))
    n_rows, n_new = draw(st.integers(6, 12)), 12
    columns, new = {}, {}
    for name in chosen:
        kind = draw(st.sampled_from(list(KINDS)))
        holes = draw(st.booleans())
        cell = st.one_of(st.none(), KINDS[kind]) if holes else KINDS[kind]
        values = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
        present = [v for v in values if v is not None] or draw(st.lists(KINDS[kind], min_size=1))
        near = list(present)
        if kind == "number":
            near += [math.nextafter(v, s) for v in present for s in (math.inf, -math.inf)]
            near = [v for v in near if math.isfinite(v)]
        cell = st.one_of(st.none(), st.sampled_from(near), KINDS[kind])
        others = draw(st.lists(cell, min_size=n_new, max_size=n_new))
        dtype = {"number": "float64", "boolean": "boolean", "text": "object"}[kind]
        values = [*values[:-1], present[0]]  # a column is of a kind if one cell is
        columns[name] = pd.Series(values, dtype=dtype)
        new[name] = pd.Series(others, dtype=dtype)
    return pd.DataFrame(columns), pd.DataFrame(new)


@examples(8, suppress_health_check=list(HealthCheck))
@given(tables(), st.integers(0, 2**32 - 1), st.sampled_from(["best", "all"]), st.booleans())
def test_any_table_is_predicted_alike_everywhere(
    page, tmp_path_factory, both, seed, trees, numbers
):
    frame, new = both
    rng = np.random.default_rng(seed)
    labels = rng.normal(1e3, 50.0, len(frame)) if numbers else rng.choice(["a", "it's"], len(frame))
    posterior = make_posterior(frame, labels, n_trees=6, seed=seed, binning="uniform")
    new = pd.concat([new, frame], ignore_index=True).astype(new.dtypes)
    thresholds = {n: s.thresholds for n, s in zip(new, posterior.binner.columns, strict=True)}
    for name, values in thresholds.items():  # ties with a threshold, as a double
        if new[name].dtype == "float64" and len(values):
            new.loc[:3, name] = rng.choice(values, 4)
    folder = tmp_path_factory.mktemp("c")
    check(posterior, ours(posterior, new, trees), new, page, folder, trees)


# Models.


def rows(n_rows=80):
    """Rows to learn from, their lengths, and others with missing cells and unknown categories."""
    rng = np.random.default_rng(5)
    lengths = rng.normal(size=n_rows)
    frame, new = mixed_frame(n_rows, rng).assign(length=lengths), mixed_frame(60, rng)
    new.loc[:20, "colour"] = "violet"
    new.loc[10:30, "shape"] = None
    new.loc[40:50, "length"] = np.nan
    new.loc[52:55, "length"] = [1e308, -1e308, 0.0, 5e-324]
    return frame, lengths, new


@pytest.mark.parametrize("classes", [["same"], ["no", "yes"], ["a", "b", "ü"], [3, 7]])
def test_sums_of_classes(classes, page, tmp_path):
    frame, lengths, new = rows()
    y = np.array(classes)[np.argsort(np.argsort(lengths)) * len(classes) // len(lengths)]
    model = DTGFNClassifier(**SUM).fit(frame, y)
    check(model, model.predict_proba(new), new, page, tmp_path)


@pytest.mark.parametrize("unit", [1.0, 1e9])
def test_sums_of_numbers(unit, page, tmp_path):
    frame, lengths, new = rows()
    model = DTGFNRegressor(**SUM).fit(frame, unit * (3.0 + lengths))
    check(model, model.predict(new)[:, None], new, page, tmp_path)


def test_bags_as_sharp_as_they_are_and_the_best_tree(page, tmp_path):
    frame, lengths, new = rows()
    y = np.where(lengths + np.random.default_rng(0).normal(size=80) > 0, "no", "yes")
    model = DTGFNClassifier(
        inference="smc",
        ensemble="bags",
        max_depth=2,
        n_thresholds=5,
        n_trees=20,
        n_jobs=1,
        random_state=0,
        options={"n_bags": 4},
    ).fit(frame, y)
    for sharpness in (model.posterior_.sharpness, 0.2, 9.0):
        chosen = replace(take_trees(model, "all"), sharpness=sharpness)
        check(chosen, chosen.average(new), new, page, tmp_path)
    assert np.abs(take_trees(model, "all").average(new) - model.predict_proba(new)).max() < 1e-12
    check(model, model.predict_proba(new, tree="best"), new, page, tmp_path, trees="best")


def test_a_thousand_trees_and_deep_ones(page, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    many = make_posterior(X, rng.integers(0, 2, 300), n_trees=1000, depth=3, n_thresholds=99)
    check(many, ours(many, X[:50], "all"), X[:50], page, tmp_path)
    deep = make_posterior(X, rng.integers(0, 2, 300), n_trees=1, depth=12, n_thresholds=99, seed=3)
    assert int(deep.trees.depth[0]) >= 8
    check(deep, ours(deep, X, "best"), X, page, tmp_path, trees="best")


# Names.


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out(name, page, tmp_path):
    cell = np.array(["x", name], dtype=object)[np.arange(20) % 2]
    frame = pd.DataFrame({name: cell, "other": np.arange(20.0)})
    posterior = make_posterior(frame, np.array(["fine", name])[np.arange(20) // 10], depth=2)
    check(posterior, ours(posterior, frame, "all"), frame, page, tmp_path)
    statement = export(posterior, "sql", trees="all", table=name, keep=["row key"])
    assert np.allclose(run_sqlite(statement, frame, table=name), ours(posterior, frame, "all"))


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_quoting_keeps_any_text(text):
    spelled = c_literal(text)
    assert spelled.isascii()
    assert spelled.isprintable()
    inside = spelled[1:-1].encode().decode("unicode_escape").encode("latin-1")
    assert inside.decode("utf-8") == text
    if "\0" not in text:
        connection = sqlite3.connect(":memory:")
        assert connection.execute(f"SELECT {sql.literal(text)}").fetchone() == (text,)
        if text:
            found = connection.execute(f"SELECT 1 AS {sql.identifier(text)}")
            assert found.description[0][0] == text
        connection.close()


def test_what_a_language_cannot_say_is_refused():
    y = np.arange(20) // 10
    nul = make_posterior(pd.DataFrame({"t": ["a\0b", "c"] * 10}), y, depth=2)
    with pytest.raises(ValueError, match=r"SQL cannot hold the category 'a\\x00b'"):
        export(replace(nul, binner=swapped(nul.binner)), "sql", trees="all")
    with pytest.raises(ValueError, match="'t' has a category with a NUL character"):
        export(nul, "c")
    with pytest.raises(ValueError, match=r"name='my model' cannot begin a name of C"):
        export(make_posterior(np.arange(20.0)[:, None], y), "c", name="my model")
    alike = pd.DataFrame({"a": np.arange(20.0), "A": np.arange(20.0) % 7})
    with pytest.raises(ValueError, match="Columns 'a', 'A' differ by case alone"):
        export(make_posterior(alike, y), "sql", trees="all")
    with pytest.raises(ValueError, match=r"SQL has no name '\\x00'; rename the column"):
        export(make_posterior(pd.DataFrame({"\0": np.arange(20.0)}), y), "sql", trees="all")


def swapped(binner):
    """The same binner, asked about the other of two categories."""
    spec = binner.columns[0]
    return replace(binner, columns=(replace(spec, categories=spec.categories[::-1]),))


def test_what_is_too_large_is_refused_with_a_way_out(monkeypatch):
    posterior = make_posterior(np.arange(40.0)[:, None], np.arange(40) % 2)
    monkeypatch.setattr(sql, "MOST_LEAVES", 5)
    with pytest.raises(ValueError, match=r"leaves and 2 sums is more than .* export one tree"):
        export(posterior, "sql", trees="all")
    with pytest.raises(ValueError, match=r"nodes are more than the 5 .* export one tree"):
        program.program_of(take_trees(posterior, "all"), most_nodes=5)


# JavaScript's and C's own promises.


def test_rows_of_another_shape_are_refused_by_the_module(page):
    frame, _, new = rows()
    posterior = make_posterior(frame, np.arange(80) % 2)
    module = export(posterior, "javascript", trees="all")
    by_place = run_javascript(page, module, new, by_name=False)["said"]
    assert np.abs(by_place - ours(posterior, new, "all")).max() < CLOSE
    ask = """async ([code, row]) => {
      const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      try { (await import(url)).predict(row); } catch (error) { return error.message; }
    }"""
    row = dict(zip(new.columns, cells(new)[0], strict=True))
    for change, said in [
        ({"length": "long"}, 'column "length" holds no number'),
        ({"flag": 2}, 'column "flag" holds no boolean'),
        ({"flag": None}, None),
    ]:
        assert page.evaluate(ask, [module, row | change]) == said
    del row["length"]
    assert page.evaluate(ask, [module, row]) == 'the row lacks column "length"'
    assert page.evaluate(ask, [module, [1.0]]) == "the row has 1 cells, not 6"


def test_two_models_go_into_one_program_of_c(tmp_path):
    posterior = make_posterior(np.arange(40.0)[:, None], np.arange(40) % 2)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        library = compile_c(export(posterior, "c", name=name), tmp_path / name)
        assert hasattr(library, f"{name}_predict_proba")
        assert not hasattr(library, "outputs"), "only names of its own are public"


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300)
def test_doubles_are_read_back_as_they_were(number):
    connection = sqlite3.connect(":memory:")
    assert connection.execute(f"SELECT {sql.double(number)}").fetchone() == (number,)
    connection.close()
    assert float(sql.double(number)) == number
