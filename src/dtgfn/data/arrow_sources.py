"""Sources of other libraries: pyarrow datasets, polars LazyFrames, DuckDB relations, frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dtgfn.data.arrow_tables import kinds_of
from dtgfn.data.sources import Source
from dtgfn.data.tables import Kind, TableError


def dataset_source(dataset: Any, what: str) -> Source:
    """Read a pyarrow dataset; its files must agree on columns and their kinds."""
    kinds = _settled(kinds_of(dataset.schema))
    _check_parts_agree(dataset, kinds, what)

    def batches(kinds: Mapping[str, Kind], n_rows: int) -> Iterator[Any]:
        options = {}
        if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
            from pyarrow.dataset import ParquetFragmentScanOptions

            # By default a whole row group is read ahead.
            options["fragment_scan_options"] = ParquetFragmentScanOptions(
                use_buffered_stream=True, pre_buffer=False
            )
        yield from dataset.to_batches(
            columns=list(kinds),
            batch_size=n_rows,
            batch_readahead=1,
            fragment_readahead=1,
            **options,
        )

    return Source(what, kinds, batches, dataset.count_rows())


def _check_parts_agree(dataset: Any, kinds: Mapping[str, Kind], what: str) -> None:
    """Refuse a folder whose files differ in columns, or in what a column is."""
    from pyarrow.dataset import get_partition_keys

    for part in dataset.get_fragments():
        name = Path(getattr(part, "path", what)).name
        found = kinds_of(part.physical_schema)
        by_folder = get_partition_keys(part.partition_expression)
        expected = [column for column in kinds if column not in by_folder]
        lacking = [column for column in expected if column not in found]
        surplus = [column for column in found if column not in kinds]
        for wrong, said in ((lacking, "lacks"), (surplus, "has")):
            if wrong:
                others = "which others have" if wrong is lacking else "which others lack"
                raise TableError(
                    f"{name!r} in {what} {said} the column {wrong[0]!r}, {others}; give every "
                    "file the same columns."
                )
        for column in expected:
            if found[column] not in (None, kinds[column]):
                raise TableError(
                    f"Column {column!r} is a {found[column]} in {name!r} but a {kinds[column]} in "
                    f"other files of {what}; give it one type."
                )


def _settled(kinds: Mapping[str, Kind | None]) -> dict[str, Kind]:
    """Columns without any cell count as numbers, as they do in frames."""
    return {name: "number" if kind is None else kind for name, kind in kinds.items()}


def lazy_frame_source(frame: Any) -> Source:
    """Read a polars LazyFrame by its streaming engine, once for each pass."""
    if not hasattr(frame, "collect_batches"):
        raise TableError(
            "A polars LazyFrame is read in chunks from polars 1.34 on; install it, or write the "
            "frame with sink_parquet and name that file."
        )
    import polars

    kinds = _settled(kinds_of(polars.DataFrame(schema=frame.collect_schema()).to_arrow().schema))

    def batches(kinds: Mapping[str, Kind], n_rows: int) -> Iterator[Any]:
        for part in frame.select(list(kinds)).collect_batches(chunk_size=n_rows):
            yield part.to_arrow()

    return Source("the LazyFrame", kinds, batches)


def relation_source(relation: Any) -> Source:
    """Read a DuckDB relation, which runs its query anew for each pass."""
    kinds = _settled(kinds_of(relation.limit(0).to_arrow_table().schema))

    def batches(kinds: Mapping[str, Kind], n_rows: int) -> Iterator[Any]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in kinds)
        yield from relation.project(quoted).to_arrow_reader(n_rows)

    return Source("the relation", kinds, batches)


@contextmanager
def _closing(frames: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """Close a reader that was not read to its end, if it can be closed."""
    try:
        yield frames
    finally:
        getattr(frames, "close", lambda: None)()


def frames_source(frames: Callable[[], Any]) -> Source:
    """Read what a function returns: pandas or polars frames or Arrow tables, one by one."""
    import pyarrow

    def arrow(frame: Any) -> Any:
        if hasattr(frame, "to_arrow"):
            frame = frame.to_arrow()
        if isinstance(frame, pyarrow.Table | pyarrow.RecordBatch):
            return frame
        if hasattr(frame, "iloc"):
            return pyarrow.Table.from_pandas(frame, preserve_index=False)
        raise TableError(
            f"The function returned a {type(frame).__name__}, not a frame; let it return pandas or "
            "polars frames, or Arrow tables, one by one."
        )

    def batches(kinds: Mapping[str, Kind], n_rows: int) -> Iterator[Any]:
        with _closing(frames()) as opened:
            for frame in opened:
                yield arrow(frame)

    kinds: dict[str, Kind | None] = {}
    with _closing(frames()) as opened:
        for frame in opened:  # a column of which the first frames have no cell is not known yet
            found = kinds_of(arrow(frame).schema)
            kinds = {name: kinds.get(name) or kind for name, kind in found.items()}
            if None not in kinds.values():
                break
    if not kinds:
        raise TableError("The function returned no frames; let it return some, anew at each call.")
    return Source("the frames", _settled(kinds), batches)
