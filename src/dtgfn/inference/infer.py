"""``infer``: the functional door, one call from a table to the posterior over its trees."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from dtgfn._support import clock
from dtgfn._support.budgets import MOMENT, remaining_budget
from dtgfn._support.callers import levels_to_caller
from dtgfn._support.checks import check_run, check_seed
from dtgfn._support.progress import progress_bar
from dtgfn.data.dated_tables import as_training_table
from dtgfn.data.hints import warn_of_oddities
from dtgfn.data.tables import Table
from dtgfn.data.thresholds import AnyBinning, Binning
from dtgfn.diagnostics.judgement import (
    UntrustworthyFit,
    warn_if_untrustworthy,
)
from dtgfn.engines.contract import BudgetExceeded, Run
from dtgfn.engines.registry import find_engine
from dtgfn.engines.warm_up import compile_engine
from dtgfn.inference.auto import FIRST, infer_chosen, read_auto
from dtgfn.inference.given import infer_given
from dtgfn.inference.method import (
    Method,
    check_ensemble,
    enough_memory,
    read_method,
    resolve_binning,
)
from dtgfn.inference.outside import make_outside
from dtgfn.inference.source_data import TrainingSource, training_source
from dtgfn.inference.sums import (
    check_sum_parameters,
    infer_sum_prepared,
    read_sum_options,
    summable,
)
from dtgfn.inference.temperature import leave_one_out
from dtgfn.inference.training_data import make_training_data, merged, read_target
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel
from dtgfn.trees.score import Rows, Score, SplitPenalty, make_score


@overload
def infer(X: Any, y: Any, *, ensemble: Literal["sum"], **given: Any) -> SumPosterior: ...


@overload
def infer(
    X: Any,
    y: Any,
    *,
    engine: str = "gfn",
    max_depth: int = 5,
    n_thresholds: int = 99,
    binning: AnyBinning = "auto",
    leaf_concentration: float = 0.1,
    leaf: LeafModel | None = None,
    classes: npt.ArrayLike | None = None,
    split_penalty: SplitPenalty = "mdl",
    temperature: float | str = 1.0,
    dates: str | None = None,
    ensemble: Literal["bags"] | None = None,
    given: str | Mapping[str, Any] | None = None,
    n_trees: int = 1000,
    sample_weight: npt.ArrayLike | str | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **options: Any,
) -> TreePosterior: ...


def infer(
    X: Any,
    y: Any,
    *,
    engine: str = "gfn",
    max_depth: int | str = 5,
    n_thresholds: int = 99,
    binning: AnyBinning = "auto",
    leaf_concentration: float = 0.1,
    leaf: LeafModel | None = None,
    classes: npt.ArrayLike | None = None,
    split_penalty: SplitPenalty = "mdl",
    temperature: float | str = 1.0,
    dates: str | None = None,
    ensemble: str | None = None,
    given: str | Mapping[str, Any] | None = None,
    n_trees: int = 1000,
    sample_weight: npt.ArrayLike | str | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **options: Any,
) -> TreePosterior | SumPosterior:
    """Infer the posterior over decision trees of a table.

    Parameters
    ----------
    X : array, sparse matrix, pandas or polars frame, or Table [n, columns]; or a source
        Numbers, booleans and text; missing values may stay. A source is read in chunks and never
        is in memory as a whole: the path of a CSV or Parquet file or a folder of these, a pyarrow
        dataset, a polars LazyFrame, a DuckDB relation, or a function that returns frames one by
        one.
    y : array [n], or str
        Class labels, or what ``leaf`` takes; of a source the name of its column.
    engine : {"gfn", "exact", "mcmc", "smc"}
        How to infer: "gfn" trains a GFlowNet, "exact" sums over all trees (and refuses where that
        is out of reach), "mcmc" runs Metropolis-Hastings chains, "smc" top-down particles.
    max_depth : int or "auto"
        Edges on the longest path, as in scikit-learn; "auto" chooses 3, 5 or 8 with bags.
    n_thresholds, binning
        Grid of candidate thresholds per numeric column: "uniform", "quantile", "midpoint", or
        "auto", which is "quantile" for ensembles.
    leaf_concentration : float
        Dirichlet parameter per class in each leaf, if ``leaf`` is None.
    leaf : leaf model or None
        What leaves hold: None for classes, ``dtgfn.leaves.NormalLeaf()`` for numbers (its prior
        matters, its location and scale come from y), or a model of one's own.
    classes : array or None
        All classes there are, where y may lack some.
    split_penalty : "mdl", "paper", float, "bcart", ("bcart", base, decay) or "auto"
        Prior over structures; "mdl" is log 4 + log columns + log n_thresholds nats per split.
        "auto" chooses 1, 0.7, 0.5 or 0.35 times as much: by evidence, with bags by rows out of bag.
        Or an object of one's own (``dtgfn.engines.StructurePrior``).
    temperature : float or "auto"
        The target is R^(1/temperature); "auto" chooses it by the log score of rows left out, with
        bags of rows out of bag.
    dates : "number" or None
        What columns of dates are: days since 1970-01-01, also where text spells dates, or refused.
    ensemble : "bags", "sum" or None
        "bags" averages posteriors of resampled rows and columns instead, see
        ``dtgfn.infer_bagged``. "sum" samples sums of trees, which predict best; ``engine``
        and what else is of single trees must be left out then.
    given : str, dict or None
        Demands that all trees keep, such as ``{"root": "age <= 50", "never": ["income"]}``; see
        ``dtgfn.condition``, which also tells what they cost.
    n_trees : int
        Posterior samples to draw.
    sample_weight : array [n], str or None
        A weight of 3 counts as three rows, 0 as none; of a source the name of its column.
    time_budget : float or None
        Seconds of the whole call, from reading the table to judging the trees: sampling and
        training end with what there is, of trees that it is too short for fewer are drawn, and
        exact inference is given up. Compiling does not count. None for no limit.
    n_jobs : int or None
        Threads, all cores if None or -1.
    random_state : int, Generator or None
        Seed of the sampled trees.
    verbose : bool
        Whether to show progress on standard error.
    **options
        What only the engine knows: of "gfn" ``preset`` ("default" or "paper"), ``callbacks``,
        ``checkpoint`` and every training setting (``leaf_order``, ``objective``, ``loss``,
        ``n_steps``, ``device``, ...); of "mcmc" ``n_chains`` and ``n_steps``; of "smc"
        ``n_particles`` and ``n_sweeps``; of all of them ``memory_budget``, bytes or a text such
        as "2GB" (half of what is free). And of bags ``n_bags`` (200)
        and ``column_share``, the share of the columns that a bag knows (0.3 to 1 for classes, all
        for numbers).

    Returns
    -------
    TreePosterior
        Trees with their weights, the evidence, and how the inference went; of ``ensemble="sum"``
        a ``SumPosterior``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9)
    >>> round(posterior.log_evidence, 3)
    -38.584

    """
    if "inference" in options:
        raise ValueError(
            f"inference={options['inference']!r} is the name that estimators have for it; give "
            f"engine={options['inference']!r}."
        )
    started = clock.monotonic()
    leaf = DirichletLeaf(1, leaf_concentration) if leaf is None else leaf
    check_ensemble(ensemble, options, find_engine(engine).option_names)
    source = training_source(X, y, sample_weight)
    table = as_training_table(X, dates) if source is None else source
    if isinstance(table, Table):
        warn_of_oddities(table)
    target = read_target(y, leaf) if source is None else None
    if ensemble == "sum":
        set_here = {
            "engine": engine,
            "leaf_concentration": leaf_concentration,
            "split_penalty": split_penalty,
            "temperature": temperature,
            "given": given,
            "n_trees": n_trees,
        }
        usual = inspect.signature(infer).parameters
        check_sum_parameters(set_here, {name: usual[name].default for name in set_here})
        return infer_sum_prepared(
            table,
            target,
            read_sum_options(options),
            leaf=summable(leaf),
            classes=classes,
            max_depth=max_depth,
            n_thresholds=n_thresholds,
            binning=resolve_binning(binning, ensemble),
            sample_weight=sample_weight,
            time_budget=time_budget,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            started=started,
        )
    parameters = inspect.signature(infer).parameters
    method = read_method(engine, options, ensemble, parameters=parameters)
    return infer_prepared(
        table,
        target,
        method,
        leaf=leaf,
        classes=classes,
        max_depth=max_depth,
        n_thresholds=n_thresholds,
        binning=resolve_binning(binning, ensemble),
        split_penalty=split_penalty,
        temperature=temperature,
        given=given,
        n_trees=n_trees,
        sample_weight=sample_weight,
        time_budget=time_budget,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
        started=started,
    )


def infer_prepared(
    table: Table | TrainingSource,
    target: npt.NDArray[Any] | None,
    method: Method,
    *,
    leaf: LeafModel,
    classes: npt.ArrayLike | None = None,
    max_depth: int | str,
    n_thresholds: int,
    binning: Binning,
    split_penalty: SplitPenalty,
    temperature: float | str,
    given: str | Mapping[str, Any] | None = None,
    n_trees: int,
    sample_weight: npt.ArrayLike | None,
    time_budget: float | None,
    n_jobs: int | None,
    random_state: int | np.random.Generator | None,
    verbose: bool,
    started: float,
) -> TreePosterior:
    """Infer from what is already read: ``as_table``, ``read_target`` and ``read_method``.

    All else is as in ``infer``; ``started`` is when reading began (``clock.monotonic``).
    """
    n_trees, time_budget, n_jobs = check_run(n_trees, time_budget, n_jobs)
    check_seed(random_state)
    shape = getattr(table, "n_rows", None), getattr(table, "n_columns", None)
    settings: dict[str, Any] = {
        "max_depth": max_depth,
        "split_penalty": split_penalty,
        "temperature": temperature,
    }
    auto = read_auto(settings, leaf, method)
    # Bags draw rows, and leaving one out leaves out one of equal rows, not all of them.
    merge = method.bags is None and not auto
    with progress_bar(verbose) as progress, enough_memory(*shape):
        data = make_training_data(
            table,
            target,
            leaf,
            binning=binning,
            n_thresholds=n_thresholds,
            sample_weight=sample_weight,
            classes=classes,
            merge=merge,
            progress=progress,
        )
    is_table = isinstance(table, Table)
    del table  # its columns take more than the codes
    score = make_score(
        data.leaf,
        n_features=data.n_columns,
        n_thresholds=n_thresholds,
        **{name: FIRST[name] if name in auto else value for name, value in settings.items()},
    )
    allowed, spent = time_budget, clock.monotonic() - started
    time_budget = remaining_budget(allowed, spent)
    with progress_bar(verbose) as progress, tell_reading(allowed, spent):
        run = Run(
            column=data.binner.feature_column.astype(np.int32),
            n_columns=data.n_columns,
            n_trees=n_trees,
            random_state=random_state,
            time_budget=time_budget,
            n_jobs=n_jobs,
            progress=progress,
        )
        if given is not None:
            check_given_alone(method, auto)
            posterior = infer_given(method, data.rows, score, run, data.binner, given)
            return replace(posterior, binner=data.binner, classes=data.classes)
        if (method.bags is not None or auto) and time_budget is not None:
            warm_up(method, data.rows, score, run)
        with enough_memory(*shape):
            rows = merged(data.rows) if merge and is_table else data.rows
            posterior = infer_chosen(method, rows, score, run, auto)
    if method.bags is None:  # trees of different bags do not have to agree
        warn_if_untrustworthy(posterior)
    warn_if_cut_short(posterior, time_budget)
    return replace(posterior, rows=data.rows, binner=data.binner, classes=data.classes)


@contextmanager
def tell_reading(time_budget: float | None, spent: float) -> Iterator[None]:
    """Let a refusal that names the seconds left say where the others went."""
    try:
        yield
    except BudgetExceeded as refusal:
        if time_budget is None or spent < MOMENT:
            raise
        raise BudgetExceeded(
            f"{refusal} (Reading the table took {spent:.1f} s of time_budget={time_budget:g} s.)"
        ) from None


def check_given_alone(method: Method, auto: Collection[str]) -> None:
    """Refuse demands on trees beside what they do not go with."""
    if method.bags is not None:
        raise ValueError("given is for the posterior over single trees; leave out ensemble.")
    if auto:
        raise ValueError(
            f"given goes with settings that are chosen before; give {min(auto)} a value, not "
            "'auto'."
        )


def warm_up(method: Method, rows: Rows, score: Score, run: Run) -> None:
    """Compile what several runs that share the time need, lest the first one loses it."""
    found = compile_engine(method.engine, rows, score, run, method.options)
    if method.bags is not None:
        outside = make_outside(found.rows, score, len(found.trees))
        outside.hear(found.trees, np.zeros(len(found.rows.target), dtype=np.uint8))
    elif isinstance(score.leaf, DirichletLeaf):
        leave_one_out(found)


def warn_if_cut_short(posterior: TreePosterior, time_budget: float | None) -> None:
    """Warn of bags that were left out because the time was too short."""
    diagnostics = posterior.diagnostics
    if "bags_left_out" in diagnostics:
        n_done = diagnostics["bags"]
        warnings.warn(
            f"time_budget={time_budget:g} s was too short for more than {n_done} of "
            f"{n_done + diagnostics['bags_left_out']} bags; allow more, or use fewer n_bags.",
            UntrustworthyFit,
            stacklevel=levels_to_caller(),
        )
