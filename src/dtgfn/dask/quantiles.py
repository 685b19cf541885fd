"""Exact quantiles of columns that no one machine holds, digit by digit.

Doubles are put in order as whole numbers of 64 bits. A round counts, for each quantile, the weight
below every next digit, and keeps the digit where the quantile is; after all digits it is known to
the last bit. The result is that of sorting all rows, whatever the partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from dtgfn._support.arrays import Floats, Int64s, UInt64s
from dtgfn.dask.cluster import Cluster
from dtgfn.dask.facts import read_part
from dtgfn.dask.partitions import Partitions
from dtgfn.dask.whole_numbers import weights_in_units

DIGITS = (16, 12, 12, 12, 12)  # bits of each round
FORGIVEN = 1 + 1e-12  # as in data/thresholds.py: weights that are not whole leave a rounding error
SIGN = np.uint64(1 << 63)


class Search(NamedTuple):
    """The quantiles of one column that are looked for."""

    column: int
    prefix: UInt64s  # [Q] the digits that are known
    below: Int64s  # [Q] weight below all numbers with these digits


def as_keys(values: Floats) -> UInt64s:
    """Whole numbers in the order of the doubles."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def as_values(keys: UInt64s) -> Floats:
    """Doubles of these keys."""
    return np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64)


def columns_of_part(part: Any, columns: Sequence[int], unit: float) -> Any:
    """Keys and weights of the numbers that are there, for some columns of a part that was read."""
    table, _, weight = part
    amount = weights_in_units(weight, unit)
    for column in columns:
        values = cast(Floats, table.columns[column].values)
        there = ~np.isnan(values)
        yield as_keys(values[there]), amount[there]


def count_digits(
    number: int, x: Any, y: Any, weight: Any, numbers: bool, searches: list[Search], at: int,
    unit: float,
) -> list[Int64s]:  # fmt: skip
    """Weight [prefixes, digits] of a part's numbers by their next digit, for each column."""
    bits, shift = DIGITS[at], 64 - sum(DIGITS[: at + 1])
    out = [np.zeros((len(np.unique(s.prefix)), 1 << bits), dtype=np.int64) for s in searches]
    part = read_part(number, x, y, weight, numbers)
    if part is None:
        return out
    columns = columns_of_part(part, [search.column for search in searches], unit)
    for (keys, amount), search, counts in zip(columns, searches, out, strict=True):
        known = np.unique(search.prefix)
        digit = keys >> np.uint64(shift)
        prefix = digit >> np.uint64(bits)
        place = np.minimum(np.searchsorted(known, prefix), len(known) - 1)
        inside = known[place] == prefix
        index = (place[inside] << bits) + (digit[inside] & np.uint64((1 << bits) - 1)).astype(int)
        np.add.at(counts.reshape(-1), index, amount[inside])
    return out


def next_values(
    number: int, x: Any, y: Any, weight: Any, numbers: bool, searches: list[Search]
) -> list[Floats]:
    """The smallest number of a part above each quantile; infinity if there is none."""
    out = [np.full(len(search.prefix), np.inf) for search in searches]
    part = read_part(number, x, y, weight, numbers)
    if part is None:
        return out
    columns = columns_of_part(part, [search.column for search in searches], 1.0)
    for (keys, _), search, found in zip(columns, searches, out, strict=True):
        values = np.append(as_values(np.sort(keys)), np.inf)
        found[:] = values[np.searchsorted(values, as_values(search.prefix), side="right")]
    return out


def exact_quantiles(
    cluster: Cluster,
    parts: Partitions,
    columns: Sequence[int],
    numbers: bool,
    n_thresholds: int,
    unit: float,
) -> list[tuple[Floats, Floats]]:
    """Of each column the values just below and just above its thresholds, ascending."""
    none = np.zeros(n_thresholds, dtype=np.int64)
    searches = [Search(column, none.astype(np.uint64), none) for column in columns]
    totals: list[int] = []
    for at in range(len(DIGITS)):
        tasks = parts.tasks(count_digits, numbers, searches, at, unit)
        counted = cluster.merge_tasks(tasks, add_lists)
        totals = totals or [int(counts.sum()) for counts in counted]
        given = zip(searches, counted, totals, strict=True)
        searches = [advance(search, counts, total, at) for search, counts, total in given]
    searches = [search._replace(prefix=np.unique(search.prefix)) for search in searches]
    above = cluster.merge_tasks(parts.tasks(next_values, numbers, searches), least_of_lists)
    return [
        (as_values(search.prefix)[after < np.inf], after[after < np.inf])
        for search, after in zip(searches, above, strict=True)
    ]


def advance(search: Search, counts: Int64s, total: int, at: int) -> Search:
    """Find the next digit of each quantile."""
    n = len(search.prefix)
    place = np.searchsorted(np.unique(search.prefix), search.prefix)
    here = counts[place]
    upto = search.below[:, None] + np.cumsum(here, axis=1)
    wanted = np.arange(1, n + 1)[:, None] * total
    digit = np.argmax(upto.astype(np.float64) * (n + 1) * FORGIVEN >= wanted, axis=1)
    before = np.take_along_axis(upto - here, digit[:, None], axis=1)[:, 0]
    prefix = (search.prefix << np.uint64(DIGITS[at])) | digit.astype(np.uint64)
    return Search(search.column, prefix, before)


def add_lists(several: list[list[Int64s]]) -> list[Int64s]:
    """Add arrays up, place by place."""
    return [np.sum(each, axis=0) for each in zip(*several, strict=True)]


def least_of_lists(several: list[list[Floats]]) -> list[Floats]:
    """The least of each array, place by place."""
    return [np.min(each, axis=0) for each in zip(*several, strict=True)]
