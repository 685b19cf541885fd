"""Engines called with keywords: those of ``Run``, and those of the engine's own options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dtgfn.engines import Run, find_engine
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score

OF_RUN = {field.name for field in fields(Run)}


def call_engine(name: str, rows: Rows, score: Score, **keywords: Any) -> TreePosterior:
    """Infer by the engine of this name."""
    engine = find_engine(name)
    own = {key: value for key, value in keywords.items() if key not in OF_RUN}
    run = Run(**{key: value for key, value in keywords.items() if key in OF_RUN})
    return engine.infer(rows, score, run, engine.read_options(own))


def infer_exact(rows: Rows, score: Score, **keywords: Any) -> TreePosterior:
    """Infer exactly."""
    return call_engine("exact", rows, score, **keywords)


def infer_gfn(rows: Rows, score: Score, **keywords: Any) -> TreePosterior:
    """Infer by a GFlowNet."""
    return call_engine("gfn", rows, score, **keywords)


def infer_mcmc(rows: Rows, score: Score, **keywords: Any) -> TreePosterior:
    """Infer by chains."""
    return call_engine("mcmc", rows, score, **keywords)


def infer_smc(rows: Rows, score: Score, **keywords: Any) -> TreePosterior:
    """Infer by particles."""
    return call_engine("smc", rows, score, **keywords)
