"""The posterior of a fitted model: over single trees, or over sums of trees."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import LeafModel

Posterior = TreePosterior | SumPosterior


def posterior_of(source: Any) -> Posterior:
    """Return a posterior, or that of a fitted model."""
    if hasattr(source, "fit"):
        check_is_fitted(source)
    posterior = getattr(source, "posterior_", source)
    if isinstance(posterior, TreePosterior | SumPosterior):
        return posterior
    name = type(source).__name__
    if hasattr(source, "views_"):
        raise TypeError(
            f"A {name} has no single posterior to explain or export; its views_ have trees of "
            "their own."
        )
    raise TypeError(f"A {name} has no trees; give a fitted model or a TreePosterior.")


def as_posterior(source: Any) -> TreePosterior:
    """Return a posterior over single trees, or that of a fitted model; refuse sums of trees."""
    posterior = posterior_of(source)
    if isinstance(posterior, SumPosterior):
        raise TypeError(lacks_of_sums("single tree"))
    return posterior


def leaf_of(posterior: Posterior) -> LeafModel:
    """What the leaves of a posterior hold, or what its sums predict."""
    return posterior.leaf if isinstance(posterior, SumPosterior) else posterior.score.leaf


def lacks_of_sums(what: str) -> str:
    """Say that a sum of trees lacks something, and the way out."""
    return (
        f"A sum of trees has no {what}; use importances, partial_dependence or shap_values, or "
        "fit with ensemble=None."
    )
