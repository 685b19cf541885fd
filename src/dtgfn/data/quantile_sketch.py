"""QuantileSketch: weighted quantiles of a number column that is seen once, chunk by chunk.

Chunks become summaries, distinct values with the weight on each, that are merged two by two like
the digits of a binary counter. A summary of more than ``capacity`` values is thinned: its weight is
parted into even shares, and the values in which a share ends stay, with all of the weight since the
one before. So the weight up to a value that stays is right, and up to any other too small by less
than one share; a value that weighs more than a share always stays.

Nothing is random. A column of at most ``capacity`` distinct values is known exactly. Of others a
quantile is off by at most ``error_bound``: (1 + log2(chunks)) / capacity of the weight.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.thresholds import distinct_values

LEAST_CAPACITY, LARGEST_CAPACITY = 1 << 11, 1 << 16
ALL_COLUMNS = 1 << 20  # values of all columns together, at one level of the counter


def capacity_for(n_columns: int) -> int:
    """Distinct values that a column's sketch knows exactly: 65,536, of many columns fewer.

    >>> [capacity_for(n_columns) for n_columns in (1, 20, 5000)]
    [65536, 32768, 2048]
    """
    even = ALL_COLUMNS // max(n_columns, 1)
    return 1 << (min(max(even, LEAST_CAPACITY), LARGEST_CAPACITY).bit_length() - 1)


class QuantileSketch:
    """Distinct values and their weights, thinned where there are more than ``capacity``.

    >>> sketch = QuantileSketch(4)
    >>> for start in range(3):
    ...     sketch.add(np.arange(start, 30.0, 3), None)
    >>> values, mass = sketch.summary()
    >>> float(values[-1]), float(mass.sum()), sketch.is_exact
    (29.0, 30.0, False)
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_chunks = 0
        self.is_exact = True
        self._levels: list[tuple[Floats, Floats] | None] = []

    @property
    def error_bound(self) -> float:
        """Largest share of the weight that a quantile may be off by."""
        if self.is_exact:
            return 0.0
        return (1 + math.ceil(math.log2(max(self.n_chunks, 1)))) / self.capacity

    def add(self, numbers: Floats, weights: Floats | None) -> None:
        """Count the numbers of a chunk, none of them NaN."""
        if len(numbers) == 0:
            return
        self.n_chunks += 1
        carried = self._thinned(*distinct_values(numbers, weights))
        for level, there in enumerate(self._levels):
            if there is None:
                self._levels[level] = carried
                return
            self._levels[level] = None
            carried = self._thinned(*_merged(there, carried))
        self._levels.append(carried)

    def summary(self) -> tuple[Floats, Floats]:
        """Values that are known, ascending, and the weight from the one before up to each."""
        found = (np.empty(0), np.empty(0))
        for there in self._levels:
            if there is not None:
                found = _merged(there, found)
        return found

    def _thinned(self, values: Floats, mass: Floats) -> tuple[Floats, Floats]:
        if len(values) <= self.capacity:
            return values, mass
        self.is_exact = False
        upto = np.cumsum(mass)
        ended = np.floor(upto * (self.capacity / upto[-1]))
        stays = np.diff(ended, prepend=0.0) > 0.0
        stays[-1] = True
        return values[stays], np.diff(upto[stays], prepend=0.0)


def _merged(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return distinct_values(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))
