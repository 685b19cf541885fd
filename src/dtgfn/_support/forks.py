"""Forked processes: the threads of the parent are gone there, what they held must not stay held."""

from __future__ import annotations

# The last to be registered is the first to wait at a fork: with one of these two modules' locks in
# hand it would wait in vain for an import that wants it.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
import sys
import threading
import time
from typing import Any

PATIENCE = 60.0  # seconds that a fork waits for another thread's imports
_forked = False
_held: list[Any] = []


def was_forked() -> bool:
    """Whether this process was forked, so that OpenMP's threads, as torch has them, would hang."""
    return _forked


def _before() -> None:
    """Wait until no other thread imports or compiles: the child could never do so again."""
    ends = time.monotonic() + PATIENCE
    _hold_compiler()
    while _others_import() and time.monotonic() < ends:
        _release()  # an import may want to compile
        time.sleep(0.01)
        _hold_compiler()


def _hold_compiler() -> None:
    """Wait for the locks of numba and of LLVM, if they are there."""
    numba = sys.modules.get("numba.core.compiler_lock")
    llvm = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    for lock in (getattr(numba, "global_compiler_lock", None), getattr(llvm, "_lock", None)):
        if lock is not None:
            lock.__enter__()
            _held.append(lock)


def _others_import() -> bool:
    """Whether another thread is amid an import, as far as this version of Python tells."""
    importing = sys.modules["_frozen_importlib"]
    locks = [known() for known in list(getattr(importing, "_module_locks", {}).values())]
    return any(getattr(lock, "owner", None) not in (None, threading.get_ident()) for lock in locks)


def _release() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)


def _after_in_child() -> None:
    global _forked
    _forked = True
    _release()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_after_in_child)
