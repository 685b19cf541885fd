"""CSV files in chunks: kinds are guessed from the first rows, and mended where others disagree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dtgfn.data.csv_dialect import CsvDialect
from dtgfn.data.sources import Source
from dtgfn.data.table_files import Head, is_gzip, read_head, settled
from dtgfn.data.tables import Kind, parse_number

BLOCK = 4 << 20  # bytes that are parsed at once
# What pandas, and so ``read_table``, takes for missing.
MISSING = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
FALSE, TRUE = ("False", "FALSE", "false"), ("True", "TRUE", "true")
_NOT_CONVERTED = re.compile(r"In CSV column #(\d+): .*conversion error to (\w+): invalid value")


class NotANumberError(ValueError):
    """A text in a column of numbers; ``place`` is the column's among all."""

    def __init__(self, place: int) -> None:
        super().__init__(f"column {place + 1} holds text")
        self.place = place


def csv_source(path: Path, what: str, dialect: CsvDialect, text_columns: Collection[str]) -> Source:
    """Read a CSV file; a column is what its first thousand rows are, until another cell comes.

    Then it becomes text from the first row on, so that it is what it would be in memory.
    """
    dialect = settled(dialect, path)
    head = read_head(path, dialect, text_columns)
    names = head.table.names
    kinds: dict[str, Kind] = {column.name: column.kind for column in head.table.columns}
    spelled: set[str] = set()  # numbers that Arrow does not read as such

    def batches(known: Mapping[str, Kind], n_rows: int) -> Iterator[Any]:
        import pyarrow

        with pyarrow.input_stream(str(path), compression="gzip" if is_gzip(path) else None) as raw:
            for batch in _open(raw, head, dialect, known, spelled):
                yield _mended(batch, names, known, spelled)

    def relearn(error: Exception, known: Mapping[str, Kind]) -> Mapping[str, Kind] | None:
        """Return kinds with one more column of text; None if the error tells something else."""
        if isinstance(error, NotANumberError):
            place, spells = error.place, False
        else:
            found = _NOT_CONVERTED.search(str(error))
            if found is None:
                return None
            place = int(found[1])
            spells = found[2] == "double" and names[place] not in spelled
        if spells:  # perhaps as Python spells numbers: look at the texts
            spelled.add(names[place])
            return dict(known)
        spelled.discard(names[place])
        return {**known, names[place]: "category"}

    return Source(what, kinds, batches, head.n_rows_about, relearn)


def _open(
    raw: Any,
    head: Head,
    dialect: CsvDialect,
    kinds: Mapping[str, Kind],
    spelled: Collection[str],
) -> Any:
    import pyarrow
    from pyarrow import csv

    types = {"number": pyarrow.float64(), "boolean": pyarrow.bool_(), "category": pyarrow.string()}
    return csv.open_csv(
        raw,
        read_options=csv.ReadOptions(
            block_size=BLOCK,
            column_names=head.table.names,
            skip_rows=head.n_header_lines,
            encoding=dialect.encoding,
        ),
        parse_options=csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            include_columns=list(kinds),
            column_types={
                name: types["category" if name in spelled else kind] for name, kind in kinds.items()
            },
            null_values=MISSING,
            strings_can_be_null=True,
            true_values=list(TRUE),
            false_values=list(FALSE),
            decimal_point=dialect.decimal,
        ),
    )


def _mended(
    batch: Any, names: Sequence[str], kinds: Mapping[str, Kind], spelled: Collection[str]
) -> Any:
    """Drop spaces before texts, and read numbers that came as texts."""
    import pyarrow
    from pyarrow import compute

    for place, name in enumerate(batch.schema.names):
        array = batch.column(place)
        if array.type != pyarrow.string():
            continue
        array = compute.utf8_ltrim(array, characters=" ")
        if name in spelled and kinds[name] == "number":
            array = _spelled_numbers(array, names.index(name))
        batch = batch.set_column(place, name, array)
    return batch


def _spelled_numbers(array: Any, place: int) -> Any:
    import pyarrow

    coded = array.dictionary_encode()
    numbers = [parse_number(text) for text in coded.dictionary.to_pylist()]
    if None in numbers:
        raise NotANumberError(place)
    index = coded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    return pyarrow.array(np.array([*numbers, np.nan], dtype=np.float64)[index])
