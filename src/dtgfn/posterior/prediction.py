"""Predictor: a posterior made ready to predict new rows, and the averages that it gives.

Counting the training rows in the leaves is the expensive part. A Predictor does it once; what is
asked of it here, in ``uncertainty``, ``moments`` and ``label_shift`` shares the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from dtgfn._support.arrays import Codes, Floats, Int64s
from dtgfn._support.checks import check_choice
from dtgfn.data.binning import as_codes
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import ModelAverage, TreePosterior
from dtgfn.trees.batch import TreeBatch, distinct_trees
from dtgfn.trees.flat_trees import FlatTrees, WeightedTrees, average, flatten, leaf_sums
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, outputs_of
from dtgfn.trees.left_out_rows import LeftOutRows, sums_at_leaves, sums_at_nodes
from dtgfn.trees.score import Rows, Score

WEIGHTINGS = ("uniform", "importance", "posterior")
TREES = (None, "best", "paper")
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
    member: Int64s
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

    def merge(self, weight: Floats) -> Floats:
        """Sum the weights of draws [B] over the copies of each distinct tree [D]."""
        return np.bincount(self.member, weights=weight).astype(np.float64)


def count_trees(
    trees: TreeBatch, rows: Rows, score: Score, n_jobs: int | None = None
) -> CountedTrees:
    """Find the distinct trees among draws [B] and count the training rows in their leaves."""
    first, member = distinct_trees(trees)
    flat = flatten(trees[first])
    if isinstance(rows, LeftOutRows):
        known = sums_at_leaves(trees[first], rows, score.leaf)
        return CountedTrees(flat, known, member, score.leaf)
    sums = leaf_sums(flat, rows.codes, rows.target, rows.weight, score.leaf, n_jobs)
    return CountedTrees(flat, sums, member, score.leaf)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A posterior made ready to predict; each part is made once, when it is first asked for.

    Parameters
    ----------
    posterior : TreePosterior
        Where the trees and the training rows come from.
    weighting : {"uniform", "importance", "posterior"}
        Weights of the sampled trees, see ``tree_weights``.
    tree : None, "best" or "paper"
        All sampled trees; the most probable tree alone; or the single tree with the highest log R,
        as in the paper.
    n_jobs : int or None
        Threads, all cores if None or -1; results do not depend on it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> Predictor(posterior, tree="best").average(posterior.encode(X[:1])).round(3)
    array([[0.996, 0.002, 0.002]])

    """

    posterior: TreePosterior
    weighting: str = "importance"
    tree: str | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.posterior, SumPosterior):
            raise TypeError("A Predictor is of single trees; make a SumPredictor of sums of trees.")
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_choice("tree", self.tree, TREES)

    def is_of(
        self, posterior: TreePosterior, weighting: str, tree: str | None, n_jobs: int | None
    ) -> bool:
        """Whether it was made of just these."""
        same = self.weighting == weighting and self.tree == tree and self.n_jobs == n_jobs
        return same and self.posterior is posterior

    @cached_property
    def knows_average(self) -> bool:
        """Whether the engine's own exact average is what is asked for."""
        return self.posterior.is_exact and self.weighting == "importance" and self.tree is None

    @cached_property
    def sharpness(self) -> float:
        """Sharpness of the average over trees: bags have chosen one, otherwise it is 1.

        It was chosen for the even average of all trees, which "importance" and "uniform" both are.
        One tree and the weights "posterior" are taken as they are.
        """
        even = self.weighting in ("importance", "uniform") and self.tree is None
        return self.posterior.sharpness if even else 1.0

    @cached_property
    def counted(self) -> CountedTrees:
        """The distinct trees, with what the training rows say in their leaves."""
        found = self.posterior
        trees = found.trees if self.tree is None else one_tree(found, self.tree)
        return count_trees(trees, self.posterior.rows, self.posterior.score, self.n_jobs)

    @cached_property
    def draw_weights(self) -> Floats:
        """Weights [B] of the draws that are counted."""
        return np.ones(1) if self.tree else tree_weights(self.posterior, self.weighting)

    @cached_property
    def weighted_trees(self) -> WeightedTrees:
        """The distinct trees with their weights and the mean of what each leaf predicts.

        For classes that is (n_c + a) / (n + C a).
        """
        counted = self.counted
        return WeightedTrees(counted.trees, counted.outputs, counted.merge(self.draw_weights))

    def drawn_trees(self, random_state: RandomState = None) -> WeightedTrees:
        """The same trees, with class probabilities drawn as in the paper.

        Each leaf of each sampled tree says one draw of its Dirichlet posterior.
        """
        rng = np.random.default_rng(random_state)
        values = _drawn_values(self.counted, self.draw_weights, rng)
        return WeightedTrees(self.counted.trees, values, self.counted.merge(self.draw_weights))

    def average(self, codes: Codes) -> Floats:
        """Average what leaves predict for rows of codes [n, d]: P(y | x, D) [n, C] for classes.

        It is the exact average where that is known, else that of the sampled trees, as sharp as
        ``sharpness`` says.
        """
        codes = self._check_codes(codes)
        if self.knows_average:
            return cast(ModelAverage, self.posterior.solution).average(codes)
        outputs = average(self.weighted_trees, codes, self.n_jobs)
        return sharpened_outputs(outputs, self.sharpness, self.posterior.score.leaf)

    def average_draws(self, codes: Codes, random_state: RandomState = None) -> Floats:
        """Average what leaves say when each says a draw [n, C], see ``drawn_trees``."""
        return average(self.drawn_trees(random_state), self._check_codes(codes), self.n_jobs)

    def _check_codes(self, codes: Codes) -> Codes:
        n_features = self.posterior.n_features
        codes = as_codes(codes, n_features)
        if codes.shape[1] != n_features:
            raise ValueError(
                f"codes have {codes.shape[1]} columns, but the training rows have {n_features}; "
                "posterior.encode(X) makes codes of a table X."
            )
        return codes


def one_tree(posterior: TreePosterior, name: str) -> TreeBatch:
    """The tree that is called "best" or "paper", a batch of one."""
    return posterior.best_tree if name == "best" else posterior.paper_tree


def average_outputs(
    posterior: TreePosterior,
    codes: Codes,
    *,
    weighting: str = "importance",
    leaf: str = "mean",
    tree: str | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Floats:
    """Average what leaves predict for rows of codes [n, d]: P(y | x, D) [n, C] for classes.

    With nothing but defaults it is the exact average where the engine has one; else it is the
    average over sampled trees, see ``Predictor``, which one keeps to ask more than once.

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
    tree : None, "best" or "paper"
        All sampled trees; the most probable tree alone; or the single tree with the highest log R,
        as in the paper.
    random_state : int, Generator or None
        Seed of the Dirichlet draws.
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
    check_choice("leaf", leaf, LEAVES)
    predictor = Predictor(posterior, weighting, tree, n_jobs)
    if leaf == "dirichlet":
        return predictor.average_draws(codes, random_state)
    return predictor.average(codes)


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


def sharpened(probability: Floats, power: float) -> Floats:
    """Power of probabilities [n, C], normalised.

    >>> sharpened(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.941, 0.059]]
    """
    if power == 1:
        return probability
    raised = (probability / probability.max(axis=1, keepdims=True)) ** power
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def sharpened_outputs(outputs: Floats, sharpness: float, leaf: LeafModel) -> Floats:
    """What leaves predict on average [n, J], sharpened: classes to a power, numbers narrowed.

    A power s of a normal density divides its variance by s; so are the variances of numbers here.
    """
    if not isinstance(leaf, NormalLeaf):
        return sharpened(outputs, sharpness)
    if sharpness == 1:
        return outputs
    mass, mean, noise, second = outputs.T
    total = (second - mean**2) / sharpness
    return np.column_stack([mass, mean, noise / sharpness, mean**2 + total])


def leaf_probabilities(trees: TreeBatch, rows: Rows, score: Score) -> Floats:
    """What every node predicts as a leaf [B, N, J], from training rows only."""
    sums = sums_at_nodes(trees, rows, score.leaf)
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
    return average(weigh_trees(trees, weights, rows, score, n_jobs), codes, n_jobs)


def weigh_trees(
    trees: TreeBatch, weights: Floats, rows: Rows, score: Score, n_jobs: int | None = None
) -> WeightedTrees:
    """Trees [B] with weights [B], equal ones merged, and what their leaves predict."""
    counted = count_trees(trees, rows, score, n_jobs)
    return WeightedTrees(counted.trees, counted.outputs, counted.merge(weights))


def mean_values(parameters: Floats) -> Floats:
    """Mean of Dirichlet distributions [L, C]."""
    return np.asarray(parameters / parameters.sum(axis=-1, keepdims=True))


def _drawn_values(counted: CountedTrees, weight: Floats, rng: np.random.Generator) -> Floats:
    """One Dirichlet draw per leaf and draw of a tree, averaged over the copies of a tree [L, C]."""
    copies = np.bincount(counted.member)
    merged = counted.merge(weight)[counted.member]
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
