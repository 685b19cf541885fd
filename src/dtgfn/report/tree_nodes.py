"""The most probable distinct trees of a posterior, node by node, for drawing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtgfn.distances import tally, top_trees
from dtgfn.explain import tree_set_text
from dtgfn.export.json_document import split_test
from dtgfn.kernels import Floats
from dtgfn.nodes import node_log_marginals
from dtgfn.posterior import ModelAverage, TreePosterior
from dtgfn.predict import tree_weights
from dtgfn.report.columns import split_rule
from dtgfn.score import log_reward, merge_rows
from dtgfn.tree_sets import TreeSet, take_trees
from dtgfn.trees import TreeBatch, canonical_keys


def probable_trees(model: Any, n_trees: int) -> list[dict[str, Any]]:
    """Describe the most probable distinct trees known, the best one first.

    They are the most probable of all trees where the posterior is exact, else of the sampled ones
    and the best one seen.
    """
    posterior: TreePosterior = model.posterior_
    trees = ranked_trees(posterior, n_trees)
    reward = log_reward(trees, merge_rows(posterior.rows), posterior.score)
    order = np.argsort(-reward[1:], kind="stable") + 1
    order = np.concatenate([[0], order])
    trees, reward = trees[order], reward[order]
    share = sampled_shares(posterior, model.weighting)
    keys = canonical_keys(trees)
    marginal = node_log_marginals(posterior, trees)
    described = []
    for b, key in enumerate(keys):
        chosen = take_trees(posterior, trees[b : b + 1])
        described.append(
            {
                "rank": b + 1,
                "probability": _probability(posterior, float(reward[b])),
                "share": share.get(key, 0.0),
                "log_reward": float(reward[b]),
                "n_splits": int(trees.n_splits[b]),
                "depth": int(trees.depth[b]),
                "text": tree_set_text(chosen),
                "nodes": tree_nodes(chosen, marginal[b]),
            }
        )
    return described


def ranked_trees(posterior: TreePosterior, n_trees: int) -> TreeBatch:
    """Return the distinct trees of highest log R, as far as they are known.

    The first is the posterior's best tree, which others may equal: it is the one that is meant
    wherever a model is asked for its best tree.
    """
    if isinstance(posterior.solution, ModelAverage):
        trees = top_trees(posterior, n_trees)[0]
    else:
        first, _ = tally(posterior.trees, posterior.weights)
        order = np.argsort(-posterior.log_reward[first], kind="stable")
        trees = posterior.trees[[first[place] for place in order][:n_trees]]
    best = canonical_keys(posterior.best_tree)[0]
    others = [place for place, key in enumerate(canonical_keys(trees)) if key != best]
    kept = np.array(others[: n_trees - 1], dtype=np.int64)
    return _joined(posterior.best_tree, trees[kept])


def _joined(one: TreeBatch, other: TreeBatch) -> TreeBatch:
    """Two batches as one."""
    width = max(one.feature.shape[1], other.feature.shape[1])

    def stack(name: str, empty: int) -> Any:
        parts = (getattr(batch, name) for batch in (one, other))
        wide = [
            np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=empty)
            for part in parts
        ]
        return np.concatenate(wide)

    return TreeBatch(
        feature=stack("feature", -1),
        cut=stack("cut", 0),
        left=stack("left", -1),
        n_nodes=np.concatenate([one.n_nodes, other.n_nodes]),
    )


def sampled_shares(posterior: TreePosterior, weighting: str) -> dict[bytes, float]:
    """Weight of each distinct tree among the sampled ones, by its key."""
    first, share = tally(posterior.trees, tree_weights(posterior, weighting))
    return dict(zip(canonical_keys(posterior.trees[first]), share.tolist(), strict=True))


def _probability(posterior: TreePosterior, reward: float) -> float | None:
    """Posterior probability of a tree by the evidence, if that is known."""
    if math.isnan(posterior.log_evidence):
        return None
    return min(math.exp(reward / posterior.score.temperature - posterior.log_evidence), 1.0)


def tree_nodes(chosen: TreeSet, log_marginal: Floats) -> list[dict[str, Any]]:
    """Nodes of the first tree of a set, parents first; ``log_marginal`` [N] is of its nodes."""
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


def _vote(chosen: TreeSet, node: int) -> str:
    value = chosen.value[0, node]
    return f"{value[0]:.6g}" if chosen.classes is None else chosen.outputs[int(np.argmax(value))]


def whole(number: float) -> int | float:
    """Write a whole number without its ".0"."""
    return int(number) if float(number).is_integer() else number
