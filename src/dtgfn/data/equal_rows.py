"""Equal rows are one row: rows of equal codes and target become one that weighs as much."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Array, Codes, Floats, Int32s, Int64s
from dtgfn.data.binning import distinct_codes


class CodedRows(NamedTuple):
    """Codes [n, d], target [n] (classes or numbers) and weight [n]."""

    codes: Codes
    target: Int32s | Floats
    weight: Floats

    def take(self, rows: Array | slice) -> CodedRows:
        """Some of the rows, by index, mask or slice."""
        return CodedRows(self.codes[rows], self.target[rows], self.weight[rows])


def distinct_coded(codes: Codes, target: Int32s | Floats) -> tuple[Int64s, Int64s]:
    """As ``distinct_codes``, of codes [n, d] and target [n] together."""
    words = np.ascontiguousarray(target).view(np.uint16).reshape(len(target), -1)
    return distinct_codes(np.hstack([codes, words]))


def group_rows(rows: CodedRows) -> CodedRows:
    """Merge equal rows, in the order in which each is first; the same rows if none are equal.

    >>> codes, target = np.array([[3], [1], [3]], np.uint16), np.array([0, 1, 0], np.int32)
    >>> [part.tolist() for part in group_rows(CodedRows(codes, target, np.ones(3)))]
    [[[3], [1]], [0, 1], [2.0, 1.0]]
    """
    first, member = distinct_coded(rows.codes, rows.target)
    if len(first) == len(rows.target):
        return rows
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    kept = first[order]
    weight: Floats = np.asarray(np.bincount(place[member], rows.weight), dtype=np.float64)
    return rows.take(kept)._replace(weight=weight)
