"""Rows to try in a report, and the sampled forest, in compact lists, that answers for them.

Rows are held-out ones, or typical ones made from the coded training rows. Of the forest equal
subtrees and equal leaves are written once. A reference is an index into "nodes" if it is not
negative, else ``-1 - index`` into "leaves"; a node is [test, then, else], a leaf is

- of classes [probability of each class, noise], the noise being the expected entropy in nats;
- of numbers [mean, variance of the noise, variance of the mean].

With weights w that sum to one, the answer for classes is ``p = sum w p_leaf`` to the power of
"sharpness", normalised. Before the power the total uncertainty is ``entropy(p)``, of which ``noise
= sum w noise_leaf`` and the rest, at least zero, is of the model; both are then scaled so that they
add up to the entropy of the answer. For numbers it is ``mean = sum w mean_leaf``, ``noise = sum w
noise_leaf``, ``model = sum w (model_leaf + (mean_leaf - mean)^2)``, both divided by "sharpness".
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int64s
from dtgfn.data.binning import Binner, encode
from dtgfn.data.tables import Column, Table, take
from dtgfn.evaluation import LEVEL, even_steps
from dtgfn.explain.column_labels import split_test, values_of_codes, values_of_table
from dtgfn.explain.posterior_columns import class_titles
from dtgfn.posterior.of_model import Posterior, leaf_of
from dtgfn.posterior.prediction import CountedTrees, Predictor, sharpened
from dtgfn.posterior.uncertainty import expected_entropy
from dtgfn.trees.flat_trees import FlatTrees, WeightedTrees, average
from dtgfn.trees.leaf_models import NormalLeaf

MOST_ROWS = 40
N_UNCERTAIN = 12
QUANTILES = {
    "a training row with a low target": 0.05,
    "a training row with a target below the middle": 0.25,
    "a training row with a target in the middle": 0.5,
    "a training row with a target above the middle": 0.75,
    "a training row with a high target": 0.95,
}
DIGITS = 12  # decimals of probabilities: far below what a prediction is compared with
MOST_TREES = 5000  # before anything is written
FOREST_BYTES = 1_000_000
LEAST_BYTES = 4  # of a number in a leaf
SHARED = 8  # how many times each leaf may occur, by a generous guess


class Examples(NamedTuple):
    """Rows with a name, values by column, and the truth: index of a class, number, or None."""

    names: list[str]
    values: list[dict[str, Any]]
    table: Table
    truth: list[Any]


def held_out_examples(
    binner: Binner, table: Table, truth: npt.NDArray[Any] | None, unsure: Floats
) -> Examples:
    """Choose rows of a held-out table: the least certain ones, and others at even steps.

    ``truth`` [n] is what ``read_truth`` gives, ``unsure`` [n] each row's uncertainty.
    """
    chosen = spread_rows(unsure)
    marked = set(np.argsort(-unsure, kind="stable")[:N_UNCERTAIN].tolist())
    many = table.n_rows > MOST_ROWS
    names = [
        f"row {i + 1} of the held-out table" + (" (uncertain)" if many and i in marked else "")
        for i in chosen.tolist()
    ]
    part = take(table, chosen)
    known = [None] * len(chosen) if truth is None else truth[chosen].tolist()
    return Examples(names, values_of_table(binner, part), part, known)


def spread_rows(unsure: Floats) -> Int64s:
    """Indices of at most 40 rows [n], in their order: the most uncertain ones, others evenly."""
    n_rows = len(unsure)
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    first = np.argsort(-unsure, kind="stable")[:N_UNCERTAIN]
    others = np.setdiff1d(np.arange(n_rows), first)
    steps = even_steps(len(others), MOST_ROWS - N_UNCERTAIN)
    return np.sort(np.concatenate([first, others[steps]])).astype(np.int64)


def typical_examples(posterior: Posterior) -> Examples:
    """Make typical rows of each class, or along the target, from the coded training rows.

    A model keeps codes, not values: a number is one from inside its bin.
    """
    binner = posterior.binner
    assert binner is not None, "infer always sets it"
    leaf = leaf_of(posterior)
    if isinstance(leaf, NormalLeaf):
        indices, names = _along_target(posterior)
        truth = (leaf.location + leaf.scale * posterior.rows.target[indices]).tolist()
    else:
        indices, names = _of_each_class(posterior)
        truth = posterior.rows.target[indices].tolist()
    values = values_of_codes(binner, posterior.rows.codes[indices])
    return Examples(names, values, table_of(binner, values), truth)


def _of_each_class(posterior: Posterior) -> tuple[Int64s, list[str]]:
    rows = posterior.rows
    weight = np.bincount(rows.target, weights=rows.weight, minlength=len(posterior.class_names))
    common = np.argsort(-weight, kind="stable")[:MOST_ROWS]
    present = np.sort(common[weight[common] > 0])
    indices = [central_row(posterior, np.flatnonzero(rows.target == c)) for c in present]
    titles = class_titles(posterior)
    names = [f"a typical row of class {titles[c]}" for c in present]
    return np.array(indices, dtype=np.int64), names


def _along_target(posterior: Posterior) -> tuple[Int64s, list[str]]:
    rows = posterior.rows
    order = np.argsort(rows.target, kind="stable")
    upto = np.cumsum(rows.weight[order]) / rows.weight.sum()
    reached = np.searchsorted(upto, list(QUANTILES.values()))
    return order[np.minimum(reached, len(order) - 1)].astype(np.int64), list(QUANTILES)


def central_row(posterior: Posterior, members: Int64s) -> int:
    """Return the member whose codes are nearest to the members' median, column by column."""
    codes, weight = posterior.rows.codes[members].astype(np.float64), posterior.rows.weight[members]
    order = np.argsort(codes, axis=0, kind="stable")
    upto = np.cumsum(weight[order], axis=0)
    middle = (upto < weight.sum() / 2).sum(axis=0)
    median = np.take_along_axis(codes, order, axis=0)[middle, np.arange(codes.shape[1])]
    assert posterior.binner is not None, "infer always sets it"
    distance = (np.abs(codes - median) / np.maximum(posterior.binner.n_cuts, 1)).sum(axis=1)
    return int(members[int(np.argmin(distance))])


def table_of(binner: Binner, values: list[dict[str, Any]]) -> Table:
    """Rows of plain values as a table of the training columns."""
    columns = []
    for spec in binner.columns:
        cells = [row[spec.name] for row in values]
        if spec.kind == "category":
            columns.append(Column(spec.name, "category", np.array(cells, dtype=object)))
            continue
        numbers = [np.nan if cell is None else float(cell) for cell in cells]
        columns.append(Column(spec.name, spec.kind, np.array(numbers), scale=spec.scale))
    return Table(tuple(columns), len(values), binner.named)


def example_codes(binner: Binner, examples: Examples) -> Codes:
    """Codes [n, features] of examples."""
    return encode(binner, examples.table)


def predicted_rows(model: Any, examples: Examples) -> list[dict[str, Any]]:
    """Rows with everything the model says of them, as plain JSON values."""
    parts = model.predict_uncertainty(examples.table)
    uncertainty = [
        {"total": float(total), "noise": float(noise), "model": float(of_model)}
        for total, noise, of_model in zip(parts.total, parts.noise, parts.model, strict=True)
    ]
    if isinstance(leaf_of(model.posterior_), NormalLeaf):
        said = _predicted_numbers(model, examples)
    else:
        said = _predicted_classes(model, examples)
    return [
        {"name": name, "values": values, **row, "uncertainty": unsure}
        for name, values, row, unsure in zip(
            examples.names, examples.values, said, uncertainty, strict=True
        )
    ]


def _predicted_classes(model: Any, examples: Examples) -> list[dict[str, Any]]:
    names = class_titles(model.posterior_)
    return [
        {
            "truth": None if truth is None else names[truth],
            "probability": probability.tolist(),
            "prediction": names[int(probability.argmax())],
            "interval": None,
        }
        for probability, truth in zip(
            model.predict_proba(examples.table), examples.truth, strict=True
        )
    ]


def _predicted_numbers(model: Any, examples: Examples) -> list[dict[str, Any]]:
    interval = model.predict_interval(examples.table, LEVEL)
    return [
        {
            "truth": None if truth is None else f"{truth:.6g}",
            "probability": None,
            "prediction": float(prediction),
            "interval": bounds.tolist(),
        }
        for prediction, bounds, truth in zip(
            model.predict(examples.table), interval, examples.truth, strict=True
        )
    ]


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
        self.indices: dict[bytes, int] = {}  # of leaves, by what they say
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
        index = self.indices.setdefault(said.tobytes(), len(self.leaves))
        if index == len(self.leaves):
            self.leaves.append(said.tolist())
        return index


def forest_says(forest: WeightedTrees, codes: Codes, power: float, of_numbers: bool) -> Floats:
    """What the written forest predicts for rows of codes [n, d]: probabilities or means [n, K]."""
    averaged = average(forest, codes, 1)
    return averaged[:, :1] if of_numbers else sharpened(averaged[:, :-1], power)
