"""Scores of held-out rows, and which rows they are, as JSON of an archive, and back, checked."""

from __future__ import annotations

from typing import Any

from dtgfn.storage.archived_parts import finite, plain

SCORES = (
    "accuracy", "log_loss", "brier", "calibration_error", "auc", "average_precision",
    "rmse", "mean_absolute_error", "r2", "coverage", "level", "auroc", "f1",
)  # fmt: skip
COUNTS = ("rows", "coverage_rows", "anomalies")
MOST_ROWS = 2**53


def held_out_to_meta(scores: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a file keeps of scores: numbers, and the numbers of the rows."""
    if scores is None:
        return None
    kept = {name: scores[name] for name in (*COUNTS, *SCORES, "event") if name in scores}
    baseline = scores.get("baseline")
    if baseline is not None:
        kept["baseline"] = {name: baseline[name] for name in SCORES if name in baseline}
    return plain({**kept, "row_numbers": scores.get("row_numbers", [])})


def held_out_from(meta: Any) -> dict[str, Any]:
    """Read scores back; a ValueError says what is wrong."""
    if not isinstance(meta, dict):
        raise ValueError("its held-out scores are none")
    scores: dict[str, Any] = {"rows": _count(meta["rows"])}
    scores |= {name: _count(meta[name]) for name in COUNTS if name in meta}
    scores |= _scores_from(meta)
    if "event" in meta:
        if not isinstance(meta["event"], str):
            raise ValueError("its held-out scores are of an event without a name")
        scores["event"] = meta["event"]
    if meta.get("baseline") is not None:
        scores["baseline"] = _scores_from(meta["baseline"])
    numbers = meta["row_numbers"]
    if not isinstance(numbers, list) or len(numbers) > scores["rows"]:
        raise ValueError("its held-out rows have no usable numbers")
    return {**scores, "row_numbers": [_count(number) for number in numbers]}


def _scores_from(meta: Any) -> dict[str, Any]:
    if not isinstance(meta, dict):
        raise ValueError("its held-out scores are none")
    found = {name: meta[name] for name in SCORES if name in meta}
    return {name: None if value is None else finite(value) for name, value in found.items()}


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_ROWS:
        raise ValueError("its held-out rows have no usable numbers")
    return value
