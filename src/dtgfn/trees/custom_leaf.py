"""CustomLeaf: a leaf model of one's own, from four plain functions that numba can compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, types
from numba.core.errors import NumbaError

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_whole
from dtgfn.trees.leaves import CustomTerms

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
        check_whole("n_sums", self.n_sums, 1, 1000)
        check_whole("n_outputs", self.n_outputs, 1, 1000)
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
