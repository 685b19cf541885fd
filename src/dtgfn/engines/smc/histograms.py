"""Histograms of nodes over coded rows, in whole numbers: added up, they are those of all rows.

A node is the way down to it. Rows are counted where they are, and only sums leave: for each node,
feature and code the leaf model's sums [K]. They are whole numbers (counts, or numbers in units of a
power of two), so it does not matter in which order, or in how many parts, rows are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn._support.parallel import Flag


class CodedPart(NamedTuple):
    """Some rows of a table, equal ones merged."""

    codes: Codes  # [P, F] as narrow as they fit
    slot: Int32s  # [P] the first of the sums that a row adds to: its class, or 0
    amount: Int64s  # [P, A] what it adds there


class Paths(NamedTuple):
    """Ways from the root to N nodes, of at most D steps, in ascending order."""

    feature: Int32s  # [N, D]
    cut: Int32s  # [N, D]
    right: Flag  # [N, D] whether a step goes to the right
    length: Int32s  # [N]


Step = tuple[int, int, int]  # feature, cut, whether to the right


def make_paths(steps: Sequence[tuple[Step, ...]]) -> Paths:
    """Paths of nodes, given in ascending order of their steps."""
    depth = max(map(len, steps), default=0)
    table = np.zeros((3, len(steps), max(depth, 1)), dtype=np.int32)
    for n, path in enumerate(steps):
        if path:
            table[:, n, : len(path)] = np.transpose(path)
    length = np.array([len(path) for path in steps], dtype=np.int32)
    return Paths(table[0], table[1], table[2].astype(np.uint8), length)


class HistogramSource(Protocol):
    """Something that has the rows, or knows who has.

    ``n_codes`` [F] is how many codes each feature has; ``unit`` [K], what one in each of the sums
    is worth; ``weight`` the weight of all rows, None unless every row's is a whole number.
    """

    n_codes: Int64s
    unit: Floats
    weight: float | None

    def histograms(self, paths: Paths) -> Int64s:
        """Sums [N, codes of all features, K] over the rows at each node."""


class LocalHistograms(NamedTuple):
    """Parts of a table that are in this process."""

    parts: Sequence[CodedPart]
    n_codes: Int64s
    unit: Floats
    weight: float | None

    def histograms(self, paths: Paths) -> Int64s:
        """See ``HistogramSource``."""
        total = count_part(self.parts[0], paths, self.n_codes, len(self.unit))
        for part in self.parts[1:]:
            total += count_part(part, paths, self.n_codes, len(self.unit))
        return total


def offsets(n_codes: Int64s) -> Int64s:
    """Where each feature's codes begin in a histogram, and where the last one's end [F + 1]."""
    return np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)


def count_part(part: CodedPart, paths: Paths, n_codes: Int64s, n_sums: int) -> Int64s:
    """Sums [N, codes of all features, K] over a part's rows at each node."""
    offset = offsets(n_codes)
    out = np.zeros((len(paths.length), int(offset[-1]), n_sums), dtype=np.int64)
    order = np.arange(len(part.slot), dtype=np.int32)
    begin = np.zeros((2, paths.feature.shape[1] + 1), dtype=np.int64)
    begin[1, 0] = len(order)
    count_nodes(part, paths, offset, order, begin, out)
    return out


@njit(cache=True, nogil=True)
def count_nodes(
    part: CodedPart, paths: Paths, offset: Int64s, order: Int32s, segment: Int64s, out: Int64s
) -> None:
    """Add a part's rows to ``out``; ``segment`` [2, D + 1] is where rows of a way's nodes are.

    Neighbours in the list share the beginning of their ways, and the rows found there.
    """
    for n in range(paths.length.shape[0]):
        length = paths.length[n]
        depth = shared_steps(paths, n) if n > 0 else 0
        while depth < length:
            begin, end = segment[0, depth], segment[1, depth]
            feature, cut = paths.feature[n, depth], paths.cut[n, depth]
            middle = part_rows(order, begin, end, part, feature, cut)
            depth += 1
            to_right = paths.right[n, depth - 1] > 0
            segment[0, depth] = middle if to_right else begin
            segment[1, depth] = end if to_right else middle
        add_rows(order, segment[0, length], segment[1, length], part, offset, out[n])


@njit(**INNER)
def shared_steps(paths: Paths, n: int) -> int:
    """How many steps a node's way has in common with that of the node before it."""
    most = min(paths.length[n], paths.length[n - 1])
    for step in range(most):
        same = paths.feature[n, step] == paths.feature[n - 1, step]
        same = same and paths.cut[n, step] == paths.cut[n - 1, step]
        if not same or paths.right[n, step] != paths.right[n - 1, step]:
            return step
    return most


@njit(**INNER)
def part_rows(order: Int32s, begin: int, end: int, part: CodedPart, feature: int, cut: int) -> int:
    """Bring rows with codes <= cut to the front of a segment; return where the others begin."""
    middle = begin
    for r in range(begin, end):
        row = order[r]
        order[r] = order[middle]
        order[middle] = row
        middle += part.codes[row, feature] <= cut
    return middle


@njit(**INNER)
def add_rows(
    order: Int32s, begin: int, end: int, part: CodedPart, offset: Int64s, out: Int64s
) -> None:
    """Add the rows of a segment to one node's histogram [codes of all features, K]."""
    n_amounts = part.amount.shape[1]
    for r in range(begin, end):
        row = order[r]
        slot = part.slot[row]
        for f in range(part.codes.shape[1]):
            here = offset[f] + part.codes[row, f]
            for a in range(n_amounts):
                out[here, slot + a] += part.amount[row, a]
