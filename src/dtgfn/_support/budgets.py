"""Seconds of a time budget that are left."""

from __future__ import annotations

MOMENT = 0.25  # seconds


def remaining_budget(
    time_budget: float | None, spent: float, at_least: float = 0.1
) -> float | None:
    """Seconds of a budget that preparing has left, rounded to be read; moments do not count.

    ``at_least`` is the share that is left in any case.

    >>> remaining_budget(10.0, 1.27), remaining_budget(10.0, 0.01), remaining_budget(10.0, 30.0)
    (8.7, 10.0, 1.0)
    """
    if time_budget is None or spent < MOMENT:
        return time_budget
    return max(round(time_budget - spent, 1), at_least * time_budget)
