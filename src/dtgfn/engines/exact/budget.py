"""Time, memory and threads: work in small pieces that a deadline or Ctrl-C can end at once."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from dtgfn.progress import Progress, silent

Work = Callable[[int, int], None]
SOON = 0.005
LESS_WORK = (
    "Use fewer n_thresholds or a smaller max_depth; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)
MORE_TIME = (
    "Use fewer n_thresholds, a smaller max_depth or a larger time_budget; "
    "larger problems are for the GFlowNet engine, 'gfn'."
)


def run_here(work: Work, n_items: int) -> None:
    """Run a small piece of work at once, without a budget."""
    work(0, n_items)


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

    """

    seconds: float | None
    memory: int
    n_jobs: int
    progress: Progress
    started: float

    def check_memory(self, n_bytes: float, what: str) -> None:
        """Refuse before memory is taken, not after."""
        if n_bytes > self.memory:
            raise BudgetExceeded(
                f"Exact inference needs {gigabytes(n_bytes)} for {what}, but only "
                f"{gigabytes(self.memory)} may be used. {LESS_WORK}"
            )

    def check_time(self, stage: str, share: float) -> None:
        """Stop when the time is up."""
        if self.seconds is not None and time.monotonic() - self.started > self.seconds:
            raise BudgetExceeded(
                f"Exact inference did not finish within time_budget={self.seconds:g} s "
                f"({share:.0%} of '{stage}' was done). {MORE_TIME}"
            )

    def run_in_order(self, stage: str) -> Callable[[Work, int], None]:
        """Return a runner that does pieces one after the other on this thread."""

        def run(work: Work, n_items: int) -> None:
            pieces = _Pieces(n_items)
            while (piece := pieces.next()) is not None:
                begun = time.monotonic()
                work(*piece)
                pieces.took(piece, time.monotonic() - begun)
                self.progress(stage, piece[1] / n_items)
                self.check_time(stage, piece[1] / n_items)

        return run

    def run_anyhow(self, stage: str) -> Callable[[Work, int], None]:
        """Return a runner that does pieces on all threads, in any order."""

        def run(work: Work, n_items: int) -> None:
            pieces = _Pieces(n_items, self.n_jobs)

            def worker(seconds: float = math.inf) -> None:
                ends = time.monotonic() + seconds
                while time.monotonic() < ends and (piece := pieces.next()) is not None:
                    begun = time.monotonic()
                    work(*piece)
                    pieces.took(piece, time.monotonic() - begun)

            worker(SOON)  # what is done at once is not worth starting threads for
            self.check_time(stage, pieces.share_done())
            if pieces.share_done() == 1.0:
                return
            with ThreadPoolExecutor(self.n_jobs) as pool:
                pending = {pool.submit(worker) for _ in range(self.n_jobs)}
                try:
                    while pending:
                        done, pending = wait(pending, timeout=0.05)
                        for finished in done:
                            finished.result()
                        self.progress(stage, pieces.share_done())
                        if pending:
                            self.check_time(stage, pieces.share_done())
                    self.check_time(stage, pieces.share_done())
                finally:
                    # Whatever ends this loop, no thread goes on behind the user's back.
                    pieces.stop()

        return run


@dataclass
class Threads:
    """A runner on so many threads without a budget, which can be kept and pickled."""

    n_jobs: int

    def __call__(self, work: Work, n_items: int) -> None:
        """Do the work in pieces, in any order."""
        Budget(None, 0, self.n_jobs, silent, 0.0).run_anyhow("")(work, n_items)


class _Pieces:
    """Hands out ranges of work, sized so that each takes about a twentieth of a second."""

    def __init__(self, n_items: int, n_jobs: int = 1) -> None:
        self.n_items = n_items
        self.n_jobs = n_jobs
        self.position = 0
        self.done = 0
        self.size = 1
        self.lock = threading.Lock()

    def next(self) -> tuple[int, int] | None:
        with self.lock:
            if self.position >= self.n_items:
                return None
            first = self.position
            # Towards the end pieces get smaller, so that all threads end together.
            fair = (self.n_items - first) // (2 * self.n_jobs) + 1
            self.position = min(self.n_items, first + min(self.size, fair))
            return first, self.position

    def took(self, piece: tuple[int, int], seconds: float) -> None:
        with self.lock:
            length = piece[1] - piece[0]
            self.done += length
            wanted = int(length * 0.05 / max(seconds, 1e-5)) + 1
            self.size = min(wanted, 4 * self.size)

    def share_done(self) -> float:
        return self.done / self.n_items if self.n_items else 1.0

    def stop(self) -> None:
        with self.lock:
            self.position = self.n_items
