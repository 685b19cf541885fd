"""Depth, penalty and temperature of bags, chosen by the log score of rows out of bag.

A coordinate search: from penalty "mdl", depth 5 and temperature 1 on, the settings that are to be
chosen are gone through one after the other. Each goes up its grid, towards larger trees or wider
posteriors, until two values in a row were no better than the best, and is then kept at its best;
this is repeated until nothing changes. Trials have few bags, and the same ones, so that what
differs between them is the setting. All bags are then inferred at what was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.json_values import none_if_nan
from dtgfn.engines.contract import BudgetExceeded, Run
from dtgfn.inference.method import Method
from dtgfn.inference.penalty import penalty_grid
from dtgfn.inference.temperature import PATIENCE, TEMPERATURES
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import PenaltyPrior, Rows, Score

DEPTHS = (3, 5, 8)
FEW_BAGS = 25
ROUNDS = 2
SEARCH_SHARE = 0.5  # of the time; the rest is for all bags at what was chosen


@dataclass(frozen=True)
class Grid:
    """A setting's values, in the order in which they are tried, and how a score is given one."""

    values: tuple[float, ...]
    of: Callable[[Score], float]
    put: Callable[[Score, float], Score]


def depth_of(score: Score) -> float:
    """Largest depth."""
    return score.max_depth


def penalty_of(score: Score) -> float:
    """Nats per split, nan where the prior has none."""
    return score.prior.penalty if isinstance(score.prior, PenaltyPrior) else float("nan")


def make_grids(score: Score, names: tuple[str, ...]) -> list[Grid]:
    """Grids of the settings to choose; the score has penalty "mdl" where that is one of them."""
    costs = penalty_grid(score) if "split_penalty" in names else ()
    known = {
        "split_penalty": Grid(costs, penalty_of, lambda s, v: replace(s, prior=PenaltyPrior(v))),
        "max_depth": Grid(DEPTHS, depth_of, lambda s, v: replace(s, max_depth=int(v))),
        "temperature": Grid(
            TEMPERATURES, lambda s: s.temperature, lambda s, v: replace(s, temperature=v)
        ),
    }
    return [grid for name, grid in known.items() if name in names]


def infer_best_bags(
    method: Method, rows: Rows, score: Score, run: Run, names: tuple[str, ...]
) -> TreePosterior:
    """Infer the bagged posterior at the best of the settings that ``names`` name.

    The others are as in ``score``, which is also where the search begins.
    ``diagnostics["tried"]`` has a line for every trial: the three settings, log_score (None where
    time was too short for all bags, or no row is out of bag), mean_splits, bags and seconds.
    """
    if not isinstance(run.random_state, int | np.integer):  # all trials are to have the same bags
        seed = int(np.random.default_rng(run.random_state).integers(2**31))
        run = replace(run, random_state=seed)
    grids = make_grids(score, names)
    trials = Trials(method, rows, run, sum(len(grid.values) for grid in grids))
    best = search(trials, score, grids)
    posterior = trials.posterior_of(best)
    if posterior is None:
        budget = run.time_budget
        left = None if budget is None else max(budget - trials.used, (1 - SEARCH_SHARE) * budget)
        posterior = method.infer(rows, best, replace(run, time_budget=left))
    tried = {"tried": trials.lines, "seconds": trials.used}
    return replace(posterior, diagnostics={**posterior.diagnostics, **tried})


def search(trials: Trials, score: Score, grids: list[Grid]) -> Score:
    """Return the best score known when nothing changes any more, or the time is over."""
    best, most = score, trials.log_score(score)
    for _ in range(ROUNDS if len(grids) > 1 else 1):
        before = best
        for grid in grids:
            worse, here = 0, best
            for value in grid.values:
                if value == grid.of(here):  # known already
                    worse = 0
                    continue
                if worse == PATIENCE or trials.is_over:
                    break
                other = grid.put(here, value)
                found = trials.log_score(other)
                if found is not None and (most is None or found > most):
                    best, most, worse = other, found, 0
                else:
                    worse += 1
        if best == before:
            break
    return best


class Trials:
    """Settings that were tried on a few bags, each once; ``n_expected`` of them share the time."""

    def __init__(self, method: Method, rows: Rows, run: Run, n_expected: int) -> None:
        assert method.bags is not None, "these are trials of bags"
        n_bags = min(method.bags.n_bags, run.n_trees)
        n_few = min(FEW_BAGS, n_bags)
        self.whole = n_few == n_bags  # so few bags that a trial is the answer
        self.method = replace(method, bags=replace(method.bags, n_bags=n_few))
        self.rows, self.n_expected = rows, n_expected
        n_trees = max(-(-run.n_trees * n_few // n_bags), 2)
        self.run = replace(run, n_trees=n_trees, progress=self.show)
        self.progress = run.progress
        self.started = clock.monotonic()
        self.lines: list[dict[str, Any]] = []
        self.found: dict[Score, float | None] = {}
        self.best: tuple[Score, TreePosterior] | None = None

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return clock.monotonic() - self.started

    @property
    def is_over(self) -> bool:
        """Whether the time of the search is over."""
        budget = self.run.time_budget
        return budget is not None and self.used > SEARCH_SHARE * budget

    def show(self, stage: str, share: float | None, detail: str = "") -> None:
        """Tell that settings are tried; how many there will be is not known."""
        self.progress("choosing settings", None, f"{len(self.lines)} tried")

    def log_score(self, score: Score) -> float | None:
        """Out-of-bag log score of a few bags at some settings; None if it could not be had."""
        if score in self.found:
            return self.found[score]
        begun, posterior, seconds = clock.monotonic(), None, None
        if self.run.time_budget is not None:
            left = SEARCH_SHARE * self.run.time_budget - self.used
            even = left / max(self.n_expected - len(self.lines), 1)
            seconds = max(even if self.method.engine.fills_time else left, 1e-3)
        try:
            posterior = self.method.infer(self.rows, score, replace(self.run, time_budget=seconds))
        except BudgetExceeded:
            if not self.lines:
                raise
        told = {} if posterior is None else posterior.diagnostics
        value = told.get("out_of_bag_log_score")
        if self.lines and "bags_left_out" in told:  # fewer bags score worse, whatever the setting
            value = None
        best = max((v for v in self.found.values() if v is not None), default=None)
        if posterior is not None and (not self.lines or (value is not None and value > best)):
            self.best = score, posterior
        self.found[score] = value
        self.lines.append(
            {
                "split_penalty": none_if_nan(penalty_of(score)),
                "max_depth": score.max_depth,
                "temperature": score.temperature,
                "log_score": value,
                "mean_splits": None if posterior is None else posterior.mean_splits,
                "bags": told.get("bags", 0),
                "seconds": clock.monotonic() - begun,
            }
        )
        return value

    def posterior_of(self, score: Score) -> TreePosterior | None:
        """Return the posterior of these settings if a trial had all bags."""
        if not self.whole or self.best is None or self.best[0] != score:
            return None
        return None if "bags_left_out" in self.best[1].diagnostics else self.best[1]
