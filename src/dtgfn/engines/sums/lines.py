"""Straight lines beside the trees of a sum: a slope for each feature, all drawn at once.

Trees buy a straight line step by step, which few rows do not pay for. So the trees of a sum s are
added to sum_j slope_j x score_j(code), score_j running evenly over a feature's codes. Slopes have a
horseshoe prior, slope_j ~ Normal(0, (common x own_j)^2), own_j half-Cauchy, common half-t: most are
near 0, some are not (Carvalho, Polson, Scott 2010). Given a precision for each row slopes are
jointly normal; own scales are drawn by an auxiliary variable each (Makalic, Schmidt 2016).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Bools, Codes, Floats, Int32s
from dtgfn._support.compiled import INNER, njit
from dtgfn.trees.score import Rows

MOST_LINES = 128  # features that have one; there are no lines where there are more
LINES_A_SWEEP = 32  # where there are more they are drawn every few sweeps only
COMMON = 0.2  # prior scale of all lines of a row together, in units of that of all leaves
FREEDOM = 3.0  # of the half-t prior of the common scale
OWN_RANGE = (1e-10, 1e10)  # of own_j^2
SCALE_STEPS = 5


class LineTable(NamedTuple):
    """What the lines of all chains share; D features, none if there are no lines."""

    feature: Int32s  # [D]
    score: Floats  # [D, L] of each code
    scale: float  # of the half-t prior of the common scale
    every: int  # sweeps from one drawing of the lines to the next


class LineState(NamedTuple):
    """The lines of a chain's S sums."""

    slope: Floats  # [S, D]
    scales: Floats  # [S, D + 1] own_j^2, and last the square of the common scale
    said: Floats  # [S, n] what the lines say of the rows


def make_lines(rows: Rows, column: Int32s, has_missing: Bools | None, spread: float) -> LineTable:
    """Choose the features that have a line, and what their codes stand for.

    Of a feature [F] that ``has_missing`` the last code is that of a missing number. ``spread`` is
    the prior scale of all leaves of a row together.
    """
    varies = rows.codes.min(axis=0) < rows.codes.max(axis=0)
    # Slopes of many categories were worth nothing, and harmed where rows are few.
    chosen = np.flatnonzero(varies & (np.bincount(column)[column] == 1))
    width = int(rows.codes.max(initial=0)) + 1
    feature, scores = list[int](), list[Floats]()
    for f in chosen if len(chosen) <= MOST_LINES else ():
        missing = has_missing is not None and bool(has_missing[f])
        score = even_scores(rows.codes[:, f], rows.weight, width, missing)
        if score is not None:
            feature.append(int(f))
            scores.append(score)
    return LineTable(
        feature=np.array(feature, dtype=np.int32),
        score=np.array(scores).reshape(-1, width),
        scale=COMMON * spread / math.sqrt(max(len(feature), 1)),
        every=-(-len(feature) // LINES_A_SWEEP) or 1,
    )


def no_lines(width: int = 1) -> LineTable:
    """What chains have that are sums of trees alone."""
    return LineTable(np.zeros(0, dtype=np.int32), np.zeros((0, width)), 1.0, 1)


def even_scores(codes: Codes, weight: Floats, width: int, has_missing: bool) -> Floats | None:
    """Scores [width] of a feature's codes [n], of mean 0 and variance 1; None if all are equal."""
    count = np.bincount(codes, weights=weight, minlength=width)
    last = int(codes.max())
    score = np.minimum(np.arange(width, dtype=np.float64), last)
    if has_missing:
        count[last] = 0.0
    total = count.sum()
    if total == 0.0:
        return None
    score -= (count * score).sum() / total
    if has_missing:
        score[last:] = 0.0
    variance = (count * score**2).sum() / weight.sum()
    return np.asarray(score / math.sqrt(variance)) if variance > 1e-12 else None


def start_lines(table: LineTable, n_sums: int, n_rows: int) -> LineState:
    """Lines that say nothing yet."""
    scales = np.ones((n_sums, len(table.feature) + 1))
    scales[:, -1] = table.scale**2
    return LineState(np.zeros((n_sums, len(table.feature))), scales, np.zeros((n_sums, n_rows)))


@njit(**INNER)
def solve_normal(gram: Floats, pull: Floats, rng: np.random.Generator) -> Floats:
    """Draw from Normal(gram^-1 pull, gram^-1); ``gram`` is overwritten by its Cholesky factor."""
    size = pull.shape[0]
    out = np.empty(size)
    for d in range(size):
        for e in range(d + 1):
            value = gram[d, e]
            for k in range(e):
                value -= gram[d, k] * gram[e, k]
            gram[d, e] = math.sqrt(value) if d == e else value / gram[e, e]
        value = pull[d]
        for k in range(d):
            value -= gram[d, k] * out[k]
        out[d] = value / gram[d, d]
    for d in range(size - 1, -1, -1):
        value = out[d] + rng.standard_normal()
        for k in range(d + 1, size):
            value -= gram[k, d] * out[k]
        out[d] = value / gram[d, d]
    return out


@njit(**INNER)
def count_lines(
    codes: Codes,
    table: LineTable,
    said: Floats,
    fit: Floats,
    precision: Floats,
    linear: Floats,
    gram: Floats,
    pull: Floats,
) -> None:
    """Add up precisions x products of scores [D, D], and scores x what lines should say [D]."""
    size = table.feature.shape[0]
    score = np.empty(size)
    for i in range(codes.shape[0]):
        p = precision[i]
        wanted = linear[i] - p * (fit[i] - said[i])
        for d in range(size):
            score[d] = table.score[d, codes[i, table.feature[d]]]
        for d in range(size):
            pull[d] += score[d] * wanted
            weighted = p * score[d]
            row = gram[d]
            for e in range(d + 1):
                row[e] += weighted * score[e]


@njit(cache=True, nogil=True)
def say_lines(codes: Codes, table: LineTable, slope: Floats, said: Floats) -> None:
    """What lines say of rows of codes [n, F]."""
    for i in range(codes.shape[0]):
        value = 0.0
        for d in range(slope.shape[0]):
            value += slope[d] * table.score[d, codes[i, table.feature[d]]]
        said[i] = value


@njit(**INNER)
def draw_line_scales(slope: Floats, scales: Floats, scale: float, rng: np.random.Generator) -> None:
    """Own and common scales given the slopes."""
    size = slope.shape[0]
    common, squares = scales[size], 0.0
    for d in range(size):
        rate = rng.standard_exponential() / (1.0 + 1.0 / scales[d])  # of the auxiliary variable
        own = (rate + 0.5 * slope[d] ** 2 / common) / max(rng.standard_exponential(), 1e-300)
        if OWN_RANGE[0] < own < OWN_RANGE[1]:
            scales[d] = own
        squares += slope[d] ** 2 / scales[d]
    step = 2.4 / math.sqrt(2.0 * size)
    for _ in range(SCALE_STEPS):
        proposed = common * math.exp(2.0 * step * rng.standard_normal())
        gain = -0.5 * size * math.log(proposed / common)
        gain -= 0.5 * squares * (1.0 / proposed - 1.0 / common)
        gain += log_half_t(proposed, scale, FREEDOM) - log_half_t(common, scale, FREEDOM)
        if math.log(max(rng.random(), 1e-300)) < gain:
            common = proposed
    scales[size] = common


@njit(cache=True, nogil=True)
def log_half_t(variance: float, scale: float, freedom: float) -> float:
    """Log density of a scale's logarithm, up to a constant: half-t, and its volume."""
    ratio = variance / (freedom * scale * scale)
    return 0.5 * math.log(variance) - 0.5 * (freedom + 1.0) * math.log1p(ratio)


@njit(cache=True, nogil=True)
def draw_lines(
    codes: Codes,
    table: LineTable,
    state: LineState,
    s: int,
    fit: Floats,
    precision: Floats,
    linear: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw the lines of sum s given its trees; ``fit`` [n] is what both say and is kept so.

    ``linear`` [n] is precision x what the sum should be.
    """
    size = table.feature.shape[0]
    slope, scales, said = state.slope[s], state.scales[s], state.said[s]
    gram, pull = np.zeros((size, size)), np.zeros(size)
    count_lines(codes, table, said, fit, precision, linear, gram, pull)
    for d in range(size):
        gram[d, d] += 1.0 / (scales[size] * scales[d])
    slope[:] = solve_normal(gram, pull, rng)
    for i in range(fit.shape[0]):
        fit[i] -= said[i]
    say_lines(codes, table, slope, said)
    for i in range(fit.shape[0]):
        fit[i] += said[i]
    draw_line_scales(slope, scales, table.scale, rng)
