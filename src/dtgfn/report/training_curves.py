"""How the fit went: the engine's history as a few curves of bounded length."""

from __future__ import annotations

import math
from typing import Any

from dtgfn.evaluation import even_steps
from dtgfn.posterior.tree_posterior import TreePosterior

MOST_POINTS = 300
CLOCKS = ("step", "sweep", "seconds")
# What is worth a curve, in the order of interest, with name and unit.
CURVES = {
    "elbo": ("ELBO", "nats"),
    "log_evidence": ("log evidence", "nats"),
    "log_z": ("learned log Z", "nats"),
    "mean_log_reward": ("mean log R", "nats"),
    "best_log_reward": ("best log R", "nats"),
    "ess": ("effective sample size", "share"),
    "open": ("open mass", "share"),
    "loss": ("loss", None),
    "epsilon": ("exploration", "share"),
}


def training_curves(posterior: TreePosterior) -> dict[str, Any] | None:
    """Return the curves of a history; None where an engine has none.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0]] * 9, [0, 1] * 9, engine="smc", max_depth=1)
    >>> training_curves(posterior)["x_name"]
    'sweep'

    """
    entries = posterior.history
    clock = next((name for name in CLOCKS if entries and name in entries[0]), None)
    if clock is None:
        return None
    entries = [entries[place] for place in even_steps(len(entries), MOST_POINTS)]
    series: list[dict[str, Any]] = [
        {"key": key, "name": name, "unit": unit, "y": [_known(e.get(key)) for e in entries]}
        for key, (name, unit) in CURVES.items()
    ]
    return {
        "x_name": clock,
        "x": [entry[clock] for entry in entries],
        "series": [curve for curve in series if any(y is not None for y in curve["y"])],
        "log_evidence": _known(posterior.log_evidence),
    }


def _known(value: Any) -> float | None:
    number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if number else None
