"""A table in: arrays and frames become columns with names and kinds."""

from __future__ import annotations

import datetime
import difflib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import Any, Literal, NoReturn, cast

import numpy as np
import numpy.typing as npt

from dtgfn.data.made_columns import MadeColumns, NarrowColumns, SparseColumns, is_sparse
from dtgfn.data.problems import Problems
from dtgfn.data.problems import TableError as TableError
from dtgfn.data.scales import Scale

Kind = Literal["number", "boolean", "category"]
Values = npt.NDArray[np.float64] | npt.NDArray[np.object_]

MOST_LEVELS = 254  # of ordered categories
EXACT = 2**53  # from here on float64 does not tell all whole numbers apart

_TEXT_TYPES = (str, bytes)
_TRUTH_TYPES = (bool, np.bool_)
_NUMBER_TYPES = (bool, int, float, np.bool_, np.integer, np.floating, Decimal, Fraction)
_DATES = (datetime.date, np.datetime64)
_TIMES = (datetime.time, datetime.timedelta, np.timedelta64)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of n rows.

    ``values`` [n] of a number are float64 with NaN for missing, of a boolean float64 0 or 1 with
    NaN for missing, of a category an object array of str with None for missing.

    The kind is that of the whole column.  Where it hides what single cells are (1 beside True, or
    beside text), ``cells`` [n] tells: None, str, bool, int or float.  So a cell is coded by what it
    is, whatever stands in the other rows.

    Text that is ``meant`` was declared to be categories, so nothing about it is odd. Numbers with a
    ``scale`` are ranks of ordered categories, or days of dates.
    """

    name: str
    kind: Kind
    values: Values
    cells: npt.NDArray[np.object_] | None = None
    meant: bool = False
    scale: Scale | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; ``named`` is False when the names are made up (x0, x1, ...)."""

    columns: Sequence[Column]
    n_rows: int
    named: bool

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.columns)


def take(table: Table, rows: npt.ArrayLike) -> Table:
    """Rows of a table by index or by boolean mask.

    >>> take(as_table([[1, "a"], [2, "b"], [3, "c"]]), [2, 0]).columns[1].values.tolist()
    ['c', 'a']
    """
    chosen = np.asarray(rows)
    if chosen.dtype != np.bool_:
        chosen = chosen.astype(np.intp)
    n_rows = int(chosen.sum()) if chosen.dtype == np.bool_ else len(chosen)
    if isinstance(table.columns, MadeColumns):
        return Table(table.columns.take(chosen), n_rows, table.named)
    columns = tuple(
        replace(
            old,
            values=old.values[chosen],
            cells=None if old.cells is None else old.cells[chosen],
        )
        for old in table.columns
    )
    return Table(columns, n_rows, table.named)


def split_column(table: Table, name: str) -> tuple[Column, Table]:
    """One column by name, and the table without it.

    >>> column, rest = split_column(as_table([[1, "a"], [2, "b"]]), "x1")
    >>> column.kind, rest.names
    ('category', ('x0',))
    """
    if name not in table.names:
        refuse_unknown_column(name, table.names)
    index = table.names.index(name)
    rest = (*table.columns[:index], *table.columns[index + 1 :])
    return table.columns[index], Table(rest, table.n_rows, table.named)


def refuse_unknown_column(name: str, names: Sequence[str], what: str = "") -> NoReturn:
    """Say which columns there are, and which of them may be meant."""
    same = [known for known in names if known.strip().lower() == name.strip().lower()]
    close = same or difflib.get_close_matches(name, names, n=1)
    hint = f" did you mean {close[0]!r}?" if close else ""
    where = f" in {what}" if what else ""
    raise TableError(f"There is no column {name!r}{where};{hint} the columns are {listing(names)}.")


def keep_columns(table: Table, names: Sequence[str]) -> Table:
    """Return the table without columns of other names.

    >>> keep_columns(as_table([[1, "a"], [2, "b"]]), ["x1", "x9"]).names
    ('x1',)
    """
    kept = tuple(column for column in table.columns if column.name in names)
    return Table(kept, table.n_rows, table.named)


def listing(names: Iterable[str], limit: int = 5) -> str:
    """Quoted names for a sentence, at most ``limit`` of them.

    >>> listing(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    every = list(names)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(map(repr, every[:limit])) + more


def label(value: object) -> str:
    """Text of a category; whole numbers lose their ".0" so that 1, 1.0 and "1" agree.

    >>> [label(value) for value in (1, 1.0, 2.5, "red", True)]
    ['1', '1', '2.5', 'red', 'True']
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating | Decimal | Fraction):
        number = float(value)
        return str(int(number)) if number.is_integer() else str(number)
    return str(value)


def parse_number(text: str) -> float | None:
    """Return the finite number that a text spells, NaN if it is empty or "nan", else None.

    >>> parse_number(" 2.5"), parse_number(""), parse_number("red")
    (2.5, nan, None)
    """
    if not text.strip():
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isinf(number) or "_" in text else number


def as_table(X: Any) -> Table:
    """Turn an array, a list of rows or a pandas, polars or pyarrow frame into a `Table`.

    Objects and strings are sorted out column by column: only numbers make a "number" column,
    only True and False a "boolean" one, anything with text a "category" one.  None and NaN are
    missing.  In a numpy *string* array, where numpy has made text of everything, a column
    whose every cell spells a number is a "number" column, and "" and "nan" are missing.  Ordered
    categories are ranks, dates are refused (``dated_tables`` takes them).

    >>> table = as_table([[1.5, "red", True], [None, "blue", False]])
    >>> table.names, [column.kind for column in table.columns]
    (('x0', 'x1', 'x2'), ['number', 'category', 'boolean'])
    """
    if isinstance(X, Table):
        _check_shape(X.n_rows, X.n_columns)
        return X
    library = type(X).__module__.split(".")[0]
    if library == "polars" and type(X).__name__ == "LazyFrame":
        X = X.collect()
    if library == "pyarrow" and hasattr(X, "to_pandas"):
        X, library = X.to_pandas(), "pandas"
    if library in ("pandas", "polars") and hasattr(X, "columns"):
        return _from_frame(X, polars=library == "polars")
    return _from_sparse(X) if is_sparse(X) else _from_array(_as_array(X))


def unordered(column: Column) -> Column:
    """Make categories again of the ranks of ordered ones."""
    if column.scale is None or not column.scale.levels:
        return column
    labels = np.array([*column.scale.levels, None], dtype=object)
    place = np.where(np.isnan(column.values.astype(np.float64)), -1, column.values)
    return Column(column.name, "category", labels[place.astype(np.int64)], meant=True)


def without_order(table: Table) -> Table:
    """Make categories of all ordered ones, for models that know no order."""
    if isinstance(table.columns, MadeColumns):
        return table
    return Table(tuple(map(unordered, table.columns)), table.n_rows, table.named)


def _from_sparse(matrix: Any) -> Table:
    """Columns of a sparse matrix, whose zeros are zeros; none is kept dense."""
    if matrix.ndim != 2:
        raise TableError(f"Found array with dim {matrix.ndim}, expected 2: rows by columns.")
    _check_shape(*matrix.shape)
    code = matrix.dtype.kind
    if code not in "biuf":
        refuse_type("x0", matrix.dtype.type)
    kind: Kind = "boolean" if code == "b" else "number"
    columns = SparseColumns(matrix, lambda j, values: Column(f"x{j}", kind, values))
    infinite = np.flatnonzero(np.isinf(columns.stored))
    if infinite.size:
        column = columns[columns.column_of(int(infinite[0]))]
        refuse_infinity(column.name, cast(npt.NDArray[np.float64], column.values))
    return Table(columns, matrix.shape[0], named=False)


def _as_array(X: Any) -> npt.NDArray[Any]:
    """Make a 2-D array, or refuse with the sentences scikit-learn users know."""
    _refuse_no_rows(X)
    if isinstance(X, np.ma.MaskedArray):
        shown = X.data.astype(object)
        shown[np.ma.getmaskarray(X)] = None
        X = shown
    try:  # a list goes in as objects, or numpy would make text of the numbers next to text
        array = np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    except ValueError:
        raise TableError("The rows differ in length; give every row the same length.") from None
    if array.ndim == 1 and array.dtype == object:
        lengths = sorted({len(row) for row in array if isinstance(row, list | tuple | np.ndarray)})
        if len(lengths) > 1:
            raise TableError(
                f"The rows differ in length ({lengths[0]} and {lengths[-1]} cells); "
                "give every row the same length."
            )
    if array.ndim > 2:
        raise TableError(f"Found array with dim {array.ndim}, expected 2: rows by columns.")
    if array.ndim < 2:
        got = "scalar" if array.ndim == 0 else "1D"
        raise TableError(
            f"Expected 2D array, got {got} array instead. Reshape your data with "
            "X.reshape(-1, 1) if it has a single feature or X.reshape(1, -1) if it is one sample."
        )
    _check_shape(array.shape[0], array.shape[1])
    return array


def _refuse_no_rows(X: Any) -> None:
    """Refuse what numpy would take for one cell: text, a dict, nothing, rows that are dicts."""
    way_out = "give rows by columns: an array, a list of rows, or a pandas or polars frame"
    if X is None or isinstance(X, str | bytes | PathLike):
        too = " (of a file, what pandas.read_csv returns)" if X is not None else ""
        raise TableError(f"X is {X!r}, not a table; {way_out}{too}.")
    if isinstance(X, list | tuple) and X and isinstance(X[0], dict):
        raise TableError(f"X is a list of dicts; {way_out}, such as pandas.DataFrame(X).")
    if isinstance(X, dict | set | Iterator):
        raise TableError(f"X is a {type(X).__name__}, not a table; {way_out}.")
    if getattr(getattr(X, "dtype", None), "names", None):
        raise TableError(f"X is an array of records; {way_out}, such as pandas.DataFrame(X).")


def _check_shape(n_rows: int, n_columns: int) -> None:
    for count, what in ((n_rows, "sample"), (n_columns, "feature")):
        if count == 0:
            raise TableError(
                f"Found array with 0 {what}(s) (shape=({n_rows}, {n_columns})) "
                "while a minimum of 1 is required."
            )


def _from_array(array: npt.NDArray[Any]) -> Table:
    n_rows, n_columns = array.shape
    names = [f"x{j}" for j in range(n_columns)]
    code = array.dtype.kind
    if code in "biuf":
        narrow, numbers = array.itemsize < 8, array
        if not narrow:
            with np.errstate(over="ignore"):  # long doubles may not fit: seen as infinity below
                numbers = array.astype(np.float64, copy=False)
        for j in np.flatnonzero(np.isinf(numbers).any(axis=0)):
            refuse_infinity(names[j], numbers[:, j])
        kind: Kind = "boolean" if code == "b" else "number"
        if narrow:
            made = NarrowColumns(array, lambda j, values: Column(names[j], kind, values))
            return Table(made, n_rows, named=False)
        columns = [Column(name, kind, numbers[:, j]) for j, name in enumerate(names)]
    elif code in "cmM":
        refuse_type(names[0], array.dtype.type)
    else:
        if code == "S":
            array = np.char.decode(array, "utf-8", "replace")
        cells = array.astype(object)
        if code in "US":  # numpy has written missing cells as text
            cells[(array == "") | (array == "nan")] = None
        columns = [_from_objects(name, cells[:, j]) for j, name in enumerate(names)]
        if code in "US":
            columns = [numbers_if_all_parse(column) for column in columns]
    return Table(tuple(columns), n_rows, named=False)


def _from_frame(frame: Any, polars: bool) -> Table:
    names = [str(name) for name in frame.columns]
    check_names(names)
    _check_shape(*frame.shape)
    if polars:
        columns = [_from_polars(name, frame[name]) for name in names]
    else:
        columns = [_from_pandas(name, frame.iloc[:, j]) for j, name in enumerate(names)]
    return Table(tuple(columns), len(frame), named=True)


def check_names(names: Sequence[str]) -> None:
    """Refuse columns that share a name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(
            f"Duplicated column name {listing(twice)}; give every column its own name."
        )


def _from_pandas(name: str, series: Any) -> Column:
    code = series.dtype.kind
    if type(series.dtype).__name__ == "CategoricalDtype":
        labels = np.array([*map(label, series.cat.categories), None], dtype=object)
        codes = series.cat.codes.to_numpy()  # -1 is missing
        if series.cat.ordered:
            return _ranked(name, labels[:-1].tolist(), codes)
        return Column(name, "category", labels[codes], meant=True)
    if code in "biuf":
        values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        return _numeric(name, "boolean" if code == "b" else "number", values)
    if code in "cmM":
        refuse_type(name, {"c": np.complex128, "m": np.timedelta64}.get(code, np.datetime64))
    return _from_objects(name, series.to_numpy(dtype=object))


def _from_polars(name: str, series: Any) -> Column:
    import polars

    dtype = series.dtype
    if dtype.is_temporal():
        is_date = dtype in (polars.Date, polars.Datetime)
        refuse_type(name, np.datetime64 if is_date else np.timedelta64)
    if dtype.is_numeric() or dtype == polars.Boolean:
        values = series.cast(polars.Float64).to_numpy()
        return _numeric(name, "boolean" if dtype == polars.Boolean else "number", values)
    if dtype == polars.Enum:
        return _ranked(
            name, dtype.categories.to_list(), series.to_physical().fill_null(-1).to_numpy()
        )
    column = _from_objects(name, np.fromiter(series.to_list(), dtype=object, count=len(series)))
    return replace(column, meant=True) if dtype == polars.Categorical else column


def _ranked(name: str, levels: list[str], codes: npt.NDArray[Any]) -> Column:
    """Ordered categories as ranks, -1 as missing; more than a file may have stay categories."""
    ranks = codes.astype(np.float64)
    column = Column(name, "number", np.where(ranks < 0, np.nan, ranks), scale=Scale(tuple(levels)))
    usable = 1 < len(set(levels)) == len(levels) <= MOST_LEVELS
    return replace(column, meant=True) if usable else unordered(column)


def _from_objects(name: str, values: npt.NDArray[np.object_]) -> Column:
    """Decide the kind from the Python types of the cells that are present."""
    import pandas

    missing = pandas.isna(values)
    present = values[~missing]
    types = set(map(type, present))
    for kind_of_cell in types:
        readable = issubclass(kind_of_cell, _TEXT_TYPES + _NUMBER_TYPES)
        if not readable or issubclass(kind_of_cell, np.timedelta64):
            refuse_type(name, kind_of_cell)
    texts = {cell for cell in types if issubclass(cell, _TEXT_TYPES)}
    truths = {cell for cell in types if issubclass(cell, _TRUTH_TYPES)}
    numbers = _numbers_among(name, values, missing, texts)
    mixed = sum(map(bool, (texts, truths, types - texts - truths))) > 1
    mixed = mixed or bool((np.abs(numbers) >= EXACT).any())
    cells = np.fromiter(map(_plain, values, missing), object, len(values)) if mixed else None
    if not texts:
        kind: Kind = "boolean" if truths and truths == types else "number"
        return Column(name, kind, numbers, cells)
    labels = np.full(len(values), None, dtype=object)
    labels[~missing] = present if types == {str} else list(map(label, present))
    return Column(name, "category", labels, cells)


def _numbers_among(
    name: str, values: npt.NDArray[np.object_], missing: npt.NDArray[np.bool_], texts: set[type]
) -> npt.NDArray[np.float64]:
    """Numbers of the cells [n] that are some, NaN of the others; infinity is refused in any."""
    numbers = np.full(len(values), np.nan)
    wanted = ~missing
    if texts:
        wanted &= [type(cell) not in texts for cell in values]
    try:
        numbers[wanted] = values[wanted].astype(np.float64)
    except OverflowError:  # a Python int beyond float64
        refuse_infinity(name, None)
    return _numeric(name, "number", numbers).values.astype(np.float64, copy=False)


def _plain(cell: Any, missing: bool) -> str | bool | int | float | None:
    """One of few types that says what a cell is."""
    if missing:
        return None
    if isinstance(cell, _TEXT_TYPES):
        return label(cell)
    if isinstance(cell, _TRUTH_TYPES):
        return bool(cell)
    return int(cell) if isinstance(cell, int | np.integer) else float(cell)


def numbers_if_all_parse(column: Column) -> Column:
    """Make a number column of a text column whose every cell spells a number."""
    numbers = []
    for text in column.values:
        number = parse_number(text) if isinstance(text, str) else math.nan
        if number is None or column.kind != "category":
            return column
        numbers.append(number)
    texts = cast(npt.NDArray[np.object_], column.values)
    return Column(column.name, "number", np.array(numbers), texts)


def _numeric(name: str, kind: Kind, values: npt.NDArray[np.float64]) -> Column:
    if np.isinf(values).any():
        refuse_infinity(name, values)
    return Column(name, kind, values)


def refuse_infinity(
    name: str, values: npt.NDArray[np.float64] | None, what: str = "", first_row: int = 0
) -> NoReturn:
    """Name the column and the row, counted from 0; that of ``what`` is a file's, from 1."""
    row = None if values is None else int(np.flatnonzero(np.isinf(values))[0]) + first_row
    if what and row is not None:
        raise TableError(
            f"Column {name!r} of {what} contains infinity, or a number too large, in row "
            f"{row + 1} below the names; give a smaller number, or an empty cell."
        )
    where = "" if row is None else f" in row {row}"
    raise TableError(
        f"Column {name!r} contains infinity or a value too large for float64{where}; "
        "replace it by a finite number, or by NaN for missing."
    )


def refuse_infinite_columns(frame: Any, what: str) -> None:
    """Refuse infinite numbers in the words of a file, whose rows count from 1; of all columns."""
    problems = Problems()
    for name, values in frame.select_dtypes("float").items():
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(numbers).any():
            with problems.found():
                refuse_infinity(str(name), numbers, what)
    problems.tell()


def refuse_type(name: str, cell: type) -> NoReturn:
    """Say what cannot be a cell of a table, and the way out."""
    if issubclass(cell, complex | np.complexfloating):
        raise TableError(
            f"Complex data not supported: column {name!r} holds complex numbers; "
            "split them into real and imaginary columns."
        )
    if issubclass(cell, _DATES):
        raise TableError(
            f"Column {name!r} holds dates or times; turn it into numbers first "
            "(the year, or days since a fixed date; dates='number' does that) or drop it."
        )
    if issubclass(cell, _TIMES) or cell.__name__ == "Period":
        raise TableError(
            f"Column {name!r} holds times of day, durations or periods; turn it into numbers first "
            "(hours, days, or the date on which a period begins) or drop it."
        )
    raise TypeError(
        f"Column {name!r} holds a {cell.__name__}, but a cell argument must be a string or a "
        "number; spread its parts over columns of their own."
    )
