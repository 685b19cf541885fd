"""TreeSet: trees taken from a posterior to be shown or exported, with what their nodes hold."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats
from dtgfn.data.binning import Binner, encode, rule
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.meanings import coded_sides
from dtgfn.data.thresholds import threshold_text
from dtgfn.explain.event import shown_event
from dtgfn.explain.posterior_columns import class_title, columns_of, labels_of
from dtgfn.posterior.node_values import Nodes, node_values, predicted
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.prediction import (
    Predictor,
    average_trees,
    one_tree,
    sharpened,
    tree_weights,
)
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, route, tally
from dtgfn.trees.equivalent_cuts import EquivalentCuts
from dtgfn.trees.left_out_rows import RowsLeftOutError, cuts_alike, sums_at_nodes
from dtgfn.trees.score import leaf_log_marginal

Which = TreeBatch | int | str | None
ONE_TREE = ("best", "consensus", "paper")
ROUNDING = 1e-12  # of the target's spread


@dataclass(frozen=True, eq=False)
class TreeSet:
    """B weighted trees, their columns and what every node says.

    Attributes
    ----------
    trees : TreeBatch
        B trees of at most N nodes.
    weight : float64 [B]
        Share of each tree in the prediction; sums to one.
    value : float64 [B, N, K]
        What each node predicts: the probability of each class, or one number.
    rows : float64 [B, N]
        Weighted training rows at each node.
    counts : float64 [B, N, K] or None
        Those of each class; None for numbers.
    spread : float64 [B, N] or None
        Standard deviation of a new row's number; None for classes.
    binner : Binner
        The user's columns; made-up ones, ``code 0``, ..., if the engine was given codes.
    classes : array [K] or None
        The user's label of each class; None for numbers.
    alike : EquivalentCuts or None
        First and last cut [B, N] that parts the rows at each split alike; None of many trees.
    sharpness : float
        Power of the average, see ``dtgfn.inference.outside``; 1 unless these are all trees of bags
        of classes (the mean of numbers is the same however sharp).
    event : int or None
        The class whose probability leaves tell, of two; None if they tell the likeliest class.

    """

    trees: TreeBatch
    weight: Floats
    value: Floats
    rows: Floats
    counts: Floats | None
    spread: Floats | None
    binner: Binner
    classes: npt.NDArray[Any] | None
    alike: EquivalentCuts | None = None
    sharpness: float = 1.0
    event: int | None = None

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Name of each of the K values."""
        if self.classes is not None:
            return tuple(map(str, self.classes))
        n_outputs = self.value.shape[2]
        return ("value",) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))

    @cached_property
    def titles(self) -> tuple[str, ...]:
        """What each of the K values is called before a reader (``data.meanings``)."""
        if self.classes is None:
            return self.outputs
        return tuple(class_title(self.binner, name) for name in self.classes)

    def average(self, X: Any) -> Floats:
        """Weighted average of what the trees say of each row of a table [n, K], sharpened."""
        leaves = route(self.trees, encode(self.binner, as_new_table(X)))
        out = np.zeros((leaves.shape[1], self.value.shape[2]))
        for leaf, value, weight in zip(leaves, self.value, self.weight, strict=True):
            out += weight * value[leaf]
        return sharpened(out, self.sharpness)


def take_trees(source: Any, trees: Which = "best") -> TreeSet:
    """Take trees from a posterior or a fitted model.

    ``trees`` is "best" (or None), "consensus", "all" (the sampled trees with their weights, equal
    ones merged, heaviest first), the index of a sampled tree, or a batch of trees. All trees are
    weighted as the model's ``weighting`` says, those of a posterior by importance, and all trees of
    bags are as sharp as the bags: their average is the prediction over sampled trees.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.
    trees : "best", "consensus", "all", int or TreeBatch
        Which trees; an int is the index of a sampled one.

    Returns
    -------
    TreeSet
        The trees, their weights, and what their nodes hold.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3, random_state=0)
    >>> take_trees(posterior, "all").trees.n_splits.tolist()
    [1, 1, 1]

    """
    posterior = as_posterior(source)
    weighting = getattr(source, "weighting", "importance")
    batch, weight = _choose(posterior, trees, weighting)
    nodes = describe_nodes(posterior, batch)
    classes = labels_of(posterior)
    binner = columns_of(posterior, batch)
    every = isinstance(trees, str) and trees == "all"
    powered = every and nodes.counts is not None
    power = Predictor(posterior, weighting).sharpness if powered else 1.0
    alike = _alike(posterior, batch)
    return TreeSet(
        batch,
        weight,
        *nodes,
        binner=binner,
        classes=classes,
        alike=alike,
        sharpness=power,
        event=shown_event(source, classes),
    )


def _alike(posterior: TreePosterior, batch: TreeBatch) -> EquivalentCuts | None:
    """Cuts that part the rows alike, of one tree; None where the rows that could tell are gone."""
    if len(batch) != 1:
        return None
    with suppress(RowsLeftOutError):
        return cuts_alike(batch, posterior.rows)
    return None


def take_tree(source: Any, tree: Which = "best") -> TreeSet:
    """Take one tree; refuse what stands for several."""
    if isinstance(tree, str) and tree == "all":
        raise ValueError("tree='all' is many trees; give 'best', 'consensus' or a tree's index.")
    if isinstance(tree, str) and tree not in ONE_TREE:
        raise ValueError(
            f"tree={tree!r} names no tree; give 'best', 'consensus', 'paper', the index of a "
            "sampled tree, or a TreeBatch of one."
        )
    if isinstance(tree, TreeBatch) and len(tree) != 1:
        raise ValueError(f"tree is a batch of {len(tree)} trees; give a batch of one.")
    return take_trees(source, tree)


def _choose(posterior: TreePosterior, which: Which, weighting: str) -> tuple[TreeBatch, Floats]:
    """Trees [B] and their weights [B], which sum to one."""
    trees = posterior.trees
    if isinstance(which, TreeBatch):
        return which, np.full(len(which), 1 / max(len(which), 1))
    if isinstance(which, int | np.integer) and not isinstance(which, bool):
        if not 0 <= which < len(trees):
            raise ValueError(
                f"tree={which!r} is out of range; give an index from 0 to {len(trees) - 1}."
            )
        return trees[int(which) : int(which) + 1], np.ones(1)
    if which is None or which in ("best", "paper"):
        return one_tree(posterior, which or "best"), np.ones(1)
    if which == "consensus":
        return consensus_tree(posterior).tree, np.ones(1)
    if which == "all":
        first, share = tally(trees, tree_weights(posterior, weighting))
        kept = np.argsort(-share, kind="stable")
        kept = kept[share[kept] > 0]  # a weight may be too small for a float
        return trees[first[kept]], share[kept] / share.sum()
    raise ValueError(
        f"{which!r} names no tree; give 'best', 'consensus', 'paper', 'all', the index of a "
        "sampled tree, or a TreeBatch."
    )


def describe_nodes(posterior: TreePosterior, trees: TreeBatch) -> Nodes:
    """Ask the leaf model about every node of trees [B]."""
    return node_values(trees, posterior.rows, posterior.score.leaf)


def average_values(posterior: TreePosterior, codes: Codes) -> Floats:
    """Averaged predictions of trees [n, K]: exact where the engine has them; bags unsharpened."""
    rows, score = posterior.rows, posterior.score
    if posterior.is_bagged:
        outputs = average_trees(posterior.trees, posterior.weights, rows, score, codes)
    else:
        outputs = Predictor(posterior).average(codes)
    return predicted(score.leaf, outputs)


def node_log_marginals(posterior: TreePosterior, trees: TreeBatch) -> Floats:
    """Log m of the training rows at every node [B, N], as if it were a leaf."""
    rows, score = posterior.rows, posterior.score
    sums = sums_at_nodes(trees, rows, score.leaf)
    return leaf_log_marginal(sums, score)


class Consensus(NamedTuple):
    """A batch of one tree, and its mean squared distance to the averaged predictions."""

    tree: TreeBatch
    distance: float


def consensus_tree(posterior: TreePosterior) -> Consensus:
    """Find the one tree that stands for all: its predictions are nearest to the posterior's.

    Candidates are the sampled trees and the best tree; of equally near ones the smallest is taken,
    then the one with the highest log R. With the exact engine the average is the exact one.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees and predictions.

    Returns
    -------
    Consensus
        The tree, and its mean squared distance to the averaged predictions.

    Notes
    -----
    The loss of showing tree T where T' is true is the weighted mean over the training rows of
    ``sum_c (p_T(c | x) - p_T'(c | x))^2`` (of numbers, the squared difference). Its posterior
    expectation is, by the usual decomposition of a mean square, the distance of T to the averaged
    predictions plus a constant that does not depend on T. So the tree nearest to the average is
    also the one with the least expected distance to a tree drawn from the posterior: a median tree
    that takes one pass over the trees, not one over all pairs. Predictions are compared, not
    splits: trees that cut the same rows in another order, or on columns that stand in for one
    another, are the same to it. Of bags it is the plain average of their trees: the decomposition
    knows no sharpened one.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=2, n_thresholds=3)
    >>> consensus = consensus_tree(posterior)
    >>> consensus.tree.n_splits.tolist(), consensus.distance < 1e-4
    ([1], True)

    """
    posterior = as_posterior(posterior)
    trees, reward = posterior.trees, posterior.log_reward
    first, _ = tally(trees, posterior.weights)
    target = average_values(posterior, posterior.rows.codes)
    candidates = [(trees[b : b + 1], float(reward[b])) for b in first]
    candidates.append((posterior.best_tree, posterior.best_log_reward))
    distance = np.array([_distance(tree, posterior, target) for tree, _ in candidates])
    scale = float(np.var(target, axis=0).sum()) or 1.0
    near = np.flatnonzero(distance <= distance.min() + ROUNDING * scale)
    best = min(near, key=lambda k: (int(candidates[k][0].n_splits[0]), -candidates[k][1]))
    return Consensus(candidates[best][0], float(distance[best]))


def _distance(tree: TreeBatch, posterior: TreePosterior, target: Floats) -> float:
    """Weighted mean over the training rows of the squared distance to ``target`` [n, K]."""
    rows = posterior.rows
    value = describe_nodes(posterior, tree).value[0]
    off = value[route(tree, rows.codes)[0]] - target
    return float(np.average((off**2).sum(axis=1), weights=rows.weight))


def tree_set_text(chosen: TreeSet) -> str:
    """Write the first tree of a set as nested rules.

    In brackets are the thresholds between which a split may lie without moving a training row.
    """
    rows, lines = chosen.rows[0], list[str]()

    def write(node: int, indent: str) -> None:
        if chosen.trees.feature[0, node] < 0:
            lines.append(f"{indent}{leaf_text(chosen, 0, node)}  ({rows_text(rows[node])})")
            return
        left, right = split_text(chosen, 0, node)
        child = int(chosen.trees.left[0, node])
        lines.append(f"{indent}if {left}{_interval_text(chosen, node)}")
        write(child, indent + "    ")
        lines.append(f"{indent}else ({right})")
        write(child + 1, indent + "    ")

    write(0, "")
    return "\n".join(lines)


def _interval_text(chosen: TreeSet, node: int) -> str:
    """The thresholds that part the rows at a split alike, in brackets, if there are several."""
    if chosen.alike is None:
        return ""
    first, last = (int(cut[0, node]) for cut in chosen.alike)
    if threshold_interval(chosen, node, first, last) is None:
        return ""
    feature = chosen.binner.features[int(chosen.trees.feature[0, node])]
    thresholds = feature.thresholds
    ends = (first, min(last, len(thresholds) - 1))
    if coded_sides(float(thresholds[ends[0]]), feature.meaning) is not None:
        return ""  # codes are told by their names
    low, high = (threshold_text(thresholds, end) for end in ends)
    return f"  [{low} to {high}]"


def threshold_interval(chosen: TreeSet, node: int, first: int, last: int) -> list[float] | None:
    """Thresholds of the first and last cut that part a node's rows alike; None if there is one."""
    feature = int(chosen.trees.feature[0, node])
    if feature < 0 or first == last:
        return None
    thresholds = chosen.binner.features[feature].thresholds
    last = min(last, len(thresholds) - 1)  # behind the last one is what is missing
    if last < 0 or int(chosen.trees.cut[0, node]) > last:
        return None
    return [float(thresholds[min(first, last)]), float(thresholds[last])] if first < last else None


def split_text(chosen: TreeSet, b: int, node: int) -> tuple[str, str]:
    """Words for what goes left and what goes right at a split."""
    feature = chosen.binner.features[int(chosen.trees.feature[b, node])]
    return rule(feature, int(chosen.trees.cut[b, node]))


def leaf_text(chosen: TreeSet, b: int, node: int) -> str:
    """What a leaf says: P(event), or the likeliest class and its probability, or its number."""
    if chosen.spread is not None:
        return f"{chosen.value[b, node, 0]:.6g} +- {chosen.spread[b, node]:.2g}"
    if chosen.classes is None:
        return ", ".join(f"{number:.6g}" for number in chosen.value[b, node])
    if chosen.event is not None:
        return event_text(chosen, chosen.value[b, node])
    best = int(np.argmax(chosen.value[b, node]))
    return f"{chosen.titles[best]}  {chosen.value[b, node, best]:.3f}"


def event_text(chosen: TreeSet, value: Floats) -> str:
    """Probability of the event, of the classes' [C]."""
    assert chosen.event is not None, "the caller asks first"
    return f"P({chosen.titles[chosen.event]}) {value[chosen.event]:.3f}"


class DrawnNode(NamedTuple):
    """What a drawing says of a node: its test or its prediction, its rows, its left child."""

    said: str
    rows: str
    left: int  # -1 of a leaf


def drawn_nodes(chosen: TreeSet) -> list[DrawnNode]:
    """Nodes of the first tree of a set, in their order."""
    trees, drawn = chosen.trees, []
    for node in range(int(trees.n_nodes[0])):
        inner = trees.feature[0, node] >= 0
        said = split_text(chosen, 0, node)[0] if inner else leaf_text(chosen, 0, node)
        rows = rows_text(chosen.rows[0, node])
        drawn.append(DrawnNode(said, rows, int(trees.left[0, node])))
    return drawn


def rows_text(n_rows: float) -> str:
    """A number of rows in words.

    >>> rows_text(1), rows_text(2.5)
    ('1 row', '2.5 rows')
    """
    return f"{number_text(n_rows)} row" + ("" if n_rows == 1 else "s")


def number_text(number: float) -> str:
    """A count of rows, whole if it is."""
    return str(int(number)) if float(number).is_integer() else f"{number:g}"
