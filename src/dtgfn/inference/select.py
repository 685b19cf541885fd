"""``select``: choose depth, grid, penalty and concentration by the evidence of the training rows.

log Z of a penalty is no evidence yet: the weights e^(-penalty splits) do not add up to one over the
trees that are valid on the rows, and their sum M grows with depth, grid and a lower penalty. Which
trees are valid depends on X, never on y, so dividing by M gives a proper prior given X, and::

    log P(y | X, settings) = log Z - log M        M: sum of e^(-penalty splits) over valid trees

is comparable between all settings on the same rows (``prior_mass.py``).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas

from dtgfn._support import clock
from dtgfn._support.backends import open_backend
from dtgfn._support.checks import check_choice, check_run
from dtgfn.data.tables import Table, as_table
from dtgfn.data.targets import as_target
from dtgfn.data.thresholds import Binning
from dtgfn.engines.contract import BudgetExceeded
from dtgfn.inference.infer import infer
from dtgfn.inference.prior_mass import FIT_SHARE, LARGEST_ERROR, evidence_error, log_prior_mass
from dtgfn.inference.temperature import leave_one_out
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import SplitPenalty

LEAST = 0.1
SETTINGS = ("max_depth", "n_thresholds", "binning", "split_penalty", "leaf_concentration")


@dataclass(frozen=True)
class Selection:
    """Settings compared on the same rows, the winner first.

    Attributes
    ----------
    table : DataFrame
        A row per setting, best first: the settings; ``log_evidence``, log P(y | X, settings), and
        its ``error``; ``comparable``, whether it is known to a nat; ``log_score``, the mean
        leave-one-out log probability of a row, and ``log_score_error``; ``mean_splits``;
        ``seconds``; ``note``, why a setting could not be judged.
    best : dict
        The winner's settings, as ``DTGFNClassifier`` and ``infer`` take them.
    posterior : TreePosterior
        The winner's posterior.
    by : str
        What the winner was chosen by.

    """

    table: pandas.DataFrame
    best: dict[str, Any]
    posterior: TreePosterior
    by: str

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.best.items())
        return f"Selection(by {self.by}, of {len(self.table)}: {chosen})"


def select(
    X: Any,
    y: Any,
    *,
    max_depth: int | Iterable[int] = 5,
    n_thresholds: int | Iterable[int] = 99,
    binning: Binning | Iterable[Binning] = "uniform",
    split_penalty: SplitPenalty | Iterable[SplitPenalty] = "mdl",
    leaf_concentration: float | Iterable[float] = 0.1,
    by: str = "evidence",
    engine: str = "gfn",
    n_trees: int = 1000,
    sample_weight: npt.ArrayLike | None = None,
    time_budget: float | None = 120.0,
    n_jobs: int | None = None,
    random_state: int | None = None,
    **options: Any,
) -> Selection:
    """Compare every combination of the settings of which several are given, on training rows alone.

    Parameters
    ----------
    X, y, sample_weight
        Training rows, as for ``dtgfn.infer``.
    max_depth, n_thresholds, binning, split_penalty, leaf_concentration : value or values
        What to compare: a list, range, array or any other iterable.
    by : {"evidence", "score"}
        What the winner has most of: log evidence among the comparable settings, or leave-one-out
        log score. They may disagree: the evidence asks which setting explains all labels, the
        score which one predicts the next.
    engine, n_trees, n_jobs, random_state, **options
        As for ``dtgfn.infer``; "mcmc" knows no evidence, so it needs ``by="score"``.
    time_budget : float or None
        Seconds for all settings together, in even shares; when they are over, the settings that
        are left are not judged, and their ``note`` says so.

    Returns
    -------
    Selection
        The winner's settings and posterior, and a table of all.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = select(X, y, max_depth=[1, 2, 3], n_thresholds=9, engine="exact", random_state=0)
    >>> found.best["max_depth"]
    3
    >>> found.table[["max_depth", "log_evidence"]].round(2).values.tolist()
    [[3.0, -37.6], [2.0, -38.88], [1.0, -80.04]]

    """
    check_question(by, engine, options)
    values = (max_depth, n_thresholds, binning, split_penalty, leaf_concentration)
    candidates = list_candidates(values)
    for name, value in ((n, c[n]) for c in candidates for n in SETTINGS):
        if isinstance(value, str) and value == "auto":
            raise ValueError(f"{name}='auto' chooses by itself; give select the values to compare.")
    given = {"engine": engine, "n_trees": n_trees, "sample_weight": sample_weight, **options}
    given |= {"n_jobs": n_jobs, "random_state": random_state}
    n_trees, time_budget, n_jobs = check_run(n_trees, time_budget, n_jobs)
    if time_budget is not None:  # the first setting is not to lose its time by compiling
        few = dict.fromkeys(SETTINGS[:2], 2) | {"split_penalty": "mdl"}
        run = {"engine": engine, "n_trees": 2, "time_budget": 1.0, "n_jobs": n_jobs}
        _judge([[0.0], [1.0]] * 5, [0, 1] * 5, few, run)
    lines, best = score_candidates(as_table(X), as_target(y), candidates, given, by, time_budget)
    if best is None:
        raise ValueError(
            f"None of the {len(lines)} settings could be judged by {by}: {lines[0]['note']} "
            "Give more time_budget, smaller settings, or by='score'."
        )
    order = ["comparable", "log_evidence"] if by == "evidence" else ["log_score"]
    table = pandas.DataFrame(lines).sort_values(order, ascending=False, kind="stable")
    return Selection(table.reset_index(drop=True), *best, by)


def check_question(by: str, engine: str, options: dict[str, Any]) -> None:
    """Refuse what settings cannot be compared by, or with."""
    check_choice("by", by, ("evidence", "score"))
    if by == "evidence" and engine == "mcmc":
        raise ValueError(
            "engine='mcmc' does not estimate the evidence; give by='score' or another engine."
        )
    for name in ("leaf", "classes", "ensemble"):
        if options.get(name) is not None:
            raise ValueError(f"{name}={options[name]!r} cannot be selected with; leave it out.")
    if by == "evidence" and options.get("temperature", 1.0) != 1.0:
        raise ValueError(
            f"temperature={options['temperature']!r} has no evidence: R^(1/temperature) is no "
            "probability of the labels; leave it out, or give by='score'."
        )


def list_candidates(values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return every combination of the values of ``SETTINGS``."""
    candidates = [
        dict(zip(SETTINGS, chosen, strict=True))
        for chosen in itertools.product(*map(_list, values))
    ]
    if not candidates:
        raise ValueError("A list of settings is empty; give at least one value of each.")
    return candidates


def score_candidates(
    table: Table,
    y: npt.NDArray[Any],
    candidates: list[dict[str, Any]],
    given: dict[str, Any],
    by: str,
    time_budget: float | None,
) -> tuple[list[dict[str, Any]], tuple[dict[str, Any], TreePosterior] | None]:
    """Judge each candidate in its share of the time; return all lines, and the winner if any."""
    merit = "log_evidence" if by == "evidence" else "log_score"
    lines: list[dict[str, Any]] = []
    best: tuple[dict[str, Any], TreePosterior] | None = None
    most = -math.inf
    judged = judge_all(table, y, candidates, given, time_budget)
    for settings, (line, posterior) in zip(candidates, judged, strict=True):
        lines.append(line)
        usable = line["comparable"] or by == "score"
        if usable and posterior is not None and (best is None or line[merit] > most):
            best, most = (settings, posterior), line[merit]
    return lines, best


def judge_all(
    table: Table,
    y: npt.NDArray[Any],
    candidates: list[dict[str, Any]],
    given: dict[str, Any],
    time_budget: float | None,
) -> Iterator[tuple[dict[str, Any], TreePosterior | None]]:
    """Yield line and posterior of each candidate, one by one or on an open backend of joblib."""
    elsewhere = open_backend(given["n_jobs"])
    if elsewhere is not None and len(candidates) > 1:
        seconds = elsewhere.share(time_budget, len(candidates))
        told = {**given, "time_budget": seconds, "n_jobs": 1}
        tasks = [(table, y, settings, told) for settings in candidates]
        yield from elsewhere.run(_judge, tasks)
        return
    started = clock.monotonic()
    for index, settings in enumerate(candidates):
        share = None
        if time_budget is not None:
            left = time_budget - (clock.monotonic() - started)
            if index and left <= 0:
                yield _line(settings, "time_budget was over before its turn."), None
                continue
            share = max(left, 0.05 * time_budget) / (len(candidates) - index)
        yield _judge(table, y, settings, {**given, "time_budget": share})


def _list(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray | pandas.Series):
        value = value.tolist()  # Python's own numbers
    # ("bcart", base, decay) is one prior.
    one = isinstance(value, str) or (isinstance(value, tuple) and value[:1] == ("bcart",))
    return [value] if one or not isinstance(value, Iterable) else list(value)


def _judge(
    X: Any, y: Any, settings: dict[str, Any], given: dict[str, Any]
) -> tuple[dict[str, Any], TreePosterior | None]:
    """Infer at some settings; return the line of the table, and the posterior if there is one."""
    begun = clock.monotonic()
    seconds = given["time_budget"]
    if seconds is not None:
        given = {**given, "time_budget": FIT_SHARE * seconds}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the error is in the table
            posterior = infer(X, y, **settings, **given)
            if posterior.interrupted:  # and so is the comparison
                raise KeyboardInterrupt
            if seconds is not None:  # of what the posterior has left, scoring needs some, too
                seconds = max(0.5 * (seconds - (clock.monotonic() - begun)), LEAST * seconds)
            mass, mass_error = log_prior_mass(
                posterior.rows,
                posterior.score,
                exact=given["engine"] == "exact",
                time_budget=seconds,
                n_jobs=given["n_jobs"],
            )
    except BudgetExceeded as refusal:
        return {**_line(settings, str(refusal)), "seconds": clock.monotonic() - begun}, None
    error = math.hypot(evidence_error(posterior), mass_error)
    comparable = math.isfinite(posterior.log_evidence) and error <= LARGEST_ERROR
    result = leave_one_out(posterior)
    line = _line(settings) | {
        "log_evidence": posterior.log_evidence - mass,
        "error": error,
        "comparable": comparable,
        "log_score": result.score,
        "log_score_error": result.error,
        "mean_splits": posterior.mean_splits,
        "note": "" if comparable else "The evidence is not known to a nat.",
    }
    return {**line, "seconds": clock.monotonic() - begun}, posterior


def _line(settings: dict[str, Any], note: str = "") -> dict[str, Any]:
    """Return the line of the table of settings that could not be judged."""
    nothing = dict.fromkeys(("log_evidence", "error", "log_score", "log_score_error"), math.nan)
    unknown = {"comparable": False, "mean_splits": math.nan, "note": note, "seconds": 0.0}
    return {**settings, **nothing, **unknown}
