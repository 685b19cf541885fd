"""Work in chunks, on one thread or several, that a deadline or Ctrl-C can end between two of them.

Compiled loops release the interpreter lock but hear no signal, so each call of one is kept to about
``CHUNK_SECONDS``; a loop that must run longer looks at a flag, and is ``Interruptible``.
"""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock

Flag = npt.NDArray[np.uint8]
Work = Callable[[int, int], None]  # does items first..last-1
Runner = Callable[[Work, int], None]  # does so many items of work
OnProgress = Callable[[float], None]  # is given the share that is done, and may raise

THREAD_LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
CHUNK_SECONDS = 0.05
SOON = 0.005  # seconds; what is done by then is not worth starting threads for
GRACE = 0.5  # seconds beyond the end in which work that has nothing to show yet may get something


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` asks for.

    -1 is all cores that this process may use, as its affinity and its container allow. None is as
    many as ``joblib.parallel_config`` says, else the same as -1, but no more than
    ``OMP_NUM_THREADS`` and ``NUMBA_NUM_THREADS``, where they are set.
    """
    if n_jobs is not None and n_jobs != -1:
        return max(n_jobs, 1)
    from joblib import cpu_count
    from joblib.parallel import LokyBackend, ThreadingBackend, get_active_backend

    backend, opened_for = get_active_backend() if n_jobs is None else (None, None)
    here = isinstance(backend, LokyBackend | ThreadingBackend)  # not jobs of a cluster
    if here and opened_for is not None and opened_for != -1:
        return int(opened_for) if opened_for > 0 else max(int(cpu_count()) + 1 + opened_for, 1)
    given = (os.environ.get(name, "") for name in THREAD_LIMITS) if n_jobs is None else ()
    # OpenMP's may be a list, one number for each level of nesting
    limits = [int(text) for each in given if (text := each.split(",")[0].strip()).isdigit()]
    return min([int(cpu_count()), *(limit for limit in limits if limit > 0)])


def ignore_progress(share: float) -> None:
    """Let nothing but Ctrl-C end the work."""


@dataclass(frozen=True)
class Interruptible:
    """Work whose loops may run long, but look at a flag [1] and end early once it is set."""

    work: Work
    halted: Flag

    def __call__(self, first: int, last: int) -> None:
        """Do a chunk."""
        self.work(first, last)


def run_at_once(work: Work, n_items: int) -> None:
    """Do a small amount of work in one chunk."""
    work(0, n_items)


def run_serial(work: Work, n_items: int, on_progress: OnProgress = ignore_progress) -> None:
    """Do work(first, last) for all of 0..n_items-1, one chunk after the other on this thread."""
    chunks = Chunks(n_items)
    while (chunk := chunks.next()) is not None:
        begun = clock.monotonic()
        work(*chunk)
        chunks.done(chunk, clock.monotonic() - begun)
        on_progress(chunks.share_done)


def run_parallel(
    work: Work, n_items: int, n_jobs: int, on_progress: OnProgress = ignore_progress
) -> None:
    """Do work(first, last) for all of 0..n_items-1 on some threads, in any order.

    Work that is ``Interruptible`` is left to the threads altogether, and halted when this one
    gives up.
    """
    chunks = Chunks(n_items, n_jobs)

    def worker(seconds: float = math.inf) -> None:
        ends = clock.monotonic() + seconds
        while clock.monotonic() < ends and (chunk := chunks.next()) is not None:
            begun = clock.monotonic()
            work(*chunk)
            chunks.done(chunk, clock.monotonic() - begun)

    def stop(unfinished: bool) -> None:
        chunks.stop()
        if unfinished and isinstance(work, Interruptible):
            work.halted[0] = 1

    if not isinstance(work, Interruptible):
        worker(SOON)
        on_progress(chunks.share_done)
        if chunks.share_done == 1.0:
            return
    _supervise(worker, n_jobs, lambda: on_progress(chunks.share_done), stop)


@dataclass
class Threads:
    """A runner on so many threads (all cores if None or -1), which can be kept and pickled."""

    n_jobs: int | None

    def __call__(self, work: Work, n_items: int) -> None:
        """Do the work in chunks, in any order."""
        run_parallel(work, n_items, count_threads(self.n_jobs))


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
    now: Callable[[], float] = clock.monotonic
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


class StoppedError(Exception):
    """Ends a task of ``run_tasks`` on another thread, after the thread that waits gave up."""


def run_tasks(
    do: Callable[[int, Callable[[], None]], bool],
    n_tasks: int,
    n_jobs: int,
    on_progress: Callable[[], None],
) -> None:
    """Do tasks 0..n_tasks-1, begun in this order, on so many threads; on this one, if one.

    ``do(task, check)`` returns whether tasks that are not begun should be. Long work calls
    ``check`` now and then, which raises ``StoppedError`` once this thread has given up.
    """
    stopped, lock, waiting = threading.Event(), threading.Lock(), deque(range(n_tasks))

    def check() -> None:
        if stopped.is_set():
            raise StoppedError

    def next_task() -> int | None:
        with lock:
            return waiting.popleft() if waiting and not stopped.is_set() else None

    def worker() -> None:
        while (task := next_task()) is not None:
            if not do(task, check):
                with lock:
                    waiting.clear()

    if n_jobs > 1 and n_tasks > 1:
        _supervise(worker, min(n_jobs, n_tasks), on_progress, lambda _: stopped.set())
        return
    while (task := next_task()) is not None:
        on_progress()
        if not do(task, check):
            break


def run_round_robin(
    tasks: Sequence[Iterator[bool]],
    *,
    n_jobs: int,
    deadline: Deadline,
    enough: Callable[[], bool],
    on_progress: Callable[[], None],
) -> None:
    """Advance all tasks, a chunk each, until they are exhausted or the deadline is over.

    A task is an iterator that yields after about ``CHUNK_SECONDS`` of compiled work: True lets
    the other tasks go first, False asks to go on. While there is not ``enough`` to show, tasks
    have the deadline's grace as well.
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
            for others_first in task:
                with lock:
                    (waiting.append if others_first else waiting.appendleft)(task)
                break

    def stop(unfinished: bool) -> None:
        stopped.set()
        if unfinished:
            deadline.halted[0] = 1

    n_threads = min(n_jobs, len(waiting))
    _supervise(worker, n_threads, on_progress, stop, lambda: deadline.is_long_over)


def _supervise(
    worker: Callable[[], None],
    n_threads: int,
    on_progress: Callable[[], None],
    stop: Callable[[bool], None],
    late: Callable[[], bool] = lambda: False,
) -> None:
    """Let threads work until all are done or it is late; ``stop`` hears whether some are not."""
    with ThreadPoolExecutor(max(n_threads, 1)) as pool:
        unfinished = True
        try:  # an interrupt may come while threads are being started
            pending = {pool.submit(worker) for _ in range(n_threads)}
            while pending and not late():
                finished, pending = wait(pending, timeout=CHUNK_SECONDS)
                for future in finished:
                    future.result()
                on_progress()
            unfinished = bool(pending)
        finally:
            # Whatever ends this loop, no thread goes on behind the user's back.
            stop(unfinished)


class ChunkSize:
    """How many items make a chunk of about ``CHUNK_SECONDS``."""

    def __init__(self) -> None:
        self.size = 1

    def adapt(self, n_items: int, seconds: float) -> None:
        """Learn from the time that the last chunk took."""
        wanted = int(n_items * CHUNK_SECONDS / max(seconds, 1e-6)) + 1
        self.size = min(wanted, 4 * self.size)


class Chunks:
    """Hands out ranges of work, each of about ``CHUNK_SECONDS``, to one thread or several."""

    def __init__(self, n_items: int, n_jobs: int = 1) -> None:
        self.n_items = n_items
        self.n_jobs = n_jobs
        self.position = 0
        self.n_done = 0
        self.chunk = ChunkSize()
        self.lock = threading.Lock()

    def next(self) -> tuple[int, int] | None:
        """Return the next range, None when all are given out."""
        with self.lock:
            if self.position >= self.n_items:
                return None
            first = self.position
            # Towards the end chunks get smaller, so that all threads end together.
            fair = (self.n_items - first) // (2 * self.n_jobs) + 1
            self.position = min(self.n_items, first + min(self.chunk.size, fair))
            return first, self.position

    def done(self, chunk: tuple[int, int], seconds: float) -> None:
        """Count a range as done, and adapt to the time that it took."""
        with self.lock:
            length = chunk[1] - chunk[0]
            self.n_done += length
            self.chunk.adapt(length, seconds)

    @property
    def share_done(self) -> float:
        """Share of the items that are done."""
        return self.n_done / self.n_items if self.n_items else 1.0

    def stop(self) -> None:
        """Give out no more."""
        with self.lock:
            self.position = self.n_items
