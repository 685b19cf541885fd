"""Refusals of parameters: one sentence with the name, the value and the way out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats


def check_choice(name: str, value: object, allowed: Iterable[str | None]) -> None:
    """Refuse a value that is not among the allowed ones."""
    choices = tuple(allowed)
    known = value is None or isinstance(value, str)
    if not known or value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is not known; give one of {listed}.")


def check_integer(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number from low to high; refuse what is none."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(
            f"{name}={value!r} is out of range; give a whole number from {low} to {high}."
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_count(name: str, value: object, way_out: str = "give a whole number from 1") -> int:
    """Return a whole number from 1; refuse what is none."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not value >= 1:  # type: ignore[operator]
        raise ValueError(f"{name}={value!r} is out of range; {way_out}.")
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_range(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is not a number from low to high."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(f"{name}={value!r} is out of range; give a number from {low} to {high}.")


class RunLimits(NamedTuple):
    """What every engine is run with; None is no limit, and all cores."""

    n_trees: int
    time_budget: float | None
    n_jobs: int | None


def check_run(n_trees: object, time_budget: object, n_jobs: object) -> RunLimits:
    """Return these as plain numbers; refuse what no engine can be run with.

    n_jobs=-1 is scikit-learn's way to say all cores, and an endless budget is none.
    """
    n_trees = check_integer("n_trees", n_trees, 1, 10_000_000)
    threads = None
    if n_jobs is not None and not (n_jobs == -1 and isinstance(n_jobs, Integral)):
        threads = check_integer("n_jobs", n_jobs, 1, 1024)
    number = isinstance(time_budget, Real) and not isinstance(time_budget, bool)
    if time_budget is not None and not (number and time_budget > 0):  # type: ignore[operator]
        raise ValueError(
            f"time_budget={time_budget!r} is not usable; give seconds above 0, or None."
        )
    limited = time_budget is not None and time_budget != math.inf
    return RunLimits(n_trees, float(time_budget) if limited else None, threads)  # type: ignore[arg-type]


def check_seed(random_state: object) -> None:
    """Refuse what seeds no random numbers."""
    integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    usable = random_state is None or isinstance(random_state, np.random.Generator)
    if not usable and not (integer and random_state >= 0):  # type: ignore[operator]
        raise ValueError(
            f"random_state={random_state!r} is not usable; give a whole number from 0, a numpy "
            "Generator, or None."
        )


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false: the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} is not known; give True or False.")


def check_level(level: object) -> None:
    """Refuse what is no probability between 0 and 1."""
    number = isinstance(level, Real) and not isinstance(level, bool)
    if not number or not 0 < level < 1:  # type: ignore[operator]
        raise ValueError(
            f"level={level!r} is not usable; give a probability between 0 and 1, such as 0.9."
        )


def check_weights(
    sample_weight: npt.ArrayLike | None, n_rows: int, *, none_weighs: bool = False
) -> Floats | None:
    """Return weights of rows as numbers [n] from 0; refuse what are none.

    That no row weighs anything is refused, too, unless ``none_weighs``.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight holds no numbers; give one number per row.") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but must have one weight for each of the "
            f"{n_rows} rows, shape ({n_rows},)."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight is {weights[bad[0]]} in row {bad[0]}, but must be finite and >= 0."
        )
    if not none_weighs and not weights.any():
        raise ValueError("sample_weight is zero in every row; give at least one row some weight.")
    return weights
