"""The numba loops that trees, scores and engines share: routing, counting and merging rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn.trees.leaves import add_row

BLOCK = 256  # rows
MOST_KEYS = 1 << 62
LARGEST_CODE = np.iinfo(np.uint16).max


def as_codes(codes: npt.ArrayLike, n_features: int) -> Codes:
    """Rows of codes as the loops were compiled for, refused where a loop would read beyond them.

    ``n_features`` is how many columns the loop asks for, at least. A read-only view would compile
    the loops once more.

    >>> as_codes([[3, 1]], 2).dtype
    dtype('uint16')
    """
    array = np.asarray(codes)
    if array.dtype.kind not in "ui" and array.size:
        raise TypeError("codes are no whole numbers; posterior.encode(X) makes codes of a table X.")
    if array.ndim != 2 or array.shape[1] < n_features:
        raise ValueError(
            f"codes have the shape {array.shape}, but one row each and {n_features} columns or "
            "more are needed; posterior.encode(X) makes codes of a table X."
        )
    if array.dtype != np.uint16 and array.size:
        lowest, highest = int(array.min()), int(array.max())
        if lowest < 0 or highest > LARGEST_CODE:
            raise ValueError(
                f"codes go from {lowest} to {highest}, but must be from 0 to {LARGEST_CODE}; "
                "posterior.encode(X) makes codes of a table X."
            )
    return np.require(array, dtype=np.uint16, requirements=["C", "W"])


@njit(cache=True, nogil=True)
def route_rows(feature: Int32s, cut: Int32s, left: Int32s, codes: Codes, leaf: Int32s) -> None:
    """Write the leaf [B, n] that each row [n, d] reaches in each tree [B, N]."""
    for b in range(feature.shape[0]):
        for i in range(codes.shape[0]):
            node = 0
            while feature[b, node] >= 0:
                goes_right = codes[i, feature[b, node]] > cut[b, node]
                node = left[b, node] + (1 if goes_right else 0)
            leaf[b, i] = node


@njit(cache=True, nogil=True)
def sum_nodes(
    feature: Int32s,
    cut: Int32s,
    left: Int32s,
    codes: Codes,
    target: Int32s | Floats,
    weight: Floats,
    leaf: Any,
    sums: Floats,
    n_rows: Int32s,
) -> None:
    """Add each row to sums [B, N, K], and one to n_rows [B, N], where it passes."""
    for start in range(0, codes.shape[0], BLOCK):  # whose codes stay in the cache for all trees
        for b in range(feature.shape[0]):
            for i in range(start, min(start + BLOCK, codes.shape[0])):
                node = 0
                while True:
                    add_row(sums[b, node], target[i], weight[i], leaf)
                    n_rows[b, node] += 1
                    if feature[b, node] < 0:
                        break
                    goes_right = codes[i, feature[b, node]] > cut[b, node]
                    node = left[b, node] + (1 if goes_right else 0)


@njit(cache=True, nogil=True)
def node_code_ranges(
    feature: Int32s,
    cut: Int32s,
    left: Int32s,
    codes: Codes,
    lowest: Int32s,
    highest: Int32s,
) -> None:
    """Lowest and highest code [N, d] among the rows at each node of ONE tree [N]."""
    for i in range(codes.shape[0]):
        node = 0
        while True:
            for f in range(codes.shape[1]):
                lowest[node, f] = min(lowest[node, f], codes[i, f])
                highest[node, f] = max(highest[node, f], codes[i, f])
            if feature[node] < 0:
                break
            node = left[node] + (1 if codes[i, feature[node]] > cut[node] else 0)


@njit(cache=True, nogil=True)
def write_preorder(
    feature: Int32s, cut: Int32s, left: Int32s, words: Int32s, length: npt.NDArray[np.int64]
) -> None:
    """Write each tree's splits in preorder, -1 for a leaf."""
    pending = np.empty(feature.shape[1] + 1, dtype=np.int32)
    for b in range(feature.shape[0]):
        n_words = 0
        n_pending = 1
        pending[0] = 0
        while n_pending > 0:
            n_pending -= 1
            node = pending[n_pending]
            words[b, n_words] = feature[b, node]
            n_words += 1
            if feature[b, node] >= 0:
                words[b, n_words] = cut[b, node]
                n_words += 1
                pending[n_pending] = left[b, node] + 1
                pending[n_pending + 1] = left[b, node]
                n_pending += 2
        length[b] = n_words


def distinct_codes(codes: Codes) -> tuple[Int64s, Int64s]:
    """Where each distinct row is first [P], in ascending order of codes, and who is who [n].

    As ``numpy.unique(codes, axis=0)``, which compares rows cell by cell and takes minutes on a
    large table with many categories. Here ranks are refined by as many columns at a time as fit
    into a whole number, until no two rows are equal or no columns are left.

    >>> [found.tolist() for found in distinct_codes(np.array([[2, 1], [1, 9], [2, 1]], np.uint16))]
    [[1, 0], [1, 0, 1]]
    """
    n_rows, width = codes.shape
    member, n_distinct = np.zeros(n_rows, np.int64), min(n_rows, 1)
    sizes = (codes.max(axis=0).astype(np.int64) + 1).tolist() if n_rows else []
    column = 0
    while column < width and n_distinct < n_rows:
        key, room = member, MOST_KEYS // n_distinct
        while column < width and sizes[column] <= room:
            key = key * sizes[column] + codes[:, column]
            room //= sizes[column]
            column += 1
        found, member = np.unique(key, return_inverse=True)
        n_distinct = len(found)
    return np.unique(member, return_index=True)[1], member
