"""DTGFNClassifier: the posterior over trees behind scikit-learn's classifier interface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_flag, check_range, check_weights
from dtgfn.data.hints import warn_of_imbalance
from dtgfn.data.tables import Table, listing
from dtgfn.data.targets import check_classes, check_labels
from dtgfn.data.thresholds import AnyBinning
from dtgfn.estimators.base import PosteriorEstimator, streams
from dtgfn.estimators.by_chunks import by_chunks
from dtgfn.estimators.labelled import target_name
from dtgfn.explain.event import named_event
from dtgfn.inference.source_data import TrainingSource
from dtgfn.posterior.label_shift import ClassPrior, average_shifted, prior_ratios
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.uncertainty import Uncertainty, credible_interval, uncertainty
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import SplitPenalty


class DTGFNClassifier(ClassifierMixin, PosteriorEstimator):  # type: ignore[misc]
    """Classify by averaging over the Bayesian posterior of decision trees, or of their sums.

    Parameters
    ----------
    inference : {"gfn", "exact", "mcmc", "smc"} or None
        Engine for single trees and bags; giving one asks for single trees, if ``ensemble`` says
        nothing else. "gfn" trains a GFlowNet that samples trees, "exact" sums over all trees and
        refuses tables for which that is out of reach, "mcmc" and "smc" are what the field uses.
        None is "gfn" for single trees and "smc" for bags.
    max_depth : int or "auto"
        Edges on the longest path of a tree; with bags "auto" chooses 3, 5 or 8.
    n_thresholds : int
        Candidate thresholds per numeric column.
    binning : {"auto", "uniform", "quantile", "midpoint"}
        Where the candidates lie: evenly over the range, at quantiles, between neighbouring values.
        "auto" is "uniform", the paper's choice, for single trees and "quantile" for ensembles.
    leaf_concentration : float
        Dirichlet parameter per class in each leaf.
    split_penalty : "mdl", "paper", float, "bcart", ("bcart", base, decay) or "auto"
        Prior over structures, see ``dtgfn.infer``; "auto" chooses a part of "mdl" by evidence,
        with bags by rows out of bag.
    class_weight : dict, "balanced" or None
        Weight of each class, which multiplies the rows' weights: a weight of 3 counts as three
        rows. "balanced" gives all classes the same total, before ``sample_weight``.
    positive : label or None
        The event, of two classes: what is shown and scored is P(event). Nothing else depends on it.
    temperature : float or "auto"
        The target is R^(1/temperature); above 1 the posterior is wider. "auto" takes that with the
        best leave-one-out log score, from fits that share ``time_budget``; all that were tried are
        in ``posterior_.diagnostics["temperatures"]``. With bags whatever is "auto" is chosen by the
        log score of rows out of bag, and ``diagnostics["tried"]`` has all trials.
    ensemble : {"auto", "sum", "bags"} or None
        What predicts. "sum" samples sums of small trees (50; the option ``n_summed``), which
        predict best. "bags" averages posteriors of resampled rows and columns (200; the option
        ``n_bags``). None is the posterior over single trees, to read and to explain. "auto" is
        "sum", or None if a parameter or option is set that only single trees have: ``inference``,
        ``leaf_concentration``, ``split_penalty``, ``temperature``, ``weighting``, ``n_trees``,
        ``warm_start``.
    weighting : {"importance", "uniform", "posterior"}
        How sampled trees are averaged: by R / P_F, which is right for every engine; all alike; or
        by R over the distinct trees, as in the paper's Algorithm 1.
    dates : "number" or None
        What columns of dates are: days since 1970-01-01, also where text spells dates (as
        2024-03-01 or 01.03.2024), or refused.
    n_trees : int
        Posterior samples kept in ``posterior_.trees``.
    time_budget : float or None
        Seconds of the whole fit, without compiling, after which sampling ends with what there is
        and an exact inference gives up; None for no limit. A GFlowNet trains for three quarters of
        it, less if hardly anything is left to learn, and draws trees in the rest.
    n_jobs : int or None
        Threads, all cores if None.
    random_state : int, RandomState or None
        Seed of everything random; exact predictions do not depend on it. A GFlowNet that time
        ends, not the option ``n_steps``, may end at another step the next time.
    verbose : bool
        Whether to show progress.
    warm_start : bool
        Whether ``fit`` of "gfn" on the same table goes on training where the last ``fit`` ended.
    options : dict or None
        What only a researcher sets. Of every engine ``leaf_draws``: whether a leaf of a sampled
        tree predicts a draw from its Dirichlet posterior, as in the paper, instead of the mean. Of
        bags ``n_bags`` and ``column_share``. Of "mcmc" ``n_chains`` and ``n_steps``, of "smc"
        ``n_particles`` and ``n_sweeps``, of all ``memory_budget`` (bytes, or "2GB"). Of
        "gfn" ``preset`` ("default" or "paper"), ``callbacks`` (called with the training state after
        each step; False ends training), ``checkpoint`` (a file that training is saved to, and taken
        up from if it exists) and every field of ``dtgfn.engines.gfn.settings.Settings``, such as
        ``leaf_order`` ("fixed": all open leaves decide at once; "free": one by one in any order, as
        in the paper), ``objective``, ``loss``, ``n_steps`` and ``device``.

    Attributes
    ----------
    posterior_ : TreePosterior
    log_evidence_ : float
        log Z, the log of the sum of R over all trees. For "bcart", whose prior sums to one, it is
        the log marginal likelihood; the penalties leave out the prior's own constant, so compare it
        only between models with the same penalty and grid.
    best_tree_ : TreeBatch
        The most probable tree known; ``describe()`` writes it as rules.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9).fit(X, y)
    >>> model.predict_proba(X[:1]).round(3)
    array([[0.996, 0.002, 0.002]])

    """

    _own_options = ("leaf_draws",)

    def __init__(
        self,
        *,
        inference: str | None = None,
        max_depth: int | str = 5,
        n_thresholds: int = 99,
        binning: AnyBinning = "auto",
        leaf_concentration: float = 0.1,
        split_penalty: SplitPenalty = "mdl",
        class_weight: dict[Any, float] | str | None = None,
        positive: Any = None,
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
        self.leaf_concentration = leaf_concentration
        self.split_penalty = split_penalty
        self.class_weight = class_weight
        self.positive = positive
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

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return an estimator with every hyper-parameter of the paper's table, some changed.

        ``options`` among the changes are added to the paper's.

        Examples
        --------
        >>> DTGFNClassifier.paper(options={"n_steps": 20}).options
        {'preset': 'paper', 'leaf_draws': True, 'n_steps': 20}

        """
        table = {
            "inference": "gfn",
            "ensemble": None,
            "max_depth": 5,
            "n_thresholds": 99,
            "binning": "uniform",
            "n_trees": 1000,
            "leaf_concentration": 0.1,
            "split_penalty": "paper",
            "weighting": "posterior",
            "time_budget": None,
        }
        options = {"preset": "paper", "leaf_draws": True, **(changes.pop("options", None) or {})}
        return cls(**{**table, **changes}, options=options)

    def fit(self, X: Any, y: Any, sample_weight: npt.ArrayLike | str | None = None) -> Self:
        """Infer the posterior from training rows X [n, columns] and labels y [n].

        Of a source, such as the path of a Parquet file, y and weights are names of its columns.
        """
        return self._fit(X, y, sample_weight, None, streamed=False)

    def _fit(self, X: Any, y: Any, sample_weight: Any, classes: Any, *, streamed: bool) -> Self:
        started = clock.monotonic()
        source = self._read_source(X, y, sample_weight)
        check_flag("leaf_draws", self._leaf_draws)
        leaf = self._leaf()
        table: Table | TrainingSource
        if source is not None:
            weighted = None if self.class_weight is None else self._class_factors
            table, labels, weight = replace(source, class_factors=weighted), None, None
        else:
            table, given = self._read_training(X, y)
            labels = check_classes(given)
            weight = self._class_weighted(labels, sample_weight)
            named_event(np.unique(labels) if classes is None else classes, self.positive)
            warn_of_imbalance(labels, self.positive)
        given_too: dict[str, Any] = {"classes": classes, "streamed": streamed, "started": started}
        given_too["named"] = target_name(y)
        self._infer(table, labels, weight, leaf, self.temperature, **given_too)
        self.classes_: npt.NDArray[Any] = np.asarray(self.posterior_.classes)
        named_event(self.classes_, self.positive)
        return self

    def _leaf(self) -> DirichletLeaf:
        """What leaves hold, by the prior that was asked for."""
        return DirichletLeaf(1, self.leaf_concentration)

    def _adopt(self, posterior: TreePosterior) -> None:
        """Be fitted to a posterior that was inferred elsewhere."""
        self._keep(posterior)
        self.classes_ = np.asarray(posterior.classes)

    @available_if(streams)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Let more rows join the posterior; a GFlowNet trains for a tenth of a fit's time.

        The first call is a fit, and needs all ``classes`` that may come; thresholds and categories
        are learned from its rows and stay. The old trees are weighed for the new rows in closed
        form, and network and replayed trees go on from where they were. How close that comes to a
        fit of all rows is in the docs on streams.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once; give partial_fit the weights of "
                "the classes as a dict."
            )
        if classes is not None:
            check_labels(np.asarray(classes))
        if not hasattr(self, "posterior_"):
            if classes is None:
                raise ValueError(
                    "classes is None; name all classes that may come at the first partial_fit."
                )
            return self._fit(X, y, sample_weight, classes, streamed=True)
        started = clock.monotonic()
        table, labels = self._read_training(X, y, reset=False)
        labels = check_classes(labels)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, "
                f"{self.classes_.tolist()}; leave them out."
            )
        self._extend(table, labels, self._class_weighted(labels, sample_weight), started)
        return self

    @by_chunks
    def predict_proba(
        self, X: Any, tree: str | None = None, class_prior: ClassPrior | None = None
    ) -> Floats:
        """Posterior mean of the class probabilities [n, C]; of one tree with ``tree="best"``.

        With the option ``leaf_draws`` each leaf says a draw of its probabilities instead of their
        mean. With ``class_prior``, "uniform" or a dict of every class and its share, classes are
        taken to be that frequent where the rows come from; the sampled trees are averaged,
        unsharpened.
        """
        codes, sums = self._codes(X), self._sum_predictor(tree)
        if sums is not None:
            shares = None if class_prior is None else self._class_ratios(class_prior)
            return sums.average(codes, shares)
        predictor = self._predictor(tree)
        if class_prior is not None and self._leaf_draws:
            raise ValueError(
                "class_prior is for the means of leaves, not for draws; fit without the option "
                "leaf_draws."
            )
        if class_prior is not None:
            return average_shifted(predictor, codes, class_prior)
        if not self._leaf_draws:
            return predictor.average(codes)
        seed = check_random_state(self.random_state).randint(2**31)
        return predictor.average_draws(codes, seed)

    def predict_log_proba(
        self, X: Any, tree: str | None = None, class_prior: ClassPrior | None = None
    ) -> Floats:
        """Logarithms of ``predict_proba`` [n, C]; -inf for a class that is ruled out."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, tree, class_prior))

    @property
    def _leaf_draws(self) -> bool:
        """Whether leaves predict draws."""
        return (self.options or {}).get("leaf_draws", False)

    @by_chunks
    def predict(
        self, X: Any, tree: str | None = None, class_prior: ClassPrior | None = None
    ) -> npt.NDArray[Any]:
        """Most probable class of each row [n]; ``tree``, ``class_prior``: see ``predict_proba``."""
        best = self.predict_proba(X, tree, class_prior).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @by_chunks
    def predict_interval(self, X: Any, level: float = 0.9, tree: str | None = None) -> Floats:
        """Bounds [n, C, 2] that hold each P(class | x) with probability ``level`` (unsharpened)."""
        sums = self._sum_predictor(tree)
        if sums is not None:
            return sums.interval(self._codes(X), level)
        bounds = credible_interval(self._predictor(tree), self._codes(X), level)
        return np.stack(bounds, axis=-1)

    @by_chunks
    def predict_uncertainty(self, X: Any, tree: str | None = None) -> Uncertainty:
        """Entropy ``total`` [n] of the class in nats and its parts, ``noise`` and ``model``."""
        sums = self._sum_predictor(tree)
        if sums is not None:
            return sums.class_uncertainty(self._codes(X))
        return uncertainty(self._predictor(tree), self._codes(X))

    def _class_ratios(self, class_prior: ClassPrior) -> Floats:
        """How much more frequent each class [C] is said to be than it was in training."""
        return prior_ratios(class_prior, self.posterior_.rows, self.classes_)

    def _class_weighted(
        self, labels: npt.NDArray[Any], sample_weight: npt.ArrayLike | None
    ) -> npt.ArrayLike | None:
        """Multiply the rows' weights by those of their classes."""
        if self.class_weight is None:
            return sample_weight
        given = check_weights(sample_weight, len(labels))
        present, member, n_each = np.unique(labels, return_inverse=True, return_counts=True)
        weight = self._class_factors(present, n_each.astype(np.float64))[member]
        return np.asarray(weight if given is None else weight * given)

    def _class_factors(self, classes: npt.NDArray[Any], n_each: Floats) -> Floats:
        """What the weights of each class's rows are multiplied by [C]; it has ``n_each`` rows."""
        chosen = self._checked_class_weight(classes)
        if isinstance(chosen, dict):
            return np.array([float(chosen.get(label, 1.0)) for label in classes.tolist()])
        there = n_each > 0
        return np.where(there, n_each.sum() / (there.sum() * np.maximum(n_each, 1.0)), 1.0)

    def _checked_class_weight(self, labels: npt.NDArray[Any]) -> dict[Any, float] | str:
        """Refuse weights that are no weights, or of no class."""
        chosen = self.class_weight
        if chosen == "balanced":
            return "balanced"
        if not isinstance(chosen, dict):
            raise ValueError(
                f"class_weight={chosen!r} is not known; give 'balanced', a dict of class and "
                "weight, or None."
            )
        for name, weight in chosen.items():
            check_range(f"class_weight[{name!r}]", weight, 0.0, 1e9)
        present = np.asarray(getattr(self, "classes_", np.unique(labels))).tolist()
        if not any(name in chosen for name in present):
            raise ValueError(
                f"class_weight names {listing(map(str, chosen))}, none of the classes "
                f"{listing(map(str, present))}; spell them as in y."
            )
        return chosen
