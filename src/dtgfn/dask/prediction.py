"""Lazy predictions of dask tables, partition by partition."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
import numpy as np
import pandas

from dtgfn.dask.partitions import is_frame


def predict_lazily(
    model: Any, X: Any, method: str, dtype: Any, columns: list[Any] | None, **given: Any
) -> Any:
    """What ``method`` of a fitted model says of each partition, as a dask object of X's kind.

    Without ``columns`` it is a column [n], a Series or array; else a table of these columns.
    """
    sent = dask.delayed(model)  # one copy for each worker
    if is_frame(X):
        meta = as_frame(np.empty((0, len(columns or [0])), dtype), None, columns, dtype)
        ask = (sent, method, columns, dtype, given)
        return X.map_partitions(predict_frame, *ask, meta=meta, enforce_metadata=False)
    X = X.rechunk({1: -1})
    parts = [
        dask.delayed(predict_array)(part, sent, method, len(columns or []), dtype, given)
        for part in X.to_delayed().ravel()
    ]
    blocks = []
    for part, n_rows in zip(parts, X.chunks[0], strict=True):
        shape = (n_rows,) if columns is None else (n_rows, len(columns))
        blocks.append(dask.array.from_delayed(part, shape=shape, dtype=dtype))
    return dask.array.concatenate(blocks)


def predict_frame(
    frame: Any,
    model: Any,
    method: str,
    columns: list[Any] | None,
    dtype: Any,
    given: dict[str, Any],
) -> Any:
    """Predict a partition of a frame; one without rows has no predictions."""
    shape = (0,) if columns is None else (0, len(columns))
    said = getattr(model, method)(frame, **given) if len(frame) else np.empty(shape, dtype)
    return as_frame(said, frame.index, columns, dtype)


def as_frame(said: Any, index: Any, columns: list[Any] | None, dtype: Any) -> Any:
    """Predictions as a Series or frame."""
    if columns is None:
        return pandas.Series(np.asarray(said, dtype=dtype).reshape(-1), index=index)
    return pandas.DataFrame(said, index=index, columns=columns)


def predict_array(
    block: Any, model: Any, method: str, width: int, dtype: Any, given: dict[str, Any]
) -> Any:
    """Predict a block of rows; one without rows has no predictions."""
    if not len(block):
        return np.empty((0, width) if width else (0,), dtype)
    return np.asarray(getattr(model, method)(block, **given), dtype=dtype)
