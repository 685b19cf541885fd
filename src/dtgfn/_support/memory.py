"""How much memory is free, how much a user allows, and a size of memory in words."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
SHARE = 0.5  # of what is free, where nothing is allowed or forbidden
UNKNOWN = 4 << 30


def available_memory() -> int:
    """Bytes that this process may still take: the least of what any limit leaves.

    Of the machine, of the control group that it runs in and of its own address space; 4 GiB where
    the system does not tell.
    """
    return int(min([*_machine(), *_control_group(), *_address_space()], default=UNKNOWN))


def _machine() -> Iterator[int]:
    try:
        told = Path("/proc/meminfo").read_text()
        yield int(re.findall(r"MemAvailable:\s+(\d+) kB", told)[0]) * 1024
    except (OSError, IndexError):
        try:
            yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return


def _control_group() -> Iterator[int]:
    """What is left of the limits of version 2, then 1; a group's files say "max" or a number."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            yield max(int(Path(limit).read_text()) - int(Path(used).read_text()), 0)
        except (OSError, ValueError):
            continue


def _address_space() -> Iterator[int]:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            yield max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    except (ImportError, OSError, ValueError):
        return


def read_memory_budget(value: object) -> int | None:
    """Bytes of a user's budget: a whole number, or a number with a unit; None stays None.

    >>> read_memory_budget("2GB"), read_memory_budget("1.5 GiB"), read_memory_budget(1000)
    (2000000000, 1610612736, 1000)
    """
    if value is None:
        return None
    n_bytes = 0
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", value)
        if found and found[2].upper() in UNITS:
            n_bytes = int(float(found[1]) * UNITS[found[2].upper()])
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        n_bytes = int(value.__index__())
    if n_bytes < 1:
        raise ValueError(
            f"memory_budget={value!r} is out of range; give a whole number of bytes from 1, a text "
            "such as '2GB', or None for half of what is free."
        )
    return n_bytes


def allowed_memory(budget: int | None) -> float:
    """Bytes that may be taken: the budget, or a share of what is free."""
    return math.floor(SHARE * available_memory()) if budget is None else budget


def gigabytes(n_bytes: float) -> str:
    """Say a size in GB (or MB).

    >>> gigabytes(3.2e9), gigabytes(5e6)
    ('3.2 GB', '5 MB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
