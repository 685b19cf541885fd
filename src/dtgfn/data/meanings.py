"""Meanings: what a column, its unit and its categories are called before a reader.

They are kept beside the columns' own names, by which tables are matched as before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtgfn._support.printable import visible
from dtgfn.data.tables import parse_number


@dataclass(frozen=True)
class Meaning:
    """What a column means; ``categories`` are pairs of a category and what it is called."""

    label: str | None = None
    unit: str | None = None
    categories: tuple[tuple[str, str], ...] = ()

    def category(self, text: str) -> str:
        """What a category is called."""
        return dict(self.categories).get(text, text)


NOTHING = Meaning()


def shown_name(name: str, meaning: Meaning | None) -> str:
    """What a column is called, with its unit in brackets if one is given.

    >>> shown_name("thalach", Meaning("highest heart rate", "1/min")), shown_name("age", None)
    ('highest heart rate (1/min)', 'age')
    """
    meaning = meaning or NOTHING
    unit = f" ({visible(meaning.unit)})" if meaning.unit else ""
    return visible(meaning.label or name) + unit


def shown_category(text: str, meaning: Meaning | None) -> str:
    """What a category is called."""
    return visible((meaning or NOTHING).category(text))


def coded_sides(threshold: float, meaning: Meaning | None) -> tuple[str, str] | None:
    """Name the codes on both sides of a threshold, where numbers are codes with a name each.

    >>> coded_sides(0.5, Meaning(categories=(("0", "female"), ("1", "male"))))
    ('female', 'male')
    """
    left = codes_between(-math.inf, threshold, meaning)
    right = codes_between(threshold, math.inf, meaning)
    return None if left is None or right is None else (left, right)


def codes_between(low: float, high: float, meaning: Meaning | None) -> str | None:
    """Name the codes above ``low`` and up to ``high``; None if none or all of them are there."""
    codes = (meaning or NOTHING).categories
    inside = [
        visible(shown)
        for text, shown in codes
        if (number := parse_number(text)) is not None and low < number <= high
    ]
    return " or ".join(inside) if 0 < len(inside) < len(codes) else None
