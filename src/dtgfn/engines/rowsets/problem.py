"""The table as the exact recursion wants it: distinct rows, ranked codes, tabulated leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from dtgfn._support.arrays import Floats, Int32s, Int64s, UInt64s
from dtgfn._support.parallel import Flag
from dtgfn.data.binning import distinct_codes
from dtgfn.data.equal_rows import are_distinct
from dtgfn.engines.rowsets.class_counts import ClassCounts, make_class_counts
from dtgfn.engines.rowsets.cut_bits import CutBits, make_cut_bits, no_cut_bits
from dtgfn.trees.leaf_models import DirichletLeaf, add_rows, check_targets
from dtgfn.trees.score import PenaltyPrior, Rows, Score, leaf_log_marginal

MAX_TABLE = 1 << 21
# Two levels at once need a table over pairs of codes for each thread.
MAX_CODES = 2048
# Cuts of a table whose pairs are summed by logs, which takes 32 bytes a pair for each thread.
MOST_LOGGED = 1000
MOST_UNITS = 1 << 22
LONG = 20_000  # distinct rows from which on a table is long
# Products of two table entries must stay well inside the range of a double.
MAX_LOG_ENTRY = 330.0


Ranks = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


class LeafTable(NamedTuple):
    """exp(log m / temperature + scale * n) for every class count vector, packed into one integer.

    A row of class c adds ``step[c]`` for each unit of weight, so the sum over a row set IS the
    index of its entry. Entry 0, the empty leaf, is 0: a cut with an empty side weighs nothing.
    The scale cancels, since the leaves of any tree on a row set hold the same rows.
    All arrays are empty where counts are not whole or the table would not fit.
    """

    packed: Int32s  # [P] what each distinct row adds
    value: Floats  # [entries]
    mean: Floats  # [entries, J] what the leaf predicts
    row_weight: Floats  # [P] what each row adds to n
    scale: float


class LeafLogs(NamedTuple):
    """Log marginals of leaves by class, where a table of all count vectors would be too large.

    log m / temperature is the sum of ``gain`` at the count of each class, without ``norm`` at their
    total; a leaf without rows weighs nothing. Empty where counts are not whole.
    """

    packed: Int64s  # [P] what each distinct row adds, ``shift`` bits for each class
    gain: Floats  # [N + 1]
    norm: Floats  # [N + 1]
    shift: int
    n_classes: int


class Loops(NamedTuple):
    """What the compiled loops read: P distinct rows over the F features that vary."""

    ranks: Ranks  # [F, P] index of the code among the feature's distinct codes
    rank_code: Int32s  # [F, R] the code behind a rank (padded)
    group: Int32s  # [F] source column
    sums: Floats  # [P, K] the leaf model's sums over the copies of a row
    span: Int32s  # [P, 2] all sums of a row from span[0] to span[1] - 1; the others are zero
    leaf: Any  # see leaves.py
    temperature: float
    log_stop: Floats  # [max_depth + 1] tempered log prior of a stop at each depth
    log_split: Floats  # [max_depth + 1] and of a split
    uniform_rules: bool
    table: LeafTable
    logs: LeafLogs
    bits: CutBits  # cuts to be counted by bits, where there is a table or logs
    counts: ClassCounts  # of long tables
    halted: Flag  # [1] whether to end early, with nothing that could be used

    def with_own_flag(self) -> Loops:
        """Return the same with a flag of its own, for one call that may be halted."""
        return self._replace(halted=np.zeros(1, dtype=np.uint8))


@dataclass(frozen=True)
class Problem:
    """Rows and score, ready to be solved.

    Attributes
    ----------
    feature : int32 [F]
        Number, in the user's code table, of each feature that varies.
    n_groups : int
        Number of source columns.
    max_cuts : int
        Distinct cuts of all rows; no row set has more.
    keys : uint64 [P, 2]
        Random words; the xor over a row set names the set.
    root_bits : uint64 [W]
        All rows, as a bitset.

    """

    loops: Loops
    score: Score
    feature: Int32s
    n_groups: int
    max_cuts: int
    keys: UInt64s
    root_bits: UInt64s

    @property
    def n_words(self) -> int:
        """Words in a bitset of rows."""
        return int(self.root_bits.shape[0])

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return int(self.loops.sums.shape[0])

    @property
    def two_levels_by_logs(self) -> bool:
        """Whether counts are too large for the table, but pairs of cuts can be summed by logs."""
        return self.loops.logs.packed.size > 0 and self.loops.bits.place.size > 0

    @property
    def summed_at_once(self) -> int:
        """How many of the last levels exact inference sums at once."""
        at_once = self.two_levels_at_once or self.two_levels_by_logs
        return min(self.score.max_depth, 2 if at_once else 1)

    @property
    def two_levels_at_once(self) -> bool:
        """Whether the look-up table exists, and with it the fast sum over two levels."""
        return self.loops.table.value.size > 0 and self.loops.rank_code.shape[1] <= MAX_CODES


def distinct_rows(rows: Rows, score: Score, ordered: bool) -> tuple[npt.NDArray[np.uint16], Floats]:
    """Merge equal rows: their codes [P, d] and the leaf model's sums over each [P, K].

    Those of a long table come in any order if they need not be ``ordered``.
    """
    check_targets(rows.target, score.leaf)
    if not ordered and len(rows.codes) >= LONG and are_distinct(rows.codes):
        sums = np.zeros((len(rows.codes), score.leaf.n_sums))
        every = np.arange(len(rows.codes))
        add_rows(rows.target, rows.weight, every, score.leaf.terms(), sums)
        return rows.codes, sums
    first, member = distinct_codes(rows.codes)
    sums = np.zeros((len(first), score.leaf.n_sums))
    add_rows(rows.target, rows.weight, member, score.leaf.terms(), sums)
    return rows.codes[first], sums


def nonzero_spans(sums: Floats) -> Int32s:
    """First and one past the last sum of each row [P, 2] that is not zero: of many classes, one."""
    there = sums != 0
    n_sums = sums.shape[1]
    first = np.where(there.any(axis=1), there.argmax(axis=1), n_sums)
    last = n_sums - there[:, ::-1].argmax(axis=1)
    return np.stack([first, np.maximum(first, last)], axis=1).astype(np.int32)


def rank_type(codes: npt.NDArray[np.uint16]) -> np.dtype[Any]:
    """Return the type of ranks for who samples: on long tables a byte each, where that is enough.

    On small ones nothing is won, and all loops would be compiled twice.
    """
    in_bytes = len(codes) >= LONG and int(codes.max(initial=0)) < 256
    return np.dtype(np.uint8 if in_bytes else np.uint16)


def make_problem(
    rows: Rows,
    score: Score,
    column: Int32s,
    n_columns: int,
    *,
    ranked: np.dtype[Any] | None = None,
) -> Problem:
    """Merge equal rows, drop features that never vary and rank the codes of the others.

    ``ranked`` is the type of ranks for who samples (``rank_type``), and sums no pairs by logs.
    """
    codes, sums = distinct_rows(rows, score, ordered=ranked is None)
    n_rows, n_features = codes.shape
    differs = [(codes[:, f] != codes[0, f]).any() for f in range(n_features)]
    varying = np.flatnonzero(differs).astype(np.int32)
    ranks = np.zeros((varying.size, n_rows), dtype=np.uint16 if ranked is None else ranked)
    codes_seen = []
    for i, f in enumerate(varying):
        here = codes[:, f]
        seen = np.flatnonzero(np.bincount(here))
        rank_of = np.zeros(seen[-1] + 1, ranks.dtype)
        rank_of[seen] = np.arange(len(seen))
        ranks[i] = rank_of[here]
        codes_seen.append(seen)
    rank_code = np.zeros((varying.size, max(map(len, codes_seen), default=1)), dtype=np.int32)
    for i, seen in enumerate(codes_seen):
        rank_code[i, : len(seen)] = seen
    bits = np.zeros((n_rows + 63) // 64 * 64, dtype=np.uint8)
    bits[:n_rows] = 1
    log_stop, log_split = score.prior.node_terms(score.max_depth)
    table, units, step = make_leaf_table(sums, score)
    logs, max_cuts = no_leaf_logs(), sum(len(seen) - 1 for seen in codes_seen)
    if not table.value.size and ranked is None and max_cuts <= MOST_LOGGED:
        logs, step = make_leaf_logs(sums, score)
    by_bits = (table.value.size + logs.packed.size) > 0 and rank_code.shape[1] <= MAX_CODES
    loops = Loops(
        ranks=ranks,
        rank_code=rank_code,
        group=column[varying],
        sums=sums,
        span=nonzero_spans(sums),
        leaf=score.leaf.terms(rows.weight),
        temperature=score.temperature,
        log_stop=log_stop / score.temperature,
        log_split=log_split / score.temperature,
        uniform_rules=score.uniform_rules,
        table=table,
        logs=logs,
        bits=make_cut_bits(ranks, rank_code, units, step) if by_bits else no_cut_bits(),
        counts=make_class_counts(sums, score.leaf, wanted=n_rows >= LONG and not table.value.size),
        halted=np.zeros(1, dtype=np.uint8),
    )
    return Problem(
        loops=loops,
        score=score,
        feature=varying,
        n_groups=n_columns,
        max_cuts=max_cuts,
        # Fixed seed: the keys only name sets, and equal runs should be equal.
        keys=np.random.default_rng(0).integers(0, 2**64, size=(n_rows, 2), dtype=np.uint64),
        root_bits=np.packbits(bits, bitorder="little").view(np.uint64),
    )


def make_leaf_table(sums: Floats, score: Score) -> tuple[LeafTable, Floats, Int64s]:
    """Build the look-up table, or an empty one where it cannot be (see ``LeafTable``).

    With it come how often each row counts in each class [P, C] and the step of each class [C].
    """
    leaf = score.leaf
    empty = LeafTable(
        np.zeros(0, np.int32), np.zeros(0), np.zeros((0, leaf.n_outputs)), np.zeros(0), 0.0
    )
    nothing = empty, sums, np.zeros(0, np.int64)
    # Other priors have terms that depend on depth or row set; here all splits cost the same.
    flat = isinstance(score.prior, PenaltyPrior)
    if not isinstance(leaf, DirichletLeaf) or not flat or leaf.n_classes > 20:
        return nothing
    # class_weight multiplies all rows of a class alike, so counts are whole in units per class.
    unit = np.array([column[column > 0].min(initial=np.inf) for column in sums.T])
    unit[~np.isfinite(unit)] = 1.0
    units = np.rint(sums / unit)
    if not np.allclose(units * unit, sums, rtol=1e-12, atol=0):
        return nothing
    totals = units.sum(axis=0)
    if np.log1p(totals).sum() > math.log(max(MAX_TABLE, 1)):
        return nothing
    sizes = [int(total) + 1 for total in totals]
    step = np.cumprod([1, *sizes], dtype=np.int64)[:-1]
    counts = np.stack(
        [column.ravel(order="F") for column in np.indices(sizes, dtype=np.float64)], axis=-1
    )
    log_m = leaf_log_marginal(counts * unit, score) / score.temperature
    scale = -float(log_m[-1]) / (2 * totals.sum())
    log_value = log_m + scale * counts.sum(axis=-1)
    if np.abs(log_value).max() > MAX_LOG_ENTRY:
        return nothing
    value = np.exp(log_value)
    value[0] = 0.0
    mean = counts * unit + leaf.concentration
    table = LeafTable(
        packed=(units @ step).astype(np.int32),
        value=value,
        mean=mean / mean.sum(axis=-1, keepdims=True),
        row_weight=units.sum(axis=1),
        scale=scale,
    )
    return table, units, step


def no_leaf_logs() -> LeafLogs:
    """Return the logs of a problem that has none."""
    return LeafLogs(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 1, 0)


def make_leaf_logs(sums: Floats, score: Score) -> tuple[LeafLogs, Int64s]:
    """Tabulate log marginals by class, where rows count whole times; with the classes' steps."""
    leaf, nothing = score.leaf, (no_leaf_logs(), np.zeros(0, np.int64))
    flat = isinstance(score.prior, PenaltyPrior)  # as where there is a table
    if not isinstance(leaf, DirichletLeaf) or not flat:
        return nothing
    whole = (sums == np.rint(sums)).all() and (sums.sum(axis=1) > 0).all()
    total = int(sums.sum())
    shift = total.bit_length()
    if not whole or total > MOST_UNITS or shift * leaf.n_classes > 62:
        return nothing
    step = np.int64(1) << (shift * np.arange(leaf.n_classes, dtype=np.int64))
    n, a = np.arange(total + 1.0), leaf.concentration
    all_a = leaf.n_classes * a
    norm = (gammaln(n + all_a) - gammaln(all_a)) / score.temperature
    norm[0] = np.inf  # what has no rows is no leaf
    logs = LeafLogs(
        packed=sums.astype(np.int64) @ step,
        gain=(gammaln(n + a) - gammaln(a)) / score.temperature,
        norm=norm,
        shift=shift,
        n_classes=leaf.n_classes,
    )
    return logs, step
