"""Measurements in a process of their own: nothing compiled, cached or allocated before counts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

Found = TypeVar("Found")


def run_isolated(
    function: Callable[..., Found],
    *arguments: object,
    environment: Mapping[str, str] | None = None,
) -> Found:
    """Call a function in a fresh process with some environment variables set."""
    with _environment(environment or {}):
        return run_each_isolated(function, [arguments], n_processes=1)[0]


def run_each_isolated(
    function: Callable[..., Found], calls: Sequence[Sequence[object]], n_processes: int
) -> list[Found]:
    """Call a function with each of the arguments, some at a time, each in a fresh process."""
    with ProcessPoolExecutor(
        n_processes, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        running = [pool.submit(function, *arguments) for arguments in calls]
        return [each.result() for each in running]


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
