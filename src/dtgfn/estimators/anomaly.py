"""DTGFNAnomalyDetector: rows where normal ones are rare, as scikit-learn's outlier detector."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.budgets import remaining_budget
from dtgfn._support.checks import RunLimits, check_integer, check_range, check_run, check_weights
from dtgfn._support.progress import progress_bar
from dtgfn.anomaly.background import Background, choose_views, fit_background, locate_cells
from dtgfn.anomaly.density import View, infer_views, mean_spacing, root_spacing, spacing
from dtgfn.data.binning import Binner
from dtgfn.data.hints import warn_of_oddities
from dtgfn.data.open_source import is_source
from dtgfn.data.tables import as_table, take, without_order
from dtgfn.diagnostics.judgement import UntrustworthyFit
from dtgfn.engines.registry import find_engine
from dtgfn.estimators.base import TableEstimator
from dtgfn.estimators.by_chunks import by_chunks
from dtgfn.estimators.explained import make_report
from dtgfn.inference.method import read_method
from dtgfn.trees.score import SplitPenalty

MAX_VIEWS = 100
N_BINS = 40  # of the histogram of training scores
TEMPERATURE = 2.0  # at 1, the trees of a view hardly differ
# Views are small problems, so a little of each engine goes a long way.
VIEW_OPTIONS: dict[str, dict[str, Any]] = {
    "smc": {"n_particles": 100, "n_sweeps": 1},
    "mcmc": {"n_chains": 2, "n_steps": 5000},
    "gfn": {"n_steps": 30},
    "exact": {},
}
# One tree over all columns must be searched for.
SINGLE_OPTIONS: dict[str, dict[str, Any]] = {
    "smc": {"n_particles": 1000, "n_sweeps": 2},
    "mcmc": {"n_chains": 4, "n_steps": 50_000},
    "gfn": {},
    "exact": {},
}


class DTGFNAnomalyDetector(OutlierMixin, TableEstimator):  # type: ignore[misc]
    """Find rows that lie where normal rows hardly ever do.

    Posterior trees tell normal rows from a background whose density is known, in views of a few
    columns each. A leaf's share of rows, against its share of background, is a density; a row's
    score is minus the side of the cube it would have to itself at that density, averaged over
    trees (see ``dtgfn.anomaly.density``).

    Parameters
    ----------
    contamination : "two-std" or float in (0, 0.5]
        What ``predict`` calls an anomaly: a score more than two standard deviations below the mean
        of the training rows' scores, each row scored without itself (the paper's rule), or the
        share of training rows to call anomalies.
    columns_per_tree : int or None
        Columns in a view; None is 2, or all of them if ``n_trees`` is 1. At most 100 views, all
        there are if they are fewer.
    inference : {"smc", "exact", "mcmc", "gfn"}
        Engine of each view, see ``dtgfn.infer``; "exact" and "gfn" take much longer, as each view
        is a problem of its own.
    max_depth : int
        Edges on the longest path of a tree.
    n_thresholds : int
        Thresholds per numeric column, with equal background mass between them.
    leaf_concentration : float
        Rows and background each leaf is given in advance.
    split_penalty : "mdl", "paper", float, "bcart" or ("bcart", base, decay)
        Prior over structures, see ``dtgfn.infer``.
    temperature : float or None
        The target is R^(1/temperature); above 1 trees are larger and more various. None is 2, or 1
        if ``n_trees`` is 1.
    n_trees : int
        Trees in all, evenly over the views (at least one each). With 1, the most probable tree
        alone.
    time_budget : float or None
        Seconds, without compiling, after which no further view is begun; None for no limit.
    n_jobs : int or None
        Threads, all cores if None.
    random_state : int, RandomState or None
        Seed of views and trees.
    verbose : bool
        Whether to show progress.
    options : dict or None
        What only the engine knows, such as ``n_particles`` of "smc".

    Attributes
    ----------
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    score_histogram_ : tuple of edges and weights, or None
        Of the training rows' scores; None in models from files that do not have it.
    views_ : tuple of View
    background_ : Background
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = DTGFNAnomalyDetector(n_trees=30, random_state=0).fit(X)
    >>> model.predict([[0.1, 0.0, -0.2], [0.0, 7.0, 0.0]])
    array([ 1, -1])

    """

    def __init__(
        self,
        *,
        contamination: str | float = "two-std",
        columns_per_tree: int | None = None,
        inference: str = "smc",
        max_depth: int = 6,
        n_thresholds: int = 31,
        leaf_concentration: float = 0.5,
        split_penalty: SplitPenalty = "mdl",
        temperature: float | None = None,
        n_trees: int = 300,
        time_budget: float | None = 60.0,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.contamination = contamination
        self.columns_per_tree = columns_per_tree
        self.inference = inference
        self.max_depth = max_depth
        self.n_thresholds = n_thresholds
        self.leaf_concentration = leaf_concentration
        self.split_penalty = split_penalty
        self.temperature = temperature
        self.n_trees = n_trees
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    def fit(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn where normal rows X [n, columns] lie; y is ignored."""
        n_trees, time_budget, n_jobs = self._check_parameters()
        single = self.n_trees == 1
        usual = (SINGLE_OPTIONS if single else VIEW_OPTIONS)[self.inference]
        options = {**usual, **(self.options or {})}
        known = self.get_params(deep=False)
        method = read_method(self.inference, options, parameter="inference", parameters=known)
        started = clock.monotonic()
        if is_source(X) and not hasattr(X, "collect"):
            raise TypeError(
                "A detector is fitted to a table in memory, not in chunks; give what "
                "dtgfn.read_table or pandas reads, perhaps a sample of the rows."
            )
        table = without_order(as_table(X))
        self._check_columns(X, table, reset=True)
        warn_of_oddities(table)
        weight = check_weights(sample_weight, table.n_rows)
        weight = np.ones(table.n_rows) if weight is None else weight
        table, weight = take(table, weight > 0), weight[weight > 0]
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        rng = np.random.default_rng(seed)
        self.background_: Background = fit_background(table, self.n_thresholds, weight)
        cells, log_density = locate_cells(self.background_, table)
        chosen = self._choose_views(table.n_columns, rng)
        temperature = self.temperature
        if temperature is None:
            temperature = 1.0 if single else TEMPERATURE
        alone = np.minimum(weight, 1.0) if self.contamination == "two-std" else None
        views, roots = [], np.zeros(table.n_rows)
        with progress_bar(self.verbose) as progress:
            for view in infer_views(
                self.background_,
                chosen,
                cells,
                weight,
                method,
                max_depth=self.max_depth,
                n_thresholds=self.n_thresholds,
                leaf_concentration=self.leaf_concentration,
                split_penalty=self.split_penalty,
                temperature=temperature,
                n_trees=math.ceil(n_trees / len(chosen)),
                time_budget=remaining_budget(time_budget, clock.monotonic() - started),
                n_jobs=n_jobs,
                rng=rng,
                progress=progress,
            ):
                views.append(view)
                roots += root_spacing(view, cells, log_density, alone)
        self.views_: tuple[View, ...] = tuple(views)
        if len(self.views_) < len(chosen):
            warnings.warn(
                f"time_budget={self.time_budget!r} was over after {len(self.views_)} of "
                f"{len(chosen)} views; allow more, fewer n_trees, or a cheaper engine.",
                UntrustworthyFit,
                stacklevel=2,
            )
        scores = -mean_spacing(roots, len(views))
        self.offset_: float = _offset(scores, weight, self.contamination)
        self.score_histogram_: tuple[Floats, Floats] | None = _histogram(scores, weight)
        return self

    @by_chunks
    def score_samples(self, X: Any) -> Floats:
        """Minus the spacing of normal rows at each row [n]; the lower, the more of an anomaly."""
        check_is_fitted(self)
        table = as_table(X)
        self._check_columns(X, table, reset=False)
        cells, log_density = locate_cells(self.background_, table)
        return -spacing(self.views_, cells, log_density)

    def decision_function(self, X: Any) -> Floats:
        """Score minus ``offset_`` [n]: negative for anomalies."""
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """-1 for anomalies and 1 for normal rows [n]."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def report(
        self, X: Any = None, y: Any = None, *, title: str | None = None, labels: Any = None
    ) -> Any:
        """Return everything as a page or a dict; X, y are held-out rows. See ``dtgfn.report``."""
        check_is_fitted(self)
        return make_report(self, X, y, title, labels)

    @property
    def binner_(self) -> Binner:
        """How columns became cells."""
        return self.background_.binner

    def _choose_views(self, n_columns: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
        per_view = self.columns_per_tree
        if per_view is None:
            per_view = n_columns if self.n_trees == 1 else 2
        views = choose_views(n_columns, min(per_view, n_columns), min(MAX_VIEWS, self.n_trees), rng)
        return [views[v] for v in rng.permutation(len(views))]

    def _check_parameters(self) -> RunLimits:
        find_engine(self.inference, "inference")
        run = check_run(self.n_trees, self.time_budget, self.n_jobs)
        check_range("leaf_concentration", self.leaf_concentration, 1e-6, 1e6)
        if self.columns_per_tree is not None:
            check_integer("columns_per_tree", self.columns_per_tree, 1, 1000)
        share = self.contamination
        number = isinstance(share, Real) and not isinstance(share, bool)
        if share != "two-std" and not (number and 0 < float(share) <= 0.5):
            raise ValueError(
                f"contamination={share!r} is not a rule; give 'two-std', or a share of the "
                "training rows above 0 and up to 0.5."
            )
        return run


def _offset(scores: Floats, weight: Floats, contamination: str | float) -> float:
    """Score below which a row is an anomaly."""
    if contamination == "two-std":
        mean = np.average(scores, weights=weight)
        return float(mean - 2.0 * np.sqrt(np.average((scores - mean) ** 2, weights=weight)))
    if (weight == 1).all():
        return float(np.percentile(scores, 100.0 * float(contamination)))
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weight[order]) / weight.sum()
    index = int(np.searchsorted(reached, float(contamination)))
    return float(scores[order[min(index, len(order) - 1)]])


def _histogram(scores: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Edges of equal bins and the weight of rows in each; scores that hardly differ share one."""
    low, high = float(scores.min()), float(scores.max())
    room = max(abs(low), abs(high), 1e-300)
    if high - low < 1e-6 * room:
        low, high = low - room / 2, high + room / 2
    counts, edges = np.histogram(scores, bins=N_BINS, range=(low, high), weights=weight)
    return np.asarray(edges, dtype=np.float64), np.asarray(counts, dtype=np.float64)
