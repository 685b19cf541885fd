"""``infer``: the functional door, one call from a table to the posterior over its trees."""

from __future__ import annotations

import difflib
import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.checks import check_choice, check_count, check_run, check_seed
from dtgfn._support.progress import progress_bar
from dtgfn.data.tables import as_table
from dtgfn.data.targets import as_target
from dtgfn.data.thresholds import Binning
from dtgfn.diagnostics.judgement import UntrustworthyFit, warn_if_untrustworthy
from dtgfn.engines.exact import infer_exact
from dtgfn.engines.gfn.settings import SETTING_NAMES
from dtgfn.engines.mcmc.engine import infer_mcmc
from dtgfn.engines.smc.engine import infer_smc
from dtgfn.engines.warm_up import compile_engine
from dtgfn.inference.bagging import BAG_OPTIONS, infer_bagged, out_of_bag
from dtgfn.inference.temperature import LeaveOneOut, choose_temperature, leave_one_out
from dtgfn.inference.training_data import make_training_data
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaves import DirichletLeaf, LeafModel
from dtgfn.trees.score import SplitPenalty, make_score


def _infer_gfn(*arguments: Any, **options: Any) -> TreePosterior:
    # Only this engine needs torch, which takes a while to import.
    from dtgfn.engines.gfn.engine import infer_gfn

    return infer_gfn(*arguments, **options)


MOMENT = 0.25  # seconds
ENGINES: dict[str, Callable[..., TreePosterior]] = {
    "gfn": _infer_gfn,
    "exact": infer_exact,
    "mcmc": infer_mcmc,
    "smc": infer_smc,
}


def infer(
    X: Any,
    y: Any,
    *,
    engine: str = "gfn",
    max_depth: int = 5,
    n_thresholds: int = 99,
    binning: Binning = "uniform",
    leaf_concentration: float = 0.1,
    leaf: LeafModel | None = None,
    classes: npt.ArrayLike | None = None,
    split_penalty: SplitPenalty = "mdl",
    temperature: float | str = 1.0,
    n_bags: int | None = None,
    n_trees: int = 1000,
    sample_weight: npt.ArrayLike | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **options: Any,
) -> TreePosterior:
    """Infer the posterior over decision trees of a table.

    Parameters
    ----------
    X : array, pandas or polars frame, or Table [n, columns]
        Numbers, booleans and text; missing values may stay.
    y : array [n]
        Class labels, or what ``leaf`` takes.
    engine : {"gfn", "exact", "mcmc", "smc"}
        How to infer: "gfn" trains a GFlowNet, "exact" sums over all trees (and refuses where that
        is out of reach), "mcmc" runs Metropolis-Hastings chains, "smc" top-down particles.
    max_depth : int
        Edges on the longest path, as in scikit-learn.
    n_thresholds, binning
        Grid of candidate thresholds per numeric column: "uniform", "quantile" or "midpoint".
    leaf_concentration : float
        Dirichlet parameter per class in each leaf, if ``leaf`` is None.
    leaf : leaf model or None
        What leaves hold: None for classes, ``dtgfn.leaves.NormalLeaf()`` for numbers (its prior
        matters, its location and scale come from y), or a model of one's own.
    classes : array or None
        All classes there are, where y may lack some.
    split_penalty : "mdl", "paper", float, "bcart" or ("bcart", base, decay)
        Prior over structures; "mdl" is log 4 + log columns + log n_thresholds nats per split.
    temperature : float or "auto"
        The target is R^(1/temperature); "auto" chooses it by the leave-one-out log score.
    n_bags : int or None
        Posteriors of resampled rows and columns to average instead.
    n_trees : int
        Posterior samples to draw.
    sample_weight : array [n] or None
        A weight of 3 counts as three rows, 0 as none.
    time_budget : float or None
        Seconds after which sampling or training ends with what there is, and exact inference is
        given up; compiling does not count, and what "gfn" does before and after training comes on
        top. None for no limit.
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
        ``n_particles`` and ``n_sweeps``; of "exact" ``memory_budget``.

    Returns
    -------
    TreePosterior
        The sampled trees, their weights, and what else the engine knows.

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
    check_choice("engine", engine, tuple(ENGINES))
    check_options(engine, options, also=("column_share",) if n_bags is not None else ())
    n_trees, time_budget, n_jobs = check_run(n_trees, time_budget, n_jobs)
    check_seed(random_state)
    check_temperature(temperature, leaf)
    started = time.monotonic()
    table = as_table(X)
    data = make_training_data(
        table,
        as_target(y),
        DirichletLeaf(1, leaf_concentration) if leaf is None else leaf,
        binning=binning,
        n_thresholds=n_thresholds,
        sample_weight=sample_weight,
        classes=classes,
    )
    time_budget = what_is_left(time_budget, time.monotonic() - started)
    run = ENGINES[engine]
    if n_bags is not None:
        options = {**BAG_OPTIONS.get(engine, {}), **options, "n_bags": n_bags}
        run = partial(infer_bagged, run)
    with progress_bar(verbose) as progress:
        score = make_score(
            data.leaf,
            n_features=table.n_columns,
            n_thresholds=n_thresholds,
            max_depth=max_depth,
            split_penalty=split_penalty,
            temperature=1.0 if temperature == "auto" else temperature,  # type: ignore[arg-type]
        )
        columns: dict[str, Any] = {
            "column": np.asarray(data.binner.feature_column, dtype=np.int32),
            "n_columns": table.n_columns,
        }
        if time_budget is not None and (n_bags is not None or temperature == "auto"):
            # Several runs share the time, and the first one is not to lose it by compiling.
            alone = {name: options[name] for name in options if name not in BAG_ONLY}
            few = compile_engine(ENGINES[engine], data.rows, score, **columns, **alone)
            leave_one_out(few)

        def infer_at(temperature: float, seconds: float | None) -> TreePosterior:
            return run(
                data.rows,
                replace(score, temperature=temperature),
                **columns,
                n_trees=n_trees,
                random_state=random_state,
                time_budget=seconds,
                n_jobs=n_jobs,
                progress=progress,
                **options,
            )

        if temperature == "auto":
            judge = leave_one_out if n_bags is None else out_of_bag
            posterior = at_best_temperature(infer_at, time_budget, options, judge)
        else:
            posterior = infer_at(score.temperature, time_budget)
    if n_bags is None:  # trees of different bags do not have to agree
        warn_if_untrustworthy(posterior)
    warn_if_cut_short(posterior, time_budget)
    return replace(posterior, binner=data.binner, classes=data.classes)


def what_is_left(time_budget: float | None, spent: float, at_least: float = 0.1) -> float | None:
    """Seconds of a budget that preparing has left, rounded to be read; moments do not count.

    ``at_least`` is the share that is left in any case.

    >>> what_is_left(10.0, 1.27), what_is_left(10.0, 0.01), what_is_left(10.0, 30.0)
    (8.7, 10.0, 1.0)
    """
    if time_budget is None or spent < MOMENT:
        return time_budget
    return max(round(time_budget - spent, 1), at_least * time_budget)


def warn_if_cut_short(posterior: TreePosterior, time_budget: float | None) -> None:
    """Warn of bags that were left out because the time was too short."""
    told = posterior.diagnostics
    if "bags_left_out" in told:
        n_bags = told["bags"] + told["bags_left_out"]
        warnings.warn(
            f"time_budget={time_budget:g} s was too short for more than {told['bags']} of {n_bags} "
            "bags; allow more, or use fewer n_bags.",
            UntrustworthyFit,
            stacklevel=3,
        )


def check_temperature(temperature: object, leaf: LeafModel | None) -> None:
    """Refuse a word that is not "auto", and "auto" where rows cannot be left out."""
    if temperature != "auto":
        if isinstance(temperature, str):
            raise ValueError(
                f"temperature={temperature!r} is not known; give a number from 0.01 to 1e6, or "
                "'auto'."
            )
        return
    if leaf is not None and not isinstance(leaf, DirichletLeaf):
        raise ValueError(
            "temperature='auto' leaves rows out of class counts, so it is for classes only; give "
            "a number."
        )


def at_best_temperature(
    infer_at: Callable[[float, float | None], TreePosterior],
    time_budget: float | None,
    options: dict[str, Any],
    judge: Callable[[TreePosterior], LeaveOneOut],
) -> TreePosterior:
    """Return the posterior at the temperature with the best log score of rows left out.

    ``diagnostics["temperatures"]`` has the scores of all that were tried.
    """
    if options.get("checkpoint") is not None:
        raise ValueError(
            "temperature='auto' trains once for each temperature, so there is no one checkpoint; "
            "leave it out, or give a temperature."
        )
    choice = choose_temperature(infer_at, time_budget=time_budget, judge=judge)
    tried = {"temperatures": choice.table.to_dict("records")}
    return replace(choice.posterior, diagnostics={**choice.posterior.diagnostics, **tried})


BAG_ONLY = ("n_bags", "column_share")
ENGINE_OPTIONS = {
    "gfn": ("preset", "callbacks", "checkpoint", "policy", *SETTING_NAMES),
    "exact": ("memory_budget",),
    "mcmc": ("n_chains", "n_steps"),
    "smc": ("n_particles", "n_sweeps"),
}
WAYS_OUT = {
    "memory_budget": "give a whole number of bytes from 1, or None for half of what is free"
}
# Those that must be whole numbers, and whether None is one's way to say no limit.
WHOLE_OPTIONS = {
    "memory_budget": True,
    "n_chains": False,
    "n_particles": False,
    "n_steps": True,
    "n_sweeps": True,
}


def check_options(engine: str, options: dict[str, Any], also: tuple[str, ...] = ()) -> None:
    """Refuse an option that the engine does not have, or that is no number where it must be."""
    known = (*ENGINE_OPTIONS[engine], *also)
    parameters = inspect.signature(infer).parameters
    for name, value in options.items():
        if name in parameters:
            raise ValueError(
                f"{name} is a parameter, not an option of engine {engine!r}; give it by itself."
            )
        if name not in known:
            everything = [*known, *parameters]
            similar = difflib.get_close_matches(name, everything, 1)
            way_out = f"did you mean {similar[0]!r}?" if similar else f"it has {', '.join(known)}."
            raise ValueError(f"{name!r} is not an option of engine {engine!r}; {way_out}")
        if name in SETTING_NAMES and engine == "gfn":
            continue  # its settings check themselves: no step at all is an untrained policy
        if name in WHOLE_OPTIONS and not (value is None and WHOLE_OPTIONS[name]):
            check_count(name, value, WAYS_OUT.get(name, "give a whole number from 1"))
