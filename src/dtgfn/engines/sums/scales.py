"""Noise and leaf scale of a chain, drawn after every sweep.

The leaf scale has a half-t prior and is drawn given the leaves. Where classes are nearly apart, it
and all leaves grow or shrink together slowly that way; so they, and the lines with them, are also
stretched at once, which is accepted by the likelihood itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.compiled import njit
from dtgfn.engines.sums.lines import FREEDOM, LineTable, log_half_t
from dtgfn.engines.sums.sweep import NOISE, VARIANCE, Forest
from dtgfn.engines.sums.tree_draw import LEAF

NUMBERS, CLASSES = 0, 1
STRETCHES = (0.05, 0.3)  # steps of the logarithm
SCALE_STEPS = 10


class Target(NamedTuple):
    """What is summed up to: numbers, standardised, or classes."""

    kind: int
    number: Floats  # [n] of numbers
    label: Int32s  # [n] of classes
    weight: Floats  # [n]
    offset: Floats  # [S] log odds without any tree


class Prior(NamedTuple):
    """Of the noise, InverseGamma(shape, rate), and of the leaf scale, half-t(freedom, scale)."""

    noise_shape: float
    noise_rate: float
    scale: float
    freedom: float
    fixed_scale: bool
    fixed_noise: bool


def draw_scales(
    forest: Forest, target: Target, prior: Prior, lines: LineTable, rng: np.random.Generator
) -> None:
    """Draw the noise given the fit, then the leaf scale, with all leaves and given them."""
    if target.kind == NUMBERS and not prior.fixed_noise:
        squares = squares_left(forest.fit[0], target.number, target.weight, 1.0)
        rate = prior.noise_rate + 0.5 * squares
        shape = prior.noise_shape + 0.5 * float(target.weight.sum())
        forest.numbers[NOISE] = rate / rng.standard_gamma(shape)
    if not prior.fixed_scale:
        stretch_leaves(forest, target, prior, lines, rng)
        draw_scale(forest, prior, rng)


@njit(cache=True, nogil=True)
def squares_left(fit: Floats, number: Floats, weight: Floats, stretch: float) -> float:
    """Sum of the rows' squared residuals, if the fit were ``stretch`` times as large."""
    value = 0.0
    for i in range(weight.shape[0]):
        value += weight[i] * (number[i] - stretch * fit[i]) ** 2
    return value


@njit(cache=True, nogil=True)
def class_loss(fit: Floats, label: Int32s, weight: Floats, offset: Floats, stretch: float) -> float:
    """Minus the log likelihood of the rows' classes, if ``fit`` [S, n] were that much larger."""
    n_sums, n = fit.shape
    value = 0.0
    for i in range(n):
        if n_sums == 1:
            margin = offset[0] + stretch * fit[0, i]
            margin = margin if label[i] == 1 else -margin
            loss = math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)
        else:
            top, total = -np.inf, 0.0
            for s in range(n_sums):
                top = max(top, offset[s] + stretch * fit[s, i])
            for s in range(n_sums):
                total += math.exp(offset[s] + stretch * fit[s, i] - top)
            own = label[i]
            loss = math.log(total) + top - offset[own] - stretch * fit[own, i]
        value += weight[i] * loss
    return value


def log_likelihood(forest: Forest, target: Target, stretch: float) -> float:
    """Log likelihood of all rows if every leaf were ``stretch`` times as large."""
    if target.kind == NUMBERS:
        squares = squares_left(forest.fit[0], target.number, target.weight, stretch)
        return float(-0.5 * squares / forest.numbers[NOISE])
    return -float(class_loss(forest.fit, target.label, target.weight, target.offset, stretch))


def stretch_gain(variance: float, factor: float, scale: float, freedom: float) -> float:
    """How much more probable a scale is, as to its half-t prior, that is so much larger."""
    after = log_half_t(variance * factor * factor, scale, freedom)
    return float(after - log_half_t(variance, scale, freedom))


def stretch_leaves(
    forest: Forest, target: Target, prior: Prior, lines: LineTable, rng: np.random.Generator
) -> None:
    """Propose to multiply scales, leaves and slopes by one factor, exp(Normal(0, step^2)).

    The prior of leaves and slopes and the change of their volume cancel.
    """
    now = log_likelihood(forest, target, 1.0)
    for step in STRETCHES:
        factor = math.exp(step * rng.standard_normal())
        variance = float(forest.numbers[VARIANCE])
        stretched = log_likelihood(forest, target, factor)
        common = forest.lines.scales[:, -1] if len(lines.feature) else np.empty(0)
        gain = stretched - now
        gain += stretch_gain(variance, factor, prior.scale, prior.freedom)
        gain += sum(stretch_gain(v, factor, lines.scale, FREEDOM) for v in common)
        if math.log(max(rng.random(), 1e-300)) < gain:
            now = stretched
            forest.numbers[VARIANCE] = variance * factor * factor
            np.multiply(forest.value, factor, out=forest.value)
            np.multiply(forest.fit, factor, out=forest.fit)
            forest.lines.slope[:] *= factor
            forest.lines.said[:] *= factor
            forest.lines.scales[:, -1] *= factor * factor


def draw_scale(forest: Forest, prior: Prior, rng: np.random.Generator) -> None:
    """Move the leaf scale given all leaves, by a random walk of its logarithm."""
    used = np.arange(forest.feature.shape[2]) < forest.size[:, :, None]
    leaf = used & (forest.feature == LEAF)
    squares, count = float((forest.value[leaf] ** 2).sum()), int(leaf.sum())
    variance = float(forest.numbers[VARIANCE])
    step = 2.4 / math.sqrt(2.0 * count)  # given the leaves, the deviation is 1 / sqrt(2 count)
    for _ in range(SCALE_STEPS):
        proposed = variance * math.exp(2.0 * step * rng.standard_normal())
        gain = -0.5 * count * math.log(proposed / variance)
        gain -= 0.5 * squares * (1.0 / proposed - 1.0 / variance)
        gain += log_half_t(proposed, prior.scale, prior.freedom)
        gain -= log_half_t(variance, prior.scale, prior.freedom)
        if math.log(max(rng.random(), 1e-300)) < gain:
            variance = proposed
    forest.numbers[VARIANCE] = variance
