"""``njit`` as all loops here use it: cached wherever that is possible, and quick to compile.

Beside numba's own decorator:

- no wrapper for C is made, which nobody calls, and none for Python of loops that only other loops
  call (``INNER``);
- a constant argument is a number like any other: numba would compile a loop again for each;
- where neither the package's directory nor the user's can be written, what is compiled is kept in a
  directory of this user's own below the system's temporary one, or nowhere;
- the clock of budgets stands still meanwhile (``clock.py``), and a person who waits is told.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config
from numba.core import event
from numba.core import types as numba_types

from dtgfn._support import clock
from dtgfn._support.progress import LOGGER

compile_by: Any = numba.njit  # types of numba that say too little
config: Any = numba_config
types: Any = numba_types
INNER: dict[str, Any] = {"cache": True, "nogil": True, "no_cpython_wrapper": True}
PATIENCE = 2.0  # seconds of compiling before a person is told
_kept = ""  # what is to be said where numba found no place of its own


def njit(cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call.

    Parameters
    ----------
    cache : bool
        Whether later processes find what this one compiled.
    **options : Any
        Options of ``numba.njit``; ``no_cpython_wrapper`` is for what only compiled code calls.

    Returns
    -------
    callable
        The decorator.

    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = compile_by(no_cfunc_wrapper=True, **options)(function)
        _without_literals(compiled)
        if options.get("no_cpython_wrapper"):
            _refuse_python(compiled)
        if cache:
            _enable_caching(compiled)
        return compiled

    return decorate


def _without_literals(compiled: Any) -> None:
    """Let calls with constants share what is compiled for all numbers of the type."""
    resolve = compiled.get_call_template

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return resolve(tuple(types.unliteral(kind) for kind in args), plain)

    compiled.get_call_template = get_call_template


def _refuse_python(compiled: Any) -> None:
    """Let a call from Python fail with a sentence: there is no wrapper that could take it."""
    name = compiled.py_func.__qualname__

    def add_overload(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    def refuse(*args: Any, **kws: Any) -> Any:
        raise TypeError(f"{name} is INNER: only compiled code can call it.")

    compiled.add_overload = add_overload  # numba's would tell the interpreter where it is
    compiled._compile_for_args = refuse


def _enable_caching(compiled: Any) -> None:
    """Keep what is compiled where numba would, else among temporary files, else not."""
    global _kept
    try:
        compiled.enable_caching()
        return
    except RuntimeError:  # "no locator available": nothing that numba knows can be written
        place = temporary_cache()
    if place is None:
        _kept = "nothing can be written, so every process does it again; NUMBA_CACHE_DIR may name"
        return
    _kept = f"kept in {place} for as long as that lasts; NUMBA_CACHE_DIR may name"
    before, config.CACHE_DIR = config.CACHE_DIR, str(place)
    try:
        compiled.enable_caching()
    finally:
        config.CACHE_DIR = before


@cache
def temporary_cache() -> Path | None:
    """Return a directory that only this user can write to, None if there is none.

    What is found there is executed, so one that others could have filled is not used.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        place = Path(tempfile.gettempdir()) / f"dtgfn-cache-{user}"
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
        tempfile.TemporaryFile(dir=place).close()
    except OSError:
        return None
    ours = not hasattr(os, "getuid") or (found.st_uid == user and not found.st_mode & 0o077)
    return place if ours and stat.S_ISDIR(found.st_mode) else None


class _Listener(event.Listener):  # type: ignore[misc]
    """Stops the clock while a loop of ours is compiled, and tells who waits for long."""

    def __init__(self) -> None:
        self.told = False
        self.of_thread = threading.local()

    def on_start(self, event: Any) -> None:
        depth = getattr(self.of_thread, "depth", 0)
        if depth or event.data["dispatcher"].py_func.__module__.startswith("dtgfn."):
            self.of_thread.depth = depth + 1
            if not depth:
                clock.begin_compiling()
            self.tell()

    def on_end(self, event: Any) -> None:
        depth = getattr(self.of_thread, "depth", 0)
        if depth:
            self.of_thread.depth = depth - 1
            if depth == 1:
                clock.end_compiling()

    def tell(self) -> None:
        """Say once what takes so long."""
        if self.told or clock.compile_seconds() < PATIENCE:
            return
        self.told = True
        print(f"dtgfn: {what_is_happening()}", file=sys.stderr, flush=True)
        LOGGER.info("%s", what_is_happening())


def what_is_happening() -> str:
    """Say that loops are compiled, and where they are kept."""
    if not _kept:
        return "compiling loops for a first run; later runs find them."
    return f"compiling loops for a first run ({_kept} a directory that can be written)."


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
