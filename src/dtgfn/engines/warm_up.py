"""An engine run on next to nothing, so that it is compiled before a clock starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from dtgfn._support.progress import silent
from dtgfn.engines.contract import Engine, Run
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.node_terms import two_rows
from dtgfn.trees.score import Rows, Score

OptionsT = TypeVar("OptionsT")

# Options that belong to the real run, and what they are without it.
OF_ONE_RUN = {"checkpoint": None, "callbacks": (), "policy": None}
SECONDS = 0.1


def compile_engine(
    engine: Engine[OptionsT], rows: Rows, score: Score, run: Run, options: OptionsT
) -> TreePosterior:
    """Return the posterior of two rows, inferred as that of all of them will be."""
    small = replace(run, n_trees=2, random_state=0, time_budget=SECONDS, progress=silent)
    return engine.infer(two_rows(rows), score, small, without_side_effects(options))


def without_side_effects(options: Any) -> Any:
    """Return options without those that belong to one run."""
    own = {name: value for name, value in OF_ONE_RUN.items() if hasattr(options, name)}
    return replace(options, **own)
