"""Scores on held-out rows: of a table that has the truth, and as words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtgfn.cli import inputs

if TYPE_CHECKING:
    from dtgfn.tables import Table


def rows_and_truth(model: Any, table: Table, target: str | None) -> tuple[Table, Any]:
    """Columns that a model wants, and the truth if it has a name."""
    from dtgfn.tables import split_column

    if target is None:
        return inputs.columns_for(model, table), None
    column, table = split_column(table, target)
    inputs.check_target(column)
    return inputs.columns_for(model, table), column.values


def score_table(model: Any, table: Table, target: str | None) -> dict[str, Any]:
    """Score a model on the rows of a table."""
    from dtgfn.held_out import score_held_out

    return score_held_out(model, *rows_and_truth(model, table, target))


def held_out_text(scores: dict[str, Any]) -> str:
    """Write scores in one line.

    >>> held_out_text({"rows": 2, "rmse": 0.5, "r2": None})
    'Held-out rows (2): rmse 0.500'
    """
    said = [
        f"{name.replace('_', ' ')} {value:.3f}"
        for name, value in scores.items()
        if isinstance(value, float) and name != "level"
    ]
    return f"Held-out rows ({scores['rows']}): {', '.join(said)}"
