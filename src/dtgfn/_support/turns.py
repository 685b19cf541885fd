"""Several long tasks on a few threads, a piece each in turn, ended by a deadline or Ctrl-C."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np

from dtgfn._support.threads import PIECE, Flag

GRACE = 0.5  # seconds beyond the end in which work that has nothing to show yet may get something


@dataclass
class Deadline:
    """When tasks should end, when they must, and the flag by which compiled loops hear of it.

    Attributes
    ----------
    seconds : float or None
        Time allowed from ``started``; None is no limit.
    halted : uint8 [1]
        Compiled loops that see it set return at once, and leave their task unusable.

    """

    seconds: float | None
    now: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    halted: Flag = field(default_factory=lambda: np.zeros(1, dtype=np.uint8))

    def __post_init__(self) -> None:
        self.started = self.now()

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return self.now() - self.started

    @property
    def share(self) -> float:
        """Share of the time that is over."""
        return 0.0 if self.seconds is None else min(self.used / self.seconds, 1.0)

    @property
    def is_over(self) -> bool:
        """Whether tasks with something to show should end."""
        return self.seconds is not None and self.used > self.seconds

    @property
    def is_long_over(self) -> bool:
        """Whether all tasks must end."""
        return self.seconds is not None and self.used > self.seconds + GRACE

    def room(self, n_items: int, reserve: float) -> int:
        """How many of so many items, each as much work as any other, there is still time for.

        All for half of the time, then fewer and fewer; from ``reserve`` seconds before the end
        on, one.
        """
        if self.seconds is None:
            return n_items
        last = max(self.seconds, GRACE) - reserve
        late = max(self.used / last - 0.5, 0.0) if last > 0 else math.inf
        return max(1, math.ceil(n_items * max(1.0 - 2.0 * late, 0.0) ** 3))


def take_turns(
    tasks: Sequence[Iterator[bool]],
    *,
    n_jobs: int,
    deadline: Deadline,
    enough: Callable[[], bool],
    report: Callable[[], None],
) -> None:
    """Advance all tasks until they are exhausted or the deadline is over.

    A task is an iterator that yields after about ``PIECE`` seconds of compiled work: True lets
    the others have their turns first, False asks to go on. While there is not ``enough`` to show,
    tasks have the deadline's grace as well.
    """
    waiting = deque(tasks)
    stopped = threading.Event()
    lock = threading.Lock()

    def next_task() -> Iterator[bool] | None:
        with lock:
            if stopped.is_set() or not waiting or (deadline.is_over and enough()):
                return None
            return waiting.popleft()

    def worker() -> None:
        while (task := next_task()) is not None:
            for turn_over in task:
                with lock:
                    (waiting.append if turn_over else waiting.appendleft)(task)
                break

    n_threads = min(n_jobs, len(waiting))
    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        pending = {pool.submit(worker) for _ in range(n_threads)}
        try:
            while pending and not deadline.is_long_over:
                done, pending = wait(pending, timeout=PIECE)
                for finished in done:
                    finished.result()
                report()
        finally:
            # Whatever ends this loop, no thread goes on behind the user's back.
            stopped.set()
            if pending:
                deadline.halted[0] = 1


class Pace:
    """How many items make a piece of about ``PIECE`` seconds."""

    def __init__(self) -> None:
        self.size = 1

    def took(self, n_items: int, seconds: float) -> None:
        """Adapt to the last piece."""
        wanted = int(n_items * PIECE / max(seconds, 1e-6)) + 1
        self.size = min(wanted, 4 * self.size)
