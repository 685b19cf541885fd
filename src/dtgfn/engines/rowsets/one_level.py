"""The cuts of one row set with one level left, and what the trees that end with them weigh."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, UInt64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.rowsets.code_counts import (
    CountScratch,
    count_codes,
    make_count_scratch,
    take_codes,
    unpack,
)
from dtgfn.engines.rowsets.graph import rows_of
from dtgfn.engines.rowsets.problem import Loops
from dtgfn.trees.leaf_models import log_marginal, write_outputs


class CutBuffer(NamedTuple):
    """Room for the cuts of one row set; ``list_cuts`` fills the first U entries."""

    feature: Int32s  # [U]
    low: Int32s  # [U]
    high: Int32s  # [U]
    weight: Floats  # [U] weight of all thresholds of the cut, relative to the common reference
    mean_left: Floats  # [U, J] what the left leaf predicts
    mean_right: Floats  # [U, J]
    mean_stop: Floats  # [J] the row set as a leaf
    rows: Int32s  # [P] scratch
    bucket: Floats  # [R, K] scratch
    packed_bucket: Int32s  # [R] scratch
    seen: Int32s  # [R] scratch
    counts: CountScratch  # instead of rows, where classes are counted at once


@njit(**INNER)
def make_cut_buffer(loops: Loops, max_cuts: int) -> CutBuffer:
    """Return room for the cuts of any row set of the problem."""
    n_sums, n_ranks = loops.sums.shape[1], loops.rank_code.shape[1]
    n_outputs = loops.table.mean.shape[1]
    return CutBuffer(
        np.empty(max_cuts, np.int32),
        np.empty(max_cuts, np.int32),
        np.empty(max_cuts, np.int32),
        np.empty(max_cuts),
        np.empty((max_cuts, n_outputs)),
        np.empty((max_cuts, n_outputs)),
        np.empty(n_outputs),
        np.empty(loops.sums.shape[0] if loops.counts.packed.shape[0] == 0 else 0, np.int32),
        np.empty((n_ranks, n_sums)),
        np.empty(n_ranks, np.int32),
        np.zeros(n_ranks, np.int32),
        make_count_scratch(loops),
    )


@njit(**INNER)
def list_cuts(
    bits: UInt64s, depth: int, loops: Loops, cuts: CutBuffer, with_means: bool
) -> tuple[int, float, float, float]:
    """List the cuts of a row set at ``depth`` whose children are leaves.

    Returns their number U, the weight of stopping, the largest weight of stopping or of a cut with
    all its thresholds, and the log of the common reference that these and ``cuts.weight`` are
    relative to.
    """
    if loops.table.value.shape[0] > 0:
        s = rows_of(bits, cuts.rows)
        return _list_cuts_by_table(s, depth, loops, cuts, with_means)
    return _list_cuts_by_formula(bits, depth, loops, cuts, with_means)


@njit(**INNER)
def _list_cuts_by_table(
    s: int, depth: int, loops: Loops, cuts: CutBuffer, with_means: bool
) -> tuple[int, float, float, float]:
    table, rows, seen = loops.table, cuts.rows, cuts.seen
    split = math.exp(loops.log_split[depth])
    total, row_weight = 0, 0.0
    for i in range(s):
        total += table.packed[rows[i]]
        row_weight += table.row_weight[rows[i]]
    stop = table.value[total]
    best, n_cuts = stop, 0
    for f in range(loops.ranks.shape[0]):
        lowest, highest = loops.rank_code.shape[1], -1
        for i in range(s):
            rank = loops.ranks[f, rows[i]]
            if seen[rank] == 0:
                cuts.packed_bucket[rank] = 0
                seen[rank] = 1
            cuts.packed_bucket[rank] += table.packed[rows[i]]
            lowest, highest = min(lowest, rank), max(highest, rank)
        left, previous = 0, -1
        for rank in range(lowest, highest + 1):
            if seen[rank] == 0:
                continue
            seen[rank] = 0
            if previous >= 0:
                low, high = loops.rank_code[f, previous], loops.rank_code[f, rank]
                cuts.feature[n_cuts], cuts.low[n_cuts], cuts.high[n_cuts] = f, low, high
                one = split * table.value[left] * table.value[total - left]
                cuts.weight[n_cuts] = (high - low) * one
                best = max(best, cuts.weight[n_cuts])
                if with_means:
                    for c in range(table.mean.shape[1]):
                        cuts.mean_left[n_cuts, c] = table.mean[left, c]
                        cuts.mean_right[n_cuts, c] = table.mean[total - left, c]
                n_cuts += 1
            previous = rank
            left += cuts.packed_bucket[rank]
    for c in range(table.mean.shape[1]):
        cuts.mean_stop[c] = table.mean[total, c]
    return n_cuts, stop, best, -table.scale * row_weight


@njit(**INNER)
def _list_cuts_by_formula(
    bits: UInt64s, depth: int, loops: Loops, cuts: CutBuffer, with_means: bool
) -> tuple[int, float, float, float]:
    leaf, n_sums = loops.leaf, loops.sums.shape[1]
    total, left, right = np.zeros(n_sums), np.zeros(n_sums), np.zeros(n_sums)
    n_cuts, n_varying, s = 0, 0, _sum_set(bits, loops, cuts, total)
    for f in range(loops.ranks.shape[0]):
        lowest, highest = _fill_buckets(f, s, loops, cuts)
        n_varying += 1 if highest > lowest else 0
        rules = 0.0
        if loops.uniform_rules and highest > lowest:
            rules = math.log(loops.rank_code[f, highest] - loops.rank_code[f, lowest])
        for c in range(n_sums):
            left[c] = 0.0
        previous = -1
        for rank in range(lowest, highest + 1):
            if cuts.seen[rank] == 0:
                continue
            cuts.seen[rank] = 0
            if previous >= 0:
                low, high = loops.rank_code[f, previous], loops.rank_code[f, rank]
                cuts.feature[n_cuts], cuts.low[n_cuts], cuts.high[n_cuts] = f, low, high
                for c in range(n_sums):
                    right[c] = total[c] - left[c]
                value = log_marginal(left, leaf)
                value += log_marginal(right, leaf)
                cuts.weight[n_cuts] = (value - rules) / loops.temperature + loops.log_split[depth]
                cuts.weight[n_cuts] += 2.0 * loops.log_stop[depth + 1]  # of both leaves
                if with_means:
                    write_outputs(left, leaf, cuts.mean_left[n_cuts])
                    write_outputs(right, leaf, cuts.mean_right[n_cuts])
                n_cuts += 1
            previous = rank
            for c in range(n_sums):
                left[c] += cuts.bucket[rank, c]
    write_outputs(total, leaf, cuts.mean_stop)
    stop = log_marginal(total, leaf) / loops.temperature
    if n_cuts > 0 or not loops.uniform_rules:
        stop += loops.log_stop[depth]
    reference = _exponentiate(n_cuts, n_varying, stop, loops, cuts)
    stop = math.exp(stop - reference)
    best = stop
    for u in range(n_cuts):
        best = max(best, cuts.weight[u])
    return n_cuts, stop, best, reference


@njit(**INNER)
def _sum_set(bits: UInt64s, loops: Loops, cuts: CutBuffer, total: Floats) -> int:
    """Write the sums of a row set, and its rows or their counts; return how many are written."""
    if loops.counts.packed.shape[0] > 0:
        unpack(count_codes(bits, loops, cuts.counts), loops, total)
        return 0
    s = rows_of(bits, cuts.rows)
    for i in range(s):
        row = cuts.rows[i]
        for c in range(loops.span[row, 0], loops.span[row, 1]):
            total[c] += loops.sums[row, c]
    return s


@njit(**INNER)
def _fill_buckets(f: int, s: int, loops: Loops, cuts: CutBuffer) -> tuple[int, int]:
    """Sum the rows of each code of a feature; return the lowest and the highest rank."""
    if loops.counts.packed.shape[0] > 0:
        return take_codes(f, loops, cuts.counts, cuts.seen, cuts.bucket)
    lowest, highest = loops.rank_code.shape[1], -1
    for i in range(s):
        row = cuts.rows[i]
        rank = loops.ranks[f, row]
        if cuts.seen[rank] == 0:
            cuts.seen[rank] = 1
            for c in range(loops.sums.shape[1]):
                cuts.bucket[rank, c] = 0.0
        for c in range(loops.span[row, 0], loops.span[row, 1]):
            cuts.bucket[rank, c] += loops.sums[row, c]
        lowest, highest = min(lowest, rank), max(highest, rank)
    return lowest, highest


@njit(**INNER)
def _exponentiate(n_cuts: int, n_varying: int, stop: float, loops: Loops, cuts: CutBuffer) -> float:
    """Make weights of log weights, all thresholds of a cut together; return their reference."""
    share = 0.0
    if loops.uniform_rules and n_cuts > 0:
        share = math.log(n_varying) / loops.temperature
    reference = stop
    for u in range(n_cuts):
        cuts.weight[u] -= share
        reference = max(reference, cuts.weight[u])
    for u in range(n_cuts):
        cuts.weight[u] = (cuts.high[u] - cuts.low[u]) * math.exp(cuts.weight[u] - reference)
    return reference
