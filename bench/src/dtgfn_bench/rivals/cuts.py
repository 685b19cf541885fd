"""Every cut of a node's rows, and the impurity that a cut leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from dtgfn._support.arrays import Floats, Int64s


@dataclass(frozen=True)
class Cuts:
    """All cuts between neighbouring values, feature by feature, from the lowest value up.

    ``below`` and ``above`` [classes, cuts] are class counts of the two sides.
    """

    feature: Int64s
    threshold: Floats
    below: Floats
    above: Floats


def all_cuts(X: Floats, y: Int64s, n_classes: int) -> Cuts:
    """The cuts of these rows at mid-points; both sides of each hold a row."""
    columns = X.T
    order = np.argsort(columns, axis=1, kind="stable")
    values = np.take_along_axis(columns, order, axis=1)
    feature, rank = np.nonzero(values[:, 1:] > values[:, :-1])
    is_class = y[order] == np.arange(n_classes)[:, None, None]
    counts = is_class.cumsum(axis=2, dtype=np.float64)
    low, high = values[feature, rank], values[feature, rank + 1]
    middle = low + (high - low) / 2
    below = counts[:, feature, rank]
    # Of two values without a float between them the mid-point may be the higher.
    return Cuts(feature, np.where(middle < high, middle, low), below, counts[:, :1, -1] - below)


def tsallis(counts: Floats, alpha: float, betas: Floats) -> Floats:
    """The (alpha, beta)-Tsallis entropy of class counts [classes, n], for each beta [betas, n].

    (2, 1) is Gini's impurity; alpha = 1 is the limit, beta times Shannon's entropy.
    """
    share = counts / counts.sum(axis=0)
    if alpha == 1.0:
        return np.multiply.outer(betas, -xlogy(share, share).sum(axis=0))
    powers = (share**alpha).sum(axis=0)
    return (1.0 - powers ** betas[:, None]) / (alpha - 1.0)


def impurity_left(cuts: Cuts, alpha: float, betas: Floats) -> Floats:
    """Impurity of both sides of each cut, weighted by their rows, for each beta [betas, cuts]."""
    below = cuts.below.sum(axis=0) * tsallis(cuts.below, alpha, betas)
    return below + cuts.above.sum(axis=0) * tsallis(cuts.above, alpha, betas)
