"""The cut of a node's rows with the least entropy, compiled: a planner asks for many thousands."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats, Int64s


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def least_entropy(
    columns: Floats,
    y: Int64s,
    order: Int64s,
    member: npt.NDArray[np.bool_],
    xlogx: Floats,
    n_classes: int,
) -> tuple[int, float]:
    """Feature and threshold of the best cut of the rows in ``member``, feature -1 if all are alike.

    ``columns`` [features, rows] with ``order`` sorting each; ``xlogx[k]`` is k log k.  Of equal
    cuts the first wins: the lowest feature, then the lowest threshold.
    """
    total = np.zeros(n_classes, np.int64)
    for row in range(len(y)):
        if member[row]:
            total[y[row]] += 1
    best_feature, best_threshold, best_loss = -1, 0.0, np.inf
    for feature in range(len(columns)):
        below = np.zeros(n_classes, np.int64)
        n_below, n_above, last = 0, total.sum(), 0.0
        for row in order[feature]:
            if not member[row]:
                continue
            value = columns[feature, row]
            if n_below > 0 and value > last:
                loss = xlogx[n_below] + xlogx[n_above]
                for label in range(n_classes):
                    loss -= xlogx[below[label]] + xlogx[total[label] - below[label]]
                if loss < best_loss - 1e-9:
                    best_feature, best_loss = feature, loss
                    best_threshold = last + (value - last) / 2
                    # Between neighbouring floats the mid-point may be the higher one.
                    if best_threshold >= value:
                        best_threshold = last
            below[y[row]] += 1
            n_below += 1
            n_above -= 1
            last = value
    return best_feature, best_threshold
