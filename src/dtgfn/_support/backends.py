"""Independent runs on the backend of joblib that a user has opened: loky, dask, ray, spark.

Under ``with joblib.parallel_config("dask")`` runs that do not need each other go where that says;
without it, callers keep to threads of this process. Seeds are drawn before runs are dealt out, so
what comes out is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from dtgfn._support.parallel import Deadline

WalkerT = TypeVar("WalkerT", bound="Walker")


class Walker(Protocol):
    """A chain or stream that goes on from where it is; after its first step it has an answer."""

    @property
    def has_answer(self) -> bool:
        """Whether it could end now."""


class Elsewhere:
    """A backend outside of this process, for so many runs at once."""

    def __init__(self, n_jobs: int, width: int) -> None:
        self.n_jobs, self.width = n_jobs, width

    def run(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield ``function(*task)`` of every task, in their order."""
        from joblib import Parallel, delayed

        calls = (delayed(_at_home)(function, task) for task in tasks)
        yield from Parallel(n_jobs=self.n_jobs, batch_size=1)(calls)

    def share(self, seconds: float | None, n_tasks: int) -> float | None:
        """Time that each of so many tasks gets, so that all of them end in time."""
        return None if seconds is None else seconds * min(self.width / max(n_tasks, 1), 1.0)


def open_backend(n_jobs: int | None) -> Elsewhere | None:
    """The backend that a user has opened; None if there is none, or one job was asked for.

    ``n_jobs`` of the caller goes first, then that of the backend, then as many as it has.
    """
    from joblib.parallel import SequentialBackend, ThreadingBackend, get_active_backend

    if n_jobs == 1:
        return None
    backend, opened_for = get_active_backend(prefer="threads")
    if isinstance(backend, ThreadingBackend | SequentialBackend):
        return None
    wanted = n_jobs or opened_for or -1
    width = int(backend.effective_n_jobs(wanted))
    return Elsewhere(wanted, width) if width > 1 else None


def advance_elsewhere(
    walkers: list[WalkerT],
    chunks: Callable[[WalkerT, Deadline], Iterator[bool]],
    deadline: Deadline,
    n_jobs: int | None,
) -> bool:
    """Let all walkers go to their end on an open backend, in place; False if there is none.

    ``chunks(walker, deadline)`` goes on by itself, yielding now and then.
    """
    elsewhere = open_backend(n_jobs)
    if elsewhere is None or len(walkers) < 2:
        return False
    left = None if deadline.seconds is None else max(deadline.seconds - deadline.used, 0.0)
    seconds = elsewhere.share(left, len(walkers))
    tasks = [(walker, chunks, seconds) for walker in walkers]
    walkers[:] = elsewhere.run(_advance, tasks)
    return True


def _advance(
    walker: WalkerT, chunks: Callable[[WalkerT, Deadline], Iterator[bool]], seconds: float | None
) -> WalkerT:
    """Go on until the end, or the time is over and there is something to show."""
    deadline = Deadline(seconds)
    for _ in chunks(walker, deadline):
        if deadline.is_long_over or (deadline.is_over and walker.has_answer):
            break
    return walker


def _at_home(function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    """Do a task in the process that it was sent to, which sends nothing on."""
    from joblib import parallel_config

    with parallel_config("threading"):
        return function(*task)
