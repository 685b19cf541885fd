"""How long-running work tells a person how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What an engine needs to report: the name of the stage and the share of it that is done."""

    def __call__(self, stage: str, share: float, detail: str = "") -> None:
        """Show that ``share`` (0..1) of ``stage`` is done, and in ``detail`` how it goes."""


def silent(stage: str, share: float, detail: str = "") -> None:
    """Show nothing."""


@contextmanager
def progress_bar(verbose: bool) -> Iterator[Progress]:
    """Show a bar per stage on standard error, or nothing at all.

    Examples
    --------
    >>> with progress_bar(False) as progress:
    ...     progress("counting", 0.5)

    """
    if not verbose:
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def show(stage: str, share: float, detail: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=1.0, detail="")
            bars.update(tasks[stage], completed=share, detail=detail)  # type: ignore[arg-type]

        yield show
