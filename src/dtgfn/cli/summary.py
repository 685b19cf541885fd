"""A fitted model as a plain dict, and that dict as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtgfn._support.json_values import none_if_nan
from dtgfn._support.printable import visible
from dtgfn.diagnostics.judgement import verdict
from dtgfn.estimators import DTGFNAnomalyDetector
from dtgfn.estimators.base import PosteriorEstimator
from dtgfn.explain.text import tree_text
from dtgfn.posterior.of_model import as_posterior


def summarise(model: PosteriorEstimator | DTGFNAnomalyDetector) -> dict[str, Any]:
    """Gather what a person asks first about a fitted model; every value is plain JSON.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> summarise(model)["columns"]
    [{'name': 'x0', 'inclusion': 0.99...}]

    """
    if isinstance(model, DTGFNAnomalyDetector):
        return _detector_summary(model)
    posterior = as_posterior(model)
    judged = verdict(posterior)
    inclusion = zip(model.binner_.column_names, posterior.column_inclusion, strict=True)
    return {
        "estimator": type(model).__name__,
        "engine": posterior.engine,
        "verdict": {name: judged[name] for name in ("level", "sentence", "doubts")},
        "settings": _settings(model),
        "rows": float(posterior.rows.weight.sum()),
        "classes": None if posterior.classes is None else posterior.class_names,
        "log_evidence": none_if_nan(posterior.log_evidence),
        "log_evidence_error": none_if_nan(posterior.log_evidence_error),
        "mean_splits": posterior.mean_splits,
        "size_probability": [float(p) for p in posterior.size_probability],
        "columns": [
            {"name": name, "inclusion": float(probability)}
            for name, probability in sorted(inclusion, key=lambda pair: -pair[1])
        ],
        "best_tree": {
            "log_reward": posterior.best_log_reward,
            "probability": none_if_nan(posterior.best_probability),
            "n_splits": int(posterior.best_tree.n_splits[0]),
            "depth": int(posterior.best_tree.depth[0]),
            "rules": tree_text(posterior),
        },
        "sampled_trees": len(posterior.trees),
        "diagnostics": posterior.diagnostics,
    }


def _settings(model: PosteriorEstimator | DTGFNAnomalyDetector) -> dict[str, Any]:
    left_out = ("verbose", "n_jobs", "inference")
    return {name: value for name, value in model.get_params().items() if name not in left_out}


def _detector_summary(model: DTGFNAnomalyDetector) -> dict[str, Any]:
    return {
        "estimator": type(model).__name__,
        "engine": model.inference,
        "settings": _settings(model),
        "columns": [{"name": name} for name in model.binner_.column_names],
        "views": len(model.views_),
        "trees": sum(len(view.trees) for view in model.views_),
        "offset": model.offset_,
    }


def summary_text(
    summary: dict[str, Any], n_columns: int = 15, phrase: Callable[[str], str] = str
) -> str:
    """Write a summary for a terminal; ``phrase`` puts parameters into the reader's words."""
    if "views" in summary:
        return (
            f"Anomaly detector ({summary['engine']} engine): {summary['trees']} trees in "
            f"{summary['views']} views of {len(summary['columns'])} columns.\n"
            f"A row with a score below {summary['offset']:.4g} is an anomaly "
            f"(contamination {summary['settings']['contamination']})."
        )
    best, diagnostics = summary["best_tree"], summary["diagnostics"]
    log_evidence, error = summary["log_evidence"], summary["log_evidence_error"]
    said = "one estimate" if error is None else f"+- {error:.3f}"
    if summary["engine"] == "exact":
        said = "exact"
    elif diagnostics.get("exact") is True:
        said = "sampled, no gap left"
    unknown = f"not estimated by {summary['engine']}"
    evidence = unknown if log_evidence is None else f"{log_evidence:.4f} ({said})"
    share = best["probability"]
    probability = "" if share is None else f"posterior probability {share:.3g}, "
    classes = "" if summary["classes"] is None else f", {len(summary['classes'])} classes"
    lines = [
        f"Posterior over decision trees ({summary['engine']} engine, fit: "
        f"{summary['verdict']['level']}): {summary['rows']:g} rows, "
        f"{len(summary['columns'])} columns{classes} "
        f"({diagnostics['seconds']:.2f} s)",
        *(phrase(line) for line in _doubtful(summary["verdict"])),
        f"log evidence     {evidence}",
        f"splits per tree  {summary['mean_splits']:.2f} on average; " + _sizes(summary),
        "",
        f"Most probable tree known ({probability}log R {best['log_reward']:.3f}):",
        *("  " + line for line in best["rules"].splitlines()),
        "",
        "Probability that a column is used:",
    ]
    shown = [(visible(c["name"]), c["inclusion"]) for c in summary["columns"][:n_columns]]
    width = max(len(name) for name, _ in shown)
    for name, inclusion in shown:
        bar = "#" * round(20 * inclusion)
        lines.append(f"  {name:<{width}}  {inclusion:.3f}  {bar}".rstrip())
    if len(summary["columns"]) > n_columns:
        lines.append(f"  ... and {len(summary['columns']) - n_columns} more (--json lists all)")
    return "\n".join(lines)


def _doubtful(judged: dict[str, Any]) -> list[str]:
    """What speaks against a fit, where it is not good."""
    if judged["level"] == "good":
        return []
    return [f"! {judged['sentence']}", *(f"! {doubt}" for doubt in judged["doubts"])]


def _sizes(summary: dict[str, Any], n_shown: int = 3) -> str:
    """The likeliest numbers of splits, e.g. '2 (61 %), 3 (30 %)'."""
    probability = np.array(summary["size_probability"])
    order = np.argsort(-probability)[:n_shown]
    return ", ".join(f"{s} ({probability[s]:.0%})" for s in order if probability[s] >= 0.005)
