"""How the loops of sums are compiled: those that only loops call have no door to Python.

A door takes as long to compile as the loop behind it.
"""

from __future__ import annotations

from typing import Any

LOOP: dict[str, Any] = {"cache": True, "nogil": True}  # that Python calls
INNER: dict[str, Any] = {**LOOP, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
