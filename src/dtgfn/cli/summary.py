"""A fitted model as a plain dict, and that dict as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtgfn._support.json_values import none_if_nan
from dtgfn._support.printable import visible
from dtgfn.cli.scores import held_out_text
from dtgfn.data.binning import ColumnSpec
from dtgfn.data.meanings import shown_name
from dtgfn.diagnostics.judgement import verdict
from dtgfn.estimators import DTGFNAnomalyDetector
from dtgfn.estimators.base import PosteriorEstimator
from dtgfn.explain.posterior_columns import class_title
from dtgfn.explain.text import tree_text
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.equivalent_cuts import log_n_equivalent
from dtgfn.trees.left_out_rows import LeftOutRows
from dtgfn.trees.score import Rows

MOST_LINES_SHOWN = 5  # straight lines beside trees


def summarise(model: PosteriorEstimator | DTGFNAnomalyDetector) -> dict[str, Any]:
    """Gather what a person asks first about a fitted model; every value is plain JSON.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> summarise(model)["columns"]
    [{'name': 'x0', 'inclusion': 0.99...}]

    """
    scores = getattr(model, "held_out_", None)  # by ``dtgfn fit --test-size``
    held_out = {} if scores is None else {"held_out": _called(model, scores)}
    return {**_facts(model), **held_out}


def _called(model: PosteriorEstimator | DTGFNAnomalyDetector, scores: dict[str, Any]) -> Any:
    """Scores that call the event as trees do."""
    if "event" not in scores or isinstance(model, DTGFNAnomalyDetector):
        return scores
    return {**scores, "event": class_title(model.binner_, scores["event"])}


def _facts(model: PosteriorEstimator | DTGFNAnomalyDetector) -> dict[str, Any]:
    if isinstance(model, DTGFNAnomalyDetector):
        return _detector_summary(model)
    if isinstance(model.posterior_, SumPosterior):
        return {**_shared_summary(model), **_sum_facts(model)}
    posterior = as_posterior(model)
    inclusion = zip(model.binner_.columns, posterior.column_inclusion, strict=True)
    return {
        **_shared_summary(model),
        "log_evidence": none_if_nan(posterior.log_evidence),
        "log_evidence_error": none_if_nan(posterior.log_evidence_error),
        "size_probability": [float(p) for p in posterior.size_probability],
        "columns": [
            {**_column(spec), "inclusion": float(probability)}
            for spec, probability in sorted(inclusion, key=lambda pair: -pair[1])
        ],
        "best_tree": {
            "log_reward": posterior.best_log_reward,
            "probability": posterior.best_probability,
            "by_share": posterior.by_share,
            "equivalent": round(math.exp(float(log_n_equivalent(posterior.best_cuts)[0]))),
            "n_splits": int(posterior.best_tree.n_splits[0]),
            "depth": int(posterior.best_tree.depth[0]),
            "rules": tree_text(model),
        },
        "sampled_trees": len(posterior.trees),
    }


def _shared_summary(model: PosteriorEstimator) -> dict[str, Any]:
    """What is asked first of any posterior."""
    posterior = model.posterior_
    judged = verdict(posterior)
    return {
        "estimator": type(model).__name__,
        "engine": posterior.engine,
        "verdict": {name: judged[name] for name in ("level", "sentence", "doubts")},
        "settings": _settings(model),
        "rows": none_if_left_out(posterior.rows),
        "classes": None if posterior.classes is None else posterior.class_names,
        "mean_splits": posterior.mean_splits,
        "diagnostics": posterior.diagnostics,
    }


def none_if_left_out(rows: Rows) -> float | None:
    """Weight of the training rows, None if the model was saved without them."""
    return None if isinstance(rows, LeftOutRows) else float(rows.weight.sum())


def _sum_facts(model: PosteriorEstimator) -> dict[str, Any]:
    """What is asked first of sums of trees."""
    posterior = model.posterior_
    assert isinstance(posterior, SumPosterior), "the caller checks"
    summed = posterior.summed
    columns = model.binner_.columns
    share = zip(columns, posterior.column_use.mean(axis=0), strict=True)
    spread = zip(columns, posterior.line_spread.mean(axis=0), strict=True)
    return {
        "draws": summed.n_draws,
        "sums": summed.n_sums,
        "summed_trees": summed.n_summed,
        "columns": [
            {**_column(spec), "splits": float(splits)}
            for spec, splits in sorted(share, key=lambda pair: -pair[1])
        ],
        "lines": None
        if summed.lines is None
        else [
            {"name": spec.name, "spread": float(size)}
            for spec, size in sorted(spread, key=lambda pair: -pair[1])
        ],
    }


def _column(spec: ColumnSpec) -> dict[str, Any]:
    """Name of a column, and what it means if that was told."""
    meant = {} if spec.meaning is None else {"meaning": shown_name(spec.name, spec.meaning)}
    return {"name": spec.name, **meant}


def _settings(model: PosteriorEstimator | DTGFNAnomalyDetector) -> dict[str, Any]:
    left_out = ("verbose", "n_jobs", "inference")
    return {name: value for name, value in model.get_params().items() if name not in left_out}


def _detector_summary(model: DTGFNAnomalyDetector) -> dict[str, Any]:
    return {
        "estimator": type(model).__name__,
        "engine": model.inference,
        "settings": _settings(model),
        "columns": [_column(spec) for spec in model.binner_.columns],
        "views": len(model.views_),
        "trees": sum(len(view.trees) for view in model.views_),
        "offset": model.offset_,
    }


def summary_text(
    summary: dict[str, Any], n_columns: int = 15, phrase: Callable[[str], str] = str
) -> str:
    """Write a summary for a terminal; ``phrase`` puts parameters into the reader's words."""
    text = _text(summary, n_columns, phrase)
    return f"{text}\n\n{held_out_text(summary['held_out'])}" if "held_out" in summary else text


def _text(summary: dict[str, Any], n_columns: int, phrase: Callable[[str], str]) -> str:
    if "views" in summary:
        return (
            f"Anomaly detector ({summary['engine']} engine): {summary['trees']} trees in "
            f"{summary['views']} views of {len(summary['columns'])} columns.\n"
            f"A row with a score below {summary['offset']:.4g} is an anomaly "
            f"(contamination {summary['settings']['contamination']})."
        )
    if "draws" in summary:
        return "\n".join(_sum_lines(summary, n_columns, phrase))
    best, diagnostics = summary["best_tree"], summary["diagnostics"]
    log_evidence, error = summary["log_evidence"], summary["log_evidence_error"]
    said = "one estimate" if error is None else f"+- {error:.3f}"
    if summary["engine"] == "exact":
        said = "exact"
    elif diagnostics.get("exact") is True:
        said = "sampled, no gap left"
    unknown = f"not estimated by {summary['engine']}"
    evidence = unknown if log_evidence is None else f"{log_evidence:.4f} ({said})"
    lines = [
        _headline(f"Posterior over decision trees ({summary['engine']} engine, ", summary),
        *(phrase(line) for line in _doubtful(summary["verdict"])),
        f"log evidence     {evidence}",
        f"splits per tree  {summary['mean_splits']:.2f} on average; " + _sizes(summary),
        "",
        _best_line(best, summary["engine"] == "exact"),
        *("  " + line for line in best["rules"].splitlines()),
        "",
        "Probability that a column is used:",
        *_column_bars(summary["columns"], "inclusion", n_columns),
    ]
    return "\n".join(lines)


def _best_line(best: dict[str, Any], of_all: bool) -> str:
    """What the tree below is, and how probable."""
    probability = f"posterior probability {best['probability']:.3g}"
    if best["by_share"]:
        probability = f"{best['probability']:.3g} of the drawn trees"
    if best["equivalent"] > 1:
        probability += f", with thresholds anywhere in [ ]: {best['equivalent']:,} trees"
    return f"Most probable tree{'' if of_all else ' known'} ({probability}):"


def _sum_lines(
    summary: dict[str, Any], n_columns: int, phrase: Callable[[str], str]
) -> Iterator[str]:
    """Lines of a summary of sums of trees."""
    diagnostics = summary["diagnostics"]
    r_hat, worth = diagnostics["r_hat_mean"], diagnostics["ess_mean"]
    agreement = "too few draws to tell how far they agree"
    if r_hat is not None and worth is not None:
        agreement = f"R-hat {r_hat:.2f} on average, worth {worth:,.0f} independent draws"
    accepted, sweeps = diagnostics["acceptance"], diagnostics["sweeps_per_chain"]
    each = f"{summary['sums']} x " if summary["sums"] > 1 else ""
    yield _headline("Posterior over sums of trees (", summary)
    yield from (phrase(line) for line in _doubtful(summary["verdict"]))
    yield (
        f"draws            {summary['draws']} of {each}{summary['summed_trees']} trees, "
        f"{summary['mean_splits']:.2f} splits per tree on average"
    )
    yield f"chains           {len(sweeps)} of {min(sweeps)} sweeps at least: {agreement}"
    yield (
        f"accepted         {accepted['tree']:.0%} of proposed trees, {accepted['twig']:.0%} of "
        "subtrees"
    )
    yield "\nShare of the splits that are on a column:"
    yield from _column_bars(summary["columns"], "splits", n_columns)
    if summary["lines"]:
        unit = "the target's units" if summary["classes"] is None else "log odds"
        shown = summary["lines"][: min(n_columns, MOST_LINES_SHOWN)]
        width = max(len(visible(line["name"])) for line in shown)
        yield f"\nHow far straight lines part the rows (standard deviation, {unit}):"
        yield from (f"  {visible(line['name']):<{width}}  {line['spread']:.3g}" for line in shown)


def _headline(what: str, summary: dict[str, Any]) -> str:
    """What was fitted to how much, how well and how fast."""
    classes = "" if summary["classes"] is None else f", {len(summary['classes'])} classes"
    rows = "rows left out" if summary["rows"] is None else f"{summary['rows']:g} rows"
    return (
        f"{what}fit: {summary['verdict']['level']}): {rows}, "
        f"{len(summary['columns'])} columns{classes} ({summary['diagnostics']['seconds']:.2f} s)"
    )


def _column_bars(columns: list[dict[str, Any]], measure: str, n_columns: int) -> list[str]:
    """A bar for the share of each of the first columns."""
    shown = [
        (column.get("meaning") or visible(column["name"]), column[measure])
        for column in columns[:n_columns]
    ]
    width = max(len(name) for name, _ in shown)
    lines = [
        f"  {name:<{width}}  {share:.3f}  {'#' * round(20 * share)}".rstrip()
        for name, share in shown
    ]
    if len(columns) > n_columns:
        lines.append(f"  ... and {len(columns) - n_columns} more (--json lists all)")
    return lines


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
