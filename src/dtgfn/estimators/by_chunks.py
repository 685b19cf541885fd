"""Predictions of a source: chunk by chunk, put together at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dtgfn.data.binning import Binner
from dtgfn.data.open_source import is_source, open_source
from dtgfn.data.sources import read_settled
from dtgfn.data.tables import Table, listing

Method = TypeVar("Method", bound=Callable[..., Any])


def by_chunks(method: Method) -> Method:
    """Let a method of rows X take a source as well: memory is that of one chunk and the answer."""

    @wraps(method)
    def answer(self: Any, X: Any, *args: Any, **given: Any) -> Any:
        if not is_source(X):
            return method(self, X, *args, **given)
        check_is_fitted(self)
        parts = [method(self, rows, *args, **given) for rows in rows_for(self.binner_, X)]
        return _together(parts)

    return cast(Method, answer)


def rows_for(binner: Binner, X: Any) -> Iterator[Table]:
    """Read those columns of a source that a model knows, in chunks."""
    source = open_source(X)
    if binner.named:
        absent = [name for name in binner.column_names if name not in source.kinds]
        if absent:
            raise ValueError(
                f"{source.what} lacks columns that training had: {listing(absent)}; add them."
            )
        source = source.only(binner.column_names)
    texts = [spec.name for spec in binner.columns if spec.kind == "category"]
    return read_settled(source.as_text(texts))


def _together(parts: list[Any]) -> Any:
    """Join arrays, or what consists of arrays, row by row."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts)
    if is_dataclass(first) and not isinstance(first, type):
        names = [each.name for each in fields(first)]
        return type(first)(**{n: _together([getattr(p, n) for p in parts]) for n in names})
    joined = [_together(list(each)) for each in zip(*parts, strict=True)]
    return type(first)(*joined) if hasattr(first, "_fields") else tuple(joined)
