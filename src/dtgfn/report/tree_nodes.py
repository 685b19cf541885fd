"""The most probable trees of a posterior, variants taken together, node by node, for drawing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s
from dtgfn.explain.column_labels import split_rule
from dtgfn.explain.nodes import node_log_marginals
from dtgfn.explain.text import tree_set_text
from dtgfn.explain.tree_set import TreeSet, take_trees
from dtgfn.export.json_document import split_test
from dtgfn.posterior.prediction import tree_weights
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, canonical_keys, stack_trees, tally
from dtgfn.trees.equivalent_cuts import (
    EquivalentCuts,
    equivalence_keys,
    equivalent_cuts,
    log_n_equivalent,
)
from dtgfn.trees.score import log_reward, merge_rows

MOST_STEPS = 300_000_000  # rows times trees times levels that are looked at for variants


def probable_trees(model: Any, n_trees: int) -> list[dict[str, Any]]:
    """Describe the most probable trees known, each with all its variants, the most probable first.

    Trees whose thresholds part the training rows alike count as one: they have the same score, and
    their number is known, so that the probability of all of them is, too. Shown is the posterior's
    best tree where it is among them, else one with thresholds in the middle.
    """
    posterior: TreePosterior = model.posterior_
    rows = merge_rows(posterior.rows)
    known, reward, share = _known_trees(posterior, model.weighting, len(rows.codes))
    alike = equivalent_cuts(known, rows.codes)
    groups: dict[bytes, list[int]] = {}
    for place, key in enumerate(equivalence_keys(known, alike)):
        groups.setdefault(key, []).append(place)
    places = [group[0] for group in groups.values()]
    log_mass = (reward / posterior.score.temperature + log_n_equivalent(alike))[places]
    shares = np.array([share[group].sum() for group in groups.values()])
    order = np.argsort(-log_mass, kind="stable")[:n_trees]
    chosen = np.array(places)[order]
    trees = _with_middle_cuts(
        known[chosen], EquivalentCuts(*(cuts[chosen] for cuts in alike)), chosen > 0
    )
    marginal = node_log_marginals(posterior, trees)
    described = []
    for b, place in enumerate(chosen):
        one = take_trees(posterior, trees[b : b + 1])
        described.append(
            {
                "rank": b + 1,
                "best": bool(place == 0),
                "probability": _probability(posterior, float(log_mass[order[b]])),
                "relative": float(np.exp(log_mass[order[b]] - log_mass[order[0]])),
                "share": float(shares[order[b]]),
                "variants": whole(float(np.rint(np.exp(log_n_equivalent(alike)[place])))),
                "log_reward": float(reward[place]),
                "n_splits": int(trees.n_splits[b]),
                "depth": int(trees.depth[b]),
                "text": tree_set_text(one),
                "nodes": tree_nodes(one, marginal[b], alike.first[place], alike.last[place]),
            }
        )
    return described


def _known_trees(
    posterior: TreePosterior, weighting: str, n_rows: int
) -> tuple[TreeBatch, Floats, Floats]:
    """Return the best tree and other distinct ones, their log R, and their share of the draws."""
    first, share = tally(posterior.trees, tree_weights(posterior, weighting))
    best = canonical_keys(posterior.best_tree)[0]
    keys = canonical_keys(posterior.trees[first])
    others = np.array([place for place, key in enumerate(keys) if key != best], dtype=np.int64)
    most = max(MOST_STEPS // (n_rows * max(posterior.score.max_depth, 1)), 20)
    order = np.argsort(-posterior.log_reward[first][others], kind="stable")
    others = others[np.sort(order[:most])]
    trees = stack_trees([posterior.best_tree, posterior.trees[np.asarray(first)[others]]])
    reward = log_reward(trees, merge_rows(posterior.rows), posterior.score)
    of_best = sum(part for key, part in zip(keys, share, strict=True) if key == best)
    return trees, reward, np.concatenate([[of_best], np.asarray(share)[others]])


def _with_middle_cuts(
    trees: TreeBatch, alike: EquivalentCuts, changed: npt.NDArray[np.bool_]
) -> TreeBatch:
    """Move the cuts of some of the trees to the middle of those that part the rows alike."""
    middle = (alike.first + alike.last) // 2
    return replace(trees, cut=np.where(changed[:, None], middle, trees.cut).astype(np.int32))


def _probability(posterior: TreePosterior, log_mass: float) -> float | None:
    """Posterior probability of log R^(1/temperature) by the evidence, if that is known."""
    if math.isnan(posterior.log_evidence):
        return None
    return min(math.exp(log_mass - posterior.log_evidence), 1.0)


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
            "alike": _alike(chosen, node, int(first[node]), int(last[node])),
            "rows": whole(float(chosen.rows[0, node])),
            "counts": None,
            "value": chosen.value[0, node].tolist(),
            "spread": None,
            "vote": _vote(chosen, node),
        }
        if chosen.counts is not None:
            said["counts"] = [whole(count) for count in chosen.counts[0, node].tolist()]
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


def _alike(chosen: TreeSet, node: int, first: int, last: int) -> list[float] | None:
    """Smallest and largest threshold that parts the node's rows alike; None if there is but one."""
    feature = int(chosen.trees.feature[0, node])
    if feature < 0 or first == last:
        return None
    thresholds = chosen.binner.features[feature].thresholds
    if len(thresholds) == 0:
        return None
    last = min(last, len(thresholds) - 1)  # behind the last one is what is missing
    return [float(thresholds[min(first, last)]), float(thresholds[last])] if first < last else None


def _vote(chosen: TreeSet, node: int) -> str:
    value = chosen.value[0, node]
    return f"{value[0]:.6g}" if chosen.classes is None else chosen.outputs[int(np.argmax(value))]


def whole(number: float) -> int | float:
    """Write a whole number without its ".0"."""
    return int(number) if float(number).is_integer() else number
