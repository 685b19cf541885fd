"""Time and memory of exact inference: what it may take, and what is said when it is too much."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from dtgfn._support.progress import Progress
from dtgfn._support.threads import Threads as Threads  # the GFlowNet engine takes both from here
from dtgfn._support.threads import Work, anyhow, in_order
from dtgfn._support.threads import run_here as run_here

# Work that will be done this soon after the end is finished.
GRACE, GRACE_SHARE = 0.5, 0.05
# Shares of time and work after which a stage has shown what it needs; how much is clearly too much.
SHOWN, CLEARLY_LATE = 0.1, 2.0
LESS_WORK = (
    "Use fewer n_thresholds or a smaller max_depth; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)
MORE_TIME = (
    "Use fewer n_thresholds, a smaller max_depth or a larger time_budget; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)


class BudgetExceeded(RuntimeError):  # noqa: N818 (says what happened)
    """Exact inference would not fit, or did not fit, into the time or memory given."""


def available_memory() -> int:
    """Bytes of memory that are free now; 4 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 << 30


def duration(seconds: float) -> str:
    """Say a time as a person would.

    >>> duration(0.25), duration(75), duration(7200), duration(1e7), duration(1e12)
    ('0.2 s', '1.2 min', '2.0 h', '115.7 days', '31,710 years')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.1f} days" if days < 730 else f"{days / 365:,.0f} years"


def gigabytes(n_bytes: float) -> str:
    """Say a size in GB (or MB).

    >>> gigabytes(3.2e9), gigabytes(5e6)
    ('3.2 GB', '5 MB')
    """
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"


@dataclass
class Budget:
    """A deadline and a memory limit, and the only way the engine runs its loops.

    Attributes
    ----------
    seconds : float or None
        Time allowed from ``started``; None is no limit.
    memory : int
        Bytes allowed.
    n_jobs : int
        Threads; the compiled loops release the interpreter lock.
    ahead : float
        Seconds that are expected to be needed after the present stage.

    """

    seconds: float | None
    memory: int
    n_jobs: int
    progress: Progress
    started: float
    ahead: float = 0.0

    def check_memory(self, n_bytes: float, what: str) -> None:
        """Refuse before memory is taken, not after."""
        if n_bytes > self.memory:
            raise BudgetExceeded(
                f"Exact inference needs {gigabytes(n_bytes)} for {what}, but only "
                f"{gigabytes(self.memory)} may be used. {LESS_WORK}"
            )

    def check_time(self, stage: str, share: float, begun: float) -> None:
        """Stop a stage that began at ``begun`` when the time is up, or clearly will be.

        What is done is done, and what is nearly done is finished: a stage that ends within the
        grace goes on. One that has shown that it needs far more is ended early.
        """
        if self.seconds is None or share >= 1.0:
            return
        now = time.monotonic()
        used = now - self.started
        expected = used + (now - begun) * (1.0 - share) / share if share > 0 else math.inf
        late = self.seconds + max(GRACE, GRACE_SHARE * self.seconds)
        if (used > self.seconds and expected > late) or used > late:
            raise BudgetExceeded(
                f"Exact inference did not finish within time_budget={self.seconds:g} s "
                f"({share:.0%} of '{stage}' was done). {MORE_TIME}"
            )
        expected += self.ahead
        shown = used > SHOWN * self.seconds and share > SHOWN
        if shown and expected > CLEARLY_LATE * self.seconds:
            raise BudgetExceeded(
                f"Exact inference would need about {duration(expected)}, as {share:.0%} of "
                f"'{stage}' have shown, more than time_budget={self.seconds:g} s. {MORE_TIME}"
            )

    def run_in_order(self, stage: str) -> Callable[[Work, int], None]:
        """Return a runner that does pieces one after the other on this thread."""
        return lambda work, n_items: in_order(work, n_items, self._look_up(stage))

    def run_anyhow(self, stage: str) -> Callable[[Work, int], None]:
        """Return a runner that does pieces on all threads, in any order."""
        return lambda work, n_items: anyhow(work, n_items, self.n_jobs, self._look_up(stage))

    def _look_up(self, stage: str) -> Callable[[float], None]:
        begun = time.monotonic()

        def look_up(share: float) -> None:
            self.progress(stage, share)
            self.check_time(stage, share, begun)

        return look_up
