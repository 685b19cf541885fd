"""What "auto" stands for: which settings are to be chosen, and by what.

With bags, depth, penalty and temperature are chosen by rows out of bag (``bag_search.py``). Of one
posterior the temperature is chosen by leaving rows out (``temperature.py``), or the penalty by its
evidence (``penalty.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dtgfn._support.backends import open_backend
from dtgfn._support.progress import silent
from dtgfn.engines.contract import Run
from dtgfn.inference.bag_search import infer_best_bags
from dtgfn.inference.method import Method
from dtgfn.inference.penalty import infer_at_best_penalty
from dtgfn.inference.temperature import choose_temperature
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel
from dtgfn.trees.score import Rows, Score

FIRST: dict[str, Any] = {"max_depth": 5, "split_penalty": "mdl", "temperature": 1.0}


def read_auto(settings: dict[str, Any], leaf: LeafModel, method: Method) -> tuple[str, ...]:
    """Return the names of the settings that are "auto"; refuse what cannot be chosen.

    ``settings`` are max_depth, split_penalty and temperature as a user gave them.
    """
    temperature = settings["temperature"]
    if isinstance(temperature, str) and temperature != "auto":
        raise ValueError(
            f"temperature={temperature!r} is not known; give a number from 0.01 to 1e6, or 'auto'."
        )
    names = tuple(name for name in FIRST if is_auto(settings[name]))
    if "max_depth" in names and hasattr(settings["split_penalty"], "node_terms"):
        raise ValueError(
            "max_depth='auto' tries depths that a prior of one's own was not made for; give a "
            "max_depth, or a split_penalty by name."
        )
    if names and getattr(method.options, "checkpoint", None) is not None:
        raise ValueError(
            f"{names[0]}='auto' trains once for each value, so there is no one checkpoint; leave "
            "it out, or give a value."
        )
    if method.bags is not None:
        return names
    if "max_depth" in names:
        raise ValueError(
            "max_depth='auto' is chosen by rows out of bag; give ensemble='bags' as well, or a "
            "whole number."
        )
    if "split_penalty" in names:
        check_evidence(method.engine.name, temperature)
    if "temperature" in names and not isinstance(leaf, DirichletLeaf):
        raise ValueError(
            "temperature='auto' leaves rows out of class counts, so without bags it is for classes "
            "only; give a number, or ensemble='bags'."
        )
    return names


def check_evidence(engine: str, temperature: float | str) -> None:
    """Refuse to compare penalties where there is no evidence to compare them by."""
    if engine == "mcmc":
        raise ValueError(
            "split_penalty='auto' compares evidences, which engine 'mcmc' does not estimate; give "
            "a penalty, another engine, or ensemble='bags'."
        )
    if temperature != 1.0:
        raise ValueError(
            f"temperature={temperature!r} has no evidence to choose split_penalty='auto' by; leave "
            "it out, give a penalty, or ensemble='bags'."
        )


def is_auto(value: Any) -> bool:
    """Whether a value is the word (an array would not be true or false)."""
    return isinstance(value, str) and value == "auto"


def infer_chosen(
    method: Method, rows: Rows, score: Score, run: Run, names: tuple[str, ...]
) -> TreePosterior:
    """Infer at the best of the settings named; the score has those of ``FIRST`` for them."""
    if not names:
        return method.infer(rows, score, run)
    if method.bags is not None:
        return infer_best_bags(method, rows, score, run, names)
    if "split_penalty" in names:
        return infer_at_best_penalty(method, rows, score, run)
    return infer_at_best_temperature(method, rows, score, run)


def infer_at_best_temperature(method: Method, rows: Rows, score: Score, run: Run) -> TreePosterior:
    """Return the posterior at the temperature with the best log score of rows left out.

    ``diagnostics["temperatures"]`` has the scores of all that were tried.
    """
    if open_backend(run.n_jobs) is not None:
        run = replace(run, progress=silent)  # a bar cannot be sent

    def infer_at(temperature: float, seconds: float | None) -> TreePosterior:
        tempered = replace(score, temperature=temperature)
        return method.infer(rows, tempered, replace(run, time_budget=seconds))

    choice = choose_temperature(infer_at, time_budget=run.time_budget, n_jobs=run.n_jobs)
    tried = {"temperatures": choice.table.to_dict("records")}
    return replace(choice.posterior, diagnostics={**choice.posterior.diagnostics, **tried})
