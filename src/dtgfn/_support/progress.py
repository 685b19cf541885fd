"""How long-running work tells a person, and the log, how far it is."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from dtgfn._support.printable import visible

PATIENCE = 0.5  # seconds before a bar appears: what is done by then needs none
LOG_EVERY = 15.0  # seconds between the lines of a log
LOGGER = logging.getLogger("dtgfn")  # told at the level INFO what a bar tells


class Progress(Protocol):
    """What an engine needs to report: the name of the stage and the share of it that is done."""

    def __call__(self, stage: str, share: float | None, detail: str = "") -> None:
        """Show that ``share`` (0..1) of ``stage`` is done, and in ``detail`` how it goes.

        None is for work that cannot tell how far it is.
        """


def silent(stage: str, share: float | None, detail: str = "") -> None:
    """Show nothing."""


@contextmanager
def progress_bar(verbose: bool) -> Iterator[Progress]:
    """Show a bar per stage on standard error, or nothing at all.

    Where standard error is no terminal, a line now and then takes the bar's place. Either way the
    logger "dtgfn" is told, if anyone listens.

    Examples
    --------
    >>> with progress_bar(False) as progress:
    ...     progress("counting", 0.5)

    """
    if not verbose:
        yield _logged(silent)
        return
    from rich.console import Console

    console = Console(stderr=True)
    on_terminal = console.is_terminal and not console.is_dumb_terminal
    with _bars(console) if on_terminal else _lines() as show:
        yield _logged(show)


def _logged(show: Progress, now: Callable[[], float] = time.monotonic) -> Progress:
    """Log every new stage at once, and how far it is now and then."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return show
    begun, last = now(), dict[str, Any](stage="", at=0.0)

    def log(stage: str, share: float | None, detail: str = "") -> None:
        show(stage, share, detail)
        if stage == last["stage"] and now() - last["at"] < LOG_EVERY:
            return
        last.update(stage=stage, at=now())
        done = "" if share is None else f" {share:.0%}"
        more = f", {detail}" if detail else ""
        LOGGER.info("%s%s after %.0f s%s", visible(stage), done, now() - begun, more)

    return log


@contextmanager
def _bars(console: Any) -> Iterator[Progress]:
    """Bars that appear after a moment and leave nothing behind, however the work ends."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),  # a file may be called [/b].csv
        BarColumn(),
        TextColumn("{task.fields[done]:>4}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    bars = Bars(*columns, console=console, transient=True)
    tasks: dict[str, Any] = {}

    def show(stage: str, share: float | None, detail: str = "") -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(visible(stage), total=None, detail="", done="")
        bars.update(
            tasks[stage],
            total=None if share is None else 1.0,  # without a total the bar pulses
            completed=share or 0.0,
            detail=detail,
            done="" if share is None else f"{share:.0%}",
        )

    appears = threading.Timer(PATIENCE, bars.start)
    appears.daemon = True
    appears.start()
    try:
        yield show
    finally:
        appears.cancel()
        appears.join()
        bars.stop()


@contextmanager
def _lines() -> Iterator[Progress]:
    """A plain line every now and then, for logs; also while a stage reports nothing."""
    begun, over = time.monotonic(), threading.Event()
    now = ["working", ""]

    def show(stage: str, share: float | None, detail: str = "") -> None:
        done = "" if share is None else f" {share:.0%}"
        now[:] = visible(stage) + done, f", {detail}" if detail else ""

    def tell() -> None:
        while not over.wait(LOG_EVERY):
            stage, detail = now
            seconds = time.monotonic() - begun
            print(f"dtgfn: {stage} after {seconds:.0f} s{detail}", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield show
    finally:
        over.set()
        teller.join()
