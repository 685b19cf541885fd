"""The cuts of a node by formula: a histogram per feature, children valued as leaves.

For every score, and for tables whose pairs of cuts are too many to be summed. It is where long and
wide tables spend their time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s, UInt64s
from dtgfn._support.compiled import njit
from dtgfn.engines.rowsets.code_counts import (
    CountScratch,
    count_codes,
    make_count_scratch,
    take_codes,
    unpack,
)
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.partial.cuts import CutTable
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_marginal


class LeafScratch(NamedTuple):
    """What listing the cuts of one row set writes into, its children taken as leaves."""

    rows: Int32s  # [P]
    sums: Floats  # [P, K] of the rows, one after the other
    ranks: Int32s  # [P] of the rows on a feature
    seen: Int32s  # [R]
    bucket: Floats  # [R, K]
    total_sums: Floats  # [K]
    two_codes: Bools  # [F] whether a feature has two codes only, as indicators of categories do
    counts: CountScratch  # instead of the rows' arrays, where classes are counted at once


@njit(cache=True, nogil=True)
def make_leaf_scratch(loops: Loops) -> LeafScratch:
    """Return room for any row set of the problem."""
    n_features, n_rows = loops.ranks.shape
    n_ranks, n_sums = loops.rank_code.shape[1], loops.sums.shape[1]
    two_codes = np.zeros(n_features, np.bool_)
    for f in range(n_features):
        third = n_ranks > 2 and loops.rank_code[f, 2] > loops.rank_code[f, 1]
        two_codes[f] = n_ranks > 1 and not third
    if loops.counts.packed.shape[0] > 0:
        n_rows = 0
    return LeafScratch(
        np.empty(n_rows, np.int32),
        np.empty((n_rows, n_sums)),
        np.empty(n_rows, np.int32),
        np.zeros(n_ranks, np.int32),
        np.zeros((n_ranks, n_sums)),
        np.zeros(n_sums),
        two_codes,
        make_count_scratch(loops),
    )


@njit(cache=True, nogil=True)
def sum_two_codes(f: int, s: int, loops: Loops, scratch: LeafScratch) -> tuple[int, int]:
    """Sum the rows of the higher code, which are few; the others are the rest of the total.

    Returns the lowest and the highest rank, and marks the two in ``seen``.
    """
    bucket, n_sums = scratch.bucket, scratch.total_sums.shape[0]
    n_high = 0
    for r in range(s):
        if loops.ranks[f, scratch.rows[r]] == 1:
            n_high += 1
            for c in range(n_sums):
                bucket[1, c] += scratch.sums[r, c]
    lowest, highest = 0 if n_high < s else 1, 1 if n_high > 0 else 0
    scratch.seen[lowest], scratch.seen[highest] = 1, 1
    if lowest == 0:
        for c in range(n_sums):
            bucket[0, c] = scratch.total_sums[c] - bucket[1, c]
    return lowest, highest


@njit(cache=True, nogil=True)
def sum_codes(f: int, s: int, loops: Loops, scratch: LeafScratch) -> tuple[int, int]:
    """Sum the rows of every code; mark ranks in ``seen``, return the lowest and the highest."""
    lowest, highest = loops.rank_code.shape[1], -1
    for r in range(s):
        rank = int(loops.ranks[f, scratch.rows[r]])
        scratch.ranks[r] = rank
        scratch.seen[rank] = 1
        lowest, highest = min(lowest, rank), max(highest, rank)
    bucket, sums = scratch.bucket, scratch.sums
    if sums.shape[1] == 2:  # two classes: the loop that long tables spend their time in
        for r in range(s):
            rank = scratch.ranks[r]
            bucket[rank, 0] += sums[r, 0]
            bucket[rank, 1] += sums[r, 1]
        return lowest, highest
    for r in range(s):
        rank = scratch.ranks[r]
        row = scratch.rows[r]
        for c in range(loops.span[row, 0], loops.span[row, 1]):
            bucket[rank, c] += sums[r, c]
    return lowest, highest


@njit(cache=True, nogil=True)
def look_ahead_by_formula(
    nodes: Int64s,
    bits: UInt64s,
    depth: int,
    start: Int64s,
    max_cuts: int,
    loops: Loops,
    cuts: CutTable,
) -> None:
    """Fill the cuts of nodes [N] of rows [N, W], children valued as leaves; for every score."""
    scratch = make_leaf_scratch(loops)
    for i in range(nodes.shape[0]):
        list_leaf_cuts(bits[i], start[nodes[i]], depth, loops, scratch, cuts)


@njit(cache=True, nogil=True)
def load_rows(bits: UInt64s, loops: Loops, scratch: LeafScratch) -> int:
    """Write the rows of a set with their sums, and the sums of all; return how many there are."""
    n_sums = scratch.total_sums.shape[0]
    s = rows_of(bits, scratch.rows)
    for c in range(n_sums):
        scratch.total_sums[c] = 0.0
    for r in range(s):
        for c in range(n_sums):
            scratch.sums[r, c] = loops.sums[scratch.rows[r], c]
            scratch.total_sums[c] += scratch.sums[r, c]
    return s


@njit(cache=True, nogil=True)
def list_leaf_cuts(
    bits: UInt64s, at: int, depth: int, loops: Loops, scratch: LeafScratch, cuts: CutTable
) -> int:
    """Write all cuts of a row set from position ``at`` on; return where they end."""
    s, e, n_varying = 0, at, 0
    counted = loops.counts.packed.shape[0] > 0
    if counted:
        unpack(count_codes(bits, loops, scratch.counts), loops, scratch.total_sums)
    else:
        s = load_rows(bits, loops, scratch)
    for f in range(loops.ranks.shape[0]):
        if counted:
            lowest, highest = take_codes(f, loops, scratch.counts, scratch.seen, scratch.bucket)
        elif scratch.two_codes[f]:
            lowest, highest = sum_two_codes(f, s, loops, scratch)
        else:
            lowest, highest = sum_codes(f, s, loops, scratch)
        n_varying += 1 if highest > lowest else 0
        e = write_leaf_cuts(e, f, lowest, highest, depth, loops, scratch, cuts)
    if loops.uniform_rules:
        share = math.log(max(n_varying, 1)) / loops.temperature
        for u in range(at, e):
            cuts.prior[u] -= share
    return e


@njit(cache=True, nogil=True)
def write_leaf_cuts(
    e: int,
    f: int,
    lowest: int,
    highest: int,
    depth: int,
    loops: Loops,
    scratch: LeafScratch,
    cuts: CutTable,
) -> int:
    """Write the cuts of a feature from ``e`` on, return the end; ``bucket``, ``seen`` get empty."""
    total_sums, bucket, seen = scratch.total_sums, scratch.bucket, scratch.seen
    n_sums = total_sums.shape[0]
    left, right = np.zeros(n_sums), np.zeros(n_sums)
    rules = 0.0
    if loops.uniform_rules and highest > lowest:
        rules = math.log(loops.rank_code[f, highest] - loops.rank_code[f, lowest])
    previous = -1
    for rank in range(lowest, highest + 1):
        if seen[rank] == 0:
            continue
        seen[rank] = 0
        if previous >= 0:
            cuts.feature[e] = f
            cuts.low[e] = loops.rank_code[f, previous]
            cuts.high[e] = loops.rank_code[f, rank]
            cuts.prior[e] = loops.log_split[depth] - rules / loops.temperature
            cuts.prior[e] += math.log(cuts.high[e] - cuts.low[e])
            for c in range(n_sums):
                right[c] = total_sums[c] - left[c]
                cuts.sums[e, 0, c], cuts.sums[e, 1, c] = left[c], right[c]
            low = log_marginal(left, loops.leaf)
            high = log_marginal(right, loops.leaf)
            # A leaf that could still split also pays for stopping; the child knows better.
            cuts.lookahead[e, 0] = low / loops.temperature + loops.log_stop[depth + 1]
            cuts.lookahead[e, 1] = high / loops.temperature + loops.log_stop[depth + 1]
            cuts.best[e, 0], cuts.best[e, 1] = cuts.lookahead[e, 0], cuts.lookahead[e, 1]
            cuts.child[e, 0], cuts.child[e, 1] = -1, -1
            cuts.residual[e, 0], cuts.residual[e, 1] = 0.0, 0.0
            e += 1
        previous = rank
        for c in range(n_sums):
            left[c] += bucket[rank, c]
            bucket[rank, c] = 0.0
    return e
