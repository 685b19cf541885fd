"""Scales: what is not a number but has an order, ordered categories as ranks and dates as days."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats

EPOCH = "days since 1970-01-01"
DAY = np.timedelta64(1, "D")
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")


@dataclass(frozen=True)
class Scale:
    """How cells become numbers: as ranks of ``levels``, from 0, or without levels as days."""

    levels: tuple[str, ...] = ()

    @cached_property
    def _ranks(self) -> dict[str, float]:
        return {level: float(rank) for rank, level in enumerate(self.levels)}

    def number(self, text: str) -> float | None:
        """Return the number of a text, None if it has none.

        >>> Scale(("low", "high")).number("high"), Scale().number("1970-01-02 12:00")
        (1.0, 1.5)
        """
        return self._ranks.get(text) if self.levels else days_of_text(text)


DATES = Scale()


def days_of_text(text: str) -> float | None:
    """Return the day of a date as ISO 8601 or dd.mm.yyyy write it, perhaps with a time of day.

    Dates with slashes are not read: they may be of either order. "NaT" is pandas' word for none.

    >>> days_of_text("1970-02-01"), days_of_text("01.02.1970"), days_of_text("1/2/1970")
    (31.0, 31.0, None)
    """
    if text.strip() == "NaT":
        return math.nan
    day_first = _DAY_FIRST.fullmatch(text.strip())
    if day_first:
        day, month, year, rest = day_first.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{rest}"
    try:
        found = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    # Subtracted as a duration: at the ends of the calendar there is no such time in UTC.
    offset = found.utcoffset() or datetime.timedelta(0)
    since = found.replace(tzinfo=None) - datetime.datetime(1970, 1, 1) - offset
    return since / datetime.timedelta(days=1)


def days_of_texts(texts: npt.NDArray[np.object_]) -> Floats | None:
    """Days [n] of texts, nan where there is none (None); None if a text is no date."""
    days: dict[str | None, float | None] = {None: math.nan}
    for text in texts.tolist():
        if text not in days:
            days[text] = days_of_text(text)
            if days[text] is None:
                return None
    known = [day for day in days.values() if day is not None and not math.isnan(day)]
    if not known:  # nothing tells that these would be dates
        return None
    return np.array([days[text] for text in texts.tolist()], dtype=np.float64)


def days_of_times(times: npt.NDArray[np.datetime64]) -> Floats:
    """Days [n] of numpy's times, nan of NaT."""
    numbers = (times - np.datetime64(0, "D")) / DAY
    return np.where(np.isnat(times), np.nan, numbers)
