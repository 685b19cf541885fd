"""Rows to look at in a report: held-out ones, or typical ones made from the coded training rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats, Int64s
from dtgfn.data.binning import Binner, encode
from dtgfn.data.tables import Column, Table, take
from dtgfn.evaluation import LEVEL, even_steps
from dtgfn.explain.column_labels import values_of_codes, values_of_table
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaves import NormalLeaf

MOST_ROWS = 40
N_UNCERTAIN = 12
QUANTILES = {
    "a training row with a low target": 0.05,
    "a training row with a target below the middle": 0.25,
    "a training row with a target in the middle": 0.5,
    "a training row with a target above the middle": 0.75,
    "a training row with a high target": 0.95,
}


class Examples(NamedTuple):
    """Rows with a name, values by column, and the truth as a place or a number if known."""

    names: list[str]
    values: list[dict[str, Any]]
    table: Table
    truth: list[Any]


def held_out_examples(
    binner: Binner, table: Table, truth: npt.NDArray[Any] | None, unsure: Floats
) -> Examples:
    """Choose rows of a held-out table: the least certain ones, and others at even steps.

    ``truth`` [n] is what ``read_truth`` gives, ``unsure`` [n] each row's uncertainty.
    """
    chosen = spread_rows(unsure)
    marked = set(np.argsort(-unsure, kind="stable")[:N_UNCERTAIN].tolist())
    many = table.n_rows > MOST_ROWS
    names = [
        f"row {i + 1} of the held-out table" + (" (uncertain)" if many and i in marked else "")
        for i in chosen.tolist()
    ]
    part = take(table, chosen)
    known = [None] * len(chosen) if truth is None else truth[chosen].tolist()
    return Examples(names, values_of_table(binner, part), part, known)


def spread_rows(unsure: Floats) -> Int64s:
    """Places of at most 40 rows [n], in their order: the most uncertain ones, others evenly."""
    n_rows = len(unsure)
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    first = np.argsort(-unsure, kind="stable")[:N_UNCERTAIN]
    others = np.setdiff1d(np.arange(n_rows), first)
    steps = even_steps(len(others), MOST_ROWS - N_UNCERTAIN)
    return np.sort(np.concatenate([first, others[steps]])).astype(np.int64)


def typical_examples(posterior: TreePosterior) -> Examples:
    """Make typical rows of each class, or along the target, from the coded training rows.

    A model keeps codes, not values: a number is one from inside its bin.
    """
    binner = posterior.binner
    assert binner is not None, "infer always sets it"
    leaf = posterior.score.leaf
    if isinstance(leaf, NormalLeaf):
        places, names = _along_target(posterior)
        truth = (leaf.location + leaf.scale * posterior.rows.target[places]).tolist()
    else:
        places, names = _of_each_class(posterior)
        truth = posterior.rows.target[places].tolist()
    values = values_of_codes(binner, posterior.rows.codes[places])
    return Examples(names, values, table_of(binner, values), truth)


def _of_each_class(posterior: TreePosterior) -> tuple[Int64s, list[str]]:
    rows = posterior.rows
    weight = np.bincount(rows.target, weights=rows.weight, minlength=len(posterior.class_names))
    common = np.argsort(-weight, kind="stable")[:MOST_ROWS]
    present = np.sort(common[weight[common] > 0])
    places = [central_row(posterior, np.flatnonzero(rows.target == c)) for c in present]
    names = [f"a typical row of class {posterior.class_names[c]}" for c in present]
    return np.array(places, dtype=np.int64), names


def _along_target(posterior: TreePosterior) -> tuple[Int64s, list[str]]:
    rows = posterior.rows
    order = np.argsort(rows.target, kind="stable")
    upto = np.cumsum(rows.weight[order]) / rows.weight.sum()
    reached = np.searchsorted(upto, list(QUANTILES.values()))
    return order[np.minimum(reached, len(order) - 1)].astype(np.int64), list(QUANTILES)


def central_row(posterior: TreePosterior, members: Int64s) -> int:
    """Return the member whose codes are nearest to the members' median, column by column."""
    codes, weight = posterior.rows.codes[members].astype(np.float64), posterior.rows.weight[members]
    order = np.argsort(codes, axis=0, kind="stable")
    upto = np.cumsum(weight[order], axis=0)
    middle = (upto < weight.sum() / 2).sum(axis=0)
    median = np.take_along_axis(codes, order, axis=0)[middle, np.arange(codes.shape[1])]
    assert posterior.binner is not None, "infer always sets it"
    distance = (np.abs(codes - median) / np.maximum(posterior.binner.n_cuts, 1)).sum(axis=1)
    return int(members[int(np.argmin(distance))])


def table_of(binner: Binner, values: list[dict[str, Any]]) -> Table:
    """Rows of plain values as a table of the training columns."""
    columns = []
    for spec in binner.columns:
        cells = [row[spec.name] for row in values]
        if spec.kind == "category":
            columns.append(Column(spec.name, "category", np.array(cells, dtype=object)))
            continue
        numbers = [np.nan if cell is None else float(cell) for cell in cells]
        columns.append(Column(spec.name, spec.kind, np.array(numbers)))
    return Table(tuple(columns), len(values), binner.named)


def example_codes(binner: Binner, examples: Examples) -> Codes:
    """Codes [n, features] of examples."""
    return encode(binner, examples.table)


def told_rows(model: Any, examples: Examples) -> list[dict[str, Any]]:
    """Rows with everything the model says of them, as plain JSON values."""
    parts = model.predict_uncertainty(examples.table)
    uncertainty = [
        {"total": float(total), "noise": float(noise), "model": float(of_model)}
        for total, noise, of_model in zip(parts.total, parts.noise, parts.model, strict=True)
    ]
    if isinstance(model.posterior_.score.leaf, NormalLeaf):
        said = _told_numbers(model, examples)
    else:
        said = _told_classes(model, examples)
    return [
        {"name": name, "values": values, **row, "uncertainty": unsure}
        for name, values, row, unsure in zip(
            examples.names, examples.values, said, uncertainty, strict=True
        )
    ]


def _told_classes(model: Any, examples: Examples) -> list[dict[str, Any]]:
    names = model.posterior_.class_names
    return [
        {
            "truth": None if truth is None else names[truth],
            "probability": probability.tolist(),
            "prediction": names[int(probability.argmax())],
            "interval": None,
        }
        for probability, truth in zip(
            model.predict_proba(examples.table), examples.truth, strict=True
        )
    ]


def _told_numbers(model: Any, examples: Examples) -> list[dict[str, Any]]:
    interval = model.predict_interval(examples.table, LEVEL)
    return [
        {
            "truth": None if truth is None else f"{truth:.6g}",
            "probability": None,
            "prediction": float(prediction),
            "interval": bounds.tolist(),
        }
        for prediction, bounds, truth in zip(
            model.predict(examples.table), interval, examples.truth, strict=True
        )
    ]
