"""The split penalty of one posterior, chosen by its evidence on a small grid.

All penalties of the grid are as probable before the labels are seen, so given them they are so in
proportion to the evidence, the prior's own mass included (``prior_mass.py``)::

    P(penalty | y, X) proportional to Z(penalty) / M(penalty)

The posterior is that of the most probable penalty, not the mixture over all of them: a mixture is
no product over nodes, so no engine's sums, no file and no weighting by R could hold it. How much
that leaves out is told: ``diagnostics["penalties"]`` has the probability of each.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.callers import levels_to_caller
from dtgfn._support.json_values import none_if_nan
from dtgfn.diagnostics.judgement import UntrustworthyFit
from dtgfn.engines.contract import BudgetExceeded, Run
from dtgfn.inference.method import Method
from dtgfn.inference.prior_mass import FIT_SHARE, LARGEST_ERROR, evidence_error, log_prior_mass
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import PenaltyPrior, Rows, Score

PENALTIES = (1.0, 0.7, 0.5, 0.35)  # times what a split costs with "mdl"
LEAST = 0.1  # of a penalty's time, for the prior's mass in any case


def penalty_grid(score: Score) -> tuple[float, ...]:
    """Penalties to choose from, in nats per split; the score has the penalty "mdl"."""
    assert isinstance(score.prior, PenaltyPrior), "mdl is one"
    return tuple(share * score.prior.penalty for share in PENALTIES)


def infer_at_best_penalty(method: Method, rows: Rows, score: Score, run: Run) -> TreePosterior:
    """Return the posterior at the penalty with the largest evidence.

    ``diagnostics["penalties"]`` has a line for each: split_penalty, log_evidence (log Z - log M)
    and its error, comparable (whether it is known to a nat), probability among the comparable ones,
    mean_splits, seconds and note. Where none is comparable, the penalty is "mdl", and a warning
    says so.
    """
    started = clock.monotonic()
    lines: list[dict[str, Any]] = []
    first: TreePosterior | None = None
    best: tuple[float, TreePosterior] | None = None
    grid = penalty_grid(score)
    for index, penalty in enumerate(grid):
        seconds = None
        if run.time_budget is not None:
            left = run.time_budget - (clock.monotonic() - started)
            if lines and left <= 0:
                lines.append(_line(penalty, note="time_budget was over before its turn."))
                continue
            seconds = max(left, 0.05 * run.time_budget) / (len(grid) - index)
        there = replace(score, prior=PenaltyPrior(penalty))
        line, posterior = _judge(method, rows, there, replace(run, time_budget=seconds))
        lines.append(line)
        first = posterior if index == 0 else first
        if line["comparable"] and (best is None or line["log_evidence"] > best[0]):
            assert posterior is not None, "what is comparable has one"
            best = line["log_evidence"], posterior
    _add_probabilities(lines)
    if best is None and first is None:
        raise BudgetExceeded(lines[0]["note"])
    if best is None:
        warnings.warn(
            "The evidence of no penalty is known to a nat, so split_penalty='auto' is "
            f"'mdl', {lines[0]['split_penalty']:.4g}; allow more time_budget, or give a penalty.",
            UntrustworthyFit,
            stacklevel=levels_to_caller(),
        )
    chosen = best[1] if best is not None else first
    assert chosen is not None, "else there was a refusal"
    return replace(chosen, diagnostics={**chosen.diagnostics, "penalties": lines})


def _judge(
    method: Method, rows: Rows, score: Score, run: Run
) -> tuple[dict[str, Any], TreePosterior | None]:
    """Infer at one penalty; return its line, and the posterior if there is one."""
    begun, seconds = clock.monotonic(), run.time_budget
    assert isinstance(score.prior, PenaltyPrior), "the grid has penalties only"
    line = _line(score.prior.penalty)
    posterior = None
    try:
        of_fit = None if seconds is None else FIT_SHARE * seconds
        posterior = method.infer(rows, score, replace(run, time_budget=of_fit))
        if posterior.interrupted:  # and so is the comparison
            raise KeyboardInterrupt
        if seconds is not None:
            seconds = max(seconds - (clock.monotonic() - begun), LEAST * seconds)
        mass, mass_error = log_prior_mass(
            rows,
            score,
            exact=method.engine.name == "exact",
            time_budget=seconds,
            n_jobs=run.n_jobs,
        )
    except BudgetExceeded as refusal:
        return {**line, "note": str(refusal), "seconds": clock.monotonic() - begun}, posterior
    error = math.hypot(evidence_error(posterior), mass_error)
    comparable = math.isfinite(posterior.log_evidence) and error <= LARGEST_ERROR
    found = {
        "log_evidence": none_if_nan(posterior.log_evidence - mass),
        "error": none_if_nan(error),
        "comparable": comparable,
        "mean_splits": posterior.mean_splits,
        "seconds": clock.monotonic() - begun,
        "note": "" if comparable else "The evidence is not known to a nat.",
    }
    return {**line, **found}, posterior


def _line(penalty: float, note: str = "") -> dict[str, Any]:
    """Return the line of a penalty that could not be judged."""
    unknown = dict.fromkeys(("log_evidence", "error", "mean_splits"), None)
    known = {"comparable": False, "probability": 0.0, "seconds": 0.0, "note": note}
    return {"split_penalty": penalty, **unknown, **known}


def _add_probabilities(lines: list[dict[str, Any]]) -> None:
    """Add the probability of each comparable penalty to its line."""
    comparable = [line for line in lines if line["comparable"]]
    if not comparable:
        return
    log_evidence = np.array([line["log_evidence"] for line in comparable])
    share = np.exp(log_evidence - log_evidence.max())
    for line, probability in zip(comparable, (share / share.sum()).tolist(), strict=True):
        line["probability"] = probability
