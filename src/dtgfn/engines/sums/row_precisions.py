"""What makes a target normal: one precision per row, and precision x what a sum should be.

Three kinds of target:

- numbers: y_i ~ Normal(f(x_i), noise), weight_i rows of it;
- two classes: P(1 | x) = 1 / (1 + exp(-offset - f(x))), with Polya-gamma precisions;
- C classes: softmax of offset_c + f_c(x), a sum for each class, drawn in turn: given the others,
  f_c is a logistic regression against log sum_{j != c} exp(offset_j + f_j) (Holmes, Held 2006).

Precisions are rounded to whole multiples of a power of two, so fine that they add up without
rounding in any order: which cuts part the rows of a node is then seen from its sums. Of a million
equal rows each keeps ten digits.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.compiled import njit
from dtgfn.engines.sums.polya_gamma import draw_polya_gamma

DIGITS = 52  # bits of a double that sums may take


def round_precisions(precision: Floats) -> None:
    """Round positive precisions [n], in place, so that all sums of them are exact."""
    total = float(precision.sum())
    if total == 0.0:  # rows of next to no weight
        return
    unit = 2.0 ** (math.ceil(math.log2(total)) + 1 - DIGITS)
    precision /= unit
    np.rint(precision, out=precision)
    np.maximum(precision, 1.0, out=precision)
    precision *= unit


def set_numbers(
    number: Floats, weight: Floats, noise: float, precision: Floats, linear: Floats
) -> None:
    """Precisions of numbers."""
    np.divide(weight, noise, out=precision)
    round_precisions(precision)
    np.multiply(precision, number, out=linear)


def set_class(
    fit: Floats,
    s: int,
    label: Int32s,
    weight: Floats,
    offset: Floats,
    precision: Floats,
    linear: Floats,
    rng: np.random.Generator,
) -> None:
    """Precisions of class s against all others; ``fit`` [S, n]."""
    draw_precisions(fit, s, weight, offset, precision, linear, rng)
    round_precisions(precision)
    set_linear(label, 1 if len(fit) == 1 else s, weight, precision, linear)


@njit(cache=True, nogil=True)
def draw_precisions(
    fit: Floats,
    s: int,
    weight: Floats,
    offset: Floats,
    precision: Floats,
    base: Floats,
    rng: np.random.Generator,
) -> None:
    """Polya-gamma precisions of class s; ``base`` [n] is what f_s is added to."""
    n_sums = fit.shape[0]
    for i in range(weight.shape[0]):
        # what f_s + offset_s is compared with
        others = 0.0
        if n_sums > 1:
            top = -np.inf
            for c in range(n_sums):
                if c != s:
                    top = max(top, offset[c] + fit[c, i])
            for c in range(n_sums):
                if c != s:
                    others += math.exp(offset[c] + fit[c, i] - top)
            others = math.log(others) + top
        base[i] = offset[s] - others
        precision[i] = draw_polya_gamma(weight[i], base[i] + fit[s, i], rng)


def set_linear(label: Int32s, yes: int, weight: Floats, precision: Floats, linear: Floats) -> None:
    """Turn what f is added to, in ``linear`` [n], into precision x what f should be."""
    linear *= precision
    np.subtract(weight * np.where(label == yes, 0.5, -0.5), linear, out=linear)
