"""Where a warning points to: the line of the user's that led to it."""

from __future__ import annotations

import sys


def levels_to_caller() -> int:
    """How many frames up, seen from the caller, the first one outside of this package is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dtgfn."):
        frame, level = frame.f_back, level + 1
    return level
