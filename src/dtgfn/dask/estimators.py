"""DaskDTGFNClassifier and DaskDTGFNRegressor: the posterior over trees of rows on a cluster."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from distributed import Client
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.checks import check_run
from dtgfn._support.progress import progress_bar
from dtgfn.dask.cluster import Cluster, find_client
from dtgfn.dask.fitting import Settings, fit_partitions
from dtgfn.dask.partitions import is_frame, read_partitions
from dtgfn.dask.prediction import predict_lazily
from dtgfn.data.thresholds import AnyBinning
from dtgfn.engines.registry import check_option_names, find_engine
from dtgfn.engines.smc.engine import SmcOptions
from dtgfn.estimators.classifier import DTGFNClassifier
from dtgfn.estimators.regressor import DTGFNRegressor
from dtgfn.inference.method import resolve_binning
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import SplitPenalty


class DaskEstimator(BaseEstimator):  # type: ignore[misc]
    """What both share: a client, a fit by levels, and an ordinary estimator to hand out."""

    _local: type[DTGFNClassifier] | type[DTGFNRegressor]
    max_depth: int
    n_thresholds: int
    binning: AnyBinning
    split_penalty: SplitPenalty
    temperature: float
    n_trees: int
    time_budget: float | None
    random_state: int | np.random.RandomState | None
    verbose: bool
    options: dict[str, Any] | None
    client: Client | None

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Infer the posterior, and keep it in an ordinary estimator."""
        local = self._unfitted()
        settings = self._settings(local)
        framed = is_frame(X)  # before the client: what is no dask table needs none
        parts = read_partitions(X, y, sample_weight)
        with progress_bar(self.verbose) as progress:
            posterior = fit_partitions(Cluster(self.client_), parts, settings, progress)
        local._adopt(posterior)
        local.n_features_in_ = self.n_features_in_ = X.shape[1]
        if framed:
            names = np.array([str(name) for name in X.columns], dtype=object)
            local.feature_names_in_ = self.feature_names_in_ = names
        self._fitted = local

    def _unfitted(self) -> DTGFNClassifier | DTGFNRegressor:
        """An ordinary estimator of the same parameters, by the engine that is used here."""
        given = self.get_params(deep=False)
        del given["client"]
        options = {**(self.options or {}), "by_level": True}
        return self._local(**{**given, "inference": "smc", "ensemble": None, "options": options})

    def _settings(self, local: DTGFNClassifier | DTGFNRegressor) -> Settings:
        """Read the parameters; refuse what a cluster cannot do."""
        for name in ("max_depth", "split_penalty", "temperature"):
            if isinstance(getattr(self, name), str) and getattr(self, name) == "auto":
                raise ValueError(
                    f"{name}='auto' fits several times, which {type(self).__name__} does not do; "
                    "give a value."
                )
        n_trees, time_budget, _ = check_run(self.n_trees, self.time_budget, None)
        options = {**(self.options or {}), "by_level": True}
        check_option_names(find_engine("smc"), options, self.get_params(deep=False))
        return Settings(
            leaf=local._leaf(),
            max_depth=self.max_depth,
            n_thresholds=self.n_thresholds,
            binning=resolve_binning(self.binning, None),
            split_penalty=self.split_penalty,
            temperature=self.temperature,
            n_trees=n_trees,
            time_budget=time_budget,
            random_state=local._seed(),
            options=SmcOptions(**options),
        )

    @property
    def client_(self) -> Client:
        """The client that was given, or the current one."""
        return find_client(self.client)

    def to_local(self) -> Any:
        """Return an ordinary fitted estimator, which needs no cluster."""
        check_is_fitted(self, "_fitted")
        return self._fitted

    @property
    def posterior_(self) -> TreePosterior:
        """The posterior; its rows are grouped as far as its trees tell them apart."""
        return self.to_local().posterior_

    @property
    def log_evidence_(self) -> float:
        """Log Z of the training targets."""
        return float(self.to_local().log_evidence_)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the client behind: it belongs to this process."""
        return {**super().__getstate__(), "client": None}

    def __sklearn_clone__(self) -> Self:
        """A copy has the same client, not a copy of it."""
        return type(self)(**self.get_params(deep=False))


class DaskDTGFNClassifier(ClassifierMixin, DaskEstimator):  # type: ignore[misc]
    """Classify by the posterior over trees of rows that stay on the workers of a Dask cluster.

    The trees are those that ``DTGFNClassifier(inference="smc", options={"by_level": True})`` draws
    from the same rows on one machine, for the same ``random_state``, however they are divided.

    Parameters
    ----------
    max_depth : int
        Edges on the longest path of a tree; a fit makes so many round trips for its trees.
    n_thresholds : int
        Candidate thresholds per numeric column.
    binning : {"auto", "uniform", "quantile"}
        Where the candidates lie; "auto" is "uniform". Quantiles are exact, and take six round trips
        more.
    leaf_concentration : float
        Dirichlet parameter per class in each leaf.
    split_penalty : "mdl", "paper" or float
        Prior over structures, see ``dtgfn.infer``.
    temperature : float
        The target is R^(1/temperature).
    weighting : {"importance", "uniform", "posterior"}
        How sampled trees are averaged, as in ``DTGFNClassifier``.
    n_trees : int
        Posterior samples to keep.
    time_budget : float or None
        Seconds after which no further level of the trees is begun; None for no limit.
    n_jobs : int or None
        Threads that each prediction of a partition may use, all cores if None.
    random_state : int, RandomState or None
        Seed of everything random.
    verbose : bool
        Whether to show progress.
    options : dict or None
        ``n_particles`` and ``n_sweeps``, as of the engine "smc".
    client : distributed.Client or None
        The cluster; None is the current client.

    Attributes
    ----------
    posterior_ : TreePosterior
        Its rows are grouped as far as its trees tell them apart.
    log_evidence_ : float
        log Z.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    client_ : distributed.Client
        The client that is used.

    """

    _local = DTGFNClassifier

    def __init__(
        self,
        *,
        max_depth: int = 5,
        n_thresholds: int = 99,
        binning: AnyBinning = "auto",
        leaf_concentration: float = 0.1,
        split_penalty: SplitPenalty = "mdl",
        temperature: float = 1.0,
        weighting: str = "importance",
        n_trees: int = 1000,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        options: dict[str, Any] | None = None,
        client: Client | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.n_thresholds = n_thresholds
        self.binning = binning
        self.leaf_concentration = leaf_concentration
        self.split_penalty = split_penalty
        self.temperature = temperature
        self.weighting = weighting
        self.n_trees = n_trees
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.options = options
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Infer the posterior from a dask table X and labels y of the same partitions."""
        self._fit(X, y, sample_weight)
        return self

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels."""
        return np.asarray(self.to_local().classes_)

    def predict(self, X: Any, tree: str | None = None) -> Any:
        """Most probable class of each row, lazily: a dask Series of a frame, else an array."""
        model = self.to_local()
        return predict_lazily(model, X, "predict", self.classes_.dtype, None, tree=tree)

    def predict_proba(self, X: Any, tree: str | None = None) -> Any:
        """Class probabilities, lazily: a dask frame with a column per class, or an array [n, C]."""
        model, columns = self.to_local(), self.classes_.tolist()
        return predict_lazily(model, X, "predict_proba", np.dtype(float), columns, tree=tree)


class DaskDTGFNRegressor(RegressorMixin, DaskEstimator):  # type: ignore[misc]
    """Predict numbers by the posterior over trees of rows on the workers of a Dask cluster.

    The trees do not depend on the partitions, to the last bit; they are those of
    ``DTGFNRegressor(inference="smc", options={"by_level": True})`` up to the rounding of its sums.

    Parameters
    ----------
    max_depth : int
        Edges on the longest path of a tree; a fit makes so many round trips for its trees.
    n_thresholds : int
        Candidate thresholds per numeric column.
    binning : {"auto", "uniform", "quantile"}
        Where the candidates lie, as in ``DaskDTGFNClassifier``.
    mean_strength, noise_shape, noise_share : float
        Prior of a leaf's mean and variance, as in ``DTGFNRegressor``.
    split_penalty : "mdl", "paper" or float
        Prior over structures, see ``dtgfn.infer``.
    temperature : float
        The target is R^(1/temperature).
    weighting : {"importance", "uniform", "posterior"}
        How sampled trees are averaged, as in ``DTGFNRegressor``.
    n_trees : int
        Posterior samples to keep.
    time_budget : float or None
        Seconds after which no further level of the trees is begun; None for no limit.
    n_jobs : int or None
        Threads that each prediction of a partition may use, all cores if None.
    random_state : int, RandomState or None
        Seed of everything random.
    verbose : bool
        Whether to show progress.
    options : dict or None
        ``n_particles`` and ``n_sweeps``, as of the engine "smc".
    client : distributed.Client or None
        The cluster; None is the current client.

    Attributes
    ----------
    posterior_ : TreePosterior
        Its rows are grouped as far as its trees tell them apart.
    log_evidence_ : float
        log Z, of the targets in their own units.
    n_features_in_, feature_names_in_
        As in scikit-learn.
    client_ : distributed.Client
        The client that is used.

    """

    _local = DTGFNRegressor

    def __init__(
        self,
        *,
        max_depth: int = 5,
        n_thresholds: int = 99,
        binning: AnyBinning = "auto",
        mean_strength: float = 0.1,
        noise_shape: float = 1.5,
        noise_share: float = 0.25,
        split_penalty: SplitPenalty = "mdl",
        temperature: float = 1.0,
        weighting: str = "importance",
        n_trees: int = 1000,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        options: dict[str, Any] | None = None,
        client: Client | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.n_thresholds = n_thresholds
        self.binning = binning
        self.mean_strength = mean_strength
        self.noise_shape = noise_shape
        self.noise_share = noise_share
        self.split_penalty = split_penalty
        self.temperature = temperature
        self.weighting = weighting
        self.n_trees = n_trees
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.options = options
        self.client = client

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Infer the posterior from a dask table X and numbers y of the same partitions."""
        self._fit(X, y, sample_weight)
        return self

    def predict(self, X: Any, tree: str | None = None) -> Any:
        """Posterior mean of the target, lazily: a dask Series of a frame, else an array."""
        return predict_lazily(self.to_local(), X, "predict", np.dtype(float), None, tree=tree)
