"""An engine run on next to nothing, so that it is compiled before a clock starts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dtgfn._support.progress import silent
from dtgfn.engines.contract import BudgetExceeded, Engine, Run
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.node_terms import two_rows
from dtgfn.trees.score import Rows, Score

OptionsT = TypeVar("OptionsT")

# Options that belong to the real run, and what they are without it.
OF_ONE_RUN = {"checkpoint": None, "callbacks": (), "policy": None}
# Two rows take next to nothing; on a machine that is busy the next one is tried.
SECONDS = (0.1, 1.0, 10.0)
FEW_ROWS, FEW_COLUMNS = 20, 8  # of a wide table compiling is not to be work on all of it


def compile_engine(
    engine: Engine[OptionsT], rows: Rows, score: Score, run: Run, options: OptionsT
) -> TreePosterior:
    """Return the posterior of two rows, inferred as that of all of them will be."""
    few, small = few_cells(two_rows(rows), run)
    small = replace(small, n_trees=2, random_state=0, progress=silent)
    options = without_side_effects(options)
    for seconds in SECONDS[:-1]:
        with suppress(BudgetExceeded):
            return engine.infer(few, score, replace(small, time_budget=seconds), options)
    return engine.infer(few, score, replace(small, time_budget=SECONDS[-1]), options)


def few_cells(rows: Rows, run: Run, n_rows: int = FEW_ROWS) -> tuple[Rows, Run]:
    """Some rows and columns, such as differ if there are any."""
    codes = rows.codes[:n_rows]
    chosen = np.flatnonzero((codes != codes[:1]).any(axis=0))[:FEW_COLUMNS]
    if chosen.size == 0:
        chosen = np.arange(min(FEW_COLUMNS, codes.shape[1]))
    codes = np.ascontiguousarray(codes[:, chosen])
    few = Rows(codes, rows.target[:n_rows], rows.weight[:n_rows])
    return few, replace(run, column=run.column[chosen])


def without_side_effects(options: Any) -> Any:
    """Return options without those that belong to one run."""
    own = {name: value for name, value in OF_ONE_RUN.items() if hasattr(options, name)}
    return replace(options, **own)
