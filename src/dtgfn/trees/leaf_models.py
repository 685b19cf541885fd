"""Leaf models: what a set of rows is worth as a leaf, and what that leaf predicts.

A leaf model sees rows only through sums over them, so that a node's sums are its children's added
up. ``DirichletLeaf`` (classes) sums the weight of each class, ``NormalLeaf`` (numbers) the weight,
weight x target and weight x target^2. Five compiled functions say the rest:

- ``add_row(sums, target, weight, leaf)`` adds a row to sums [K];
- ``log_marginal(sums, leaf)`` is log m, the log marginal likelihood of the leaf's rows;
- ``log_partition_bound(sums, leaf)`` is at least the sum of log m over the parts of any partition
  of the rows (docs/ceilings.md has the proofs), also where the sums are rounded to single
  precision; inf where nothing is known;
- ``write_outputs(sums, leaf, out)`` writes what the leaf predicts [J];
- ``row_mass(sums, leaf)`` is the weight of the rows.

Compiled code chooses among models by the type of ``leaf``: to add a leaf model, write its class,
its terms and these five functions, and enter them in ``FUNCTIONS``. A model of one's own needs no
change here: it is a ``CustomLeaf`` (``custom_leaf.py``), called through pointers, without a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba.extending import overload
from scipy.special import gammaln

from dtgfn._support.arrays import Floats, Int64s
from dtgfn._support.checks import check_range
from dtgfn._support.compiled import INNER, njit
from dtgfn.data.targets import MAX_CLASSES

MOST_TABULATED = 10_000_000
# Bounds are asked for of sums in single precision: what rounding these changes, and the largest.
SINGLE, MOST_SINGLE = 1.2e-7, 3e38


class LeafModel(Protocol):
    """What Python code asks of a leaf model."""

    @property
    def n_sums(self) -> int:
        """Length K of the sums over rows."""

    @property
    def n_outputs(self) -> int:
        """Length J of what a leaf predicts."""

    def terms(self, weight: Floats | None = None) -> Any:
        """Return the NamedTuple that compiled code reads.

        With the weights [n] of all rows, it may tabulate what it needs at whole totals.
        """

    def normalise(self, outputs: Floats) -> Floats:
        """Divide averaged outputs [n, J] by the mass that they were averaged over."""


@dataclass(frozen=True)
class DirichletLeaf:
    """Class counts with a symmetric Dirichlet prior, ``concentration`` per class."""

    n_classes: int
    concentration: float = 0.1

    @property
    def n_sums(self) -> int:
        """Classes C."""
        return self.n_classes

    @property
    def n_outputs(self) -> int:
        """Class probabilities C."""
        return self.n_classes

    def terms(self, weight: Floats | None = None) -> DirichletTerms:
        """Tabulate lnG(k + a) - lnG(a) and lnG(k + Ca) - lnG(Ca), if all weights are whole."""
        a, ca = self.concentration, self.concentration * self.n_classes
        k = np.arange(tabulated(weight))
        table = np.stack([gammaln(k + a) - gammaln(a), gammaln(k + ca) - gammaln(ca)])
        return DirichletTerms(self.concentration, table)

    def normalise(self, outputs: Floats) -> Floats:
        """Let probabilities sum to one."""
        return np.asarray(outputs / outputs.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class NormalLeaf:
    """Normal targets of unknown mean and variance, with a normal-inverse-gamma prior.

    The engines see z = (y - location) / scale. In a leaf, z is Normal(mean, variance) with
    mean ~ Normal(0, variance / strength) and variance ~ InverseGamma(shape, spread); log m is that
    of y in its own units. Outputs are 1 (which tells the mass), E[z], E[variance] and E[z^2].
    """

    location: float = 0.0
    scale: float = 1.0
    strength: float = 0.1
    shape: float = 1.5
    spread: float = 0.25

    @property
    def n_sums(self) -> int:
        """Weight, weight x z, weight x z^2."""
        return 3

    @property
    def n_outputs(self) -> int:
        """1, E[z], E[variance], E[z^2]."""
        return 4

    def terms(self, weight: Floats | None = None) -> NormalTerms:
        """Tabulate lnG(shape + k / 2) - lnG(shape), if all weights are whole."""
        k = np.arange(tabulated(weight))
        table = gammaln(self.shape + k / 2) - gammaln(self.shape)
        unit = math.log(self.scale) + 0.5 * math.log(2 * math.pi)
        return NormalTerms(self.strength, self.shape, self.spread, unit, table)

    def normalise(self, outputs: Floats) -> Floats:
        """Let the first output be one."""
        return np.asarray(outputs / outputs[:, :1])


def tabulated(weight: Floats | None) -> int:
    """How many whole totals 0, 1, ... rows of these weights can have; 0 if they are not whole."""
    if weight is None:
        return 0
    total = weight.sum()
    if total > MOST_TABULATED or not (weight == np.rint(weight)).all():
        return 0
    return int(total) + 1


class DirichletTerms(NamedTuple):
    """What compiled code reads of a ``DirichletLeaf``; see ``terms``."""

    concentration: float
    gammas: Floats  # [2, T]


class NormalTerms(NamedTuple):
    """What compiled code reads of a ``NormalLeaf``; see ``terms``."""

    strength: float
    shape: float
    spread: float
    unit: float  # log of scale x sqrt(2 pi): what each row costs
    gammas: Floats  # [T]


@njit(cache=True, nogil=True)
def _add_class(sums: Floats, target: int, weight: float, leaf: DirichletTerms) -> None:
    sums[target] += weight


@njit(cache=True, nogil=True)
def _dirichlet_log_marginal(counts: Floats, leaf: DirichletTerms) -> float:
    """Log m(n) = sum_c [lnG(n_c + a) - lnG(a)] + lnG(Ca) - lnG(n + Ca) of class counts [C]."""
    n_classes, a, table = counts.shape[0], leaf.concentration, leaf.gammas
    total = 0.0
    value = 0.0
    if table.shape[1] > 0:
        for c in range(n_classes):
            total += counts[c]
            value += table[0, int(counts[c])]
        return value - table[1, int(total)]
    for c in range(n_classes):
        count = max(counts[c], 0.0)  # differences of sums are rounded
        total += count
        value += math.lgamma(count + a)
    value -= n_classes * math.lgamma(a)
    return value + math.lgamma(n_classes * a) - math.lgamma(total + n_classes * a)


@njit(cache=True, nogil=True)
def _dirichlet_bound(counts: Floats, leaf: DirichletTerms) -> float:
    """Log P = sum_c log m of a pure leaf with all rows of class c: no partition does better."""
    n_classes, a, table = counts.shape[0], leaf.concentration, leaf.gammas
    value = 0.0
    if table.shape[1] > 0:
        for c in range(n_classes):
            value += table[0, int(counts[c])] - table[1, int(counts[c])]
        return value
    for c in range(n_classes):
        count = max(counts[c], 0.0)
        value += math.lgamma(count + a) - math.lgamma(count + n_classes * a)
    return value + n_classes * (math.lgamma(n_classes * a) - math.lgamma(a))


@njit(cache=True, nogil=True)
def _dirichlet_outputs(counts: Floats, leaf: DirichletTerms, out: Floats) -> None:
    """Predictive mean (n_c + a) / (n + C a)."""
    total = counts.shape[0] * leaf.concentration
    for c in range(counts.shape[0]):
        total += counts[c]
    for c in range(counts.shape[0]):
        out[c] = (counts[c] + leaf.concentration) / total


@njit(cache=True, nogil=True)
def _class_mass(counts: Floats, leaf: DirichletTerms) -> float:
    return counts.sum()


@njit(cache=True, nogil=True)
def _add_number(sums: Floats, target: float, weight: float, leaf: NormalTerms) -> None:
    sums[0] += weight
    sums[1] += weight * target
    sums[2] += weight * target * target


@njit(**INNER)
def posterior_spread(sums: Floats, leaf: NormalTerms) -> float:
    """Spread of the variance's inverse gamma given the rows; rounding cannot make it shrink."""
    squares = sums[2] - sums[1] * sums[1] / (leaf.strength + sums[0])
    return leaf.spread + 0.5 * max(squares, 0.0)


@njit(cache=True, nogil=True)
def _normal_log_marginal(sums: Floats, leaf: NormalTerms) -> float:
    n = sums[0]
    shape = leaf.shape + 0.5 * n
    if leaf.gammas.shape[0] > 0:
        value = leaf.gammas[int(n)]
    else:
        value = math.lgamma(shape) - math.lgamma(leaf.shape)
    value += leaf.shape * math.log(leaf.spread) - shape * math.log(posterior_spread(sums, leaf))
    return value - 0.5 * math.log1p(n / leaf.strength) - n * leaf.unit


@njit(cache=True, nogil=True)
def _normal_bound(sums: Floats, leaf: NormalTerms) -> float:
    """Log m of n rows at their leaf's mean; the prior's mean, 0, still pulls at those away from it.

    In any partition the leaves' squares add up to ``squares`` at least.
    """
    n = sums[0]
    if leaf.gammas.shape[0] > 0:
        value = leaf.gammas[int(n)]
    else:
        value = math.lgamma(leaf.shape + 0.5 * n) - math.lgamma(leaf.shape)
    # What single precision cannot hold is not above its largest number: fewer squares bound, too.
    squares = leaf.strength / (leaf.strength + n) * min(max(sums[2], 0.0), MOST_SINGLE)
    value -= 0.5 * n * math.log(leaf.spread) + leaf.shape * math.log1p(0.5 * squares / leaf.spread)
    of_row = abs(math.log(leaf.shape + 0.5 * n)) + abs(math.log(leaf.spread)) + abs(leaf.unit)
    value += SINGLE * (n * of_row + leaf.shape + 1.0)
    return value - 0.5 * math.log1p(n / leaf.strength) - n * leaf.unit


@njit(cache=True, nogil=True)
def _normal_outputs(sums: Floats, leaf: NormalTerms, out: Floats) -> None:
    """Moments of the predictive Student t distribution."""
    rows = leaf.strength + sums[0]
    mean = sums[1] / rows
    variance = posterior_spread(sums, leaf) / (leaf.shape + 0.5 * sums[0] - 1.0)
    out[0] = 1.0
    out[1] = mean
    out[2] = variance
    out[3] = variance * (1.0 + 1.0 / rows) + mean * mean


@njit(cache=True, nogil=True)
def _number_mass(sums: Floats, leaf: NormalTerms) -> float:
    return sums[0]


class LeafFunctions(NamedTuple):
    """The compiled functions of a leaf model."""

    add_row: Callable[..., None]
    log_marginal: Callable[..., float]
    log_partition_bound: Callable[..., float]
    write_outputs: Callable[..., None]
    row_mass: Callable[..., float]


FUNCTIONS: dict[type, LeafFunctions] = {
    DirichletTerms: LeafFunctions(
        _add_class, _dirichlet_log_marginal, _dirichlet_bound, _dirichlet_outputs, _class_mass
    ),
    NormalTerms: LeafFunctions(
        _add_number, _normal_log_marginal, _normal_bound, _normal_outputs, _number_mass
    ),
}


def add_row(sums: Floats, target: float, weight: float, leaf: Any) -> None:
    """Add a row to sums [K]."""
    FUNCTIONS[type(leaf)].add_row(sums, target, weight, leaf)


def log_marginal(sums: Floats, leaf: Any) -> float:
    """Log marginal likelihood of the rows behind sums [K].

    Parameters
    ----------
    sums : float64 [K]
        What the leaf model adds up over the rows.
    leaf : named tuple
        The ``terms()`` of a leaf model.

    Returns
    -------
    float
        log m.

    """
    return FUNCTIONS[type(leaf)].log_marginal(sums, leaf)


def log_partition_bound(sums: Floats, leaf: Any) -> float:
    """Bound the sum of log m over the parts of any partition of the rows behind sums [K]."""
    return FUNCTIONS[type(leaf)].log_partition_bound(sums, leaf)


def write_outputs(sums: Floats, leaf: Any, out: Floats) -> None:
    """Write what a leaf with these sums predicts [J]."""
    FUNCTIONS[type(leaf)].write_outputs(sums, leaf, out)


def row_mass(sums: Floats, leaf: Any) -> float:
    """Weight of the rows behind sums [K]."""
    return FUNCTIONS[type(leaf)].row_mass(sums, leaf)


# Inside compiled code, the same names are chosen by the type of ``leaf`` at compile time.
# No annotations: numba wants both signatures alike to the letter.
@overload(add_row)
def _add_row(sums, target, weight, leaf):  # type: ignore[no-untyped-def]
    chosen = FUNCTIONS[leaf.instance_class].add_row
    return lambda sums, target, weight, leaf: chosen(sums, target, weight, leaf)


@overload(log_marginal)
def _log_marginal(sums, leaf):  # type: ignore[no-untyped-def]
    chosen = FUNCTIONS[leaf.instance_class].log_marginal
    return lambda sums, leaf: chosen(sums, leaf)


@overload(log_partition_bound)
def _log_partition_bound(sums, leaf):  # type: ignore[no-untyped-def]
    chosen = FUNCTIONS[leaf.instance_class].log_partition_bound
    return lambda sums, leaf: chosen(sums, leaf)


@overload(write_outputs)
def _write_outputs(sums, leaf, out):  # type: ignore[no-untyped-def]
    chosen = FUNCTIONS[leaf.instance_class].write_outputs
    return lambda sums, leaf, out: chosen(sums, leaf, out)


@overload(row_mass)
def _row_mass(sums, leaf):  # type: ignore[no-untyped-def]
    chosen = FUNCTIONS[leaf.instance_class].row_mass
    return lambda sums, leaf: chosen(sums, leaf)


@njit(cache=True, nogil=True)
def add_rows(target: Any, weight: Floats, member: Int64s, leaf: Any, sums: Floats) -> None:
    """Add each row [n] to the sums [P, K] that it belongs to."""
    for i in range(target.shape[0]):
        add_row(sums[member[i]], target[i], weight[i], leaf)


def check_targets(target: npt.NDArray[Any], leaf: LeafModel) -> None:
    """Refuse classes that a leaf has no count for: the loops would write beyond it."""
    if not isinstance(leaf, DirichletLeaf) or not target.size:
        return
    if target.dtype.kind not in "iu" or target.min() < 0 or target.max() >= leaf.n_classes:
        raise ValueError(
            f"The targets go from {target.min()} to {target.max()}, but leaves of "
            f"{leaf.n_classes} classes need whole numbers from 0 to {leaf.n_classes - 1}."
        )


@njit(cache=True, nogil=True)
def log_marginals(sums: Floats, leaf: Any, out: Floats) -> None:
    """Log m of each row of sums [N, K]."""
    for i in range(sums.shape[0]):
        out[i] = log_marginal(sums[i], leaf)


@njit(cache=True, nogil=True)
def outputs_of(sums: Floats, leaf: Any, out: Floats) -> None:
    """Outputs [N, J] of each row of sums [N, K]."""
    for i in range(sums.shape[0]):
        write_outputs(sums[i], leaf, out[i])


def fit_dirichlet(leaf: DirichletLeaf, classes: npt.NDArray[Any]) -> DirichletLeaf:
    """Return the leaf model for these classes."""
    if len(classes) > MAX_CLASSES:
        raise ValueError(
            f"y has {len(classes)} distinct labels, but at most {MAX_CLASSES} classes can be told "
            "apart; is it an identifier, or a number to predict (DTGFNRegressor)?"
        )
    # Beyond these the differences of log gammas lose their digits.
    check_range("leaf_concentration", leaf.concentration, 1e-6, 1e6)
    return DirichletLeaf(len(classes), float(leaf.concentration))


def fit_normal(leaf: NormalLeaf, y: Floats, weight: Floats) -> NormalLeaf:
    """Return the leaf model for numbers of this mean and standard deviation."""
    check_normal(leaf)
    location = float(np.average(y, weights=weight))
    scale = float(np.sqrt(np.average((y - location) ** 2, weights=weight)))
    return replace(leaf, **normal_units(location, scale))


def check_normal(leaf: NormalLeaf) -> None:
    """Refuse a prior that is out of range."""
    check_range("mean_strength", leaf.strength, 1e-6, 1e6)
    check_range("noise_shape", leaf.shape, 1.001, 1e6)
    check_range("noise_spread", leaf.spread, 1e-12, 1e12)


def normal_units(location: float, scale: float) -> dict[str, float]:
    """Location and scale; a target that hardly varies has no scale of its own."""
    varies = scale > 1e-12 * max(abs(location), 1e-300)
    return {"location": location, "scale": scale if varies else 1.0}
