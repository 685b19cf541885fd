"""Equal rows are one row: rows of equal codes and target become one that weighs as much."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Array, Codes, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.data.binning import distinct_codes

LONG = 20_000  # rows from which on a copy, or sorting them, is much


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
    return distinct_codes(np.hstack([codes, as_words(target)]))


def as_words(target: Array) -> Codes:
    """Numbers [n] as words of 16 bits [n, K]: equal where they are equal."""
    return np.ascontiguousarray(target).view(np.uint16).reshape(len(target), -1)


def are_distinct(codes: Codes, target: Int32s | Floats | None = None) -> bool:
    """Tell whether no two rows of codes [n, d], and target [n] if given, are equal; not sorted.

    >>> codes = np.array([[1, 2], [2, 1], [1, 2]], np.uint16)
    >>> are_distinct(codes[:2]), are_distinct(codes), are_distinct(codes, np.arange(3.0))
    (True, False, True)
    """
    words = np.zeros((len(codes), 0), np.uint16) if target is None else as_words(target)
    return bool(find_no_equal(np.ascontiguousarray(codes), words))


def digest_rows(rows: CodedRows) -> bytes:
    """Name rows, whatever their order."""
    words = np.hstack([as_words(rows.target), as_words(rows.weight)])
    return bytes(sum_of_names(np.ascontiguousarray(rows.codes), words))


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


@njit(cache=True, nogil=True)
def find_no_equal(codes: Codes, words: Codes) -> bool:
    """Whether no two rows [n, d] and [n, K] are equal, by a hash table over all before."""
    n_rows, size = codes.shape[0], 16
    while size < 2 * n_rows:
        size *= 2
    slots, mask = np.full(size, -1, np.int32), np.uint64(size - 1)
    for i in range(n_rows):
        slot = name_of(codes[i], words[i], np.uint64(0)) & mask
        while slots[slot] >= 0:
            other = slots[slot]
            if (codes[other] == codes[i]).all() and (words[other] == words[i]).all():
                return False
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = i
    return True


@njit(cache=True, nogil=True)
def sum_of_names(codes: Codes, words: Codes) -> UInt64s:
    """Two sums over names of rows."""
    total = np.zeros(2, np.uint64)
    for i in range(codes.shape[0]):
        for k in range(2):
            total[k] += name_of(codes[i], words[i], np.uint64(k + 1))
    return total


@njit(**INNER)
def name_of(codes: Codes, words: Codes, seed: np.uint64) -> np.uint64:
    """A random-looking number for a row."""
    name = seed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
    for cells in (codes, words):
        for cell in cells:
            name = (name ^ np.uint64(cell)) * np.uint64(0xBF58476D1CE4E5B9)
            name ^= name >> np.uint64(29)
    name *= np.uint64(0x94D049BB133111EB)
    return name ^ (name >> np.uint64(31))
