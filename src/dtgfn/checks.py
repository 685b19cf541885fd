"""Refusals of parameters: one sentence with the name, the value and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np


def check_choice(name: str, value: object, allowed: Iterable[str | None]) -> None:
    """Refuse a value that is not among the allowed ones."""
    choices = tuple(allowed)
    known = value is None or isinstance(value, str)
    if not known or value not in choices:
        listed = ", ".join(str(choice) for choice in choices)
        raise ValueError(f"{name}={value!r} is not known; give one of {listed}.")


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse what is not a whole number from low to high."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(
            f"{name}={value!r} is out of range; give a whole number from {low} to {high}."
        )


def check_range(name: str, value: object, low: float, high: float) -> None:
    """Refuse what is not a number from low to high."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(f"{name}={value!r} is out of range; give a number from {low} to {high}.")


def check_run(n_trees: object, time_budget: object, n_jobs: object) -> None:
    """Refuse what no engine can be run with; n_jobs=-1 is scikit-learn's way to say all cores."""
    check_whole("n_trees", n_trees, 1, 10_000_000)
    if n_jobs is not None and n_jobs != -1:
        check_whole("n_jobs", n_jobs, 1, 1024)
    number = isinstance(time_budget, Real) and not isinstance(time_budget, bool)
    if time_budget is not None and not (number and time_budget > 0):  # type: ignore[operator]
        raise ValueError(
            f"time_budget={time_budget!r} is not usable; give seconds above 0, or None."
        )


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false: the text "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} is not known; give True or False.")
