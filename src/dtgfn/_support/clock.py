"""The clock that budgets are read from: it stands still while loops are compiled.

Compiling, on a first run, is not the problem's fault, so no ``time_budget`` pays for it.
"""

from __future__ import annotations

import threading
import time

_lock = threading.Lock()
_n_compiling = 0  # threads that compile just now
_since = 0.0  # when the first of them began
_total = 0.0  # seconds of all that is over


def monotonic() -> float:
    """Seconds of the monotonic clock, without those in which something was compiled."""
    with _lock:
        return (_since if _n_compiling else time.monotonic()) - _total


def compile_seconds() -> float:
    """Seconds in which this process has compiled, so far."""
    with _lock:
        return _total + (time.monotonic() - _since if _n_compiling else 0.0)


def begin_compiling() -> None:
    """Stop the clock."""
    global _n_compiling, _since
    with _lock:
        if not _n_compiling:
            _since = time.monotonic()
        _n_compiling += 1


def end_compiling() -> None:
    """Let the clock go on, if no other thread compiles."""
    global _n_compiling, _total
    with _lock:
        _n_compiling -= 1
        if not _n_compiling:
            _total += time.monotonic() - _since
