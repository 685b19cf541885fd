"""One tree that stands for a model: the most probable one, or the one that predicts most like it.

By prediction the model is the teacher: every training row is labelled with what the model says of
it (class probabilities, or a number), and of all trees (``tree_search``) that with the least
expected log loss is wanted. Its leaves say what the model says of their rows on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_choice, check_count
from dtgfn.explain.posterior_columns import columns_of, labels_of
from dtgfn.explain.tree_search import Taught, search_tree
from dtgfn.explain.tree_set import TreeSet, take_trees, tree_set_text
from dtgfn.export.formats import export
from dtgfn.posterior.node_values import predicted
from dtgfn.posterior.of_model import Posterior, leaf_of, posterior_of
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, node_sums, route
from dtgfn.trees.equivalent_cuts import equivalent_cuts, log_n_equivalent
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import log_reward

WAYS = ("prediction", "probability")
TEACHERS = (None, "posterior", "ensemble")
SPLIT_NATS = 1.0  # what a split must gain over all rows where no limit is given
MOST_SPLITS = 31  # of a tree that is to be read
DEEPEST = 8  # of a tree that stands for a sum of trees
LOOKED_AT = 1000  # of the most probable trees, for one that is small enough
MOST_ROWS = 20_000  # that a tree is searched on


class Teaching(NamedTuple):
    """What a model says of its training rows.

    ``value`` [n, K] is what it predicts, ``variance`` that of a new number on average (None for
    classes).
    """

    value: Floats
    variance: float | None


@dataclass(frozen=True, eq=False, repr=False)
class OneTree:
    """One tree that stands for a model.

    Attributes
    ----------
    tree_set : TreeSet
        The tree, its columns and what every node says.
    by, of : str
        What it was chosen by, "probability" or "prediction", and what it stands for, "posterior" or
        "ensemble".
    fidelity : float
        Share of the training rows on which it predicts the class that the model predicts; of
        numbers the share of the variance of the model's predictions that it explains.
    cost_nats : float
        By how much its log loss is expected to be higher than the model's, on average over the
        training rows, if the model is right: KL(model || tree). Of numbers, by the squared distance
        of the means and the model's own variance.
    probability : float or None
        Posterior probability of the tree and those that part the rows alike; None if not known.
    search : str
        How it was found, in words.

    """

    tree_set: TreeSet
    by: str
    of: str
    fidelity: float
    cost_nats: float
    probability: float | None
    search: str

    @property
    def tree(self) -> TreeBatch:
        """The tree, a batch of one."""
        return self.tree_set.trees

    @property
    def n_splits(self) -> int:
        """How many splits it has."""
        return int(self.tree.n_splits[0])

    def __repr__(self) -> str:
        return f"OneTree({self.n_splits} splits, by {self.by}: {self.verdict})"

    def __str__(self) -> str:
        return f"{self.describe()}\n{self.verdict}"

    @property
    def verdict(self) -> str:
        """How well it stands for the model, in one sentence."""
        if self.tree_set.classes is None:
            said = f"explains {_share(self.fidelity)} of the variance of the model's predictions"
        else:
            said = f"agrees with the model on {_share(self.fidelity)} of the training rows"
        known = "" if self.probability is None else f"; its probability is {self.probability:.2g}"
        return f"{said}, costs {self.cost_nats:.2g} nats a row{known} ({self.search})"

    def describe(self) -> str:
        """Write the tree as nested rules in the user's units."""
        return tree_set_text(self.tree_set)

    def predict_proba(self, X: Any) -> Floats:
        """Probability of each class [n, C] for rows of a table.

        Parameters
        ----------
        X : table
            With the training columns.

        Returns
        -------
        float64 [n, C]
            What the leaf of each row says.

        """
        if self.tree_set.classes is None:
            raise AttributeError("This tree predicts numbers; use predict.")
        return self.tree_set.average(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class, or the number, for rows of a table.

        Parameters
        ----------
        X : table
            With the training columns.

        Returns
        -------
        array [n]
            Labels or numbers.

        """
        value = self.tree_set.average(X)
        if self.tree_set.classes is None:
            return value[:, 0]
        return np.asarray(self.tree_set.classes[value.argmax(axis=1)])

    def export(self, format: str, *, path: str | Path | None = None, **options: Any) -> Any:
        """Write the tree for another program, see ``dtgfn.export``.

        Parameters
        ----------
        format : str
            Such as "text", "dot", "json" or "onnx".
        path : path or None
            File to write.
        **options
            Of the format.

        Returns
        -------
        object
            What the format gives.

        """
        return export(self.tree_set, format, path=path, **options)


def one_tree(
    source: Any, max_splits: int | None = None, by: str = "prediction", of: str | None = None
) -> OneTree:
    """Find the tree that stands for a posterior or a fitted model.

    Parameters
    ----------
    source : posterior or fitted model
        Of single trees, bags or sums of trees.
    max_splits : int or None
        How many splits it may have. None: by probability as many as the most probable tree has; by
        prediction each split must gain a nat over all rows, and there are at most 31.
    by : {"prediction", "probability"}
        The tree with the least expected log loss against the model's own predictions, searched
        among all trees; or the most probable one, which a sum of trees does not have.
    of : {"posterior", "ensemble"} or None
        What it stands for: the average over a posterior of single trees, or bags or sums of trees;
        None is what the model is.

    Returns
    -------
    OneTree
        To be printed, to predict, to be exported, with its fidelity.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=2, n_thresholds=3)
    >>> print(one_tree(posterior, max_splits=1).describe())
    if x0 <= 5  [3 to 7]
        no  0.990  (10 rows)
    else (x0 > 5)
        yes  0.990  (10 rows)

    """
    check_choice("by", by, WAYS)
    check_choice("of", of, TEACHERS)
    if max_splits is not None:
        max_splits = check_count("max_splits", max_splits)
    posterior = posterior_of(source)
    single = None if isinstance(posterior, SumPosterior) else posterior
    kind = "ensemble" if single is None or single.is_bagged else "posterior"
    if of == "posterior" and kind == "ensemble":
        raise ValueError("of='posterior' is for single trees, but this model is an ensemble.")
    if single is None and by == "probability":
        raise ValueError(
            "by='probability': a sum of trees gives single trees no probability; give "
            "by='prediction', or fit with ensemble=None."
        )
    leaf = leaf_of(posterior)
    if by == "prediction" and not isinstance(leaf, DirichletLeaf | NormalLeaf):
        raise ValueError("by='prediction' is for classes and numbers; give by='probability'.")
    teaching = _teach(source, posterior)
    if by == "probability":
        assert single is not None, "sums were refused"
        tree, search = _most_probable(single, max_splits)
        chosen = take_trees(single, tree)
    else:
        tree, search = _nearest(posterior, teaching, max_splits)
        chosen = _taught_set(posterior, tree, teaching)
    fidelity, cost = _compare(chosen, posterior, teaching)
    probability = None if single is None else _probability(single, tree)
    return OneTree(chosen, by, of or kind, fidelity, cost, probability, search)


def _share(fidelity: float) -> str:
    """Write a share in per cent; one that is not whole is never said to be.

    >>> _share(0.964), _share(0.9965), _share(1.0)
    ('96%', 'more than 99%', '100%')
    """
    return "more than 99%" if 0.995 <= fidelity < 1.0 else f"{fidelity:.0%}"


def _teach(source: Any, posterior: Posterior) -> Teaching:
    """Ask the model about its training rows."""
    codes, leaf = posterior.rows.codes, leaf_of(posterior)
    if isinstance(posterior, SumPosterior):
        said = SumPredictor(posterior, getattr(source, "n_jobs", None)).average(codes)
        if posterior.is_of_classes:
            return Teaching(said, None)
        assert isinstance(leaf, NormalLeaf), "sums are of classes or numbers"
        return Teaching(said[:, None], float(posterior.noise.mean()) * leaf.scale**2)
    weighting = getattr(source, "weighting", "importance")
    outputs = Predictor(posterior, weighting, None, getattr(source, "n_jobs", None)).average(codes)
    if not isinstance(leaf, NormalLeaf):
        return Teaching(outputs, None)
    variance = (outputs[:, 3] - outputs[:, 1] ** 2) * leaf.scale**2
    return Teaching(predicted(leaf, outputs), float(np.average(variance)))


def _most_probable(posterior: TreePosterior, max_splits: int | None) -> tuple[TreeBatch, str]:
    """The most probable tree, or the first that is small enough."""
    if max_splits is None or posterior.best_tree.n_splits[0] <= max_splits:
        return posterior.best_tree, "the most probable tree"
    found = posterior.most_probable(LOOKED_AT)
    small = np.flatnonzero(found.trees.n_splits <= max_splits)
    if not small.size:
        raise ValueError(
            f"max_splits={max_splits}: none of the {len(found):,} most probable trees is so small; "
            "give by='prediction', or a larger max_splits."
        )
    limit = f"of at most {max_splits} splits"
    return found.trees[small[:1]], f"the most probable tree {limit}"


def _nearest(
    posterior: Posterior, teaching: Teaching, max_splits: int | None
) -> tuple[TreeBatch, str]:
    """The tree that predicts most like the teacher, and how it was searched."""
    rows = posterior.rows
    deepest = DEEPEST if isinstance(posterior, SumPosterior) else posterior.score.max_depth
    some = np.arange(len(rows.codes))
    if len(some) > MOST_ROWS:
        some = np.sort(np.random.default_rng(0).choice(some, MOST_ROWS, replace=False))
    weight = rows.weight[some, None] * (rows.weight.sum() / rows.weight[some].sum())
    sums, scale = _sums(teaching, weight, some)
    penalty = SPLIT_NATS / scale if max_splits is None else 0.0
    limit = MOST_SPLITS if max_splits is None else max_splits
    taught = Taught(rows.codes[some], sums, teaching.variance is None)
    found = search_tree(taught, limit, deepest, penalty)
    how = "of all trees" if found.complete else "that a beam search over all trees found"
    return found.tree, f"the nearest {how}"


def _sums(teaching: Teaching, weight: Floats, some: npt.NDArray[np.int64]) -> tuple[Floats, float]:
    """What is summed over the rows of a leaf [n, K], and how many nats one of its loss is worth."""
    value = teaching.value[some]
    if teaching.variance is None:
        return np.ascontiguousarray(weight * value), 1.0
    centred = value - value.mean()
    sums = np.hstack([weight, weight * centred, weight * centred**2])
    return np.ascontiguousarray(sums), 0.5 / max(teaching.variance, 1e-300)


def _taught_set(posterior: Posterior, tree: TreeBatch, teaching: Teaching) -> TreeSet:
    """The tree with what the teacher says at its nodes."""
    rows, leaf = posterior.rows, leaf_of(posterior)
    mean, weight = _node_means(tree, rows.codes, rows.weight, teaching.value)
    counts = spread = None
    if isinstance(leaf, DirichletLeaf):
        counts, _ = node_sums(tree, rows.codes, rows.target, rows.weight, leaf)
    else:
        second, _ = _node_means(tree, rows.codes, rows.weight, teaching.value**2)
        own = np.maximum(second - mean**2, 0.0)[..., 0] + (teaching.variance or 0.0)
        spread = np.sqrt(own)
    return TreeSet(
        tree,
        np.ones(1),
        mean,
        weight,
        counts,
        spread,
        binner=columns_of(posterior, tree),
        classes=labels_of(posterior),
        alike=equivalent_cuts(tree, rows.codes),
    )


def _node_means(
    tree: TreeBatch, codes: Codes, weight: Floats, value: Floats
) -> tuple[Floats, Floats]:
    """Weighted mean [1, N, K] of values [n, K] of the rows at every node, and their weight."""
    n_nodes = tree.feature.shape[1]
    total, mass = np.zeros((n_nodes, value.shape[1])), np.zeros(n_nodes)
    leaves = route(tree, codes)[0]
    np.add.at(total, leaves, weight[:, None] * value)
    np.add.at(mass, leaves, weight)
    for node in range(int(tree.n_nodes[0]) - 1, -1, -1):  # children come after parents
        if tree.feature[0, node] >= 0:
            child = int(tree.left[0, node])
            total[node] = total[child] + total[child + 1]
            mass[node] = mass[child] + mass[child + 1]
    return (total / np.maximum(mass, 1e-300)[:, None])[None], mass[None]


def _compare(chosen: TreeSet, posterior: Posterior, teaching: Teaching) -> tuple[float, float]:
    """Fidelity to the teacher and cost in nats, over the training rows."""
    rows = posterior.rows
    said = chosen.value[0][route(chosen.trees, rows.codes)[0]]
    taught = teaching.value
    if teaching.variance is None:
        agrees = said.argmax(axis=1) == taught.argmax(axis=1)
        tiny = np.finfo(float).tiny
        nats = (xlogy(taught, taught) - xlogy(taught, np.maximum(said, tiny))).sum(axis=1)
        weighted = [float(np.average(part, weights=rows.weight)) for part in (agrees, nats)]
        return weighted[0], max(weighted[1], 0.0)
    off = float(np.average((said - taught)[:, 0] ** 2, weights=rows.weight))
    mean = np.average(taught[:, 0], weights=rows.weight)
    whole = float(np.average((taught[:, 0] - mean) ** 2, weights=rows.weight))
    fidelity = 1.0 if whole <= 0.0 else 1.0 - off / whole
    return fidelity, off / (2.0 * max(teaching.variance, 1e-300))


def _probability(posterior: TreePosterior, tree: TreeBatch) -> float | None:
    """Posterior probability of a tree and its equivalents, where the evidence is known."""
    if math.isnan(posterior.log_evidence):
        return None
    reward = float(log_reward(tree, posterior.rows, posterior.score)[0])
    number = float(log_n_equivalent(equivalent_cuts(tree, posterior.rows.codes))[0])
    log_mass = reward / posterior.score.temperature + number
    return math.exp(min(log_mass - posterior.log_evidence, 0.0))
