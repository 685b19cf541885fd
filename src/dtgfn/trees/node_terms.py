"""What one node adds to log R, compiled: the score's terms for a stop and for a split.

Rows at a node are a segment ``order[begin:end]`` of row numbers, so that a tree is a nested
partition of one array. The numbers come from ``score``; nothing is defined here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int32s
from dtgfn._support.compiled import INNER, njit
from dtgfn.trees.leaf_models import add_row, log_marginal
from dtgfn.trees.score import Rows, Score, merge_rows


class NodeTable(NamedTuple):
    """What the compiled loops read: P distinct rows over the F features that vary."""

    codes: Codes  # [F, P]
    target: Int32s | Floats  # [P]
    weight: Floats  # [P]
    feature: Int32s  # [F] the feature's number in the user's table
    leaf: Any  # see leaves.py
    log_stop: Floats  # [max_depth + 1] log prior of a stop at each depth, not tempered
    log_split: Floats  # [max_depth + 1] and of a split
    uniform_rules: bool
    max_depth: int
    n_sums: int
    temperature: float


def make_node_table(rows: Rows, score: Score) -> NodeTable:
    """Merge equal rows and drop the features that never vary."""
    merged = merge_rows(rows)
    varying = np.flatnonzero((merged.codes != merged.codes[:1]).any(axis=0)).astype(np.int32)
    log_stop, log_split = score.prior.node_terms(score.max_depth)
    return NodeTable(
        codes=np.ascontiguousarray(merged.codes[:, varying].T),
        target=merged.target,
        weight=merged.weight,
        feature=varying,
        leaf=score.leaf.terms(merged.weight),
        log_stop=log_stop,
        log_split=log_split,
        uniform_rules=score.uniform_rules,
        max_depth=score.max_depth,
        n_sums=score.leaf.n_sums,
        temperature=score.temperature,
    )


def two_rows(rows: Rows) -> Rows:
    """Two rows that differ in every feature, to compile loops with."""
    codes = np.zeros((2, rows.codes.shape[1]), dtype=rows.codes.dtype)
    codes[1] = 1
    return Rows(codes, rows.target[[0, -1]], rows.weight[[0, -1]])


def most_nodes(table: NodeTable) -> int:
    """Return how many nodes no tree can exceed: each leaf has a row, none is below max_depth."""
    return 2 * min(2**table.max_depth, len(table.target)) - 1


@njit(cache=True, nogil=True)
def segment_log_marginal(
    order: Int32s, begin: int, end: int, table: NodeTable, sums: Floats
) -> float:
    """Log m of the rows of a segment; ``sums`` [K] is scratch."""
    for k in range(sums.shape[0]):
        sums[k] = 0.0
    for r in range(begin, end):
        add_row(sums, table.target[order[r]], table.weight[order[r]], table.leaf)
    return log_marginal(sums, table.leaf)


@njit(cache=True, nogil=True)
def varies(order: Int32s, begin: int, end: int, table: NodeTable) -> bool:
    """Whether some cut sends rows of a segment to both sides."""
    for f in range(table.codes.shape[0]):
        first = table.codes[f, order[begin]]
        for r in range(begin + 1, end):
            if table.codes[f, order[r]] != first:
                return True
    return False


@njit(**INNER)
def code_ranges(order: Int32s, begin: int, end: int, table: NodeTable, ranges: Int32s) -> int:
    """Write lowest and highest code [2, F] of a segment; return the number of varying features.

    The valid cuts of feature f are ``ranges[0, f] .. ranges[1, f] - 1``.
    """
    n_varying = 0
    for f in range(table.codes.shape[0]):
        low = high = np.int32(table.codes[f, order[begin]])
        for r in range(begin + 1, end):
            code = np.int32(table.codes[f, order[r]])
            low = min(low, code)
            high = max(high, code)
        ranges[0, f] = low
        ranges[1, f] = high
        n_varying += int(high > low)
    return n_varying


@njit(**INNER)
def partition_rows(order: Int32s, begin: int, end: int, codes: Codes, cut: int) -> int:
    """Bring rows with ``codes`` [P] <= cut to the front; return where the others begin."""
    middle = begin
    for r in range(begin, end):
        # No branch on the code: it would be mispredicted half of the time.
        row = order[r]
        order[r] = order[middle]
        order[middle] = row
        middle += codes[row] <= cut
    return middle


@njit(cache=True, nogil=True)
def stop_term(log_m: float, depth: int, can_split: bool, table: NodeTable) -> float:
    """Log m + log_stop; a stop that is forced is free where the prior branches."""
    if table.uniform_rules and not can_split:
        return log_m
    return log_m + table.log_stop[depth]


@njit(**INNER)
def split_term(depth: int, n_varying: int, n_cuts: int, table: NodeTable) -> float:
    """log_split, and - log(varying features) - log(valid cuts) where rules are uniform."""
    if table.uniform_rules:
        return table.log_split[depth] - math.log(n_varying) - math.log(n_cuts)
    return table.log_split[depth]
