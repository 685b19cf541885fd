"""Categories of a text column: counted by hashing, and of many the frequent ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Floats

MAX_CATEGORIES = 254  # that a file may have
MOST_INDICATORS = 64  # of one column: every row set counts each of them
RARE = 1 / 2000  # share of the rows below which a category of such a column does not count


def count_texts(
    cells: npt.NDArray[np.object_], weights: Floats | None
) -> tuple[list[str], Floats, bool]:
    """Distinct texts in sorted order, the weight of each, and whether a cell is missing (None).

    >>> count_texts(np.array(["b", None, "a", "b"], dtype=object), None)
    (['a', 'b'], array([1., 2.]), True)
    """
    import pandas

    index, found = pandas.factorize(cells)
    present = index >= 0
    weighed = np.ones(len(cells)) if weights is None else weights
    kept, counted = index[present], weighed[present]
    if weights is not None:
        order = np.argsort(counted)  # so that the sums do not depend on the order of the rows
        kept, counted = kept[order], counted[order]
    mass: Floats = np.bincount(kept, counted, minlength=len(found)).astype(np.float64)
    names = found.tolist()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
    return [names[k] for k in order], mass[order], not present.all()


def frequent(texts: Sequence[str], mass: Floats, total: float) -> tuple[str, ...]:
    """Texts, sorted, that become indicators: all, or of many the most frequent ones.

    The choice looks at how often a text is there and never at the target: which splits there are
    must not depend on what they are to explain.

    >>> frequent(["a", "b"], np.array([1.0, 5.0]), 6.0)
    ('a', 'b')
    """
    if len(texts) <= MOST_INDICATORS:
        return tuple(texts)
    order = np.argsort(-mass, kind="stable")[:MOST_INDICATORS]
    # One of a few rows in thousands cannot pay for a split, but every row set would count it.
    common = order[mass[order] >= RARE * total]
    return tuple(texts[k] for k in np.sort(common if len(common) else order[:1]))
