"""Report: everything about a fitted model in one HTML file, or as a plain dict."""

from __future__ import annotations

import html
import json
import tempfile
import webbrowser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.atomic_write import write_atomically
from dtgfn._support.checks import check_integer
from dtgfn._version import __version__
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import Table
from dtgfn.diagnostics.judgement import verdict
from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier
from dtgfn.estimators.base import PosteriorEstimator
from dtgfn.estimators.labelled import with_labels
from dtgfn.evaluation import check_lengths, evaluate, read_truth
from dtgfn.explain.column_importance import co_occurrence, importances
from dtgfn.explain.column_labels import describe_columns, target_title
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.probable_trees import ProbableTrees
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.report.detector_facts import (
    anomaly_section,
    column_gains,
    detector_columns,
    detector_facts,
    scored_rows,
    telling_trees,
)
from dtgfn.report.explorer import (
    Examples,
    example_codes,
    explore,
    explorer_forest,
    forest_says,
    held_out_examples,
    predicted_rows,
    typical_examples,
)
from dtgfn.report.page import render_page
from dtgfn.report.posterior_facts import (
    event_name,
    holding_sentence,
    plain_number,
    posterior_facts,
    probable_trees,
    training_curves,
)
from dtgfn.report.short import in_short
from dtgfn.report.sum_facts import chain_curves, dependences, sum_facts
from dtgfn.report.what_if import MOST_NODES, what_if
from dtgfn.trees.leaf_models import NormalLeaf

MOST_IMPORTANT = 30
MOST_TOGETHER = 15
LOOKED_AT = 1000  # trees, to tell how many hold most of the probability
MOST_LABELS = 40  # of a confusion table
MOST_VALUES = 50  # columns of an example row; beyond, only those that the forest asks for
# Bytes of JSON: with its styles and scripts the page must stay below three megabytes.
ALL_BYTES = 2_300_000
TREE_BYTES, ROW_BYTES, ASKED_BYTES = 600_000, 400_000, 400_000
LEAST_FOREST_BYTES = 200_000


class Report:
    """What was fitted, how far to trust it, its trees, and rows to try; see ``gather``.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted or loaded.
    X, y : table, array or None
        Held-out rows and, if known, their targets.
    title : str or None
        Headline of the report.
    n_trees : int
        Most probable trees to draw.
    labels : dict, table, path or None
        What columns mean, see ``dtgfn.with_labels``.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> Report(model).to_dict()["trust"]["sentence"]
    'This is the exact answer: a sum over all trees, nothing is approximated.'

    """

    def __init__(
        self,
        model: Any,
        X: Any = None,
        y: Any = None,
        *,
        title: str | None = None,
        n_trees: int = 12,
        labels: Any = None,
    ) -> None:
        model = model if labels is None else with_labels(model, labels)
        self._report = gather(model, X, y, title=title, n_trees=n_trees)

    def __repr__(self) -> str:
        return f"Report({self._report['title']!r}); .save(path) writes it, .open() shows it"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a dict of plain JSON values."""
        return self._report

    def to_json(self, indent: int | None = None) -> str:
        """Write the dict as JSON."""
        return json.dumps(self._report, indent=indent, ensure_ascii=False, allow_nan=False)

    def to_html(self) -> str:
        """Write one HTML page that needs nothing else."""
        return render_page(self._report)

    def save(self, path: str | Path) -> None:
        """Write the HTML page to a file, complete or not at all."""
        write_atomically(Path(path), self.to_html().encode())

    def open(self) -> None:
        """Show the page in a browser, from a temporary file."""
        folder = Path(tempfile.mkdtemp(prefix="dtgfn-report-"))
        self.save(folder / "report.html")
        webbrowser.open((folder / "report.html").as_uri())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that styles do not mix."""
        page = html.escape(self.to_html(), quote=True)
        style = "width:100%;height:80vh;border:1px solid #8888;border-radius:6px"
        return f'<iframe title="dtgfn report" srcdoc="{page}" style="{style}"></iframe>'


def gather(
    model: Any, X: Any = None, y: Any = None, *, title: str | None = None, n_trees: int = 12
) -> dict[str, Any]:
    """Gather everything a report shows of a fitted model; every value is plain JSON.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted or loaded.
    X, y : table, array or None
        Held-out rows and, if known, their targets: they are scored and shown as examples.
    title : str or None
        Headline of the report.
    n_trees : int
        Most probable trees to describe node by node, fewer where they are very large.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> sorted(gather(model))[:6]
    ['co_occurrence', 'columns', 'fit', 'forest', 'held_out', 'history']

    """
    check_integer("n_trees", n_trees, 1, 100)
    if X is None and y is not None:
        raise ValueError("y is given without X; give the held-out rows that it belongs to.")
    if isinstance(model, DTGFNAnomalyDetector):
        return _detector_report(model, X, y, title, n_trees)
    if not isinstance(model, PosteriorEstimator):
        raise TypeError(f"A {type(model).__name__} has no report; give a fitted dtgfn model.")
    check_is_fitted(model, "posterior_")
    if isinstance(model.posterior_, SumPosterior):
        return _sum_report(model, model.posterior_, X, y, title)
    return _posterior_report(model, X, y, title, n_trees)


def _posterior_report(
    model: PosteriorEstimator, X: Any, y: Any, title: str | None, n_trees: int
) -> dict[str, Any]:
    posterior = as_posterior(model)
    examples, held_out = _examples(model, X, y)
    ranked, found = importances(model), posterior.most_probable(max(n_trees, LOOKED_AT))
    report = {
        **headline(model, title),
        "fit": posterior_facts(model),
        "columns": describe_columns(model.binner_),
        "trust": verdict(posterior),
        "history": training_curves(posterior),
        "trees": _trees(model, found, n_trees),
        "holding": holding_sentence(found),
        "n_holding": [found.n_holding(0.5), found.n_holding(0.9)],
        "sizes": _sizes(posterior),
        "importances": _importances(ranked),
        "n_importances": len(ranked),
        "co_occurrence": _co_occurrence(model, ranked.index[:MOST_TOGETHER].tolist()),
        "held_out": held_out,
    }
    report["short"] = in_short(model, report, _held(model, X, y))
    report["what_if"] = _what_if(posterior)
    report["forest"] = _forest(model, report, examples)
    report["rows"] = _rows(model, examples, report["forest"])
    return report


def _sum_report(
    model: PosteriorEstimator, posterior: SumPosterior, X: Any, y: Any, title: str | None
) -> dict[str, Any]:
    """A report without trees: no single one of a sum means anything."""
    examples, held_out = _examples(model, X, y)
    ranked = importances(model)
    report = {
        **headline(model, title),
        "fit": sum_facts(model, posterior),
        "columns": describe_columns(model.binner_),
        "trust": verdict(posterior),
        "history": chain_curves(posterior),
        "trees": [],
        "sizes": None,
        "importances": _importances(ranked),
        "n_importances": len(ranked),
        "co_occurrence": None,
        "dependence": dependences(posterior, ranked.index.tolist(), event_name(model)),
        "held_out": held_out,
        "forest": None,
        "rows": within(predicted_rows(model, examples), ROW_BYTES),
    }
    return {**report, "short": in_short(model, report, _held(model, X, y))}


def _detector_report(
    model: DTGFNAnomalyDetector, X: Any, y: Any, title: str | None, n_trees: int
) -> dict[str, Any]:
    check_is_fitted(model)
    gains = column_gains(model)
    report = {
        **headline(model, title),
        "fit": detector_facts(model),
        "columns": detector_columns(model),
        "trust": None,
        "history": None,
        "trees": within(telling_trees(model, n_trees), TREE_BYTES),
        "sizes": None,
        "importances": gains[:MOST_IMPORTANT],
        "n_importances": len(gains),
        "co_occurrence": None,
        "held_out": None,
        "forest": None,
        "rows": [],
        "anomaly": anomaly_section(model),
    }
    if X is not None:
        score = model.decision_function(X)
        examples = held_out_examples(model.binner_, *_table_and_truth(model, X, y), -score)
        shown = model.decision_function(examples.table)
        rows = scored_rows(model, examples.names, examples.values, shown, examples.truth)
        report["rows"] = within(rows, ROW_BYTES)
        report["held_out"] = None if y is None else evaluate(model, X, y)
    return {**report, "short": in_short(model, report)}


def headline(model: Any, title: str | None) -> dict[str, Any]:
    """Title, version and day."""
    usual, target = "Anomaly detector", None
    if not isinstance(model, DTGFNAnomalyDetector):
        of_sums, target = isinstance(model.posterior_, SumPosterior), target_title(model.binner_)
        usual = "Sums of decision trees" if of_sums else "Decision trees"
    said = usual if target is None else f"{usual} for {target}"
    said = said if title is None else str(title)
    today = datetime.now(UTC).date().isoformat()
    return {"title": said, "version": __version__, "made": today}


def _examples(model: PosteriorEstimator, X: Any, y: Any) -> tuple[Examples, dict[str, Any] | None]:
    """Rows to show, and the scores of held-out rows if their targets are known."""
    if X is None:
        kept = getattr(model, "held_out_", None)  # by ``dtgfn fit --test-size``
        return typical_examples(model.posterior_), shorter_confusion(kept) if kept else None
    unsure = model.predict_uncertainty(X).total  # type: ignore[attr-defined]
    examples = held_out_examples(model.binner_, *_table_and_truth(model, X, y), unsure)
    return examples, None if y is None else shorter_confusion(evaluate(model, X, y))


def _held(model: PosteriorEstimator, X: Any, y: Any) -> tuple[Any, Any] | None:
    """Held-out rows and their truth, codes of classes or numbers, if both are given."""
    return None if X is None or y is None else (X, read_truth(model, y))


def _table_and_truth(model: Any, X: Any, y: Any) -> tuple[Table, Any]:
    table = as_new_table(X)
    if y is None:
        return table, None
    truth = read_truth(model, y)
    check_lengths(table, truth)
    return table, truth


def shorter_confusion(scores: dict[str, Any]) -> dict[str, Any]:
    """Keep the classes that are confused most, where there are too many for a table."""
    confusion = scores.get("confusion")
    if confusion is None or len(confusion["labels"]) <= MOST_LABELS:
        return scores
    counts = np.array(confusion["counts"])
    wrong = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    kept = np.sort(np.argsort(-wrong, kind="stable")[:MOST_LABELS])
    shown = {
        "labels": [confusion["labels"][c] for c in kept],
        "counts": counts[np.ix_(kept, kept)].tolist(),
    }
    return {**scores, "confusion": {**shown, "n_labels": len(counts)}}


def within(items: list[Any], most_bytes: int) -> list[Any]:
    """Return the first items that take so many bytes of JSON together, at least one."""
    upto = np.cumsum([n_bytes(item) for item in items])
    return items[: max(int(np.searchsorted(upto, most_bytes, side="right")), 1)]


def _what_if(posterior: TreePosterior) -> dict[str, Any]:
    """What else may stand at nodes; fewer of these where they would take too much room."""
    asked, most = what_if(posterior), MOST_NODES
    while n_bytes(asked) > ASKED_BYTES and most > 1:
        most //= 4
        asked = what_if(posterior, most)
    if n_bytes(asked) <= ASKED_BYTES:
        return asked
    return {"nodes": [], "why": "It would take too much room in this file."}


def n_bytes(value: Any) -> int:
    """Length of a value as compact JSON."""
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _trees(model: PosteriorEstimator, found: ProbableTrees, n_trees: int) -> list[dict[str, Any]]:
    """Return the most probable trees that fit; those of very many classes in fewer digits."""
    trees = probable_trees(model, found, n_trees)
    if n_bytes(trees[0]) > TREE_BYTES:
        for node in (node for tree in trees for node in tree["nodes"]):
            node["value"] = [plain_number(round(value, 2)) for value in node["value"]]
    return within(trees, TREE_BYTES) if n_bytes(trees[0]) <= TREE_BYTES else []


def _forest(
    model: PosteriorEstimator, report: dict[str, Any], examples: Examples
) -> dict[str, Any]:
    """Return the forest in the space that is left, and how far its answers are from the model's."""
    posterior = as_posterior(model)
    left = max(ALL_BYTES - ROW_BYTES - n_bytes(report), LEAST_FOREST_BYTES)
    predictor = model._predictor()
    described, used = explore(predictor, explorer_forest(predictor), budget=left)
    numbers = isinstance(posterior.score.leaf, NormalLeaf)
    codes = example_codes(model.binner_, examples)
    said = forest_says(used, codes, described["sharpness"], numbers)
    if isinstance(model, DTGFNClassifier):
        wanted = model.predict_proba(examples.table)
    else:
        wanted = model.predict(examples.table)[:, None]  # type: ignore[attr-defined]
    draws = bool((model.options or {}).get("leaf_draws", False))
    return {
        **described,
        "exact_average": described["exact_average"] and not draws,
        "mean_difference": float(np.abs(said - wanted).mean()),
        "note": _forest_note(described, draws),
    }


def _forest_note(forest: dict[str, Any], draws: bool) -> str | None:
    """Say in words where the explorer's forest is not quite the model."""
    if draws:
        return "The model predicts with draws of leaf probabilities; this forest has their means."
    if forest["exact_average"]:
        return (
            "The model's own prediction is a sum over all trees; this forest is a sample of "
            f"{forest['n_draws']:,} of them."
        )
    if forest["n_used"] < forest["n_trees"]:
        return (
            f"{forest['n_used']:,} of the model's {forest['n_trees']:,} distinct trees stand for "
            "all of them here, to keep the file small."
        )
    return None


def _rows(
    model: PosteriorEstimator, examples: Examples, forest: dict[str, Any]
) -> list[dict[str, Any]]:
    rows = predicted_rows(model, examples)
    names = model.binner_.column_names
    if len(names) > MOST_VALUES:  # the others change nothing that the forest says
        used = {names[test["column"]] for test in forest["tests"]}
        for row in rows:
            row["values"] = {name: v for name, v in row["values"].items() if name in used}
    return within(rows, ROW_BYTES)


def _sizes(posterior: TreePosterior) -> dict[str, Any]:
    """Posterior of the number of splits and of the depth; the depth's is always of the sample."""
    depth = np.bincount(posterior.trees.depth, weights=posterior.weights)
    return {
        "exact": posterior.is_exact,
        "splits": [float(p) for p in posterior.size_probability],
        "depth": depth.tolist(),
        "mean_splits": posterior.mean_splits,
    }


def _importances(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    records = frame.iloc[:MOST_IMPORTANT].reset_index(names="name").to_dict("records")
    return [{str(key): value for key, value in record.items()} for record in records]


def _co_occurrence(model: PosteriorEstimator, names: list[str]) -> dict[str, Any] | None:
    """How often columns are used together; None with a single column."""
    if len(names) < 2:
        return None
    both = co_occurrence(model, "probability", names).to_numpy()
    lift = co_occurrence(model, "lift", names).to_numpy()
    return {
        "names": names,
        "probability": both.tolist(),
        "lift": [[None if np.isnan(v) else v for v in row] for row in lift.tolist()],
    }
