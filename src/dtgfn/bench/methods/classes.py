"""Probabilities of the classes that training rows held, spread over all classes of the table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dtgfn.bench.contract import Floats


def spread(probability: Floats, seen_classes: npt.ArrayLike, n_classes: int) -> Floats:
    """Probabilities [n, n_classes] from those [n, seen] of the codes ``seen_classes``.

    >>> spread(np.array([[0.4, 0.6]]), [0, 2], 3).tolist()
    [[0.4, 0.0, 0.6]]
    """
    whole = np.zeros((len(probability), n_classes))
    whole[:, np.asarray(seen_classes, dtype=np.int64)] = probability
    return whole
