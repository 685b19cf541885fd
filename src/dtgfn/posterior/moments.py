"""From a posterior with normal leaves to moments and quantiles of new rows' targets.

Given a tree, a row's target is Student t with the leaf's parameters (``NormalLeaf``); over the
posterior it is a mixture of these. Its variance has two parts::

    total = noise + model     noise = E[variance of the leaf],  model = what more rows would remove
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit

from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.binning import distinct_codes
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.flat_trees import leaves_of
from dtgfn.trees.leaf_models import NormalLeaf

BLOCK = 1 << 20  # of trees x rows whose densities are held at once
NEWTON_STEPS = 60
SMALL_STEP = 1e-7  # in units of the target's standard deviation; Newton's next is its square


@dataclass(frozen=True)
class Variance:
    """Predictive variance of each row [n]: ``total`` is ``noise`` plus ``model``."""

    total: Floats
    noise: Floats
    model: Floats


def normal_leaf(posterior: TreePosterior) -> NormalLeaf:
    """Return the leaf model of a regression."""
    leaf = posterior.score.leaf
    if not isinstance(leaf, NormalLeaf):
        raise TypeError(f"Leaves are {type(leaf).__name__}, not numbers; fit a DTGFNRegressor.")
    return leaf


def moments(outputs: Floats, leaf: NormalLeaf) -> tuple[Floats, Variance]:
    """Mean [n] and variance of the target, in its own units, from averaged outputs [n, 4]."""
    _, mean, noise, second = outputs.T
    # Rounding must not make a variance smaller than its part.
    total = np.maximum(second - mean**2, noise)
    square = leaf.scale**2
    variance = Variance(square * total, square * noise, square * (total - noise))
    return leaf.location + leaf.scale * mean, variance


class Students(NamedTuple):
    """Student t distributions [R, B]: of R rows under B trees."""

    freedom: Floats
    center: Floats
    width: Floats


def predictive_quantiles(predictor: Predictor, codes: Codes, levels: Floats) -> Floats:
    """Quantiles [n, L] of the target at rows of codes [n, d], from the mixture over trees.

    Bags divide deviations from the mean by the root of their sharpness.
    """
    leaf = normal_leaf(predictor.posterior)
    trees, weight = predictor.counted.trees, predictor.weighted_trees.weights
    students = leaf_students(predictor.counted.sums, leaf)
    chosen, member = distinct_codes(codes)
    distinct = codes[chosen]
    piece = max(1, BLOCK // len(weight))
    out = np.empty((len(distinct), len(levels)))
    for first in range(0, len(distinct), piece):
        reached = leaves_of(trees, distinct[first : first + piece]).T
        here = Students(*(part[reached] for part in students))
        for column, level in enumerate(levels):
            out[first : first + piece, column] = mixture_quantile(here, weight, float(level))
        if predictor.sharpness != 1:
            mean = (here.center @ weight / weight.sum())[:, None]
            narrowed = (out[first : first + piece] - mean) / math.sqrt(predictor.sharpness)
            out[first : first + piece] = mean + narrowed
    return np.asarray(leaf.location + leaf.scale * out[member])


def leaf_students(sums: Floats, leaf: NormalLeaf) -> Students:
    """Predictive distributions of leaves with sums [..., 3]."""
    n, first, second = np.moveaxis(sums, -1, 0)
    rows, shape = leaf.strength + n, leaf.shape + n / 2
    spread = leaf.spread + 0.5 * np.maximum(second - first**2 / rows, 0.0)
    return Students(2 * shape, first / rows, np.sqrt(spread * (rows + 1) / (shape * rows)))


def student_constant(students: Students) -> Floats:
    """Log density of each distribution at its center, if it were one wide [...]."""
    freedom = students.freedom
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2)
    return np.asarray(constant - 0.5 * np.log(freedom * np.pi))


def student_density(students: Students, constant: Floats, z: Floats) -> Floats:
    """Density of each distribution at z [...], with its ``student_constant``."""
    off = (z - students.center) / students.width
    log_density = constant - (students.freedom + 1) / 2 * np.log1p(off**2 / students.freedom)
    return np.asarray(np.exp(log_density) / students.width)


def mixture_quantile(students: Students, weight: Floats, level: float) -> Floats:
    """Solve P(z <= q) = level for each row [R] of a mixture with weights [B].

    Newton's steps, halving the bracket where they leave it: each tree's own quantile bounds that
    of the mixture.
    """
    own = students.center + students.width * stdtrit(students.freedom, level)
    low, high = own.min(axis=1), own.max(axis=1)
    value = own @ weight
    constant = student_constant(students)
    open_rows = np.flatnonzero(high - low > SMALL_STEP)
    for _ in range(NEWTON_STEPS):
        if open_rows.size == 0:
            break
        freedom, center, width = (part[open_rows] for part in students)
        z = (value[open_rows, None] - center) / width
        excess = stdtr(freedom, z) @ weight - level
        here = Students(freedom, center, width)
        slope = student_density(here, constant[open_rows], value[open_rows, None]) @ weight
        above = excess > 0
        high[open_rows[above]] = value[open_rows[above]]
        low[open_rows[~above]] = value[open_rows[~above]]
        step = value[open_rows] - excess / np.maximum(slope, 1e-300)
        inside = (step > low[open_rows]) & (step < high[open_rows])
        step = np.where(inside, step, (low[open_rows] + high[open_rows]) / 2)
        moved = np.abs(step - value[open_rows])
        value[open_rows] = step
        open_rows = open_rows[moved > SMALL_STEP]
    return np.asarray(value)
