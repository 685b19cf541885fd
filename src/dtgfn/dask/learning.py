"""From pass one to a binner and a leaf model: what one machine would learn from all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats
from dtgfn.dask.cluster import Cluster
from dtgfn.dask.facts import (
    CATEGORY_UNITS,
    ColumnFacts,
    Facts,
    check_facts,
    facts_of_part,
    merge_facts,
    read_part,
)
from dtgfn.dask.partitions import Partitions
from dtgfn.dask.quantiles import exact_quantiles
from dtgfn.dask.whole_numbers import exact_sum, unit_for
from dtgfn.data.binning import Binner, ColumnSpec, check_settings
from dtgfn.data.categories import frequent
from dtgfn.data.thresholds import HALF, NONE, Binning, between, place_thresholds
from dtgfn.trees.leaf_models import (
    DirichletLeaf,
    LeafModel,
    NormalLeaf,
    check_normal,
    fit_dirichlet,
    normal_units,
)


@dataclass(frozen=True)
class Learned:
    """What coding needs to know, and is the same on every worker.

    Attributes
    ----------
    binner : Binner
        How columns become codes.
    leaf : LeafModel
        Of classes how many, of numbers where they are.
    classes : array [C] or None
        The labels; None of numbers.
    unit : float64 [K]
        What one is worth in each of the leaf's sums.
    weight : float or None
        Weight of all rows, if every row's is a whole number.
    n_rows : int
        Rows that count.

    """

    binner: Binner
    leaf: LeafModel
    classes: npt.NDArray[Any] | None
    unit: Floats
    weight: float | None
    n_rows: int

    @property
    def numbers(self) -> bool:
        """Whether targets are numbers."""
        return self.classes is None


def learn(
    cluster: Cluster, parts: Partitions, leaf: LeafModel, binning: Binning, n_thresholds: int
) -> Learned:
    """Learn thresholds, categories, classes and units from all partitions."""
    check_settings(binning, n_thresholds)
    if binning == "midpoint":
        raise ValueError(
            "binning='midpoint' needs every distinct number of a column in one place; give "
            "'uniform' or 'quantile' for a table on many machines."
        )
    numbers = isinstance(leaf, NormalLeaf)
    facts = cluster.merge_tasks(parts.tasks(facts_of_part, numbers), merge_facts)
    check_facts(facts)
    weight = float(facts.weight)
    unit = 1.0 if facts.whole_weights else unit_for(weight)
    thresholds = quantile_thresholds(cluster, parts, facts, binning, numbers, n_thresholds, unit)
    specs = [
        learn_column(column, binning, n_thresholds, thresholds.get(index))
        for index, column in enumerate(facts.columns)
    ]
    binner = Binner(tuple(specs), facts.named, binning, int(n_thresholds))
    whole = weight if facts.whole_weights else None
    if isinstance(leaf, DirichletLeaf):
        assert facts.classes is not None
        fitted = fit_dirichlet(leaf, facts.classes)
        units = np.full(fitted.n_classes, unit)
        return Learned(binner, fitted, facts.classes, units, whole, facts.n_rows)
    assert isinstance(leaf, NormalLeaf)
    normal = learn_normal(cluster, parts, leaf, facts)
    furthest = max(
        abs(facts.lowest - normal.location), abs(facts.highest - normal.location), 1e-300
    ) / normal.scale  # fmt: skip
    units = np.array([unit, unit_for(weight * furthest), unit_for(weight * furthest**2)])
    return Learned(binner, normal, None, units, whole, facts.n_rows)


def quantile_thresholds(
    cluster: Cluster,
    parts: Partitions,
    facts: Facts,
    binning: Binning,
    numbers: bool,
    n_thresholds: int,
    unit: float,
) -> dict[int, Floats]:
    """Thresholds of number columns at their quantiles, if these are asked for."""
    wanted = [
        index
        for index, column in enumerate(facts.columns)
        if column.kind == "number" and column.low < column.high and binning == "quantile"
    ]
    if not wanted:
        return {}
    found = exact_quantiles(cluster, parts, wanted, numbers, n_thresholds, unit)
    return {index: between(*sides) for index, sides in zip(wanted, found, strict=True)}


def learn_column(
    column: ColumnFacts, binning: Binning, n_thresholds: int, quantiles: Floats | None
) -> ColumnSpec:
    """What training teaches about one column."""
    kind = column.kind or "number"
    if kind == "category":
        names = sorted(column.masses)
        mass = np.array([column.masses[name] for name in names]) / CATEGORY_UNITS
        kept = frequent(names, mass, float(mass.sum()))
        return ColumnSpec(column.name, kind, NONE, kept, column.has_missing)
    thresholds = NONE
    if column.low < column.high and kind == "boolean":
        thresholds = HALF
    elif quantiles is not None:
        thresholds = quantiles
    elif column.low < column.high:
        ends = np.array([column.low, column.high]) + 0.0  # makes 0.0 of -0.0
        thresholds = place_thresholds(ends, binning, n_thresholds, None)
    return ColumnSpec(column.name, kind, thresholds, (), column.has_missing)


def learn_normal(cluster: Cluster, parts: Partitions, leaf: NormalLeaf, facts: Facts) -> NormalLeaf:
    """Location and scale of all numbers, each rounded once."""
    check_normal(leaf)
    location = float(facts.target / facts.weight)
    squares = cluster.merge_tasks(parts.tasks(squares_of_part, location), sum_exactly)
    scale = math.sqrt(float(squares / facts.weight))
    return replace(leaf, **normal_units(location, scale))


def squares_of_part(number: int, x: Any, y: Any, weight: Any, location: float) -> Fraction:
    """Weighted squares of a part's distances from the mean, added up exactly."""
    part = read_part(number, x, y, weight, numbers=True)
    if part is None:
        return Fraction(0)
    _, target, weights = part
    return exact_sum(weights * (target - location) ** 2)


def sum_exactly(several: Sequence[Fraction]) -> Fraction:
    """Add up without rounding."""
    return sum(several, Fraction(0))
