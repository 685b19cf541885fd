"""What a report tells of a posterior: what was fitted, how it went, and its probable trees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.estimators.base import OPTIONS_OF_ONE_RUN
from dtgfn.evaluation import even_steps
from dtgfn.explain.column_labels import split_rule, split_test, target_title
from dtgfn.explain.event import shown_event
from dtgfn.explain.posterior_columns import class_titles
from dtgfn.explain.tree_set import (
    TreeSet,
    node_log_marginals,
    take_trees,
    threshold_interval,
    tree_set_text,
)
from dtgfn.posterior.of_model import Posterior
from dtgfn.posterior.probable_trees import ProbableTrees
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import DepthPrior, PenaltyPrior

LEFT_OUT = ("verbose", "n_jobs", "warm_start", *OPTIONS_OF_ONE_RUN)  # of one run
MOST_POINTS = 300
CLOCKS = ("step", "sweep", "seconds")
# What is worth a curve, in the order of interest, with name and unit.
CURVES = {
    "elbo": ("ELBO", "nats"),
    "log_evidence": ("log evidence", "nats"),
    "log_z": ("learned log Z", "nats"),
    "mean_log_reward": ("mean log R", "nats"),
    "best_log_reward": ("best log R", "nats"),
    "ess": ("effective sample size", "share"),
    "open": ("open mass", "share"),
    "loss": ("loss", None),
    "epsilon": ("exploration", "share"),
    "noise": ("noise of numbers", "of the target's spread"),
    "leaf_scale": ("scale of a leaf's value", None),
    "mean_splits": ("splits per tree", None),
}
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
        "classes": None if numbers else class_titles(posterior),
        "event": event_name(model),
        "target": target_title(model.binner_),
        "seconds": posterior.diagnostics.get("seconds"),
        **settings_of(model),
        "prior_sentence": _prior_sentence(posterior),
        "leaf_sentence": _leaf_sentence(posterior),
    }


def event_name(model: Any) -> str | None:
    """Name of the class whose probability is told, of two; None if there is none."""
    event = shown_event(model, getattr(model, "classes_", None))
    return None if event is None else class_titles(model.posterior_)[event]


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
    elif isinstance(score.prior, DepthPrior):
        costs = ", ".join(f"{-value:.3g}" for value in score.prior.log_split[:-1])
        said = f"A split costs {costs or 'nothing'} nats at depth 0, 1, and so on"
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


def training_curves(posterior: Posterior) -> dict[str, Any] | None:
    """Return the curves of a history; None where an engine has none.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0]] * 9, [0, 1] * 9, engine="smc", max_depth=1)
    >>> training_curves(posterior)["x_name"]
    'sweep'

    """
    entries = posterior.history
    clock = next((name for name in CLOCKS if entries and name in entries[0]), None)
    if clock is None:
        return None
    entries = [entries[i] for i in even_steps(len(entries), MOST_POINTS)]
    series: list[dict[str, Any]] = [
        {"key": key, "name": name, "unit": unit, "y": [_known(e.get(key)) for e in entries]}
        for key, (name, unit) in CURVES.items()
    ]
    return {
        "x_name": clock,
        "x": [entry[clock] for entry in entries],
        "series": [curve for curve in series if any(y is not None for y in curve["y"])],
        "log_evidence": _known(getattr(posterior, "log_evidence", None)),
    }


def _known(value: Any) -> float | None:
    number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if number else None


def probable_trees(model: Any, found: ProbableTrees, n_trees: int) -> list[dict[str, Any]]:
    """Describe the first of the most probable trees, each for all that part the rows alike."""
    posterior: TreePosterior = model.posterior_
    trees, cuts = found.trees[:n_trees], found.cuts
    marginal, n_alike = node_log_marginals(posterior, trees), found.n_equivalent
    described = []
    for b in range(len(trees)):
        one = take_trees(model, trees[b : b + 1])
        described.append(
            {
                "rank": b + 1,
                "best": b == 0,
                "probability": float(found.probability[b]),
                "by_share": posterior.by_share,
                "share": float(found.share[b]),
                "variants": plain_number(float(n_alike[b])),
                "log_reward": float(found.log_reward[b]),
                "n_splits": int(trees.n_splits[b]),
                "depth": int(trees.depth[b]),
                "text": tree_set_text(one),
                "nodes": tree_nodes(one, marginal[b], cuts.first[b], cuts.last[b]),
            }
        )
    return described


def holding_sentence(found: ProbableTrees) -> str:
    """Say how many trees it takes to hold half, and nine tenths, of the probability."""
    half, most = found.n_holding(0.5), found.n_holding(0.9)

    def said(n: int | None) -> str:
        if n is None:
            return f"more than the {len(found):,} that were looked at"
        return f"the most probable {f'{n:,} trees' if n > 1 else 'tree alone'}"

    text = f"Half of the posterior's probability is held by {said(half)}"
    return text + ("." if half is None else f", nine tenths by {said(most)}.")


def tree_nodes(
    chosen: TreeSet, log_marginal: Floats, first: Int32s, last: Int32s
) -> list[dict[str, Any]]:
    """Nodes of the first tree of a set, parents first.

    ``log_marginal``, and the ``first`` and ``last`` cuts that part the rows alike [N], are of its
    nodes.
    """
    trees = chosen.trees
    n_nodes = int(trees.n_nodes[0])
    parent = {
        int(trees.left[0, node]) + side: node
        for node in range(n_nodes)
        for side in (0, 1)
        if trees.feature[0, node] >= 0
    }
    nodes = []
    for node in range(n_nodes):
        said: dict[str, Any] = {
            "id": node,
            "parent": parent.get(node),
            **_split(chosen, node, log_marginal),
            "alike": threshold_interval(chosen, node, int(first[node]), int(last[node])),
            "rows": plain_number(float(chosen.rows[0, node])),
            "counts": None,
            "value": chosen.value[0, node].tolist(),
            "spread": None,
            "vote": _vote(chosen, node),
        }
        if chosen.counts is not None:
            said["counts"] = [plain_number(count) for count in chosen.counts[0, node].tolist()]
        if chosen.spread is not None:
            said["spread"] = float(chosen.spread[0, node])
        nodes.append(said)
    return nodes


def _split(chosen: TreeSet, node: int, log_marginal: Floats) -> dict[str, Any]:
    trees = chosen.trees
    feature, cut = int(trees.feature[0, node]), int(trees.cut[0, node])
    if feature < 0:
        return dict.fromkeys(("then", "else", "test", "rule", "other", "gain"))
    left = int(trees.left[0, node])
    rule, other = split_rule(chosen.binner, feature, cut)
    gain = log_marginal[left] + log_marginal[left + 1] - log_marginal[node]
    return {
        "then": left,
        "else": left + 1,
        "test": split_test(chosen.binner, feature, cut),
        "rule": rule,
        "other": other,
        "gain": float(gain),
    }


def _vote(chosen: TreeSet, node: int) -> str:
    value = chosen.value[0, node]
    return f"{value[0]:.6g}" if chosen.classes is None else chosen.titles[int(np.argmax(value))]


def plain_number(number: float) -> int | float:
    """Write a whole number without its ".0"."""
    return int(number) if float(number).is_integer() else number
