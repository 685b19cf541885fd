"""Work in small pieces, so that a deadline or Ctrl-C can end it between two of them."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Flag = npt.NDArray[np.uint8]
Work = Callable[[int, int], None]
LookUp = Callable[[float], None]
PIECE = 0.05  # seconds
SOON = 0.005


def keep_on(share: float) -> None:
    """Let nothing but Ctrl-C end the work."""


@dataclass(frozen=True)
class Halting:
    """Work whose loops may run long, but look at a flag [1] and end early once it is set."""

    work: Work
    halted: Flag

    def __call__(self, first: int, last: int) -> None:
        """Do a piece."""
        self.work(first, last)


def run_here(work: Work, n_items: int) -> None:
    """Run a small piece of work at once, without a budget."""
    work(0, n_items)


def in_order(work: Work, n_items: int, look_up: LookUp = keep_on) -> None:
    """Do work(first, last) for all of 0..n_items-1, one piece after the other on this thread.

    After each piece ``look_up`` is told the share that is done, and may raise.
    """
    pieces = Pieces(n_items)
    while (piece := pieces.next()) is not None:
        begun = time.monotonic()
        work(*piece)
        pieces.took(piece, time.monotonic() - begun)
        look_up(pieces.share_done())


def anyhow(work: Work, n_items: int, n_jobs: int, look_up: LookUp = keep_on) -> None:
    """Do work(first, last) for all of 0..n_items-1 on some threads, in any order.

    While they work ``look_up`` is told the share that is done, and may raise. Work that is
    ``Halting`` is left to the threads altogether, and halted when this one gives up.
    """
    pieces = Pieces(n_items, n_jobs)

    def worker(seconds: float = math.inf) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and (piece := pieces.next()) is not None:
            begun = time.monotonic()
            work(*piece)
            pieces.took(piece, time.monotonic() - begun)

    if not isinstance(work, Halting):
        worker(SOON)  # what is done at once is not worth starting threads for
        look_up(pieces.share_done())
        if pieces.share_done() == 1.0:
            return
    with ThreadPoolExecutor(n_jobs) as pool:
        pending = {pool.submit(worker) for _ in range(n_jobs)}
        try:
            while pending:
                done, pending = wait(pending, timeout=PIECE)
                for finished in done:
                    finished.result()
                look_up(pieces.share_done())
        finally:
            # Whatever ends this loop, no thread goes on behind the user's back.
            pieces.stop()
            if pending and isinstance(work, Halting):
                work.halted[0] = 1


@dataclass
class Threads:
    """A runner on so many threads (all cores if None or -1), which can be kept and pickled."""

    n_jobs: int | None

    def __call__(self, work: Work, n_items: int) -> None:
        """Do the work in pieces, in any order."""
        every = self.n_jobs is None or self.n_jobs == -1
        anyhow(work, n_items, (os.cpu_count() or 1) if every else int(self.n_jobs or 1))


class Pieces:
    """Hands out ranges of work, sized so that each takes about a twentieth of a second."""

    def __init__(self, n_items: int, n_jobs: int = 1) -> None:
        self.n_items = n_items
        self.n_jobs = n_jobs
        self.position = 0
        self.done = 0
        self.size = 1
        self.lock = threading.Lock()

    def next(self) -> tuple[int, int] | None:
        """Return the next range, None when all are given out."""
        with self.lock:
            if self.position >= self.n_items:
                return None
            first = self.position
            # Towards the end pieces get smaller, so that all threads end together.
            fair = (self.n_items - first) // (2 * self.n_jobs) + 1
            self.position = min(self.n_items, first + min(self.size, fair))
            return first, self.position

    def took(self, piece: tuple[int, int], seconds: float) -> None:
        """Count a range as done, and adapt to the time that it took."""
        with self.lock:
            length = piece[1] - piece[0]
            self.done += length
            wanted = int(length * PIECE / max(seconds, 1e-5)) + 1
            self.size = min(wanted, 4 * self.size)

    def share_done(self) -> float:
        """Share of the items that are done."""
        return self.done / self.n_items if self.n_items else 1.0

    def stop(self) -> None:
        """Give out no more."""
        with self.lock:
            self.position = self.n_items
