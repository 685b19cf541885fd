"""DTGFNRegressor: the posterior over trees behind scikit-learn's regressor interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_level, check_range
from dtgfn.data.targets import check_numbers
from dtgfn.data.thresholds import AnyBinning
from dtgfn.estimators.base import PosteriorEstimator, streams
from dtgfn.estimators.by_chunks import by_chunks
from dtgfn.estimators.labelled import target_name
from dtgfn.posterior.moments import Variance, moments, normal_leaf, predictive_quantiles
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.score import SplitPenalty


class DTGFNRegressor(RegressorMixin, PosteriorEstimator):  # type: ignore[misc]
    """Predict numbers by averaging over the Bayesian posterior of decision trees, or of their sums.

    A sum of trees has normal noise, so a prediction is a mixture of normal distributions over the
    draws. In a single tree a leaf's target is normal with unknown mean and variance
    (normal-inverse-gamma prior): a mixture of Student t distributions over the trees.

    Parameters
    ----------
    inference : {"gfn", "exact", "mcmc", "smc"} or None
        Engine for single trees and bags, as in ``DTGFNClassifier``; without a table of leaves to
        look up, "exact" reaches less far here.
    max_depth : int or "auto"
        Edges on the longest path of a tree; with bags "auto" chooses 3, 5 or 8.
    n_thresholds : int
        Candidate thresholds per numeric column.
    binning : {"auto", "uniform", "quantile", "midpoint"}
        Where the candidates lie, as in ``DTGFNClassifier``.
    mean_strength : float
        How many rows the prior guess of a leaf's mean, the mean of all targets, is worth.
    noise_shape : float
        How firm the prior guess of a leaf's variance is, above 1; twice this is a number of rows.
    noise_share : float
        Prior guess of a leaf's variance, as a share of the variance of all targets.
    split_penalty : "mdl", "paper", float, "bcart", ("bcart", base, decay) or "auto"
        Prior over structures, see ``dtgfn.infer``; "auto" chooses a part of "mdl" by evidence,
        with bags by rows out of bag.
    temperature : float or "auto"
        The target is R^(1/temperature); above 1 the posterior is wider. "auto" needs bags.
    ensemble : {"auto", "sum", "bags"} or None
        What predicts: sums of trees (100), bags, or the posterior over single trees, as in
        ``DTGFNClassifier``; "auto" is a sum, or single trees if a parameter is set that only these
        have.
    weighting : {"importance", "uniform", "posterior"}
        How sampled trees are averaged: by R / P_F, which is right for every engine; all alike; or
        by R over the distinct trees, as in the paper's Algorithm 1.
    dates : "number" or None
        What columns of dates are: days since 1970-01-01, also where text spells dates (as
        2024-03-01 or 01.03.2024), or refused.
    n_trees : int
        Posterior samples kept in ``posterior_.trees``.
    time_budget : float or None
        Seconds of the whole fit, after which an exact inference gives up.
    n_jobs : int or None
        Threads, all cores if None.
    random_state : int, RandomState or None
        Seed of everything random.
    verbose : bool
        Whether to show progress.
    warm_start : bool
        Whether ``fit`` of "gfn" on the same table goes on training where the last ``fit`` ended.
    options : dict or None
        What only a researcher sets: all that the engine takes by name, as in ``DTGFNClassifier``.

    Attributes
    ----------
    posterior_ : TreePosterior
    log_evidence_ : float
        log Z, of the targets in their own units.
    best_tree_ : TreeBatch
        The most probable tree known; ``describe()`` writes it as rules.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(40.0)[:, None]
    >>> y = np.where(X[:, 0] < 20, 1.0, 5.0) + 0.1 * np.sin(7 * X[:, 0])
    >>> model = DTGFNRegressor(inference="exact", max_depth=2, n_thresholds=19).fit(X, y)
    >>> model.predict([[3.0], [33.0]]).round(1)
    array([1., 5.])

    """

    def __init__(
        self,
        *,
        inference: str | None = None,
        max_depth: int | str = 5,
        n_thresholds: int = 99,
        binning: AnyBinning = "auto",
        mean_strength: float = 0.1,
        noise_shape: float = 1.5,
        noise_share: float = 0.25,
        split_penalty: SplitPenalty = "mdl",
        temperature: float | str = 1.0,
        ensemble: str | None = "auto",
        weighting: str = "importance",
        dates: str | None = None,
        n_trees: int = 1000,
        time_budget: float | None = 60.0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        warm_start: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.inference = inference
        self.max_depth = max_depth
        self.n_thresholds = n_thresholds
        self.binning = binning
        self.mean_strength = mean_strength
        self.noise_shape = noise_shape
        self.noise_share = noise_share
        self.split_penalty = split_penalty
        self.temperature = temperature
        self.ensemble = ensemble
        self.weighting = weighting
        self.dates = dates
        self.n_trees = n_trees
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.options = options

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | str | None = None) -> Self:
        """Infer the posterior from training rows X [n, columns] and numbers y [n].

        Of a source, such as the path of a Parquet file, y and weights are names of its columns.
        """
        return self._fit(X, y, sample_weight, streamed=False)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, streamed: bool) -> Self:
        how: dict[str, Any] = {"streamed": streamed, "started": clock.monotonic()}
        how["named"] = target_name(y)
        leaf = self._leaf()
        source = self._read_source(X, y, sample_weight)
        if source is not None:
            self._infer(source, None, None, leaf, self.temperature, **how)
            return self
        table, numbers = self._read_training(X, y)
        target = check_numbers(numbers)
        self._infer(table, target, sample_weight, leaf, self.temperature, **how)
        return self

    def _leaf(self) -> NormalLeaf:
        """What leaves hold, by the prior that was asked for."""
        check_range("noise_shape", self.noise_shape, 1.001, 1e6)
        check_range("noise_share", self.noise_share, 1e-6, 1e3)
        return NormalLeaf(
            strength=self.mean_strength,
            shape=self.noise_shape,
            # The inverse gamma's mean is spread / (shape - 1).
            spread=self.noise_share * (self.noise_shape - 1.0),
        )

    def _adopt(self, posterior: TreePosterior) -> None:
        """Be fitted to a posterior that was inferred elsewhere."""
        self._keep(posterior)

    @available_if(streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Let more rows join the posterior; a GFlowNet trains for a tenth of a fit's time.

        The first call is a fit; thresholds, categories and the target's units stay what its rows
        made them.
        """
        if not hasattr(self, "posterior_"):
            return self._fit(X, y, sample_weight, streamed=True)
        started = clock.monotonic()
        table, numbers = self._read_training(X, y, reset=False)
        self._extend(table, check_numbers(numbers), sample_weight, started)
        return self

    @by_chunks
    def predict(self, X: Any, return_std: bool = False, tree: str | None = None) -> Any:
        """Posterior mean of the target [n]; with ``return_std`` also its standard deviation.

        With ``tree="best"`` the most probable tree predicts alone.
        """
        mean, variance = self._moments(X, tree)
        return (mean, np.sqrt(variance.total)) if return_std else mean

    @by_chunks
    def predict_interval(self, X: Any, level: float = 0.9, tree: str | None = None) -> Floats:
        """Interval [n, 2] that holds the target with probability ``level``, tails even."""
        check_level(level)
        sums = self._sum_predictor(tree)
        if sums is not None:
            return sums.interval(self._codes(X), level)
        tails = np.array([0.5 - level / 2, 0.5 + level / 2])
        return predictive_quantiles(self._predictor(tree), self._codes(X), tails)

    @by_chunks
    def predict_uncertainty(self, X: Any, tree: str | None = None) -> Variance:
        """Predictive variance ``total`` [n] and its parts, ``noise`` and ``model``."""
        return self._moments(X, tree)[1]

    def _moments(self, X: Any, tree: str | None) -> tuple[Floats, Variance]:
        sums = self._sum_predictor(tree)
        if sums is not None:
            return sums.moments(self._codes(X))
        predictor = self._predictor(tree)
        return moments(predictor.average(self._codes(X)), normal_leaf(predictor.posterior))
