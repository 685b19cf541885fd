"""How sure a prediction is: credible intervals, and entropy split into noise and model.

Given a tree, the class probabilities in a leaf have a Dirichlet posterior; over trees they have a
mixture of those. Both questions are answered from that mixture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, digamma, entr, ndtri

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_level
from dtgfn._support.parallel import run_serial
from dtgfn.posterior.prediction import Predictor, mean_values, sharpened
from dtgfn.trees.flat_trees import FlatTrees, WeightedTrees, average, sum_leaves

N_CELLS = 32  # of the grid, and again of each of its cells
TINY = 1e-12
NOTHING = 1e-7


@dataclass(frozen=True)
class Uncertainty:
    """Uncertainty of each row's class in nats; ``total`` = ``noise`` + ``model``, none negative.

    Attributes
    ----------
    total : float64 [n]
        Entropy of the averaged class probabilities.
    noise : float64 [n]
        Aleatoric: expected entropy if the tree and its leaf probabilities were known. More
        training rows do not remove it.
    model : float64 [n]
        Epistemic: what knowing them would tell about the class (mutual information).

    """

    total: Floats
    noise: Floats
    model: Floats


def uncertainty(predictor: Predictor, codes: Codes) -> Uncertainty:
    """Split the uncertainty of each row of codes [n, d] into noise and model.

    It is taken over the sampled trees (also where the engine knows the exact average), so that
    the parts add up.

    A bagged posterior predicts a power of the average (``Predictor.sharpness``): the total is
    the entropy of that, and noise and model keep the shares that they have without the power, which
    says how much is not known but not why.

    Parameters
    ----------
    predictor : Predictor
        ``Predictor(posterior)`` for all sampled trees, with ``tree="best"`` for the best one.
    codes : uint16 [n, d]
        Coded rows, see ``TreePosterior.encode``.

    Returns
    -------
    Uncertainty
        ``total``, ``noise`` and ``model`` of each row [n].

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import Predictor, infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> parts = uncertainty(Predictor(posterior), posterior.rows.codes[[0, 70]])
    >>> bool((parts.total == parts.noise + parts.model).all())
    True

    """
    noise_of_leaf = expected_entropy(predictor.counted.parameters)[:, None]
    weighted = predictor.weighted_trees
    both = replace(weighted, values=np.hstack([weighted.values, noise_of_leaf]))
    averaged = average(both, codes, predictor.n_jobs)
    noise = np.maximum(averaged[:, -1], 0.0)
    # Mathematically never negative; the sum is taken last so that it holds to the last digit.
    model = np.maximum(entropies(averaged[:, :-1]) - noise, 0.0)
    power = predictor.sharpness
    if power != 1:
        entropy = entropies(averaged[:, :-1], power)
        plain = noise + model
        change = np.divide(entropy, plain, out=np.ones_like(plain), where=plain > 0)
        noise, model = noise * change, model * change
    return Uncertainty(total=noise + model, noise=noise, model=model)


def entropies(probability: Floats, power: float = 1.0) -> Floats:
    """Entropy of a power of each row of probabilities [n, C] -> [n], some rows at a time."""
    out = np.empty(len(probability))

    def work(first: int, last: int) -> None:
        out[first:last] = entr(sharpened(probability[first:last], power)).sum(axis=1)

    run_serial(work, len(out))
    return out


def expected_entropy(parameters: Floats) -> Floats:
    """Mean entropy of class probabilities with Dirichlet posteriors [L, C] -> [L].

    It is digamma(A + 1) - sum_c (a_c / A) digamma(a_c + 1), with A the sum of the parameters a.

    >>> expected_entropy(np.array([[1.0, 1.0]]))
    array([0.5])
    """
    total = parameters.sum(axis=1)
    within = (mean_values(parameters) * digamma(parameters + 1)).sum(axis=1)
    return np.asarray(digamma(total + 1) - within)


def credible_interval(
    predictor: Predictor, codes: Codes, level: float = 0.9
) -> tuple[Floats, Floats]:
    """Bounds [n, C], [n, C] that hold each P(class | x) with probability ``level``.

    As much of the probability is below the lower as above the upper bound. In each tree's leaf
    P(class | x) has a Beta posterior; the distribution function of their mixture is exact on a
    grid of 1024 cells (evenly spaced in arcsin sqrt p) and interpolated within a cell.

    The bounds are for what the trees say. A bagged posterior sharpens their average, not what each
    of them says: its bounds are those of the probabilities before that, and a prediction that was
    sharpened may lie outside.

    Parameters
    ----------
    predictor : Predictor
        ``Predictor(posterior)`` for all sampled trees, with ``tree="best"`` for the best one.
    codes : uint16 [n, d]
        Coded rows, see ``TreePosterior.encode``.
    level : float
        Probability between the bounds.

    Returns
    -------
    tuple of float64 [n, C]
        Lower and upper bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import Predictor, infer
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, random_state=0)
    >>> best = Predictor(posterior, tree="best")
    >>> lower, upper = credible_interval(best, posterior.rows.codes[:1])
    >>> lower.round(3), upper.round(3)
    (array([[0.979, 0.   , 0.   ]]), array([[1.   , 0.012, 0.012]]))

    """
    check_level(level)
    n_classes = predictor.counted.parameters.shape[1]
    quantiles = np.array([(1 - level) / 2, (1 + level) / 2])
    bounds = np.ones((2, len(codes), n_classes))
    # The second of two classes mirrors the first, and a single class is certain.
    for c in range(n_classes if n_classes > 2 else n_classes - 1):
        bounds[:, :, c] = _class_quantiles(predictor, c, codes, quantiles)
    if n_classes == 2:
        bounds[:, :, 1] = 1 - bounds[::-1, :, 0]
    return bounds[0], bounds[1]


def _class_quantiles(predictor: Predictor, c: int, codes: Codes, quantiles: Floats) -> Floats:
    """Quantiles [Q] of P(class c | x) for each row -> [Q, n]: a coarse cell first, then within."""
    parameters, weighted = predictor.counted.parameters, predictor.weighted_trees
    pairs = np.column_stack([parameters[:, c], parameters.sum(axis=1) - parameters[:, c]])
    pairs, member = np.unique(pairs, axis=0, return_inverse=True)
    # Equal leaves share one distribution.
    trees = weighted.trees._replace(leaf=member.ravel().astype(np.uint32)[weighted.trees.leaf])
    angles = np.linspace(0, np.pi / 2, N_CELLS + 1)
    coarse = _mixture(trees, weighted.weights, pairs, codes, angles, predictor.n_jobs)
    found = np.empty((len(quantiles), len(codes)))
    for q, quantile in enumerate(quantiles):
        cell = _cells(coarse, quantile)
        for here in np.unique(cell):
            rows = np.flatnonzero(cell == here)
            within = np.linspace(angles[here], angles[here + 1], N_CELLS + 1)
            some = codes[rows]
            fine = _mixture(trees, weighted.weights, pairs, some, within, predictor.n_jobs)
            found[q, rows] = _invert(fine, quantile, within)
    return found


def _mixture(
    trees: FlatTrees,
    weights: Floats,
    pairs: Floats,
    codes: Codes,
    angles: Floats,
    n_jobs: int | None,
) -> Floats:
    """P(p <= sin^2 angle) [n, G] where p has one of the Beta posteriors [V, 2] in each leaf."""
    reached = sum_leaves(trees, codes, np.ones((len(codes), 1)), n_jobs)[: len(pairs), 0] > 0
    table = np.zeros((len(pairs), len(angles)))
    a, b, p = pairs[reached, :1], pairs[reached, 1:], np.sin(angles) ** 2
    low, high = betainc(a, b, p[:1]), betainc(a, b, p[-1:])
    # Most leaves are sure that p is not in a small cell: nothing to be computed there.
    rises = (high - low > NOTHING).ravel()
    within = np.repeat(low, len(angles), axis=1)
    within[rises] = betainc(a[rises], b[rises], p)
    table[reached] = within
    return average(WeightedTrees(trees, table, weights), codes, n_jobs)


def _cells(cumulative: Floats, quantile: float) -> npt.NDArray[np.int64]:
    """Cell of the grid in which distribution functions [n, G] reach the quantile [n]."""
    return np.asarray(np.clip((cumulative < quantile).sum(axis=1), 1, N_CELLS) - 1)


def _invert(cumulative: Floats, quantile: float, angles: Floats) -> Floats:
    """Probability [n] at which distribution functions on the grid [n, G] reach the quantile.

    Between neighbours the normal score of the function is taken to be linear in the angle, which
    it is for a leaf of many rows.
    """
    row, cell = np.arange(len(cumulative)), _cells(cumulative, quantile)
    low, high = (ndtri(np.clip(cumulative[row, cell + k], TINY, 1 - TINY)) for k in (0, 1))
    gap = high - low
    share = np.divide(ndtri(quantile) - low, gap, out=np.ones(len(row)), where=gap > 0)
    angle = angles[cell] + np.clip(share, 0, 1) * (angles[cell + 1] - angles[cell])
    return np.asarray(np.sin(angle) ** 2)
