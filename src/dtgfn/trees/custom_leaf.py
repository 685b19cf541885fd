"""CustomLeaf: a leaf model of one's own, from four plain functions that numba can compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cfunc, types
from numba.core.errors import NumbaError

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_integer
from dtgfn._support.compiled import njit
from dtgfn.trees.leaf_models import FUNCTIONS, LeafFunctions

ARRAY = types.float64[::1]
NUMBER = types.float64
SIGNATURES = {
    "add_row": types.void(ARRAY, NUMBER, NUMBER, ARRAY),
    "log_marginal": NUMBER(ARRAY, ARRAY),
    "write_outputs": types.void(ARRAY, ARRAY, ARRAY),
    "row_mass": NUMBER(ARRAY, ARRAY),
}


@dataclass(frozen=True)
class CustomLeaf:
    """A leaf that knows its rows by ``n_sums`` sums and predicts ``n_outputs`` numbers.

    Attributes
    ----------
    n_sums, n_outputs : int
    add_row : function (sums, target, weight, numbers)
        Adds a row to the sums, by which only sums over rows may enter.
    log_marginal : function (sums, numbers) -> float
        Log marginal likelihood of the rows.
    write_outputs : function (sums, numbers, out)
        Writes what the leaf predicts.
    row_mass : function (sums, numbers) -> float
        Weight of the rows.
    numbers : tuple of float
        Parameters of the prior, handed to all four.

    Examples
    --------
    Counts with a gamma prior on their rate:

    >>> import math
    >>> from dtgfn import infer
    >>> def add_row(sums, target, weight, numbers):
    ...     sums[0] += weight
    ...     sums[1] += weight * target
    >>> def log_marginal(sums, numbers):
    ...     shape, rate = numbers[0] + sums[1], numbers[1] + sums[0]
    ...     prior = numbers[0] * math.log(numbers[1]) - math.lgamma(numbers[0])
    ...     return prior + math.lgamma(shape) - shape * math.log(rate)
    >>> def write_outputs(sums, numbers, out):
    ...     out[0] = (numbers[0] + sums[1]) / (numbers[1] + sums[0])
    >>> def row_mass(sums, numbers):
    ...     return sums[0]
    >>> poisson = CustomLeaf(2, 1, add_row, log_marginal, write_outputs, row_mass, (1.0, 1.0))
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 1, 9, 8] * 5
    >>> posterior = infer(X, y, engine="exact", leaf=poisson, max_depth=1, n_thresholds=3)
    >>> posterior.solution.average(posterior.rows.codes[:1]).round(1)
    array([[0.5]])

    """

    n_sums: int
    n_outputs: int
    add_row: Callable[..., None]
    log_marginal: Callable[..., float]
    write_outputs: Callable[..., None]
    row_mass: Callable[..., float]
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Rehearse the functions as plain Python, since compiled code checks no index."""
        check_integer("n_sums", self.n_sums, 1, 1000)
        check_integer("n_outputs", self.n_outputs, 1, 1000)
        sums, numbers = np.zeros(self.n_sums), np.array(self.numbers, dtype=np.float64)
        given: dict[str, tuple[Any, ...]] = {
            "add_row": (sums, 1.0, 1.0, numbers),
            "log_marginal": (sums, numbers),
            "write_outputs": (sums, numbers, np.zeros(self.n_outputs)),
            "row_mass": (sums, numbers),
        }
        for name, function in self._functions().items():
            try:
                function(*given[name])
            except (IndexError, TypeError) as error:
                raise ValueError(
                    f"{name} of a CustomLeaf with n_sums={self.n_sums}, n_outputs={self.n_outputs} "
                    f"and {len(self.numbers)} numbers fails: {error}; see the docstring for what "
                    "it is called with."
                ) from error
            except (ArithmeticError, ValueError):
                pass  # a target of 1 may mean nothing to the model

    def __repr__(self) -> str:
        """Name the functions, not where they are: equal leaves must have equal names."""
        names = (f"{f.__module__}.{f.__qualname__}" for f in self._functions().values())
        return f"CustomLeaf({self.n_sums}, {self.n_outputs}, {', '.join(names)}, {self.numbers})"

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {name: getattr(self, name) for name in SIGNATURES}

    def terms(self, weight: Floats | None = None) -> CustomTerms:
        """Return what compiled code reads."""
        compiled = (compile_pointer(name, f) for name, f in self._functions().items())
        return CustomTerms(np.array(self.numbers, dtype=np.float64), *compiled)

    def normalise(self, outputs: Floats) -> Floats:
        """Leave averages as they are."""
        return outputs


@cache
def compile_pointer(name: str, function: Callable[..., Any]) -> Any:
    """Compile one of the four functions, once; dividing by zero gives inf or nan, as in numpy."""
    try:
        return cfunc(SIGNATURES[name], error_model="numpy")(function)
    except NumbaError as error:
        raise ValueError(
            f"numba cannot compile {name} of a CustomLeaf; write it as plain arithmetic on its "
            "arguments (numba's own words are above)."
        ) from error


class CustomTerms(NamedTuple):
    """What compiled code reads of a ``CustomLeaf``: its numbers, and pointers to its functions.

    Pointers, since functions that are compiled in would end up in the cache that all share.
    """

    numbers: Floats  # [P]
    add_row: Any
    log_marginal: Any
    write_outputs: Any
    row_mass: Any


@njit(nogil=True)
def _custom_add(sums: Floats, target: float, weight: float, leaf: CustomTerms) -> None:
    leaf.add_row(sums, float(target), weight, leaf.numbers)


@njit(nogil=True)
def _custom_log_marginal(sums: Floats, leaf: CustomTerms) -> float:
    value = leaf.log_marginal(sums, leaf.numbers)
    # Of no rows it may be anything: no tree has an empty leaf.
    if not value < np.inf and leaf.row_mass(sums, leaf.numbers) > 0.0:
        raise ValueError(
            "log_marginal of a CustomLeaf gives nan or inf for rows of this table; it must give a "
            "number, or -inf where rows are impossible, whatever rows the leaf holds."
        )
    return value


@njit(nogil=True)
def _custom_bound(sums: Floats, leaf: CustomTerms) -> float:
    return np.inf


@njit(nogil=True)
def _custom_outputs(sums: Floats, leaf: CustomTerms, out: Floats) -> None:
    leaf.write_outputs(sums, leaf.numbers, out)


@njit(nogil=True)
def _custom_mass(sums: Floats, leaf: CustomTerms) -> float:
    # The GFlowNet describes cuts in single precision.
    return leaf.row_mass(sums.astype(np.float64), leaf.numbers)


FUNCTIONS[CustomTerms] = LeafFunctions(
    _custom_add, _custom_log_marginal, _custom_bound, _custom_outputs, _custom_mass
)
