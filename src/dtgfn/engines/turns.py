"""Several long tasks on a few threads, a piece each in turn, ended by a deadline or Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

PIECE = 0.05


def take_turns(
    tasks: Sequence[Iterator[bool]],
    *,
    n_jobs: int,
    ends: float,
    report: Callable[[], None],
) -> None:
    """Advance all tasks until they are exhausted or the clock passes ``ends``.

    A task is an iterator that yields after about ``PIECE`` seconds of compiled work: True lets
    the others have their turns first, False asks to go on. At least as many pieces are done as
    there are tasks.
    """
    waiting = deque(tasks)
    fresh = len(waiting)
    stopped = threading.Event()
    lock = threading.Lock()

    def next_task() -> Iterator[bool] | None:
        nonlocal fresh
        with lock:
            if stopped.is_set() or not waiting or (fresh <= 0 and time.monotonic() > ends):
                return None
            fresh -= 1
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
            while pending:
                done, pending = wait(pending, timeout=PIECE)
                for finished in done:
                    finished.result()
                report()
        finally:
            # Whatever ends this loop, no thread goes on behind the user's back.
            stopped.set()


class Pace:
    """How many items make a piece of about ``PIECE`` seconds."""

    def __init__(self) -> None:
        self.size = 16

    def took(self, n_items: int, seconds: float) -> None:
        """Adapt to the last piece."""
        wanted = int(n_items * PIECE / max(seconds, 1e-6)) + 1
        self.size = min(wanted, 4 * self.size)
