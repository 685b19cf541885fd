"""From a posterior to predictions of new rows: weights of trees, values of leaves.

Counting the training rows in the leaves is the expensive part; ``count_trees`` does it once, and
what it returns can be handed to every function here and in ``uncertainty``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_choice
from dtgfn.posterior.tree_posterior import ModelAverage, TreePosterior
from dtgfn.trees.batch import TreeBatch, canonical_keys, node_sums
from dtgfn.trees.forest import FlatTrees, Forest, average, flatten, leaf_sums
from dtgfn.trees.leaves import DirichletLeaf, LeafModel, outputs_of
from dtgfn.trees.routing import as_codes
from dtgfn.trees.score import Rows, Score

WEIGHTINGS = ("uniform", "importance", "posterior")
LEAVES = ("mean", "dirichlet")
RandomState = int | np.random.Generator | None


@dataclass(frozen=True)
class CountedTrees:
    """The distinct trees among B draws, with what the training rows say in their leaves.

    Attributes
    ----------
    trees : FlatTrees
        D distinct trees with L leaves.
    sums : float64 [L, K]
        The leaf model's sums over the training rows in each leaf, such as class counts.
    member : int64 [B]
        Which of the D trees each draw is.
    leaf : LeafModel

    """

    trees: FlatTrees
    sums: Floats
    member: npt.NDArray[np.int64]
    leaf: LeafModel

    @property
    def parameters(self) -> Floats:
        """Dirichlet parameters n + a of the class probabilities in each leaf [L, C]."""
        if not isinstance(self.leaf, DirichletLeaf):
            raise TypeError(
                f"Leaves are {type(self.leaf).__name__}, not classes; fit a DTGFNClassifier."
            )
        return self.sums + self.leaf.concentration

    @property
    def outputs(self) -> Floats:
        """What each leaf predicts [L, J]."""
        out = np.empty((len(self.sums), self.leaf.n_outputs))
        outputs_of(self.sums, self.leaf.terms(), out)
        return out


def average_outputs(
    posterior: TreePosterior,
    codes: Codes,
    *,
    weighting: str = "importance",
    leaf: str = "mean",
    tree: str | None = None,
    random_state: RandomState = None,
    counted: CountedTrees | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """Average what leaves predict for rows of codes [n, d]: P(y | x, D) [n, C] for classes.

    With nothing but defaults it is the exact average where the engine has one; else it is the
    average over sampled trees, see ``make_forest`` for what can be chosen, and ``sharpness`` for
    what is made of it where the posterior is bagged.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees, weights and training rows.
    codes : uint16 [n, d]
        Coded rows, see ``TreePosterior.encode``.
    weighting : {"uniform", "importance", "posterior"}
        Weights of the sampled trees.
    leaf : {"mean", "dirichlet"}
        What a leaf predicts: its mean, or a draw of its class probabilities.
    tree : None or "best"
        All sampled trees, or the best one known alone.
    random_state : int, Generator or None
        Seed of the Dirichlet draws.
    counted : CountedTrees or None
        What ``count_trees(posterior, tree)`` gave, if it was kept.
    n_jobs : int or None
        Threads, all cores if None or -1.

    Returns
    -------
    float64 [n, C]
        Class probabilities, or what the leaf model gives.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> average_outputs(posterior, posterior.encode(X[:1]), tree="best").round(3)
    array([[0.996, 0.002, 0.002]])

    """
    n_features = posterior.rows.codes.shape[1]
    codes = as_codes(codes, n_features)
    if codes.shape[1] != n_features:
        raise ValueError(
            f"codes have {codes.shape[1]} columns, but the training rows have {n_features}; "
            "posterior.encode(X) makes codes of a table X."
        )
    if knows_average(posterior, weighting=weighting, leaf=leaf, tree=tree):
        return posterior.solution.average(codes)  # type: ignore[union-attr]
    forest = make_forest(
        posterior,
        weighting=weighting,
        leaf=leaf,
        tree=tree,
        random_state=random_state,
        counted=counted,
        n_jobs=n_jobs,
    )
    power = sharpness(posterior, weighting=weighting, leaf=leaf, tree=tree)
    return sharpened(average(forest, codes, n_jobs), power)


def knows_average(
    posterior: TreePosterior,
    *,
    weighting: str = "importance",
    leaf: str = "mean",
    tree: str | None = None,
) -> bool:
    """Whether the engine's own exact average is what was asked for."""
    default = weighting == "importance" and leaf == "mean" and tree is None
    return default and isinstance(posterior.solution, ModelAverage)


def sharpness(
    posterior: TreePosterior,
    *,
    weighting: str = "importance",
    leaf: str = "mean",
    tree: str | None = None,
) -> float:
    """Power of the average over trees: a bagged posterior has chosen one, for any other it is 1.

    It was chosen for the even average of all trees, which "importance" and "uniform" both are. One
    tree, draws of leaf probabilities and the weights "posterior" are taken as they are.
    """
    even = weighting in ("importance", "uniform") and leaf == "mean" and tree is None
    return float(getattr(posterior.solution, "sharpness", 1.0)) if even else 1.0


def sharpened(probability: Floats, power: float) -> Floats:
    """Power of probabilities [n, C], normalised.

    >>> sharpened(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.941, 0.059]]
    """
    if power == 1:
        return probability
    raised = (probability / probability.max(axis=1, keepdims=True)) ** power
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def make_forest(
    posterior: TreePosterior,
    *,
    weighting: str = "importance",
    leaf: str = "mean",
    tree: str | None = None,
    random_state: RandomState = None,
    counted: CountedTrees | None = None,
    n_jobs: int | None = None,
) -> Forest:
    """Make ready to predict: the sampled trees, equal ones merged, with what their leaves say.

    Parameters
    ----------
    posterior : TreePosterior
        Where the trees and the training rows come from.
    weighting : {"uniform", "importance", "posterior"}
        Weights of the sampled trees, see ``tree_weights``.
    leaf : {"mean", "dirichlet"}
        What a leaf predicts: the mean, for classes (n_c + a) / (n + C a), or, as in the paper, one
        draw of its class probabilities' Dirichlet posterior for each leaf of each sampled tree.
    tree : None or "best"
        All sampled trees, or the best one known alone.
    random_state : int, Generator or None
        Seed of the Dirichlet draws.
    counted : CountedTrees or None
        What ``count_trees(posterior, tree)`` gave, if it was kept.
    n_jobs : int or None
        Threads that count training rows, all cores if None or -1.

    Returns
    -------
    Forest
        What ``average`` takes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> forest = make_forest(posterior, weighting="uniform")
    >>> average(forest, posterior.rows.codes[:1]).shape
    (1, 3)

    """
    check_choice("leaf", leaf, LEAVES)
    weight = _draw_weights(posterior, weighting, tree)
    counted = count_trees(posterior, tree, n_jobs) if counted is None else counted
    if leaf == "mean":
        values = counted.outputs
    else:
        values = _drawn_values(counted, weight, np.random.default_rng(random_state))
    return Forest(counted.trees, values, merge_weights(counted, weight))


def tree_weights(posterior: TreePosterior, weighting: str) -> Floats:
    """Weights [B] of the sampled trees, which sum to one.

    "uniform"
        All draws are equal: right if they come from the posterior itself.
    "importance"
        R^(1/temperature) / P_F, right for any sampler that knows how it draws; engines that
        draw from the posterior itself have equal weights here too.
    "posterior"
        The paper's Algorithm 1: R^(1/temperature) over the *set* of sampled trees. Each distinct
        tree counts once however often it was drawn (its copies share its weight), since the
        algorithm's normaliser, the evidence, is a sum over trees and not over draws.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_trees=4)
    >>> tree_weights(posterior, "uniform")
    array([0.25, 0.25, 0.25, 0.25])

    """
    check_choice("weighting", weighting, WEIGHTINGS)
    if weighting == "importance":
        return posterior.weights
    if weighting == "uniform":
        return np.full(len(posterior.trees), 1 / len(posterior.trees))
    _, member = distinct_trees(posterior.trees)
    reward = posterior.log_reward / posterior.score.temperature
    weight = np.exp(reward - reward.max()) / np.bincount(member)[member]
    return np.asarray(weight / weight.sum())


def count_trees(
    posterior: TreePosterior, tree: str | None = None, n_jobs: int | None = None
) -> CountedTrees:
    """Find the distinct trees of a posterior and count the training rows in their leaves.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees, weights and training rows.
    tree : None or "best"
        All sampled trees, or the best one known alone.
    n_jobs : int or None
        Threads, all cores if None or -1.

    Returns
    -------
    CountedTrees
        The trees, and what their leaves hold.

    """
    check_choice("tree", tree, (None, "best"))
    trees = posterior.trees if tree is None else posterior.best_tree
    return _count(trees, posterior.rows, posterior.score, n_jobs)


def merge_weights(counted: CountedTrees, weight: Floats) -> Floats:
    """Sum the weights of draws [B] over the copies of each distinct tree [D]."""
    return np.bincount(counted.member, weights=weight).astype(np.float64)


def mean_values(parameters: Floats) -> Floats:
    """Mean of Dirichlet distributions [L, C]."""
    return np.asarray(parameters / parameters.sum(axis=-1, keepdims=True))


def distinct_trees(trees: TreeBatch) -> tuple[list[int], npt.NDArray[np.int64]]:
    """Return where each distinct tree comes first [D], and which of them each tree is [B]."""
    place: dict[bytes, int] = {}
    first: list[int] = []
    member = np.empty(len(trees), dtype=np.int64)
    for b, key in enumerate(canonical_keys(trees)):
        if key not in place:
            place[key] = len(place)
            first.append(b)
        member[b] = place[key]
    return first, member


def leaf_probabilities(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """What every node predicts as a leaf [B, N, J], from training rows only."""
    sums, _ = node_sums(trees, rows.codes, rows.target, rows.weight, score.leaf)
    out = np.empty((sums.shape[0] * sums.shape[1], score.leaf.n_outputs))
    outputs_of(sums.reshape(-1, sums.shape[-1]), score.leaf.terms(), out)
    return out.reshape(*sums.shape[:-1], -1)


def average_trees(
    trees: TreeBatch,
    weights: Floats,
    rows: Rows,
    score: Score,
    codes: Codes,
    n_jobs: int | None = None,
) -> Floats:
    """Average the leaf probabilities of trees [B] with weights [B] for rows of codes [n, d]."""
    return average(weighted_forest(trees, weights, rows, score, n_jobs), codes, n_jobs)


def weighted_forest(
    trees: TreeBatch, weights: Floats, rows: Rows, score: Score, n_jobs: int | None = None
) -> Forest:
    """Trees [B] with weights [B], equal ones merged, and what their leaves predict."""
    counted = _count(trees, rows, score, n_jobs)
    return Forest(counted.trees, counted.outputs, merge_weights(counted, weights))


def _count(trees: TreeBatch, rows: Rows, score: Score, n_jobs: int | None) -> CountedTrees:
    first, member = distinct_trees(trees)
    flat = flatten(trees[first])
    sums = leaf_sums(flat, rows.codes, rows.target, rows.weight, score.leaf, n_jobs)
    return CountedTrees(flat, sums, member, score.leaf)


def _draw_weights(posterior: TreePosterior, weighting: str, tree: str | None) -> Floats:
    """Weights of the draws that ``count_trees`` looks at."""
    check_choice("tree", tree, (None, "best"))
    check_choice("weighting", weighting, WEIGHTINGS)
    return np.ones(1) if tree == "best" else tree_weights(posterior, weighting)


def _drawn_values(counted: CountedTrees, weight: Floats, rng: np.random.Generator) -> Floats:
    """One Dirichlet draw per leaf and draw of a tree, averaged over the copies of a tree [L, C]."""
    copies = np.bincount(counted.member)
    merged = merge_weights(counted, weight)[counted.member]
    # Copies whose weights vanish share evenly, so that no leaf is 0 / 0.
    share = np.divide(weight, merged, out=1 / copies[counted.member], where=merged > 0)
    first = counted.trees.first_leaf
    parameters = counted.parameters
    values = np.zeros(parameters.shape)
    for tree, part in zip(counted.member, share, strict=True):
        leaves = slice(first[tree], first[tree + 1])
        values[leaves] += part * draw_dirichlet(parameters[leaves], rng)
    return values


def draw_dirichlet(parameters: Floats, rng: np.random.Generator) -> Floats:
    """One draw for each row of parameters [L, C], also where they are so small that gammas vanish.

    >>> draw_dirichlet(np.full((1, 2), 1e-6), np.random.default_rng(0)).sum(axis=1)
    array([1.])
    """
    # A gamma variable of shape a is one of shape a + 1 times uniform^(1 / a).
    log_gamma = np.log(rng.standard_gamma(parameters + 1))
    log_gamma -= rng.standard_exponential(parameters.shape) / parameters
    draw = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return mean_values(draw)
