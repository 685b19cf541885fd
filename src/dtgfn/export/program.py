"""Program: what code in any language must do to predict, as flat arrays.

The trees' nodes lie one after the other. A row walks down each tree, and its leaf's numbers are
added to sums that begin at ``start``; a link makes probabilities of the sums, or leaves them; what
the draws say is averaged, and sharpened where bags are. A ``TreeSet`` is one draw of weighted
trees, a ``SumPosterior`` many draws of summed ones. Each language writes the same few steps.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn.data.binning import Binner
from dtgfn.explain.column_labels import split_test
from dtgfn.explain.posterior_columns import columns_of, labels_of
from dtgfn.explain.tree_set import TreeSet
from dtgfn.export.sum_trees import n_sum_nodes, only_trees
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import NormalLeaf

Link = Literal["average", "logistic", "softmax"]
# A row goes left if its number is at most so many, its category is another one, its cell is there.
AT_MOST, IS_NOT, PRESENT = 0, 1, 2
MOST_NODES = 1_000_000  # of a file of code: some 40 MB


class Nodes(NamedTuple):
    """Nodes of all trees, parents before children, siblings side by side.

    ``column`` is what is asked, -1 of a leaf; ``test`` how; ``number`` the threshold, or the index
    of a category; ``left`` the left child (the right one follows), of a leaf its first value.
    """

    column: Int32s
    test: Int32s
    number: Floats
    left: Int64s


class Program(NamedTuple):
    """What predicts.

    ``root`` [T] is the first node of each tree and ``output`` [T] the first sum that it adds to;
    ``first`` [D + 1] the first tree of each draw, and the number of trees; ``value`` [L, width]
    what leaves add; ``start`` [S] what sums begin at. ``classes`` is None for numbers.
    """

    binner: Binner
    classes: npt.NDArray[Any] | None
    nodes: Nodes
    root: Int64s
    output: Int64s
    first: Int64s
    value: Floats
    start: Floats
    link: Link
    sharpness: float

    @property
    def n_outputs(self) -> int:
        """Classes, or 1 for numbers."""
        return 1 if self.classes is None else len(self.classes)


def program_of(source: TreeSet | SumPosterior, most_nodes: int = MOST_NODES) -> Program:
    """Make the program of an average of trees, or of sums of trees.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> program = program_of(take_tree(posterior))
    >>> program.nodes.number.tolist(), program.value.round(2).tolist()
    ([5.0, 0.0, 0.0], [[0.99, 0.01], [0.01, 0.99]])

    """
    way = "one tree"
    if isinstance(source, TreeSet):
        n_nodes = int(source.trees.n_nodes.sum())
    else:
        n_nodes = n_sum_nodes(source)
        way = "to onnx, or fit with fewer n_draws, or with lines=False"
    if n_nodes > most_nodes:
        raise ValueError(
            f"{n_nodes:,} nodes are more than the {most_nodes:,} that this format is written for; "
            f"export {way}."
        )
    return _of_average(source) if isinstance(source, TreeSet) else _of_sums(source)


def _of_average(chosen: TreeSet) -> Program:
    nodes, root, leaf = _flat(chosen.trees, chosen.binner)
    value = chosen.value[leaf] * chosen.weight[leaf[0], None]
    return Program(
        binner=chosen.binner,
        classes=chosen.classes,
        nodes=nodes,
        root=root,
        output=np.zeros(len(root), dtype=np.int64),
        first=np.array([0, len(root)]),
        value=value,
        start=np.zeros(value.shape[1]),
        link="average",
        sharpness=float(chosen.sharpness),
    )


def _of_sums(posterior: SumPosterior) -> Program:
    summed, leaf_model = only_trees(posterior), posterior.leaf
    binner = columns_of(posterior, summed.batch)
    nodes, root, leaf = _flat(summed.batch, binner)
    value = summed.value[leaf][:, None]
    output = np.arange(len(root)) // summed.n_summed % summed.n_sums
    by_draw = np.arange(summed.n_draws + 1) * summed.n_sums * summed.n_summed
    start = np.array(posterior.offset, dtype=np.float64)
    link: Link = "logistic"
    if isinstance(leaf_model, NormalLeaf):  # the mean of sums is one sum
        value = value * (leaf_model.scale / summed.n_draws)
        start, by_draw, link = np.array([leaf_model.location]), by_draw[[0, -1]], "average"
    elif leaf_model.n_outputs == 1:  # the only class is certain
        value, start, by_draw, link = value * 0.0, np.ones(1), by_draw[[0, -1]], "average"
        output = np.zeros_like(output)
    elif summed.n_sums > 1:
        link = "softmax"
    labels = labels_of(posterior)
    return Program(binner, labels, nodes, root, output, by_draw, value, start, link, 1.0)


def _flat(trees: TreeBatch, binner: Binner) -> tuple[Nodes, Int64s, tuple[Int64s, Int64s]]:
    """Nodes of all trees in a row, the root of each, and tree and node of each leaf."""
    used = np.arange(trees.feature.shape[1]) < trees.n_nodes[:, None]
    root = np.cumsum(trees.n_nodes, dtype=np.int64) - trees.n_nodes
    inner = trees.feature[used] >= 0
    tree, node = np.nonzero(used)
    pairs = np.stack([trees.feature[used][inner], trees.cut[used][inner]])
    known, place = np.unique(pairs, axis=1, return_inverse=True)
    tests = [_test(binner, int(f), int(j)) for f, j in known.T]
    column, test, number = (
        (np.array(part) for part in zip(*tests, strict=True))
        if tests
        else (np.zeros(0), np.zeros(0), np.zeros(0))
    )
    left = np.zeros(len(inner), dtype=np.int64)
    left[inner] = (trees.left[used] + root[tree])[inner]
    left[~inner] = np.arange(int((~inner).sum()))
    asked = np.full(len(inner), -1, dtype=np.int32)
    how, against = np.zeros(len(inner), dtype=np.int32), np.zeros(len(inner))
    asked[inner], how[inner], against[inner] = (
        part[place.ravel()] for part in (column, test, number)
    )
    return Nodes(asked, how, against, left), root, (tree[~inner], node[~inner])


def _test(binner: Binner, feature: int, cut: int) -> tuple[int, int, float]:
    """Column, kind and number of a split."""
    said = split_test(binner, feature, cut)
    column = int(said["column"])
    if "is_not" in said:
        return column, IS_NOT, float(binner.columns[column].categories.index(said["is_not"]))
    if "present" in said:
        return column, PRESENT, 0.0
    return column, AT_MOST, float(said.get("at_most", 0.5))
