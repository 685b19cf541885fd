"""Tables that are made up: columns of many kinds, targets by trees, sums, interactions, noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from dtgfn._support.arrays import Floats

MOST_ROWS, FEWEST_ROWS = 1000, 20
MOST_COLUMNS = 30


class Table(NamedTuple):
    """Columns [n, d] and a target [n], classes as whole numbers or numbers."""

    name: str
    X: Floats
    y: Floats
    is_classes: bool


BENDS: tuple[Callable[[Floats], Floats], ...] = (np.asarray, np.sin, np.abs, np.sign)


def make_table(rng: np.random.Generator) -> Table:
    """Draw a table."""
    n_rows = int(np.exp(rng.uniform(np.log(FEWEST_ROWS), np.log(MOST_ROWS))))
    n_columns = int(np.exp(rng.uniform(0.0, np.log(MOST_COLUMNS + 1))))
    X = make_columns(n_rows, n_columns, rng)
    kinds = list(SIGNALS)
    name = kinds[int(rng.integers(len(kinds)))]
    signal = SIGNALS[name](X, rng)
    if rng.random() < 0.2:
        other = kinds[int(rng.integers(len(kinds)))]
        signal = signal + rng.uniform(0.2, 1.0) * SIGNALS[other](X, rng)
        name = f"{name} and {other}"
    noise = np.exp(rng.uniform(np.log(0.02), np.log(3.0)))
    signal = signal + noise * rng.normal(size=n_rows)
    if rng.random() < 0.15:
        return Table(f"{name}, number", X, signal, is_classes=False)
    return Table(name, X, flip(into_classes(signal, rng), rng), is_classes=True)


def make_columns(n_rows: int, n_columns: int, rng: np.random.Generator) -> Floats:
    """Columns [n, d] that share factors, each bent, coarsened or skewed in its own way."""
    n_factors = int(rng.integers(1, 6))
    shared = rng.uniform(0.0, 1.0) ** 2 if rng.random() < 0.6 else 0.0
    factors = rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, n_columns))
    own = rng.normal(size=(n_rows, n_columns))
    X = shared * factors + (1.0 - shared) * own
    for j in range(n_columns):
        X[:, j] = bend_column(X[:, j], rng)
    return X


def bend_column(x: Floats, rng: np.random.Generator) -> Floats:
    """One column as it is, spread evenly, skewed, in a few levels, or of two values."""
    kind = rng.choice(
        ["plain", "even", "skewed", "levels", "binary"], p=[0.3, 0.25, 0.1, 0.2, 0.15]
    )
    if kind == "even":
        return np.asarray(rankdata(x), np.float64)
    if kind == "skewed":
        return np.exp(np.clip(2.0 * x, -20, 20))
    if kind == "levels":
        at = rng.uniform(0, 1, int(rng.integers(1, 10)))
        return np.searchsorted(np.quantile(x, np.sort(at)), x).astype(np.float64)
    if kind == "binary":
        return (x > np.quantile(x, rng.uniform(0.05, 0.95))).astype(np.float64)
    return x


def ranks(X: Floats) -> Floats:
    """Columns as shares of rows below, from -0.5 to 0.5."""
    return np.asarray((rankdata(X, axis=0) - 1) / max(len(X) - 1, 1) - 0.5)


def by_tree(X: Floats, rng: np.random.Generator) -> Floats:
    """Leaves of a random tree of depth 1 to 5, each with its own level."""
    out = np.zeros(len(X))
    stop = rng.uniform(0.0, 0.6)

    def grow(members: np.ndarray, depth: int) -> None:  # type: ignore[type-arg]
        if depth == 0 or members.size < 4 or rng.random() < stop * 0.5:
            out[members] = rng.normal()
            return
        x = X[members, rng.integers(X.shape[1])]
        left = x <= np.quantile(x, rng.uniform(0.1, 0.9))
        grow(members[left], depth - 1)
        grow(members[~left], depth - 1)

    grow(np.arange(len(X)), int(rng.integers(1, 6)))
    return out


def by_sum(X: Floats, rng: np.random.Generator) -> Floats:
    """Sum of straight and bent effects of some columns."""
    z, out = ranks(X), np.zeros(len(X))
    for j in range(z.shape[1]):
        if rng.random() < 0.5:
            bend = BENDS[int(rng.integers(4))]
            out += rng.normal() * bend(rng.uniform(1, 6) * z[:, j])
    return out / max(float(out.std()), 1e-9)


def by_interaction(X: Floats, rng: np.random.Generator) -> Floats:
    """Product of signs, or of values, of two to four columns: nothing shows at one alone."""
    z = ranks(X)
    chosen = rng.choice(z.shape[1], min(int(rng.integers(2, 5)), z.shape[1]), replace=False)
    product = np.prod(z[:, chosen], axis=1)
    if rng.random() < 0.5:
        return np.sign(product)
    return product / max(float(product.std()), 1e-9)


def by_clusters(X: Floats, rng: np.random.Generator) -> Floats:
    """The level of the nearest of some centres."""
    z = ranks(X)
    centres = z[rng.integers(len(z), size=int(rng.integers(2, 8)))]
    nearest = ((z[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    return np.asarray(rng.normal(size=len(centres))[nearest])


def nothing(X: Floats, rng: np.random.Generator) -> Floats:
    """No signal at all."""
    return np.zeros(len(X))


SIGNALS: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "tree": by_tree,
    "sum": by_sum,
    "interaction": by_interaction,
    "clusters": by_clusters,
    "nothing": nothing,
}


def into_classes(signal: Floats, rng: np.random.Generator) -> Floats:
    """Cut a signal into classes of even or very uneven sizes."""
    n_classes = int(rng.choice([2, 3, 4, 6, 10], p=[0.62, 0.2, 0.08, 0.06, 0.04]))
    share = rng.dirichlet(np.full(n_classes, rng.choice([1.0, 5.0, 50.0])))
    at = np.quantile(signal, np.cumsum(share)[:-1])
    return rng.permutation(n_classes)[np.searchsorted(at, signal)].astype(np.float64)


def flip(y: Floats, rng: np.random.Generator) -> Floats:
    """Give some rows the class of another row."""
    rate = rng.choice([0.0, 0.0, 0.05, 0.2])
    there = rng.random(y.size) < rate
    return np.where(there, rng.permutation(y), y)
