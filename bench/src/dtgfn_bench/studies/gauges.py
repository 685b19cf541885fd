"""What a process that measures one fit needs: its largest memory meanwhile, and its clock."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> float:
    """Forget the largest memory so far, where the system can; return that of now, in MB."""
    with suppress(OSError):
        CLEAR.write_text("5")
    return peak_memory()


def peak_memory() -> float:
    """Largest memory of the process since it began or ``forget_peak``, in MB."""
    with suppress(OSError, StopIteration):
        lines = STATUS.read_text().splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def budget_clock(by_processor: bool) -> Any:
    """Return the clock that budgets are read from, in this process perhaps the processor's."""
    from dtgfn._support import clock

    if by_processor:
        vars(clock)["time"] = SimpleNamespace(monotonic=time.process_time)
    return clock
