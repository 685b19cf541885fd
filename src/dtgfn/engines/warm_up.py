"""An engine run on next to nothing, so that it is compiled before a clock starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtgfn._support.arrays import Int32s
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.node_terms import two_rows
from dtgfn.trees.score import Rows, Score

OF_ONE_RUN = ("checkpoint", "callbacks", "policy")  # options that belong to the real one
SECONDS = 0.1


def compile_engine(
    engine: Callable[..., TreePosterior],
    rows: Rows,
    score: Score,
    *,
    column: Int32s,
    n_columns: int,
    **options: Any,
) -> TreePosterior:
    """Return the posterior of two rows, inferred as that of all of them will be."""
    kept = {name: value for name, value in options.items() if name not in OF_ONE_RUN}
    return engine(
        two_rows(rows),
        score,
        column=column,
        n_columns=n_columns,
        n_trees=2,
        random_state=0,
        time_budget=SECONDS,
        **kept,
    )
