"""Scores on held-out rows: of a table that has the truth, and as words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtgfn.cli import inputs
from dtgfn.cli.console import note

if TYPE_CHECKING:
    from dtgfn.data.csv_dialect import CsvDialect
    from dtgfn.data.tables import Table

MOST_SEEN = 0.9  # share of rows that training had, beyond which they are hardly held out


def read_for_model(
    model: Any, source: str, target: str | None, written: CsvDialect, progress: bool
) -> tuple[Table, Any]:
    """Read the columns that a model wants, and the truth if its column is named."""
    text = inputs.text_columns_of(model)
    table, truth = _read(source, target, written, progress, text, getattr(model, "classes_", ()))
    return inputs.columns_for(model, table), truth


def read_beside(
    training: Table, labels: Any, source: str, target: str, written: CsvDialect, progress: bool
) -> tuple[Table, Any]:
    """Read rows to score on before a model is fitted to others: afterwards would be late.

    ``labels`` are those of the training rows, None if there are no classes.
    """
    from dtgfn.data.tables import keep_columns, label, listing

    text = [column.name for column in training.columns if column.kind == "category"]
    table, truth = _read(source, target, written, progress, text, () if labels is None else labels)
    if labels is not None:
        known = {label(value) for value in labels.tolist()}
        odd = dict.fromkeys(label(value) for value in truth.tolist() if label(value) not in known)
        if odd:
            raise ValueError(
                f"Column {target!r} of {source!r} holds {listing(odd)}, no class of the training "
                "rows; drop such rows."
            )
    inputs.check_names_of(training.names, table)
    return keep_columns(table, training.names), truth


def _read(
    source: str,
    target: str | None,
    written: CsvDialect,
    progress: bool,
    text_columns: list[str],
    classes: Any,
) -> tuple[Table, Any]:
    """Read a table and take the truth out, as text where classes are text."""
    from dtgfn._support.progress import progress_bar
    from dtgfn.data.tables import listing, split_column

    if target is not None and any(isinstance(name, str) for name in classes):
        text_columns = [*text_columns, target]
    with progress_bar(progress) as show:
        table = inputs.read_known(source, written, text_columns, show)
    if target is None:
        return table, None
    if target not in table.names:
        raise ValueError(
            f"There is no column {target!r} in the held-out rows of {source!r}; "
            f"the columns are {listing(table.names)}."
        )
    column, table = split_column(table, target)
    inputs.check_target(column)
    return table, inputs.labels(column) if column.kind == "boolean" else column.values


def score(model: Any, rows: Table, truth: Any, progress: bool) -> dict[str, Any]:
    """Score a model on rows that it has not seen; exact averages of many rows take a while."""
    from dtgfn._support.progress import progress_bar
    from dtgfn.evaluation import evaluate

    with progress_bar(progress) as show:
        show("scoring held-out rows", None)
        scores = evaluate(model, rows, truth)
    note_seen(model, rows, truth)
    return scores


def note_seen(model: Any, rows: Table, truth: Any) -> None:
    """Tell who scores a model on the rows that it was fitted to."""
    from dtgfn.evaluation import seen_share

    share = seen_share(model, rows, truth)
    if share is not None and share > MOST_SEEN:
        note(
            f"{share:.0%} of the held-out rows are like training rows in all columns and the "
            "target; are they held out? Scores of training rows flatter the model."
        )


def held_out_text(scores: dict[str, Any]) -> str:
    """Write scores in one line.

    >>> held_out_text({"rows": 2, "rmse": 0.5, "r2": None})
    'Held-out rows (2): rmse 0.500'
    """
    baseline = scores.get("baseline") or {}
    said = []
    for name, value in scores.items():
        if isinstance(value, float) and name != "level":
            known = baseline.get(name) if name != "calibration_error" else None
            beside = "" if known is None else f" (baseline {known:.3f})"
            said.append(f"{name.replace('_', ' ')} {value:.3f}{beside}")
    event = f", P({scores['event']})" if "event" in scores else ""
    return f"Held-out rows ({scores['rows']}{event}): {', '.join(said)}"
