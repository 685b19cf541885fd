"""What an experiment is to the runner: cells to measure, and what to show of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One measurement: a method on a table with a seed.

    ``variant`` holds what the experiment varies beyond these (ensemble size, noise columns, ...);
    ``settings`` are the method's own, as run.  Both are plain JSON values.
    """

    experiment: str
    table: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What became of a cell; ``status`` is "done", "missing" (a library) or "failed".

    ``revisions`` are the experiment's and the method's when it was measured, ``libraries`` the
    versions of those that the numbers depend on, ``commit`` that of the code, where it is known.
    """

    cell: Cell
    key: str
    revisions: Mapping[str, int]
    status: str
    metrics: Mapping[str, float | None]
    reason: str = ""
    machine: str = ""
    date: str = ""
    libraries: str = ""
    commit: str = ""


@dataclass(frozen=True)
class Figure:
    """A plot: ``draw(figure)`` fills an empty matplotlib figure of ``inches``."""

    name: str
    alt: str
    draw: Callable[[Any], None]
    inches: tuple[float, float] = (8.0, 4.5)


@dataclass(frozen=True)
class Block:
    """A piece of a result page: a heading, a table of text, sentences, a plot; each optional.

    ``rows[0]`` is the header.
    """

    heading: str = ""
    rows: Sequence[Sequence[str]] = ()
    text: str = ""
    figure: Figure | None = None


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments.

    ``cells(quick)`` lists what to measure, ``measure(cell)`` measures one in a worker process and
    returns its numbers, ``render(records)`` says what to show of those that are done (it gets the
    missing and failed ones too, and must show them).  ``runs_methods`` is false where it has runs
    of its own under the methods' names; it then says itself what they are.  ``revision`` is raised
    by hand when what ``measure`` computes changes on purpose, other than through a method.
    """

    name: str
    title: str
    cells: Callable[[bool], list[Cell]]
    measure: Callable[[Cell], dict[str, float | None]]
    render: Callable[[Sequence[Record]], list[Block]]
    runs_methods: bool = True
    revision: int = 1
