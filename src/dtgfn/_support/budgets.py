"""Seconds of a time budget: those that are left, and the clock of one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dtgfn._support import clock

MOMENT = 0.25  # seconds
EXTRA, EXTRA_SHARE = 0.4, 0.05  # seconds, and share of a budget, that a last word may take beyond


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


@dataclass
class Allowance:
    """The time of one call, from its start; what is done while ``paused`` does not count.

    Attributes
    ----------
    seconds : float or None
        How many there are; None for no limit.

    """

    seconds: float | None
    now: Callable[[], float] = clock.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.now()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the clock stand: compiling is not the problem's fault."""
        begun = self.now()
        try:
            yield
        finally:
            self.started += self.now() - begun

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started

    def deadline(self, share: float = 1.0, at_least: float = 0.0) -> float:
        """When a share of the time is over, but ``at_least`` so many seconds from now."""
        if self.seconds is None:
            return math.inf
        return max(self.started + share * self.seconds, self.now() + at_least)

    def last_word(self) -> float:
        """Seconds for what comes after the work: those that are left, and a little beyond."""
        if self.seconds is None:
            return math.inf
        return max(self.seconds - self.used, 0.0) + EXTRA + EXTRA_SHARE * self.seconds
