"""Batches of Arrow data as tables: the kind of a column is told by its type, not by its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.tables import (
    Column,
    Kind,
    Table,
    TableError,
    check_names,
    label,
    refuse_infinity,
    refuse_type,
)

if TYPE_CHECKING:
    import pyarrow


def import_pyarrow(purpose: str) -> Any:
    """Return pyarrow, or say what needs it."""
    try:
        import pyarrow
    except ImportError:
        raise TableError(f"{purpose} needs pyarrow: pip install 'dtgfn[parquet]'.") from None
    return pyarrow


def kinds_of(schema: pyarrow.Schema) -> dict[str, Kind | None]:
    """Name and kind of every column; None where the type is that of no cell at all.

    An index that pandas has stored is no column.
    """
    check_names(schema.names)
    index = _stored_index(schema)
    return {field.name: kind_of(field) for field in schema if field.name not in index}


def _stored_index(schema: pyarrow.Schema) -> set[str]:
    with suppress(TypeError, ValueError, KeyError, AttributeError):
        stored = json.loads(schema.metadata[b"pandas"])["index_columns"]
        return {name for name in stored if isinstance(name, str)}
    return set()


def kind_of(field: pyarrow.Field) -> Kind | None:
    """Kind of a column by its type; dates and nested cells are refused."""
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if types.is_null(kind):
        return None
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if types.is_dictionary(field.type) or any(is_text(kind) for is_text in texts):
        return "category"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_temporal(kind):
        is_date = types.is_date(kind) or types.is_timestamp(kind)
        refuse_type(field.name, np.datetime64 if is_date else np.timedelta64)
    refuse_type(field.name, list if types.is_nested(kind) else bytes)


def table_of(batch: Any, kinds: Mapping[str, Kind], what: str, first_row: int = 0) -> Table:
    """Columns of a batch that are in ``kinds``; a type that says otherwise is refused.

    ``first_row`` is the batch's among all rows, for sentences.
    """
    missing = [name for name in kinds if name not in batch.schema.names]
    if missing:
        raise TableError(
            f"A part of {what} lacks the column {missing[0]!r}, which others have; give every part "
            "the same columns."
        )
    columns = []
    for name, wanted in kinds.items():
        found = kind_of(batch.schema.field(name))
        if found is not None and found != wanted and wanted != "category":
            raise TableError(
                f"Column {name!r} of {what} is a {wanted} in one part and a {found} in another; "
                "give it one type."
            )
        columns.append(_column(name, wanted, found, batch.column(name), what, first_row))
    return Table(tuple(columns), batch.num_rows, named=True)


def _column(
    name: str, wanted: Kind, found: Kind | None, array: Any, what: str, first_row: int
) -> Column:
    if wanted == "category":
        return Column(name, wanted, _texts(array, found))
    values = _numbers(array)
    if np.isinf(values).any():
        refuse_infinity(name, values, what, first_row)
    return Column(name, wanted, values)


def _numbers(array: Any) -> Floats:
    """Numbers of a column, NaN for missing."""
    import pyarrow

    if pyarrow.types.is_boolean(array.type):
        array = array.cast(pyarrow.uint8())
    if array.type != pyarrow.float64():  # whole numbers beyond 2**53 are rounded, as everywhere
        array = array.cast(pyarrow.float64(), safe=False)
    values = array.to_numpy() if _is_chunked(array) else array.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _is_chunked(array: Any) -> bool:
    return hasattr(array, "chunks")


def _texts(array: Any, kind: Kind | None) -> Any:
    """Texts of a column as objects that are shared by equal cells, None for missing."""
    import pyarrow

    if kind is None:
        return np.full(len(array), None, dtype=object)
    if _is_chunked(array):
        array = array.combine_chunks()
    coded = array if pyarrow.types.is_dictionary(array.type) else array.dictionary_encode()
    cells = [None if cell is None else label(cell) for cell in coded.dictionary.to_pylist()]
    texts = np.array([*cells, None], dtype=object)
    index = coded.indices.fill_null(len(cells)) if coded.null_count else coded.indices
    return cast(Any, texts)[index.to_numpy(zero_copy_only=False)]
