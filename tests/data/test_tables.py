"""Promises of tables.py and files.py: what comes in, what it becomes, how it is refused."""

import datetime
import gzip
import io
import math
import random
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn.data import table_files as files
from dtgfn.data.table_files import read_table
from dtgfn.data.tables import (
    Column,
    Table,
    TableError,
    as_table,
    label,
    listing,
    parse_number,
    split_column,
    take,
)


def cells(column: Column) -> list[object]:
    """Values with None for every missing cell, so that lists compare."""
    return [None if value is None or value != value else value for value in column.values]


def only(X: object) -> Column:
    table = as_table(X)
    assert table.n_columns == 1
    return table.columns[0]


def assert_same(one: Table, other: Table) -> None:
    assert one.names == other.names
    assert one.n_rows == other.n_rows
    for left, right in zip(one.columns, other.columns, strict=True):
        assert left.kind == right.kind, left.name
        assert cells(left) == cells(right), left.name


# ---------------------------------------------------------------- arrays and lists


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u2", "u8", "g"])
def test_numeric_arrays_are_number_columns_of_float64(dtype):
    table = as_table(np.array([[1, 2], [3, 4], [5, 6]], dtype=dtype))
    assert (table.names, table.n_rows, table.n_columns, table.named) == (("x0", "x1"), 3, 2, False)
    for column, expected in zip(table.columns, ([1, 3, 5], [2, 4, 6]), strict=True):
        assert (column.kind, column.values.dtype) == ("number", np.float64)
        assert column.values.tolist() == expected


def test_float64_arrays_are_not_copied():
    X = np.arange(6.0).reshape(3, 2)
    assert np.shares_memory(as_table(X).columns[1].values, X)


def test_boolean_arrays_are_boolean_columns():
    column = only(np.array([[True], [False]]))
    assert (column.kind, column.values.tolist()) == ("boolean", [1.0, 0.0])


def test_a_table_is_left_alone():
    table = as_table([[1]])
    assert as_table(table) is table


@pytest.mark.parametrize("make", [list, lambda rows: np.array(rows, dtype=object), tuple])
def test_objects_are_sorted_out_column_by_column(make):
    rows = [
        [1, "red", True, 1, None, Decimal("0.5"), True, 7],
        [2.5, None, None, "b", None, Fraction(1, 4), 2, math.nan],
        [math.nan, "blue", np.False_, 2.0, math.nan, Decimal("NaN"), None, np.int8(3)],
    ]
    table = as_table(make(rows))
    assert [column.kind for column in table.columns] == [
        "number",
        "category",
        "boolean",
        "category",  # strings win, numbers become text
        "number",  # nothing is known of it
        "number",
        "number",
        "number",
    ]
    assert [cells(column) for column in table.columns] == [
        [1, 2.5, None],
        ["red", None, "blue"],
        [1, None, 0],
        ["1", "b", "2"],
        [None, None, None],
        [0.5, 0.25, None],
        [1, 2, None],
        [7, None, 3],
    ]


def test_text_in_an_object_array_stays_text_even_if_it_spells_numbers():
    assert only(np.array([["01234"], ["99"]], dtype=object)).values.tolist() == ["01234", "99"]


@pytest.mark.parametrize("code", ["U", "S"])
def test_string_arrays_give_their_numbers_back(code):
    table = as_table(np.array([[1.5, "a", ""], ["nan", "nan", "x"], ["", "b", "y"]]).astype(code))
    assert [column.kind for column in table.columns] == ["number", "category", "category"]
    assert [cells(c) for c in table.columns] == [
        [1.5, None, None],
        ["a", None, "b"],
        [None, "x", "y"],
    ]


def test_masked_cells_are_missing():
    masked = np.ma.array([[1.0], [2.0]], mask=[[False], [True]])
    assert cells(only(masked)) == [1.0, None]


def test_anything_with_an_array_interface_will_do():
    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1.0, 2.0]])

    assert as_table(Wrapped()).n_columns == 2


@pytest.mark.parametrize("X", [np.arange(3.0), [1, 2], pd.Series([1, 2])])
def test_one_dimension_is_refused_like_scikit_learn_does(X):
    with pytest.raises(TableError, match=r"Expected 2D array, got 1D array.*Reshape your data"):
        as_table(X)


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (3, "Expected 2D array, got scalar array instead"),
        (np.zeros((2, 2, 2)), "Found array with dim 3"),
        ([[1, 2], [3]], r"differ in length \(1 and 2 cells\)"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "differ in length"),
        (np.empty((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.empty((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required"),
        (pd.DataFrame({"a": []}), r"0 sample\(s\) \(shape=\(0, 1\)\)"),
        (pd.DataFrame(index=[1, 2]), r"0 feature\(s\) \(shape=\(2, 0\)\)"),
        (np.array([[1j]]), "Complex data not supported: column 'x0'"),
        ([[1 + 2j]], "Complex data not supported"),
        (pd.DataFrame({"z": [1j]}), "Complex data not supported: column 'z'"),
        ([[1.0, math.inf]], "'x1' contains infinity.*in row 0"),
        (np.array([[1.0], [-math.inf]]), "'x0' contains infinity.*in row 1"),
        (pd.DataFrame({"a": [1.0, math.inf]}), "'a' contains infinity.*in row 1"),
        ([[10**400]], "'x0' contains infinity or a value too large"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "'x0' holds dates or times"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}), "'day' holds dates or times"),
        (pd.DataFrame({"day": pd.to_datetime(["2020-01-01"], utc=True)}), "'day' holds dates"),
        (
            pd.DataFrame({"gap": pd.to_timedelta([3], unit="s")}),
            "'gap' holds times of day",
        ),
        (pd.DataFrame({"day": pd.period_range("2020", periods=1)}), "'day' holds times of day"),
        ([[datetime.date(2020, 1, 1)]], "'x0' holds dates or times"),
        ([[np.timedelta64(3, "s")]], "'x0' holds times of day"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicated column name 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "Duplicated column name '1'"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(X, sentence):
    with pytest.raises(TableError, match=sentence):
        as_table(X)


@pytest.mark.parametrize("cell", [{"foo": "bar"}, [1], (1, 2), {3}, np.zeros(2), object()])
def test_cells_with_parts_are_refused_as_scikit_learn_expects(cell):
    X = np.empty((2, 1), dtype=object)
    X[0, 0], X[1, 0] = 1.0, cell
    with pytest.raises(TypeError, match=r"'x0'.*argument must be .* string.* number"):
        as_table(X)


SPARSE = ["csr_matrix", "csr_array", "csc_array", "coo_array", "dok_array", "lil_array"]


@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("dtype", [float, int, bool])
def test_sparse_data_is_what_its_dense_copy_is(form, dtype):
    dense = np.array([[0, 2, 0], [1, 0, 0], [1, 3, 0]]).astype(dtype)
    table, expected = as_table(getattr(scipy.sparse, form)(dense)), as_table(dense)
    rows = np.array([True, False, True])
    for one, other in ((table, expected), (take(table, rows), take(expected, rows))):
        assert (one.names, one.n_rows, one.named) == (other.names, other.n_rows, other.named)
        for column, wanted in zip(one.columns, other.columns, strict=True):
            assert column.kind == wanted.kind
            assert column.values.tolist() == wanted.values.tolist()


def test_a_sparse_cell_that_is_stored_twice_is_the_sum():
    twice = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert as_table(twice).columns[1].values.tolist() == [3.0, 0.0]


def test_sparse_data_may_miss_cells_but_not_be_infinite():
    stored = scipy.sparse.csr_array(np.array([[0.0, np.nan], [1.0, 0.0]]))
    assert np.isnan(as_table(stored).columns[1].values[0])
    stored.data[1] = np.inf
    with pytest.raises(TableError, match=r"Column 'x0' contains infinity .* in row 1"):
        as_table(stored)


def test_sparse_complex_numbers_and_no_rows_are_refused():
    with pytest.raises(TableError, match="Complex data not supported"):
        as_table(scipy.sparse.csr_array(np.array([[1j]])))
    with pytest.raises(TableError, match=r"0 sample\(s\)"):
        as_table(scipy.sparse.csr_array((0, 3)))


# ---------------------------------------------------------------- pandas and polars


@pytest.mark.parametrize(
    ("series", "kind", "expected"),
    [
        (pd.Series([1, None], dtype="Int64"), "number", [1, None]),
        (pd.Series([1.5, None], dtype="Float64"), "number", [1.5, None]),
        (pd.Series([1, 2], dtype="uint8"), "number", [1, 2]),
        (pd.Series([1.0, 0.0], dtype="Sparse[float]"), "number", [1, 0]),
        (pd.Series([True, None], dtype="boolean"), "boolean", [1, None]),
        (pd.Series([True, None], dtype="object"), "boolean", [1, None]),
        (pd.Series(["a", None], dtype="string"), "category", ["a", None]),
        (pd.Series(["a", None], dtype="str"), "category", ["a", None]),
        (pd.Series(["a", pd.NA], dtype="object"), "category", ["a", None]),
        (pd.Series(["b", None, "a"], dtype="category"), "category", ["b", None, "a"]),
        (pd.Series([2, None, 1], dtype="category"), "category", ["2", None, "1"]),
        (pd.Series([2.5, 1.0], dtype="category"), "category", ["2.5", "1"]),
        (pd.Series([Decimal("1.5"), None]), "number", [1.5, None]),
        (pd.Series([None, None], dtype="object"), "number", [None, None]),
        (pd.Series([b"ab", "c"], dtype="object"), "category", ["ab", "c"]),
    ],
)
def test_pandas_dtypes(series, kind, expected):
    table = as_table(pd.DataFrame({"a": series}))
    assert (table.names, table.named) == (("a",), True)
    assert (table.columns[0].kind, cells(table.columns[0])) == (kind, expected)


def test_pyarrow_backed_pandas_columns():
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "i": pd.Series([1, None], dtype="int64[pyarrow]"),
            "b": pd.Series([True, None], dtype="bool[pyarrow]"),
            "s": pd.Series(["x", None], dtype="string[pyarrow]"),
            "t": pd.Series(["x", None], dtype=pd.ArrowDtype(pyarrow.string())),
            "d": pd.Series([Decimal("1.5"), None], dtype=pd.ArrowDtype(pyarrow.decimal128(5, 2))),
        }
    )
    table = as_table(frame)
    assert [c.kind for c in table.columns] == [
        "number",
        "boolean",
        "category",
        "category",
        "number",
    ]
    assert [cells(c)[0] for c in table.columns] == [1, 1, "x", "x", 1.5]
    assert all(cells(column)[1] is None for column in table.columns)
    days = pd.Series([datetime.date(2020, 1, 1)], dtype=pd.ArrowDtype(pyarrow.date32()))
    with pytest.raises(TableError, match="'day' holds dates"):
        as_table(pd.DataFrame({"day": days}))
    assert as_table(pyarrow.table({"i": [1, None]})).names == ("i",)


def test_column_names_that_are_not_text_become_text():
    assert as_table(pd.DataFrame([[1, 2]], columns=[7, ("a", 1)])).names == ("7", "('a', 1)")


def test_polars_and_pandas_agree():
    polars = pytest.importorskip("polars")
    data = {
        "i": [1, None, 3],
        "f": [1.5, None, 2.5],
        "b": [True, None, False],
        "s": ["x", None, "y"],
        "n": [None, None, None],
    }
    frame = polars.DataFrame(data)
    assert_same(as_table(frame), as_table(pd.DataFrame(data)))
    assert_same(as_table(frame.lazy()), as_table(frame))
    named = polars.DataFrame({"s": ["x", None]}, schema={"s": polars.Categorical})
    assert cells(only(named)) == ["x", None]
    assert cells(only(polars.DataFrame({"d": [Decimal("1.5"), None]}))) == [1.5, None]


def test_polars_refusals():
    polars = pytest.importorskip("polars")
    with pytest.raises(TableError, match="'day' holds dates or times"):
        as_table(polars.DataFrame({"day": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(TypeError, match=r"'l'.*argument must be .* string.* number"):
        as_table(polars.DataFrame({"l": [[1, 2]]}))
    with pytest.raises(TableError, match="'f' contains infinity"):
        as_table(polars.DataFrame({"f": [math.inf]}))
    with pytest.raises(TableError, match=r"0 sample\(s\)"):
        as_table(polars.DataFrame({"f": []}))


def test_polars_is_not_imported_for_other_tables(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert as_table(pd.DataFrame({"a": [1], "b": ["x"]})).n_columns == 2


# ---------------------------------------------------------------- tables


def test_take_by_index_and_by_mask():
    table = as_table([[1, "a"], [2, "b"], [3, "c"]])
    assert cells(take(table, [2, 2, 0]).columns[1]) == ["c", "c", "a"]
    masked = take(table, np.array([True, False, True]))
    assert (masked.n_rows, cells(masked.columns[0])) == (2, [1, 3])
    assert take(table, []).n_rows == 0


def test_split_column():
    table = as_table(pd.DataFrame({"a": [1], "species": ["x"], "c": [2]}))
    column, rest = split_column(table, "species")
    assert (column.name, rest.names, rest.named) == ("species", ("a", "c"), True)
    with pytest.raises(TableError, match=r"no column 'speces'; did you mean 'species'.*'a', 'spe"):
        split_column(table, "speces")
    with pytest.raises(TableError, match="no column 'zzz'; the columns are 'a'"):
        split_column(table, "zzz")


def test_listing_stops_at_five():
    assert listing("abcdefg") == "'a', 'b', 'c', 'd', 'e' and 2 more"
    assert listing("ab") == "'a', 'b'"


@examples(100)
@given(st.integers(-(2**53), 2**53))
def test_whole_numbers_have_one_label(number):
    assert label(number) == label(float(number)) == label(np.float64(number)) == str(number)


@examples(100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_their_label(number):
    assert parse_number(label(number)) == number


@pytest.mark.parametrize("text", ["red", "1,5", "1_000", "inf", "-Infinity", "1e999", "0x10"])
def test_what_does_not_spell_a_finite_number(text):
    assert parse_number(text) is None


# ---------------------------------------------------------------- files


@pytest.fixture
def write(tmp_path):
    def write_file(content: str | bytes, name: str = "t.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


CSV = "height,wide,name,note\n1.5,true,oak,a\n,False,ash,\nNaN,,NA,7\n2,TRUE,oak,8\n"


def test_csv_kinds(write):
    table = read_table(write(CSV))
    assert (table.names, table.n_rows, table.named) == (
        ("height", "wide", "name", "note"),
        4,
        True,
    )
    assert [c.kind for c in table.columns] == ["number", "boolean", "category", "category"]
    assert [cells(c) for c in table.columns] == [
        [1.5, None, None, 2.0],
        [1, 0, None, 1],
        ["oak", "ash", None, "oak"],
        ["a", None, "7", "8"],
    ]


@pytest.mark.parametrize("name", ["t.tsv", "T.TSV", "t.csv.gz", "t.tsv.gz", "t.v2.csv"])
def test_other_forms_of_text(write, name):
    text = CSV.replace(",", "\t") if "tsv" in name.lower() else CSV
    content = gzip.compress(text.encode()) if name.endswith("gz") else text
    assert_same(read_table(str(write(content, name))), read_table(write(CSV)))


@pytest.mark.parametrize("text", [CSV, "\ufeff" + CSV, CSV.replace("\n", "\r\n"), "\n \n" + CSV])
def test_standard_input_byte_order_mark_and_line_ends(write, monkeypatch, text):
    expected = read_table(write(CSV))
    assert_same(read_table(write(text, "u.csv")), expected)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert_same(read_table("-"), expected)


def test_quotes_spaces_and_long_numbers(write):
    table = read_table(write('"a, b", c\n"x\ny", 123456789012345678901234567890\n"z", 1\n'))
    assert table.names == ("a, b", "c")
    assert cells(table.columns[0]) == ["x\ny", "z"]
    assert cells(table.columns[1]) == [1.2345678901234568e29, 1.0]


@examples(100)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_csv_numbers_are_exact(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_text("a\n" + "\n".join(map(repr, numbers)) + "\n")
    assert cells(only(read_table(path))) == numbers


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty; give it names in the first line"),
        ("\n\n", "is empty"),
        ("a,b\n", "names columns, but no rows"),
        ("a,b\n1,2\n3,4,5\n", r"Line 3 of .* has 3 cells, but the first line names 2 columns"),
        ("a,b\n1,2\n\n3\n", r"Line 4 of .* has 1 cell"),
        ("a,b\n1,2,3\n4,5,6\n", r"Line 2 of .* has 3 cells"),
        ("a,b\n0,2,3\n1,5,6\n", r"Line 2 of .* has 3 cells"),
        ("a,b\n1,2,3,4\n4,5,6,7\n", r"Line 2 of .* has 4 cells"),
        ("a,b,a\n1,2,3\n", "Duplicated column name 'a'"),
        ("a,,b\n1,2,3\n", "Column 2 of .* has no name.*without the row index"),
        (",a\n0,1\n", "Column 1 of .* has no name"),
        ('a,b\n1,"2\n', "cannot be read: .*EOF inside string"),
        ("a\n1\ninf\n", "'a' of .* contains infinity.* in row 2 below"),
        (b"a\n\xff\n", r"not UTF-8 text \(byte 0xff\); save it as UTF-8"),
        (b"\xff\xfea\x00\n\x00", "not UTF-8 text"),
        (b"a\n" + b"x\n" * 100_000 + b"\xe9\n", r"not UTF-8 text \(byte 0xe9\)"),
    ],
)
def test_bad_csv_is_refused_in_a_sentence(write, content, sentence):
    with pytest.raises(TableError, match=sentence) as caught:
        read_table(write(content))
    assert "\n" not in str(caught.value)


def test_bad_paths_are_refused_in_a_sentence(write, tmp_path):
    with pytest.raises(TableError, match=r"no file .*nowhere\.csv"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(TableError, match="is a directory"):
        read_table(tmp_path)
    with pytest.raises(TableError, match=r"suffix of .*t\.xlsx.* not one of \.csv"):
        read_table(write("a", "t.xlsx"))
    for content in (b"not gzip", gzip.compress(CSV.encode())[:-20], b"\x1f\x8b\x08\x00" + b"x" * 9):
        with pytest.raises(TableError, match="cannot be read"):
            read_table(write(content, "t.csv.gz"))


def test_parquet_round_trip(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "f": [0.1, None, 3.0],
            "i": pd.Series([1, None, 3], dtype="Int64"),
            "b": pd.Series([True, None, False], dtype="boolean"),
            "s": ["x", None, "y"],
            "c": pd.Series(["u", None, "v"], dtype="category"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert_same(read_table(tmp_path / "t.parquet"), as_table(frame))
    assert_same(read_table(tmp_path / "t.csv"), as_table(frame))


def test_bad_parquet_is_refused_in_a_sentence(write, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    for content in (b"", b"PAR1 but not really", b"PAR1" + b"\0" * 100 + b"PAR1"):
        with pytest.raises(TableError, match="cannot be read as Parquet"):
            read_table(write(content, "t.parquet"))
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(TableError, match="no rows"):
        read_table(tmp_path / "none.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TableError, match=r"dtgfn\[parquet\]"):
        read_table(tmp_path / "none.parquet")


def test_a_damaged_parquet_is_read_or_refused_in_a_sentence(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [0.5, 1.0, 2.0], "b": ["x", "ä", None], "c": [True, False, True]})
    frame.to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    dice, refusals = random.Random(0), []
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 2, 5])):
            damaged[dice.randrange(footer, len(whole))] = dice.randrange(256)
        (tmp_path / "t.parquet").write_bytes(damaged)
        try:
            read_table(tmp_path / "t.parquet")
        except TableError as refusal:
            refusals.append(str(refusal))
    assert 100 < len(refusals) < 400
    assert all("t.parquet" in told or "olumn" in told for told in refusals)
    assert not any("\n" in told for told in refusals)


def test_lists_in_a_parquet_are_no_damage(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [[1, 2], [3]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TypeError, match="spread its parts over columns"):
        read_table(tmp_path / "t.parquet")


def test_the_short_row_check_reads_the_file_only_if_needed(write, monkeypatch):
    monkeypatch.setattr(files, "_refuse_ragged", lambda *_: pytest.fail("read twice"))
    table = read_table(write("a,b\n,2\n1,3\n"))
    assert cells(table.columns[1]) == [2.0, 3.0]
