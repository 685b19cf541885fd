"""What an engine is: rows and a score in, a posterior over trees out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dtgfn._support.arrays import Int32s
from dtgfn._support.memory import allowed_memory, gigabytes
from dtgfn._support.progress import Progress, silent
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score

PREPARING = "preparing (the first run compiles)"  # the stage that every engine begins with

OptionsT = TypeVar("OptionsT", contravariant=True)


class BudgetExceeded(RuntimeError):  # noqa: N818 (says what happened)
    """An engine would not finish, or did not, in the time or memory that it was given.

    Where exact inference was asked for, ``interval`` is what is certain of log Z all the same, an
    ``EvidenceInterval``; else it is None.
    """

    interval: Any = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """What every engine is told beside rows and score.

    Attributes
    ----------
    column : int32 [d]
        Source column of each feature, 0..n_columns-1.
    n_columns : int
        Columns of the table.
    n_trees : int
        Trees to draw.
    random_state : int, Generator or None
        Seed of everything random.
    time_budget : float or None
        Seconds; None for no limit.
    n_jobs : int or None
        Threads, all cores if None.
    progress : function
        Told how far the work is.
    judged : bool
        Whether an engine that cannot see what it misses holds its trees against exact sums; one of
        many runs whose trees are averaged need not.

    """

    column: Int32s
    n_columns: int
    n_trees: int = 1000
    random_state: int | np.random.Generator | None = None
    time_budget: float | None = None
    n_jobs: int | None = None
    progress: Progress = silent
    judged: bool = True


def check_table_memory(engine: str, n_bytes: float, budget: int | None) -> None:
    """Refuse a table whose rows, as an engine needs them, do not fit, before memory is taken."""
    allowed = allowed_memory(budget)
    if n_bytes > allowed:
        raise BudgetExceeded(
            f"{engine} needs {gigabytes(n_bytes)} for these rows and columns, but only "
            f"{gigabytes(allowed)} may be used; allow more memory_budget, or use fewer rows or "
            "columns."
        )


class Engine(Protocol[OptionsT]):
    """An engine; ``dtgfn.engines.find_engine`` has all of them by name.

    ``option_names`` are the keywords that only this engine knows; ``read_options`` checks what a
    user gave of them, one sentence for each that is not usable, and ``infer`` takes the result.
    ``side_by_side`` says whether several runs may share a process, each on a thread of its own:
    not those that count on all of its memory, or set what all threads share. ``fills_time`` says
    whether a run goes on for as long as it may: then runs are comparable only at equal times.
    """

    name: str
    option_names: tuple[str, ...]
    side_by_side: bool
    fills_time: bool

    def read_options(self, given: Mapping[str, Any]) -> Any:
        """Make options of keywords."""

    def infer(self, rows: Rows, score: Score, run: Run, options: OptionsT) -> TreePosterior:
        """Infer the posterior over trees."""
