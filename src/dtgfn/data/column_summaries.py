"""What one pass over a source learns of its columns: ranges, quantiles, categories, gaps."""

from __future__ import annotations

from typing import cast

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.binning import Binner, ColumnSpec, Texts, check_settings
from dtgfn.data.categories import count_texts, frequent
from dtgfn.data.quantile_sketch import QuantileSketch, capacity_for
from dtgfn.data.tables import Column, Table
from dtgfn.data.thresholds import HALF, NONE, Binning, place_between

MOST_TEXTS = 1 << 16  # of a column that are counted on after twice as many have come


class NumberSummary:
    """Range, missing cells and, where thresholds ask for them, quantiles of a number or boolean."""

    def __init__(self, capacity: int | None) -> None:
        self.low, self.high, self.has_missing = np.inf, -np.inf, False
        self.sketch = None if capacity is None else QuantileSketch(capacity)

    def add(self, values: Floats, weights: Floats | None) -> None:
        """Look at a chunk."""
        absent = np.isnan(values)
        if absent.any():
            self.has_missing = True
            values = values[~absent]
            weights = None if weights is None else weights[~absent]
        if len(values):
            self.low = min(self.low, float(values.min()))
            self.high = max(self.high, float(values.max()))
            if self.sketch is not None:
                self.sketch.add(values + 0.0, weights)  # makes 0.0 of -0.0

    def thresholds(self, column: Column, binning: Binning, n_thresholds: int) -> Floats:
        """Thresholds of all rows, as ``fit_binner`` places them."""
        if not self.low < self.high:
            return NONE
        if column.kind == "boolean":
            return HALF
        if self.sketch is None:
            ends = np.array([self.low, self.high]) + 0.0
            return place_between(ends, NONE, binning, n_thresholds)
        values, mass = self.sketch.summary()
        return place_between(values, mass, binning, n_thresholds)


class TextSummary:
    """Weight of every text, of very many texts of the frequent ones; and whether some are missing.

    When there are twice ``MOST_TEXTS``, the weight of the text that is ``MOST_TEXTS`` + 1 in order
    is taken from all, and those with nothing left are forgotten (Misra and Gries). So a text's
    weight is too small by at most one part in ``MOST_TEXTS`` of all.
    """

    def __init__(self) -> None:
        self.mass: dict[str, float] = {}
        self.total, self.has_missing = 0.0, False

    def add(self, texts: Texts, weights: Floats | None) -> None:
        """Look at a chunk."""
        found, mass, missing = count_texts(texts, weights)
        self.has_missing |= missing
        self.total += float(mass.sum())
        for text, weight in zip(found, mass.tolist(), strict=True):
            self.mass[text] = self.mass.get(text, 0.0) + weight
        if len(self.mass) > 2 * MOST_TEXTS:
            least = sorted(self.mass.values())[-MOST_TEXTS - 1]
            self.mass = {text: m - least for text, m in self.mass.items() if m > least}

    def categories(self) -> tuple[str, ...]:
        """Categories of all rows, as ``fit_binner`` chooses them."""
        texts = sorted(self.mass)
        return frequent(texts, np.array([self.mass[text] for text in texts]), self.total)


class TableSummary:
    """Summaries of all columns of a source, chunk by chunk.

    >>> from dtgfn.data.tables import as_table
    >>> summary = TableSummary("uniform", 3)
    >>> for cells in ([[0.0, "red"]], [[4.0, "blue"]]):
    ...     summary.add(as_table(cells), None)
    >>> [spec.thresholds.tolist() or spec.categories for spec in summary.binner().columns]
    [[1.0, 2.0, 3.0], ('blue', 'red')]
    """

    def __init__(self, binning: Binning, n_thresholds: int) -> None:
        check_settings(binning, n_thresholds)
        self.binning, self.n_thresholds = binning, int(n_thresholds)
        self.columns: list[Column] = []  # of the first chunk: names and kinds
        self.summaries: list[NumberSummary | TextSummary] = []

    def add(self, table: Table, weights: Floats | None) -> None:
        """Look at a chunk of rows, none of which weighs nothing."""
        if not self.columns:
            self.columns = list(table.columns)
            capacity = None if self.binning == "uniform" else capacity_for(table.n_columns)
            self.summaries = [
                TextSummary() if column.kind == "category" else NumberSummary(capacity)
                for column in table.columns
            ]
        for summary, column in zip(self.summaries, table.columns, strict=True):
            if isinstance(summary, TextSummary):
                summary.add(cast(Texts, column.values), weights)
            else:
                summary.add(cast(Floats, column.values), weights)

    @property
    def error_bound(self) -> float:
        """Largest share of the weight that a threshold at a quantile may be off by."""
        numbers = (each for each in self.summaries if isinstance(each, NumberSummary))
        return max((n.sketch.error_bound for n in numbers if n.sketch is not None), default=0.0)

    def binner(self) -> Binner:
        """Thresholds and categories of all chunks."""
        specs = []
        for column, summary in zip(self.columns, self.summaries, strict=True):
            thresholds = NONE
            categories: tuple[str, ...] = ()
            if isinstance(summary, TextSummary):
                categories = summary.categories()
            else:
                thresholds = summary.thresholds(column, self.binning, self.n_thresholds)
            specs.append(
                ColumnSpec(column.name, column.kind, thresholds, categories, summary.has_missing)
            )
        return Binner(tuple(specs), True, self.binning, self.n_thresholds)
