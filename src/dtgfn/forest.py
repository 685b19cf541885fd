"""Forest: trees taken from a posterior to be shown or exported, with what their nodes hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn.binning import Binner, ColumnSpec, encode, rule
from dtgfn.consensus import consensus_tree
from dtgfn.distances import tally
from dtgfn.kernels import Codes, Floats
from dtgfn.posterior import TreePosterior
from dtgfn.predict import leaf_probabilities
from dtgfn.score import leaf_log_marginal
from dtgfn.tables import as_table
from dtgfn.trees import TreeBatch, node_counts, route

Which = TreeBatch | int | str | None


@dataclass(frozen=True, eq=False)
class Forest:
    """B weighted trees, their columns and what every node says.

    Attributes
    ----------
    trees : TreeBatch
        B trees of at most N nodes.
    weight : float64 [B]
        Share of each tree in the prediction; sums to one.
    value : float64 [B, N, K]
        What each node predicts: the probability of each class.
    counts : float64 [B, N, K]
        Weighted training rows of each class at each node.
    binner : Binner
        The user's columns; made-up ones, ``code 0``, ..., if the engine was given codes.
    classes : array [K]
        The user's label of each class.

    """

    trees: TreeBatch
    weight: Floats
    value: Floats
    counts: Floats
    binner: Binner
    classes: npt.NDArray[Any]

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Name of each of the K values."""
        return tuple(str(label) for label in self.classes)

    @cached_property
    def rows(self) -> Floats:
        """Weighted number of training rows at every node [B, N]."""
        return np.asarray(self.counts.sum(axis=2))

    def predict_proba(self, X: Any) -> Floats:
        """Weighted average of what the trees say of each row of a table [n, K]."""
        leaves = route(self.trees, encode(self.binner, as_table(X)))
        out = np.zeros((leaves.shape[1], self.value.shape[2]))
        for leaf, value, weight in zip(leaves, self.value, self.weight, strict=True):
            out += weight * value[leaf]
        return out


def as_posterior(source: Any) -> TreePosterior:
    """Return a posterior, or that of a fitted model."""
    posterior = getattr(source, "posterior_", source)
    if not isinstance(posterior, TreePosterior):
        raise TypeError(
            f"A {type(source).__name__} has no trees; give a fitted model or a TreePosterior."
        )
    return posterior


def take_forest(source: Any, trees: Which = "best") -> Forest:
    """Take trees from a posterior or a fitted model.

    ``trees`` is "best" (or None), "consensus", "all" (the sampled trees with their weights, equal
    ones merged, heaviest first), the place of a sampled tree, or a batch of trees.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3, random_state=0)
    >>> take_forest(posterior, "all").trees.n_splits.tolist()
    [1, 1, 1]

    """
    posterior = as_posterior(source)
    chosen, weight = _choose(posterior, trees)
    rows, score = posterior.rows, posterior.score
    counts, _ = node_counts(chosen, rows.codes, rows.labels, rows.weight, score.n_classes)
    classes = posterior.classes
    return Forest(
        trees=chosen,
        weight=weight,
        value=leaf_probabilities(chosen, rows, score),
        counts=counts,
        binner=posterior.binner or _binner_of_codes(rows.codes, chosen),
        classes=np.arange(score.n_classes) if classes is None else np.asarray(classes),
    )


def take_tree(source: Any, tree: Which = "best") -> Forest:
    """Take one tree; refuse what stands for several."""
    if isinstance(tree, str) and tree == "all":
        raise ValueError("tree='all' is many trees; give 'best', 'consensus' or a tree's place.")
    if isinstance(tree, TreeBatch) and len(tree) != 1:
        raise ValueError(f"tree is a batch of {len(tree)} trees; give a batch of one.")
    return take_forest(source, tree)


def _choose(posterior: TreePosterior, which: Which) -> tuple[TreeBatch, Floats]:
    """Trees [B] and their weights [B], which sum to one."""
    trees, weight = posterior.trees, posterior.weights
    if isinstance(which, TreeBatch):
        return which, np.full(len(which), 1 / max(len(which), 1))
    if isinstance(which, int | np.integer) and not isinstance(which, bool):
        if not 0 <= which < len(trees):
            raise ValueError(
                f"tree={which!r} is out of range; give a place from 0 to {len(trees) - 1}."
            )
        return trees[int(which) : int(which) + 1], np.ones(1)
    if which is None or which == "best":
        return posterior.best_tree, np.ones(1)
    if which == "consensus":
        return consensus_tree(posterior).tree, np.ones(1)
    if which == "all":
        first, share = tally(trees, weight)
        kept = np.argsort(-share, kind="stable")
        kept = kept[share[kept] > 0]  # a weight may be too small for a float
        return trees[np.asarray(first)[kept]], share[kept] / share.sum()
    raise ValueError(
        f"{which!r} names no tree; give 'best', 'consensus', 'all', the place of a sampled tree, "
        "or a TreeBatch."
    )


def _binner_of_codes(codes: Codes, trees: TreeBatch) -> Binner:
    """Columns that are their own codes, for an engine that was given codes."""
    highest = max(int(codes.max(initial=0)), int(trees.cut.max(initial=0)) + 1)
    whole = np.arange(highest, dtype=np.float64)
    columns = (
        ColumnSpec(f"code {place}", "number", whole, (), False) for place in range(codes.shape[1])
    )
    return Binner(tuple(columns), False, "midpoint", highest)


def node_log_marginals(posterior: TreePosterior, trees: TreeBatch) -> Floats:
    """Log m of the training rows at every node [B, N], as if it were a leaf."""
    rows, score = posterior.rows, posterior.score
    counts, _ = node_counts(trees, rows.codes, rows.labels, rows.weight, score.n_classes)
    return leaf_log_marginal(counts, score)


def split_text(forest: Forest, b: int, node: int) -> tuple[str, str]:
    """Words for what goes left and what goes right at a split."""
    feature = forest.binner.features[int(forest.trees.feature[b, node])]
    return rule(feature, int(forest.trees.cut[b, node]))


def leaf_text(forest: Forest, b: int, node: int) -> str:
    """What a leaf says: the likeliest class and its probability."""
    best = int(np.argmax(forest.value[b, node]))
    return f"{forest.outputs[best]}  {forest.value[b, node, best]:.3f}"


def rows_text(n_rows: float) -> str:
    """A number of rows in words.

    >>> rows_text(1), rows_text(2.5)
    ('1 row', '2.5 rows')
    """
    shown = str(int(n_rows)) if float(n_rows).is_integer() else f"{n_rows:g}"
    return "1 row" if n_rows == 1 else f"{shown} rows"
