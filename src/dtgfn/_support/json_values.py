"""Numbers as JSON can hold them."""

from __future__ import annotations

import math


def none_if_nan(value: float) -> float | None:
    """Return a number, or None where it is not known: JSON has no nan."""
    return None if math.isnan(value) else value
