"""How much memory is free, and a size of memory in words."""

from __future__ import annotations

import os


def available_memory() -> int:
    """Bytes of memory that are free now; 4 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


def gigabytes(n_bytes: float) -> str:
    """Say a size in GB (or MB).

    >>> gigabytes(3.2e9), gigabytes(5e6)
    ('3.2 GB', '5 MB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"
