"""The sampled forest in compact lists, so that a page can predict rows of its own.

Equal subtrees and equal leaves are written once. A reference is a place in "nodes" if it is not
negative, else ``-1 - place`` in "leaves"; a node is [test, then, else], a leaf is

- of classes [probability of each class, noise], the noise being the expected entropy in nats;
- of numbers [mean, variance of the noise, variance of the mean].

With weights w that sum to one, the answer for classes is ``p = sum w p_leaf`` to the power of
"sharpness", normalised. Before the power the total uncertainty is ``entropy(p)``, of which ``noise
= sum w noise_leaf`` and the rest, at least zero, is of the model; both are then scaled so that they
add up to the entropy of the answer. For numbers it is ``mean = sum w mean_leaf``, ``noise = sum w
noise_leaf``, ``model = sum w (model_leaf + (mean_leaf - mean)^2)``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.binning import Binner
from dtgfn.export.json_document import split_test
from dtgfn.posterior.prediction import CountedTrees, Predictor, sharpened
from dtgfn.posterior.uncertainty import expected_entropy
from dtgfn.trees.flat_trees import FlatTrees, WeightedTrees, average
from dtgfn.trees.leaves import NormalLeaf

DIGITS = 12  # decimals of probabilities: far below what a prediction is compared with
MOST_TREES = 5000  # before anything is written
FOREST_BYTES = 1_000_000
LEAST_BYTES = 4  # of a number in a leaf
SHARED = 8  # how many times each leaf may occur, by a generous guess


def explorer_forest(predictor: Predictor) -> WeightedTrees:
    """Return the distinct trees with their weights and what their leaves say, as in a report."""
    return replace(predictor.weighted_trees, values=leaf_values(predictor.counted))


def leaf_values(counted: CountedTrees) -> Floats:
    """What each leaf says [L, K]: probabilities and noise, or mean and two variances."""
    outputs, leaf = counted.outputs, counted.leaf
    if not isinstance(leaf, NormalLeaf):
        noise = expected_entropy(counted.parameters)[:, None]
        return np.asarray(np.hstack([outputs, noise]).round(DIGITS))
    _, mean, noise, second = outputs.T
    model = np.maximum(second - mean**2 - noise, 0.0)
    square = leaf.scale**2
    return np.column_stack([leaf.location + leaf.scale * mean, square * noise, square * model])


def explore(
    predictor: Predictor, forest: WeightedTrees, *, budget: int = FOREST_BYTES
) -> tuple[dict[str, Any], WeightedTrees]:
    """Write the forest in at most about ``budget`` bytes of JSON, with fewer trees if need be.

    The second value is the forest with the weights that were written. Fewer trees are taken at
    even steps of the summed weights, so that they stand for all of them.
    """
    posterior = predictor.posterior
    assert posterior.binner is not None, "infer always sets it"
    weight = forest.weights / forest.weights.sum()
    n_trees = n_slots = int((weight > 0).sum())
    # No need to write what cannot fit, even if it holds each leaf several times.
    fitting = int(n_trees * SHARED * budget / (LEAST_BYTES * forest.values.size))
    most = max(min(n_slots, MOST_TREES, fitting), 1)
    if most < n_slots:
        n_slots, weight = most, thinned(forest.weights, most)
    written = _write(posterior.binner, forest, weight)
    while (size := len(json.dumps(written, separators=(",", ":")))) > budget and n_slots > 1:
        n_slots = max(min(int(0.98 * n_slots * budget / size), n_slots - 1), 1)
        weight = thinned(forest.weights, n_slots)
        written = _write(posterior.binner, forest, weight)
    described = {
        "sharpness": predictor.sharpness,
        "exact_average": predictor.knows_average,
        "n_draws": len(posterior.trees),
        "n_trees": n_trees,
        "n_used": int((weight > 0).sum()),
        **written,
    }
    return described, WeightedTrees(forest.trees, forest.values, weight)


def thinned(weight: Floats, n_slots: int) -> Floats:
    """Weights [B] that are whole multiples of 1 / n_slots, by even steps of their running sum.

    >>> thinned(np.array([0.5, 0.1, 0.4]), 2).tolist()
    [0.5, 0.0, 0.5]
    """
    upto = np.cumsum(weight / weight.sum())
    steps = (np.arange(n_slots) + 0.5) / n_slots
    taken = np.minimum(np.searchsorted(upto, steps), len(weight) - 1)
    return np.bincount(taken, minlength=len(weight)) / n_slots


def _write(binner: Binner, forest: WeightedTrees, weight: Floats) -> dict[str, Any]:
    """Tests, nodes, leaves and trees; heaviest trees first."""
    lists = _Lists(forest.trees, forest.values)
    kept = np.flatnonzero(weight > 0)
    kept = kept[np.argsort(-weight[kept], kind="stable")]
    trees = [[lists.add(int(b)), float(weight[b])] for b in kept]
    return {
        "tests": [split_test(binner, feature, cut) for feature, cut in lists.tests],
        "nodes": [list(node) for node in lists.nodes],
        "leaves": lists.leaves,
        "trees": trees,
    }


class _Lists:
    """Tests, nodes and leaves as they are met, each once."""

    def __init__(self, trees: FlatTrees, values: Floats) -> None:
        self.trees, self.values = trees, values
        self.tests: dict[tuple[int, int], int] = {}
        self.nodes: dict[tuple[int, int, int], int] = {}
        self.places: dict[bytes, int] = {}  # of leaves, by what they say
        self.leaves: list[list[float]] = []

    def add(self, b: int) -> int:
        """Write a tree, children first, and return the reference of its root."""
        trees = self.trees
        ends = [*trees.root[b + 1 : b + 2].tolist(), len(trees.feature)]
        reference: dict[int, int] = {}
        for node in range(ends[0] - 1, int(trees.root[b]) - 1, -1):  # children after parents
            left = int(trees.left[node])
            if left == node:
                reference[node] = -1 - self._leaf(int(trees.leaf[node]))
                continue
            split = int(trees.feature[node]), int(trees.cut[node])
            test = self.tests.setdefault(split, len(self.tests))
            key = test, reference[left], reference[left + 1]
            reference[node] = self.nodes.setdefault(key, len(self.nodes))
        return reference[int(trees.root[b])]

    def _leaf(self, leaf: int) -> int:
        said = self.values[leaf]
        place = self.places.setdefault(said.tobytes(), len(self.leaves))
        if place == len(self.leaves):
            self.leaves.append(said.tolist())
        return place


def forest_says(forest: WeightedTrees, codes: Codes, power: float, of_numbers: bool) -> Floats:
    """What the written forest predicts for rows of codes [n, d]: probabilities or means [n, K]."""
    averaged = average(forest, codes, 1)
    return averaged[:, :1] if of_numbers else sharpened(averaged[:, :-1], power)
