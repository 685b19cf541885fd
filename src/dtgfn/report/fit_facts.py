"""What was fitted: estimator, engine, rows, settings, prior and leaves, in plain words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn.estimators.base import OPTIONS_OF_ONE_RUN
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaves import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import PenaltyPrior

LEFT_OUT = ("verbose", "n_jobs", "warm_start", *OPTIONS_OF_ONE_RUN)  # of one run
ENGINE_SENTENCES = {
    "exact": "The posterior was computed by summing over all trees; trees are drawn from it "
    "independently.",
    "gfn": "A GFlowNet was trained to draw trees in proportion to their posterior probability; its "
    "trees are weighted by how it drew them.",
    "mcmc": "Markov chains walked from tree to tree (grow, prune, change, swap); trees are from "
    "the second halves of the chains.",
    "smc": "Particles grew trees from the root down, resampled on the way; trees are drawn from "
    "all sweeps by weight.",
}


def posterior_facts(model: Any) -> dict[str, Any]:
    """Tell what a classifier or regressor was fitted to, and how."""
    posterior: TreePosterior = model.posterior_
    numbers = isinstance(posterior.score.leaf, NormalLeaf)
    return {
        "estimator": type(model).__name__,
        "task": "numbers" if numbers else "classes",
        "engine": engine_name(posterior),
        "engine_sentence": _engine_sentence(posterior),
        "rows": float(posterior.rows.weight.sum()),
        "n_columns": len(model.binner_.columns),
        "classes": None if numbers else posterior.class_names,
        "seconds": posterior.diagnostics.get("seconds"),
        **settings_of(model),
        "prior_sentence": _prior_sentence(posterior),
        "leaf_sentence": _leaf_sentence(posterior),
    }


def engine_name(posterior: TreePosterior) -> str:
    """Name of the engine, and whether it was run on bags."""
    return f"bags of {posterior.engine}" if posterior.is_bagged else posterior.engine


def settings_of(model: Any) -> dict[str, Any]:
    """Parameters that matter, and which of them differ from their defaults."""
    defaults = type(model)().get_params(deep=False)
    chosen = model.get_params(deep=False)
    chosen["options"] = _without_run(chosen["options"] or {}) or None
    settings = _without_run({name: _plain(value) for name, value in chosen.items()})
    changed = [name for name, value in settings.items() if value != _plain(defaults[name])]
    return {"settings": settings, "changed": changed}


def _without_run(chosen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if name not in LEFT_OUT}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return type(value).__name__  # its repr may hold an address


def _engine_sentence(posterior: TreePosterior) -> str:
    if posterior.is_bagged:
        return (
            f"{posterior.n_bags:,} posteriors of resampled rows and columns ({posterior.engine} "
            "engine) were averaged; leaves count all training rows."
        )
    return ENGINE_SENTENCES.get(posterior.engine, f"The {posterior.engine} engine was used.")


def _prior_sentence(posterior: TreePosterior) -> str:
    score = posterior.score
    if isinstance(score.prior, PenaltyPrior):
        penalty = score.prior.penalty
        said = f"Each split costs {penalty:.3g} nats"
        if penalty > 0:
            said += f": it must make the targets {_times(penalty)} times as probable to pay off"
    else:
        said = (
            f"A node at depth k splits with probability {score.prior.base:g} × (1 + k)^"
            f"-{score.prior.decay:g} (BCART)"
        )
    deep = (
        f"at most {score.max_depth} splits lie on a path" if score.max_depth else "none may split"
    )
    warm = score.temperature
    tempered = "" if warm == 1 else f"; the posterior is widened by a temperature of {warm:g}"
    return f"{said}; {deep}{tempered}."


def _times(nats: float) -> str:
    factor = math.exp(min(nats, 700.0))
    return f"{factor:,.0f}" if 10 <= factor < 1e6 else f"{factor:.3g}"


def _leaf_sentence(posterior: TreePosterior) -> str:
    leaf = posterior.score.leaf
    if isinstance(leaf, DirichletLeaf):
        return (
            "A leaf holds the class probabilities of its training rows, each class given "
            f"{leaf.concentration:g} rows in advance."
        )
    assert isinstance(leaf, NormalLeaf), "estimators have no other leaves"
    return (
        "A leaf holds a normal distribution of unknown mean and variance; the prior guess of its "
        f"mean, {leaf.location:.4g}, is worth {leaf.strength:g} rows."
    )
