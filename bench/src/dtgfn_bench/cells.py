"""Cells of the usual shape: every method on every table with every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtgfn_bench.experiment import Cell
from dtgfn_bench.method_lookup import find_method

PAPER_TABLES = ("iris", "wine", "breast-cancer", "raisin")
PAPER_SEEDS = (1, 2, 3, 4, 5)
PRINTED = "DT-GFN, as printed"


def method_cells(
    experiment: str,
    tables: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    quick: bool,
    variant: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Cell]:
    """Cells of methods at their own settings, but for ``changes`` that they have a setting for."""
    cells = []
    for name in methods:
        method = find_method(name)
        settings = {**method.settings, **(method.quick if quick else {})}
        settings |= {key: value for key, value in changes.items() if key in settings}
        cells += [
            Cell(experiment, table, name, seed, settings, variant or {})
            for table in tables
            for seed in seeds
        ]
    return cells


def method_labels(names: Sequence[str]) -> dict[str, str]:
    """What tables call the methods; "dt-gfn" is the paper's own, known by its printed figures."""
    return {name: PRINTED if name == "dt-gfn" else find_method(name).label for name in names}
