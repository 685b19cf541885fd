"""What a report tells of sums of trees: what was fitted, how it went, and what depends on what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas

from dtgfn._support.arrays import Floats
from dtgfn.estimators.base import PosteriorEstimator
from dtgfn.explain.column_dependence import sum_dependence
from dtgfn.explain.column_labels import target_title
from dtgfn.explain.posterior_columns import class_titles
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.report.posterior_facts import event_name, plain_number, settings_of, training_curves
from dtgfn.trees.leaf_models import NormalLeaf

MOST_COLUMNS = 6  # whose dependence is drawn
MOST_OUTPUTS = 3  # of the classes, those that vary most
MOST_ROWS = 200  # that are asked for it


def sum_facts(model: PosteriorEstimator, posterior: SumPosterior) -> dict[str, Any]:
    """Tell what was fitted, and how."""
    numbers, summed = isinstance(posterior.leaf, NormalLeaf), posterior.summed
    chains = len(posterior.diagnostics["sweeps_per_chain"])
    said = "log odds" if summed.n_sums == 1 else "a score for each class, which softmax makes one"
    parts = "leaves" if summed.lines is None else "leaves and straight lines"
    return {
        "estimator": type(model).__name__,
        "task": "numbers" if numbers else "classes",
        "engine": posterior.engine,
        "engine_sentence": f"{chains} chains drew every tree of a sum anew, given the others, in "
        f"each sweep; {summed.n_draws:,} sums of {summed.n_summed:,} trees were kept.",
        "rows": float(posterior.rows.weight.sum()),
        "n_columns": posterior.n_columns,
        "classes": None if numbers else class_titles(posterior),
        "event": event_name(model),
        "target": target_title(model.binner_),
        "seconds": posterior.diagnostics["seconds"],
        **settings_of(model),
        "prior_sentence": "Small trees are likelier than large ones, and what a leaf says is near "
        "zero: each tree says a little.",
        "leaf_sentence": f"What {parts} say of a row adds up to the number, with normal noise."
        if numbers
        else f"What {parts} say of a row adds up to {said} probability.",
    }


def chain_curves(posterior: SumPosterior) -> dict[str, Any] | None:
    """Return the curves of the chains' course; classes have no noise of their own."""
    curves = training_curves(posterior)
    if curves is not None and posterior.is_of_classes:
        curves["series"] = [series for series in curves["series"] if series["key"] != "noise"]
    return curves


def dependences(
    posterior: SumPosterior, names: list[str], event: str | None
) -> list[dict[str, Any]]:
    """How predictions depend on each named column, of the outputs that vary most."""
    return [
        _dependence(name, sum_dependence(posterior, name, None, 0.9, MOST_ROWS), event)
        for name in names[:MOST_COLUMNS]
    ]


def _dependence(name: str, frame: pandas.DataFrame, event: str | None) -> dict[str, Any]:
    outputs = list(dict.fromkeys(frame["output"]))
    means = np.array([frame[frame["output"] == output]["mean"] for output in outputs])
    order = np.argsort(-np.ptp(means, axis=1), kind="stable")[:MOST_OUTPUTS]
    kept = sorted(order.tolist())
    if len(outputs) == 2:
        names = [str(output) for output in outputs]
        kept = [1 if event is None else names.index(event)]
    one = frame[frame["output"] == outputs[0]]
    is_number = one["above"].notna()
    return {
        "column": name,
        "values": [str(value) for value in one["value"]],
        "cuts": [float(cut) for cut in one["up_to"][is_number][:-1]] if is_number.any() else None,
        "rows": _plain(one["rows"].to_numpy()),
        "outputs": [
            {
                "name": str(outputs[k]),
                **{
                    measure: _plain(frame[frame["output"] == outputs[k]][measure].to_numpy())
                    for measure in ("mean", "low", "high")
                },
            }
            for k in kept
        ],
    }


def _plain(values: Floats) -> list[Any]:
    return [plain_number(float(value)) for value in values]
