"""How sure a difference between methods is, measured over seeds and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtgfn._support.arrays import Floats

RESAMPLES = 10_000
# Accuracies are fractions of the same test rows: differences that are equal as fractions differ in
# their last bits as floats, and are ties all the same.
DECIMALS = 12


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation of the ``n`` numbers that are there."""

    mean: float
    spread: float
    n: int


@dataclass(frozen=True)
class Paired:
    """Mean of ours - other, its bootstrap interval, and the p-value of Wilcoxon's signed ranks.

    With fewer than two pairs there is no interval; without pairs there is nothing (NaN).
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int


@dataclass(frozen=True)
class Ranks:
    """Mean ranks (1 is best) and which methods they do not tell apart.

    ``groups`` are maximal sets of at least two names, from best to worst, whose mean ranks lie
    within the critical difference; when the test over all methods sees no difference
    (``p_value`` not below ``alpha``), all names are one group.
    """

    names: tuple[str, ...]
    mean_rank: tuple[float, ...]
    critical_difference: float
    p_value: float
    groups: tuple[tuple[str, ...], ...]
    n_blocks: int
    alpha: float = 0.05


def summary(values: Sequence[float | None]) -> Summary:
    """Mean and spread over seeds; None and NaN are left out."""
    there = _numbers(values)
    there = there[~np.isnan(there)]
    if len(there) == 0:
        return Summary(math.nan, math.nan, 0)
    return Summary(float(there.mean()), float(there.std()), len(there))


def compare(
    ours: Sequence[float | None],
    other: Sequence[float | None],
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Paired:
    """Compare two methods over the same seeds and tables, in the same order.

    Pairs where either is None or NaN are left out.
    """
    if len(ours) != len(other):
        raise ValueError(f"Cannot pair {len(ours)} values with {len(other)}.")
    difference = _numbers(ours) - _numbers(other)
    difference = np.round(difference[~np.isnan(difference)], DECIMALS)
    n = len(difference)
    if n == 0:
        return Paired(math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(difference.mean())
    if n == 1:
        return Paired(mean, math.nan, math.nan, 1.0, 1)
    drawn = np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))
    tail = (1 - level) / 2
    low, high = np.quantile(difference[drawn].mean(axis=1), [tail, 1 - tail])
    return Paired(mean, float(low), float(high), signed_rank_p_value(difference), n)


def signed_rank_p_value(difference: Floats) -> float:
    """Two-sided p-value of Wilcoxon's test, exact for any n and with ties; zeros are left out.

    Under the null hypothesis each rank is positive or negative by the toss of a coin; the
    distribution of the positive ranks' sum is built rank by rank.  Ranks of ties are halves, so
    they are counted doubled.
    """
    from scipy.stats import rankdata

    difference = difference[difference != 0]
    ranks = np.round(2 * rankdata(np.abs(difference))).astype(np.int64)
    probability = np.zeros(ranks.sum() + 1)
    probability[0] = 1.0
    for rank in ranks:
        probability[rank:] += probability[:-rank]  # numpy copies what overlaps
        probability /= 2
    positive = int(ranks[difference > 0].sum())
    extreme = min(probability[: positive + 1].sum(), probability[positive:].sum())
    return min(1.0, 2 * float(extreme))


def rank_methods(
    names: Sequence[str], scores: Floats, *, higher_is_better: bool = True, alpha: float = 0.05
) -> Ranks:
    """Rank methods [columns of ``scores``] within each block [row], ties sharing a mean rank.

    Friedman's test over all, then Nemenyi's critical difference.  Blocks with a NaN are left out.
    """
    from scipy.stats import rankdata, studentized_range

    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != len(names) or len(names) < 2:
        raise ValueError("Ranks need at least two methods, and a column of scores for each.")
    scores = np.round(scores[~np.isnan(scores).any(axis=1)], DECIMALS)
    n_blocks, n_methods = scores.shape
    if n_blocks == 0:
        raise ValueError("Ranks need at least one block in which every method has a score.")
    mean_rank = rankdata(-scores if higher_is_better else scores, axis=1).mean(axis=0)
    order = np.argsort(mean_rank, kind="stable")
    p_value = _friedman_p_value(scores)
    quantile = studentized_range.ppf(1 - alpha, n_methods, np.inf) / math.sqrt(2)
    critical = float(quantile * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks)))
    ordered = tuple(names[at] for at in order)
    groups = (ordered,) if p_value >= alpha else _groups(ordered, mean_rank[order], critical)
    ranks = tuple(float(mean_rank[at]) for at in order)
    return Ranks(ordered, ranks, critical, p_value, groups, n_blocks, alpha)


def _friedman_p_value(scores: Floats) -> float:
    from scipy.stats import binomtest, friedmanchisquare

    if (scores == scores[:, :1]).all():
        return 1.0
    if scores.shape[1] == 2:  # the ranks of two methods only tell who won: a test of signs
        wins, losses = ((scores[:, 0] > scores[:, 1]).sum(), (scores[:, 0] < scores[:, 1]).sum())
        return float(binomtest(int(wins), int(wins + losses)).pvalue)
    return float(friedmanchisquare(*scores.T).pvalue)


def _groups(
    names: Sequence[str], mean_rank: Floats, critical: float
) -> tuple[tuple[str, ...], ...]:
    """Maximal runs of sorted mean ranks that span less than the critical difference."""
    groups = []
    last_end = 0
    for start in range(len(names)):
        end = int(np.searchsorted(mean_rank, mean_rank[start] + critical, side="left"))
        if end > max(last_end, start + 1):
            groups.append(tuple(names[start:end]))
            last_end = end
    return tuple(groups)


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
