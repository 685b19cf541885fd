"""Promises of sources: in chunks a table is what it is in memory, and refused in a sentence."""

import gzip
import math
import resource
import tempfile

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.data import csv_source, row_store, sources
from dtgfn.data.binning import encode, fit_binner
from dtgfn.data.column_summaries import TableSummary, TextSummary
from dtgfn.data.equal_rows import CodedRows, group_rows
from dtgfn.data.open_source import is_source, open_file, open_source
from dtgfn.data.quantile_sketch import QuantileSketch
from dtgfn.data.row_store import RowStore
from dtgfn.data.sources import Reread, read_settled
from dtgfn.data.table_files import read_table
from dtgfn.data.tables import TableError, as_table
from dtgfn.inference.source_data import read_rows, training_source

RNG = np.random.default_rng(0)
N_ROWS = 700


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(
        {
            "size": RNG.integers(0, 40, N_ROWS) / 4,
            "colour": RNG.choice(["red", "blue", "green", None], N_ROWS),
            "new": RNG.random(N_ROWS) < 0.3,
            "gap": np.where(RNG.random(N_ROWS) < 0.1, np.nan, RNG.normal(size=N_ROWS).round(2)),
            "weight": RNG.integers(0, 4, N_ROWS),
            "y": RNG.choice(["no", "yes"], N_ROWS),
        }
    )


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    frame.to_parquet(folder / "one.parquet", row_group_size=90)
    frame.to_csv(folder / "one.csv", index=False)
    frame.to_csv(folder / "one.tsv.gz", index=False, sep="\t")
    (folder / "parts").mkdir()
    for k, part in enumerate(np.array_split(np.arange(N_ROWS), 4)):
        frame.iloc[part].to_parquet(folder / "parts" / f"{k}.parquet")
    frame.iloc[:0].to_parquet(folder / "parts" / "9-empty.parquet")
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "LEAST_AT_ONCE", 64)
    monkeypatch.setattr(sources, "CELLS_AT_ONCE", 64 * 6)
    monkeypatch.setattr(csv_source, "BLOCK", 4096)


SOURCES = {
    "parquet": lambda folder: str(folder / "one.parquet"),
    "csv": lambda folder: folder / "one.csv",
    "gzip": lambda folder: folder / "one.tsv.gz",
    "folder": lambda folder: folder / "parts",
    "dataset": lambda folder: ds.dataset(folder / "one.parquet"),
    "LazyFrame": lambda folder: pl.scan_parquet(folder / "one.parquet"),
    "relation": lambda folder: duckdb.sql(f"select * from '{folder}/one.parquet'"),
    "frames": lambda folder: lambda: pd.read_csv(folder / "one.csv", chunksize=99),
}


@pytest.fixture(params=SOURCES)
def source(request, files):
    return SOURCES[request.param](files)


@pytest.mark.parametrize("binning", ["uniform", "quantile", "midpoint"])
def test_a_source_has_the_bins_and_rows_of_its_frame(source, frame, binning):
    found = read_rows(
        training_source(source, "y", "weight"), of_classes=True, binning=binning, n_thresholds=9
    )
    table = as_table(frame.drop(columns=["y", "weight"]))
    weight = frame.weight.to_numpy(dtype=float)
    binner = fit_binner(table, binning=binning, n_thresholds=9, sample_weight=weight)
    for one, other in zip(found.binner.columns, binner.columns, strict=True):
        assert (one.name, one.kind, one.categories) == (other.name, other.kind, other.categories)
        assert one.has_missing == other.has_missing
        np.testing.assert_array_equal(one.thresholds, other.thresholds)
    label = (frame.y == "yes").to_numpy().astype(np.int32)
    every = CodedRows(encode(binner, table), label, weight).take(weight > 0)
    for one, other in zip(found.rows, group_rows(every), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.classes.tolist() == ["no", "yes"]


def test_every_chunk_is_a_part(source, frame):
    assert is_source(source)
    sizes = [table.n_rows for table in open_source(source).chunks()]
    assert sum(sizes) == N_ROWS
    assert len(sizes) > 3
    assert min(sizes) > 0  # a part without rows is left out


@pytest.mark.parametrize("kind", ["number", "boolean", "text"])
def test_labels_are_those_of_a_frame(frame, tmp_path, kind):
    y = {"number": [3, 1, 2], "boolean": [True, False, True], "text": ["b", "a", "b"]}[kind]
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": y}).to_csv(tmp_path / "t.csv", index=False)
    given = training_source(tmp_path / "t.csv", "y")
    found = read_rows(given, of_classes=True, binning="uniform", n_thresholds=3)
    assert found.classes.tolist() == sorted(set(y))
    assert found.classes[found.rows.target].tolist() == y


# ---------------------------------------------------------------- CSV


def columns_of(tables):
    parts = list(tables)
    first = parts[0].columns
    values = [np.concatenate([p.columns[j].values for p in parts]) for j in range(len(first))]
    return [(c.name, c.kind, v) for c, v in zip(first, values, strict=True)]


def settled(source):
    """Read again while a source learns of itself, as the first pass of a fit does."""
    while True:
        try:
            return list(source.chunks())
        except Reread as again:
            source = again.source


LATE = {
    "text after numbers": [*range(1500), "n/k"],
    "numbers as Python spells them": [*range(1500), "1e3 ", "+2", "٣"],
    "true after nothing": ["", *["true", "False"] * 800],
    "numbers after nothing": [*[""] * 1200, 3, 4],
    "missing in many ways": ["NA", "", "null", "nan", "#N/A", *range(1500)],
    "text with quotes and lines": ['a "b", c', "two\nlines", " padded"] * 400,
}


@pytest.mark.parametrize("case", LATE)
def test_a_csv_column_is_what_it_is_in_memory(case, tmp_path):
    cells = pd.DataFrame({"before": range(len(LATE[case])), "cell": LATE[case]}, dtype=object)
    cells.to_csv(tmp_path / "late.csv", index=False)
    wanted = columns_of([read_table(tmp_path / "late.csv")])
    found = columns_of(settled(open_file(tmp_path / "late.csv")))
    for (name, kind, values), (name2, kind2, values2) in zip(found, wanted, strict=True):
        if case == "true after nothing" and name == "cell":
            continue  # decided by the first thousand rows
        assert (name, kind) == (name2, kind2)
        assert [None if v != v else v for v in values] == [None if v != v else v for v in values2]


def test_rows_come_once_when_a_column_turns_out_to_be_text(tmp_path):
    cells = [*map(str, range(3000)), "x"]
    pd.DataFrame({"cell": cells}).to_csv(tmp_path / "t.csv", index=False)
    tables = read_settled(open_file(tmp_path / "t.csv"))
    rows = [cell for table in tables for cell in table.columns[0].values]
    assert [str(cell).removesuffix(".0") for cell in rows] == cells


def test_what_counts_as_missing_is_what_pandas_says():
    text = "a\n" + "\n".join(f'"{mark}"' for mark in csv_source.MISSING)
    frame = pd.read_csv(pd.io.common.StringIO(text), skip_blank_lines=False)
    assert frame.a.isna().all()


def test_an_index_that_pandas_stored_is_no_column(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0]}, index=["p", "q"]).to_parquet(tmp_path / "i.parquet")
    assert open_file(tmp_path / "i.parquet").names == ("a",)


def test_folders_tell_columns_by_their_names(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(tmp_path / f"year={year}" / "p.parquet")
    table = as_rows(open_file(tmp_path))
    assert table["year"] == [2020.0, 2020.0, 2021.0, 2021.0]


def as_rows(source):
    return {name: values.tolist() for name, _, values in columns_of(source.chunks())}


# ---------------------------------------------------------------- quantiles and categories


@given(
    st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=40), min_size=1, max_size=12),
    st.integers(2, 32),
)
@example([[0, 0, 0, 1, -1]], 2)  # a share ends within the heavy value
@examples(60)
def test_the_sketch_is_off_by_no_more_than_it_says(chunks, capacity):
    sketch = QuantileSketch(capacity)
    for chunk in chunks:
        sketch.add(np.array(chunk, dtype=float), None)
    values, mass = sketch.summary()
    every = np.sort(np.concatenate(chunks))
    assert mass.sum() == len(every)
    assert values[-1] == every[-1]
    if len(set(every.tolist())) <= capacity:
        assert sketch.is_exact
    if sketch.is_exact:
        assert values.tolist() == np.unique(every).tolist()
    for number in range(-51, 51):
        right = np.searchsorted(every, number, side="right")
        said = mass[values <= number].sum()
        assert 0 <= right - said <= sketch.error_bound * len(every) + 1e-9


def test_the_sketch_of_many_numbers_is_close():
    numbers = np.random.default_rng(1).normal(size=200_000)
    sketch = QuantileSketch(1024)
    for chunk in np.array_split(numbers, 64):
        sketch.add(chunk, None)
    values, mass = sketch.summary()
    assert sketch.error_bound == (1 + 6) / 1024
    reached = np.searchsorted(np.cumsum(mass), 0.01 * np.arange(1, 100) * len(numbers))
    rank = np.searchsorted(np.sort(numbers), values[reached]) / len(numbers)
    assert np.abs(rank - 0.01 * np.arange(1, 100)).max() <= sketch.error_bound


def test_of_very_many_texts_the_frequent_ones_are_kept(monkeypatch):
    monkeypatch.setattr("dtgfn.data.column_summaries.MOST_TEXTS", 100)
    summary = TextSummary()
    for k in range(20):
        rare = [f"id {k} {i}" for i in range(150)]
        summary.add(np.array(rare + ["often"] * 50 + ["seldom"] * 10, dtype=object), None)
    assert len(summary.mass) <= 200
    assert summary.total == 20 * 210
    assert 20 * 50 - summary.total / 100 <= summary.mass["often"] <= 20 * 50
    assert "often" in summary.categories()


def test_a_category_of_one_part_only_is_known():
    summary = TableSummary("uniform", 9)
    summary.add(as_table(pd.DataFrame({"c": ["a", "b"]})), None)
    summary.add(as_table(pd.DataFrame({"c": ["z", None]})), None)
    spec = summary.binner().columns[0]
    assert (spec.categories, spec.has_missing) == (("a", "b", "z"), True)


# ---------------------------------------------------------------- rows in memory and on disk


def random_rows(n_rows, n_codes, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_codes, (n_rows, 3)).astype(np.uint16)
    return CodedRows(codes, rng.integers(0, 2, n_rows).astype(np.int32), rng.random(n_rows))


def total(rows):
    found = {}
    for code, label, weight in zip(*rows, strict=True):
        key = (*code.tolist(), label)
        found[key] = found.get(key, 0.0) + weight
    return found


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("n_codes", [2, 50])
@pytest.mark.parametrize("room", [1 << 12, 1 << 30])
def test_stored_rows_weigh_what_was_given(monkeypatch, merge, n_codes, room):
    monkeypatch.setattr(row_store, "IN_MEMORY", room)
    given = random_rows(2000, n_codes)
    store = RowStore(merge)
    for some in np.array_split(np.arange(2000), 7):
        store.add(given.take(some))
    found = store.finish()
    on_disk = isinstance(found.codes.base, np.memmap)
    assert on_disk == (room == 1 << 12 and not (merge and n_codes == 2))
    expected = total(given)
    assert total(found).keys() == expected.keys()
    assert all(math.isclose(w, expected[key]) for key, w in total(found).items())
    if merge and not on_disk:
        assert len(found.target) == len(expected)
    if not merge:
        for one, other in zip(found, given, strict=True):
            np.testing.assert_array_equal(one, other)


def fill(store):
    for _ in range(100):
        store.add(random_rows(500, 50))


def test_a_full_disk_is_said_in_a_sentence_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(row_store, "IN_MEMORY", 1 << 12)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(TableError, match=r"no room in .* \(File too large\); set TMPDIR"):
            fill(RowStore(merge=False))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- what is refused


def fail(source, y="y", sample_weight=None, of_classes=True):
    with pytest.raises((ValueError, TypeError)) as error:
        read_rows(
            training_source(source, y, sample_weight),
            of_classes=of_classes,
            binning="uniform",
            n_thresholds=9,
        )
    said = str(error.value)
    assert said.endswith((".", "?"))
    assert "\n" not in said
    return said


def parts(folder, *frames):
    for k, each in enumerate(frames):
        pd.DataFrame(each).to_parquet(folder / f"{k}.parquet", index=False)
    return folder


def test_parts_that_differ_are_refused(tmp_path):
    first = {"a": [1.0], "y": ["no"]}
    (lacks := tmp_path / "lacks").mkdir()
    assert "'1.parquet' in " in (said := fail(parts(lacks, first, {"y": ["no"]})))
    assert "lacks the column 'a'" in said
    (more := tmp_path / "more").mkdir()
    assert "has the column 'b'" in fail(parts(more, first, {**first, "b": [2.0]}))
    (kinds := tmp_path / "kinds").mkdir()
    said = fail(parts(kinds, first, {"a": ["x"], "y": ["no"]}))
    assert "Column 'a' is a category in '1.parquet' but a number in other files" in said


def test_frames_that_differ_are_refused():
    first = pd.DataFrame({"a": [1.0], "y": ["no"]})
    assert "is a number in one part and a category" in fail(lambda: [first, first.assign(a="x")])
    assert "lacks the column 'a'" in fail(lambda: [first, first[["y"]]])
    assert "no frames" in fail(lambda: [])
    assert "a list, not a frame" in fail(lambda: [[1, 2]])


def test_a_target_or_weight_that_is_no_column_is_refused(files, frame):
    path = files / "one.parquet"
    assert "There is no column 'z' in " in fail(path, "z")
    assert "did you mean 'y'?" in fail(path, "Y")
    assert "y is a Series, but " in fail(path, frame.y)
    assert "y is None" in fail(path, None)
    assert "sample_weight is a ndarray" in fail(path, "y", np.ones(N_ROWS))
    assert "both 'y'; name two columns" in fail(path, "y", "y")
    assert "no numbers to use as sample_weight" in fail(path, "y", "colour")
    assert "'gap' of " in (said := fail(path, "gap"))
    assert " is empty in row " in said


def test_a_target_of_the_wrong_kind_is_refused(files, tmp_path):
    assert "numbers such as" in fail(files / "one.parquet", "size")
    assert "which is not a number" in fail(files / "one.parquet", "y", of_classes=False)
    many = pd.DataFrame({"a": 1.0, "y": [f"id {k}" for k in range(1500)]})
    assert "more than 1000 distinct labels" in fail(lambda: [many])
    assert "larger than 1e+150" in fail(
        lambda: [pd.DataFrame({"a": [1.0], "y": [1e200]})], of_classes=False
    )
    assert "no column besides 'y'" in fail(lambda: [many[["y"]]])
    weightless = pd.DataFrame({"a": [1.0], "y": ["no"], "w": [0.0]})
    assert "weigh nothing" in fail(lambda: [weightless], "y", "w")


def test_cells_that_no_table_has_are_refused(tmp_path):
    day = pd.Timestamp("2020-01-01")
    for bad, said in ((math.inf, "contains infinity"), (day, "dates"), ([1], "holds a list")):
        pd.DataFrame({"a": [bad], "y": ["no"]}).to_parquet(tmp_path / "t.parquet")
        assert said in fail(tmp_path / "t.parquet")
    (tmp_path / "inf.csv").write_text("a,y\n" + "1,no\n" * 2000 + "inf,no\n")
    assert "in row 2001 below the names" in fail(tmp_path / "inf.csv")


def test_files_that_cannot_be_read_are_refused(tmp_path, files):
    assert "There is no file" in fail(tmp_path / "none.csv")
    assert "without Parquet files" in fail(tmp_path)
    (tmp_path / "t.parquet").write_bytes((files / "one.parquet").read_bytes()[:-40])
    assert "cannot be read as Parquet" in fail(tmp_path / "t.parquet")
    (tmp_path / "ragged.csv").write_text("a,y\n" + "1,no\n" * 2000 + "1\n")
    assert "Expected 2 columns, got 1" in fail(tmp_path / "ragged.csv")
    content = gzip.compress(b"a,y\n" + b"1,no\n" * 90_000)
    (tmp_path / "cut.csv.gz").write_bytes(content[: len(content) // 2])
    assert "cannot be read" in fail(tmp_path / "cut.csv.gz")
    nothing = pa.table({name: pa.array([], pa.float64()) for name in ("a", "y")})
    pq.write_table(nothing, tmp_path / "empty.parquet")
    assert "columns but no rows" in fail(tmp_path / "empty.parquet")


def test_a_file_that_vanishes_or_changes_between_the_passes_is_refused(tmp_path):
    path, passes = tmp_path / "t.parquet", []

    def frames(change):
        passes.append(change)
        if len(passes) > 2:  # kinds, then columns, then rows
            yield change
        else:
            yield pd.DataFrame({"a": [1.0, 2.0], "y": ["no", "yes"]})

    longer = pd.DataFrame({"a": [1.0] * 3, "y": ["no"] * 3})
    assert "the frames changed while it was read" in fail(lambda: frames(longer))
    passes.clear()
    assert "changed while it was read" in fail(
        lambda: frames(pd.DataFrame({"a": [1.0, 2.0], "y": ["no", "perhaps"]}))
    )
    pd.DataFrame({"a": [1.0], "y": ["no"]}).to_parquet(path)
    gone = training_source(path, "y")
    path.unlink()
    with pytest.raises(TableError, match="was there when reading began, but a file of it is gone"):
        list(gone.source.chunks())


def test_ctrl_c_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setattr(row_store, "IN_MEMORY", 1 << 12)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    frame = pd.DataFrame({"a": np.arange(3000.0), "b": np.arange(3000.0)[::-1], "y": "no"})

    def frames(calls=[]):  # noqa: B006 - counts the passes
        calls.append(0)
        for k in range(9):
            if len(calls) == 3 and k == 6:
                raise KeyboardInterrupt
            yield frame

    with pytest.raises(KeyboardInterrupt):
        read_rows(
            training_source(frames, "y"), of_classes=True, binning="uniform", n_thresholds=999
        )
    assert list(tmp_path.iterdir()) == []
