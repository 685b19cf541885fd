"""Leave-one-out log score of an ensemble in closed form, and the temperature that it chooses.

A tree T puts row i, of class c and weight v, in leaf l. Without the row the leaf's probability of
the row's class and the tree's reward are::

    p_i(T) = (n_lc - v + a) / (n_l - v + C a)         R_-i(T) = R(T) / q_i(T)
    q_i(T) = m(n_l) / m(n_l - v e_c)                  which is p_i(T) for v = 1

so with w(T) the tree's share of R^(1/t), nothing has to be fitted again::

    P(y_i | x_i, the other rows) = sum_T w q_i^(-1/t) p_i / sum_T w q_i^(-1/t)

A tree that has row i alone in a leaf does not exist without it, and gets no weight. The grid of
thresholds, which knows no labels, is held fixed, and so are the rules of the prior "bcart".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas
from scipy.special import gammaln

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.backends import open_backend
from dtgfn.engines.contract import BudgetExceeded
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import distinct_trees, node_sums, route
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Score

TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
PATIENCE = 2  # temperatures in a row that may score worse than the best before the search ends
MOST_JUDGED = 5000  # rows
CHUNK = 1_000_000  # numbers of trees times rows looked at together


@dataclass(frozen=True)
class LeaveOneOut:
    """What an ensemble says of each of its training rows without having seen it.

    Attributes
    ----------
    log_prob : float64 [n]
        log P(y_i | x_i, the other rows).
    effective : float64 [n]
        Share of the ensemble's weight that the ensemble without the row rests on, 0 to 1.
    weight : float64 [n]
        Weight of each row.

    """

    log_prob: Floats
    effective: Floats
    weight: Floats

    @property
    def score(self) -> float:
        """Mean log probability of a row, by weight."""
        return float(np.average(self.log_prob, weights=self.weight))

    @property
    def error(self) -> float:
        """Standard error of the score, from the spread of the rows."""
        spread = np.average((self.log_prob - self.score) ** 2, weights=self.weight)
        return math.sqrt(spread * float((self.weight**2).sum()) / float(self.weight.sum()) ** 2)


def leave_one_out(posterior: TreePosterior) -> LeaveOneOut:
    """Score every training row by the ensemble of the others; of a large table, 5000 of them.

    Where few of the trees speak for the ensemble without a row, their factors q^(-1/t) vary wildly.
    They are cut off at their mean times the root of the number of trees (Ionides 2008), which
    keeps the variance finite and vanishes as trees are added; ``effective`` tells where that
    matters.

    Parameters
    ----------
    posterior : TreePosterior
        Whose trees, weights and training rows.

    Returns
    -------
    LeaveOneOut
        Mean log score, the score of each row, and the effective number of trees.

    Examples
    --------
    >>> import dtgfn
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> posterior = dtgfn.infer(X, y, engine="exact", max_depth=1, n_thresholds=3, random_state=0)
    >>> round(leave_one_out(posterior).score, 3)
    -0.011

    """
    posterior = as_posterior(posterior)
    posterior.check_single_rows("Leaving one row out")
    rows, score, trees = posterior.rows, posterior.score, posterior.trees
    model, labels = class_leaf(score), rows.target.astype(np.int32, copy=False)
    first, member = distinct_trees(trees)  # draws of a narrow posterior are often equal
    distinct = trees[first]
    counts, n_rows = node_sums(distinct, rows.codes, labels, rows.weight, model)
    totals = counts.sum(axis=-1)
    share = posterior.weights[:, None]
    judged = _judged_rows(len(labels))
    codes, labels, weights = rows.codes[judged], labels[judged], rows.weight[judged]
    n = len(labels)
    log_prob, effective = np.empty(n), np.empty(n)
    concentration = model.concentration
    batch = member[:, None]
    step = max(CHUNK // len(trees), 1)
    for begin in range(0, n, step):
        part = slice(begin, min(begin + step, n))
        leaf = route(distinct, codes[part])[member]
        weight = weights[part]
        own = counts[batch, leaf, labels[part]] + concentration
        every = totals[batch, leaf] + model.n_classes * concentration
        probability = (own - weight) / (every - weight)
        log_factor = -_log_ratio(own, every, weight) / score.temperature
        alone = n_rows[batch, leaf] == 1
        log_prob[part], effective[part] = _left_out(share, log_factor, probability, alone)
    return LeaveOneOut(log_prob, effective, weights)


def _judged_rows(n_rows: int) -> npt.NDArray[np.int64]:
    """Rows that are left out: all, or of a large table as many as tell temperatures apart."""
    if n_rows <= MOST_JUDGED:
        return np.arange(n_rows)
    drawn = np.random.default_rng(0).choice(n_rows, MOST_JUDGED, replace=False)
    return np.sort(drawn)  # always the same ones, so that temperatures are compared on them


def class_leaf(score: Score) -> DirichletLeaf:
    """Return the leaf model of classes, or say that there is none."""
    if not isinstance(score.leaf, DirichletLeaf):
        raise TypeError(
            f"Leaves are {type(score.leaf).__name__}, not classes; rows can be left out in closed "
            "form of class counts only."
        )
    return score.leaf


def _log_ratio(own: Floats, every: Floats, weight: Floats) -> Floats:
    """Log of q = m(n) / m(n - v e_c) from n_c + a [B, n], n + C a [B, n] and v [n]."""
    if (weight == 1).all():
        return np.asarray(np.log(own - 1) - np.log(every - 1))
    of_class = gammaln(own) - gammaln(own - weight)
    return np.asarray(of_class - gammaln(every) + gammaln(every - weight))


def _left_out(
    share: Floats, log_factor: Floats, probability: Floats, alone: np.ndarray
) -> tuple[Floats, Floats]:
    """Log probabilities and effective shares [n] of rows left out, all arguments [B, n]."""
    lost = (alone | (share == 0)).all(axis=0)  # nobody is left; such leaves answer 1 / C
    log_factor = np.where(alone & ~lost, -np.inf, log_factor)
    factor = np.exp(log_factor - log_factor.max(axis=0))
    kept = share * factor
    ceiling = kept.sum(axis=0) * math.sqrt(len(factor))  # the mean factor, times the root
    factor = np.minimum(factor, ceiling)
    kept = share * factor
    kept /= kept.sum(axis=0)
    effective = (share**2).sum() / np.maximum((kept**2).sum(axis=0), 1e-300)
    return np.log((kept * probability).sum(axis=0)), np.where(lost, 0.0, np.minimum(effective, 1))


@dataclass(frozen=True)
class TemperatureChoice:
    """The temperature with the best log score, its posterior, and all that were tried.

    ``table`` has a row per temperature: temperature, log_score, its error (over rows), effective
    (the worst row's share of the ensemble), mean_splits and seconds.
    """

    temperature: float
    posterior: TreePosterior
    table: pandas.DataFrame


def choose_temperature(
    infer_at: Callable[[float, float | None], TreePosterior],
    *,
    temperatures: Sequence[float] = TEMPERATURES,
    time_budget: float | None = None,
    n_jobs: int | None = None,
) -> TemperatureChoice:
    """Infer at rising temperatures until the log score has fallen short of the best one twice.

    ``infer_at(temperature, seconds)`` returns the posterior of R^(1/temperature). The budget is
    shared: each temperature gets an even part of what those before it have left, less what scoring
    took; none is begun that could not be scored in time.

    Parameters
    ----------
    infer_at : function
        Takes a temperature and seconds, gives the posterior.
    temperatures : sequence of float
        What to try, from the first on.
    time_budget : float or None
        Seconds; None for no limit.
    n_jobs : int or None
        How many temperatures are tried at once where a backend of joblib is open, all of them in
        advance; as many as it has if None.

    Returns
    -------
    TemperatureChoice
        The best temperature, its posterior, and all scores.

    Examples
    --------
    >>> import dtgfn
    >>> X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5
    >>> def infer_at(temperature, seconds):
    ...     given = dict(engine="exact", max_depth=1, n_thresholds=3, time_budget=seconds)
    ...     return dtgfn.infer(X, y, temperature=temperature, random_state=0, **given)
    >>> choose_temperature(infer_at).temperature
    1.0

    """
    started = clock.monotonic()
    table: list[dict[str, float]] = []
    best: tuple[float, TreePosterior, float] | None = None
    since, judging = 0, 0.0
    infer_at = _ahead(infer_at, temperatures, time_budget, n_jobs) or infer_at
    for index, temperature in enumerate(map(float, temperatures)):
        begun = clock.monotonic()
        seconds = None
        if time_budget is not None:
            left, n_left = time_budget - (begun - started), len(temperatures) - index
            if best is not None and left < judging:
                break
            seconds = max(left / n_left - judging, 0.05 * time_budget / n_left)
        try:
            posterior = infer_at(temperature, seconds)
        except BudgetExceeded:
            if best is not None:
                break
            if seconds is None or time_budget is None:
                raise
            # Its share was too short: one temperature is better than none.
            left = time_budget - (clock.monotonic() - started)
            posterior = infer_at(temperature, max(left, seconds))
        if posterior.interrupted:  # and so is the search
            raise KeyboardInterrupt
        inferred = clock.monotonic()
        result = leave_one_out(posterior)
        now = clock.monotonic()
        judging = now - inferred
        table.append(_line(temperature, posterior, result, now - begun))
        since += 1
        if best is None or result.score > best[2]:
            best, since = (temperature, posterior, result.score), 0
        late = time_budget is not None and now - started > time_budget
        if since == PATIENCE or late:
            break
    if best is None:
        raise ValueError("temperatures is empty; give at least one.")
    return TemperatureChoice(best[0], best[1], pandas.DataFrame(table))


def _ahead(
    infer_at: Callable[[float, float | None], TreePosterior],
    temperatures: Sequence[float],
    time_budget: float | None,
    n_jobs: int | None,
) -> Callable[[float, float | None], TreePosterior] | None:
    """Try all temperatures on an open backend of joblib, and return what looks them up there."""
    elsewhere = open_backend(n_jobs)
    if elsewhere is None or len(temperatures) < 2:
        return None
    seconds = elsewhere.share(time_budget, len(temperatures))
    tried = map(float, temperatures)
    found = list(elsewhere.run(_try, [(infer_at, each, seconds) for each in tried]))
    known = dict(zip(map(float, temperatures), found, strict=True))

    def look_up(temperature: float, _: float | None) -> TreePosterior:
        posterior = known[temperature]
        if isinstance(posterior, BudgetExceeded):
            raise posterior
        return posterior

    return look_up


def _try(
    infer_at: Callable[[float, float | None], TreePosterior], at: float, seconds: float | None
) -> TreePosterior | BudgetExceeded:
    """The posterior at a temperature, or the refusal."""
    try:
        return infer_at(at, seconds)
    except BudgetExceeded as refusal:
        return refusal


def _line(
    temperature: float, posterior: TreePosterior, result: LeaveOneOut, seconds: float
) -> dict[str, float]:
    """Return the line of the table of a temperature."""
    return {
        "temperature": temperature,
        "log_score": result.score,
        "error": result.error,
        "effective": float(result.effective.min()),
        "mean_splits": posterior.mean_splits,
        "seconds": seconds,
    }
