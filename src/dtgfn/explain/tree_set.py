"""TreeSet: trees taken from a posterior to be shown or exported, with what their nodes hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner, ColumnSpec, encode, rule
from dtgfn.data.tables import as_table
from dtgfn.explain.consensus import consensus_tree
from dtgfn.explain.nodes import describe_nodes
from dtgfn.posterior.prediction import Predictor, sharpened, tree_weights
from dtgfn.posterior.tree_posterior import TreePosterior, as_posterior
from dtgfn.trees.batch import TreeBatch, route, tally

Which = TreeBatch | int | str | None


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
    sharpness : float
        Power of the average, see ``dtgfn.inference.bagging``; 1 unless these are all trees of bags.

    """

    trees: TreeBatch
    weight: Floats
    value: Floats
    rows: Floats
    counts: Floats | None
    spread: Floats | None
    binner: Binner
    classes: npt.NDArray[Any] | None
    sharpness: float = 1.0

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Name of each of the K values."""
        if self.classes is not None:
            return tuple(map(str, self.classes))
        n_outputs = self.value.shape[2]
        return ("value",) if n_outputs == 1 else tuple(f"output {k}" for k in range(n_outputs))

    def average(self, X: Any) -> Floats:
        """Weighted average of what the trees say of each row of a table [n, K], sharpened."""
        leaves = route(self.trees, encode(self.binner, as_table(X)))
        out = np.zeros((leaves.shape[1], self.value.shape[2]))
        for leaf, value, weight in zip(leaves, self.value, self.weight, strict=True):
            out += weight * value[leaf]
        return sharpened(out, self.sharpness)


def take_trees(source: Any, trees: Which = "best") -> TreeSet:
    """Take trees from a posterior or a fitted model.

    ``trees`` is "best" (or None), "consensus", "all" (the sampled trees with their weights, equal
    ones merged, heaviest first), the place of a sampled tree, or a batch of trees. All trees are
    weighted as the model's ``weighting`` says, those of a posterior by importance, and all trees of
    bags are as sharp as the bags: their average is the prediction over sampled trees.

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
    classes = posterior.classes
    if nodes.counts is None:
        classes = None
    elif classes is None:
        classes = np.arange(nodes.counts.shape[2])
    binner = posterior.binner or _binner_of_codes(posterior.rows.codes, batch)
    every = isinstance(trees, str) and trees == "all"
    power = Predictor(posterior, weighting).sharpness if every else 1.0
    return TreeSet(batch, weight, *nodes, binner=binner, classes=classes, sharpness=power)


def take_tree(source: Any, tree: Which = "best") -> TreeSet:
    """Take one tree; refuse what stands for several."""
    if isinstance(tree, str) and tree == "all":
        raise ValueError("tree='all' is many trees; give 'best', 'consensus' or a tree's place.")
    if isinstance(tree, str) and tree not in ("best", "consensus"):
        raise ValueError(
            f"tree={tree!r} names no tree; give 'best', 'consensus', the place of a sampled tree, "
            "or a TreeBatch of one."
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
                f"tree={which!r} is out of range; give a place from 0 to {len(trees) - 1}."
            )
        return trees[int(which) : int(which) + 1], np.ones(1)
    if which is None or which == "best":
        return posterior.best_tree, np.ones(1)
    if which == "consensus":
        return consensus_tree(posterior).tree, np.ones(1)
    if which == "all":
        first, share = tally(trees, tree_weights(posterior, weighting))
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


def split_text(chosen: TreeSet, b: int, node: int) -> tuple[str, str]:
    """Words for what goes left and what goes right at a split."""
    feature = chosen.binner.features[int(chosen.trees.feature[b, node])]
    return rule(feature, int(chosen.trees.cut[b, node]))


def leaf_text(chosen: TreeSet, b: int, node: int) -> str:
    """What a leaf says: the likeliest class and its probability, or its number."""
    if chosen.spread is not None:
        return f"{chosen.value[b, node, 0]:.6g} +- {chosen.spread[b, node]:.2g}"
    if chosen.classes is None:
        return ", ".join(f"{number:.6g}" for number in chosen.value[b, node])
    best = int(np.argmax(chosen.value[b, node]))
    return f"{visible(chosen.outputs[best])}  {chosen.value[b, node, best]:.3f}"


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
