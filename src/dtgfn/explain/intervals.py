"""Means and intervals of what draws say."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from dtgfn._support.arrays import Floats


def jeffreys_interval(share: Floats, n_draws: float, level: float) -> tuple[Floats, Floats]:
    """Bounds of probabilities [n] that so many independent draws tell."""
    yes, no = share * n_draws + 0.5, (1 - share) * n_draws + 0.5
    low = np.where(share > 0, betaincinv(yes, no, (1 - level) / 2), 0.0)
    high = np.where(share < 1, betaincinv(yes, no, (1 + level) / 2), 1.0)
    return np.minimum(low, share), np.maximum(high, share)


def weighted_quantiles(value: Floats, weight: Floats, level: float) -> tuple[Floats, Floats]:
    """Quantiles of value [B, ...] over draws of weight [B], with even tails outside."""
    order = np.argsort(value, axis=0, kind="stable")
    upto = np.cumsum(weight[order], axis=0)
    ordered = np.take_along_axis(value, order, axis=0)

    def at(tail: float) -> Floats:
        index = np.minimum((upto < tail * (1 - 1e-12)).sum(axis=0), len(value) - 1)
        return np.take_along_axis(ordered, index[None], axis=0)[0]

    return at((1 - level) / 2), at((1 + level) / 2)
