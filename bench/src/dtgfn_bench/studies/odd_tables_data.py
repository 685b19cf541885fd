"""Generated tables, odd in many ways, that are small enough for the exact engine.

``make_table(seed, index)`` always gives the same table; kinds take turns, so that any twenty
tables in a row are of all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas

from dtgfn.data.binning import fit_binner
from dtgfn.data.tables import as_table
from dtgfn.trees.leaf_models import NormalLeaf

Rng = np.random.Generator
Frame: TypeAlias = pandas.DataFrame

MOST_ROWS = 3000
MOST_SECONDS = 2.0  # of the exact engine, roughly


@dataclass(frozen=True)
class OddTable:
    """Columns and target, and what ``infer`` is told about them."""

    seed: int
    index: int
    kind: str
    X: Frame
    y: np.ndarray
    settings: dict[str, Any]

    def __str__(self) -> str:
        told = {k: v for k, v in self.settings.items() if k != "sample_weight"}
        words = ", ".join(f"{name}={value!r}" for name, value in told.items())
        return f"{len(self.X)} rows x {self.X.shape[1]} columns, {words}"


def make_table(seed: int, index: int) -> OddTable:
    """Table ``index`` of a seed."""
    rng = np.random.default_rng([seed, index])
    names = list(KINDS)
    kind = names[index % len(names)]
    X, y, own = KINDS[kind](rng)
    order = rng.permutation(X.shape[1])  # the column that matters may be anywhere
    X = X.iloc[:, order].set_axis([f"x{k}" for k in range(X.shape[1])], axis=1)
    table = OddTable(seed, index, kind, X, y, {**some_settings(rng), **own})
    return affordable(table)


def some_settings(rng: Rng) -> dict[str, Any]:
    """Defaults half of the time; depth and thresholds always vary."""
    settings: dict[str, Any] = {
        "max_depth": int(rng.choice([2, 3, 3, 4])),
        "n_thresholds": int(rng.choice([1, 3, 9, 19, 99])),
    }
    if rng.random() < 0.5:
        return settings
    return {**settings, **other_prior(rng), "binning": str(rng.choice(BINNINGS))}


BINNINGS = ("uniform", "quantile", "midpoint")


def other_prior(rng: Rng) -> dict[str, Any]:
    """Penalty, temperature and concentration away from the defaults, each as often as not."""
    penalties = [
        *("mdl", "paper", "bcart", 0.0, 1.0, 4.0, 12.0),
        ("bcart", 0.5, 1.0),
        ("bcart", 0.95, 2.0),
        ("bcart", 0.99, 0.0),
    ]
    return {
        "split_penalty": penalties[rng.integers(len(penalties))],
        "temperature": float(rng.choice([0.3, 1.0, 1.0, 2.0, 10.0])),
        "leaf_concentration": float(rng.choice([0.01, 0.1, 0.1, 0.5, 1.0, 5.0])),
    }


def affordable(table: OddTable) -> OddTable:
    """The table with fewer thresholds, less depth or fewer rows, until exact inference is quick."""
    while exact_seconds(table) > MOST_SECONDS:
        settings = dict(table.settings)
        if settings["n_thresholds"] > 3:
            settings["n_thresholds"] //= 3
        elif settings["max_depth"] > 2:
            settings["max_depth"] -= 1
        else:
            half = len(table.X) // 2
            if "sample_weight" in settings:
                settings["sample_weight"] = settings["sample_weight"][:half]
            table = replace(table, X=table.X[:half], y=table.y[:half])
        table = replace(table, settings=settings)
    return table


def exact_seconds(table: OddTable) -> float:
    """A guess from sizes alone, lest it depends on the machine: each set of rows above the last two
    levels counts rows for all pairs of features, and sums over all pairs of cuts.
    """
    binning = table.settings.get("binning", "uniform")
    n_thresholds, n_rows = table.settings["n_thresholds"], len(table.X)
    binner = fit_binner(as_table(table.X), binning=binning, n_thresholds=n_thresholds)
    n_cuts = np.minimum(binner.n_cuts, n_rows)
    d, cuts = int((n_cuts > 0).sum()), int(n_cuts.sum())
    n_classes = min(len(np.unique(table.y)), 50) if "leaf" not in table.settings else 3
    pairs = 4e-8 * n_rows * d**2 + 5e-9 * n_classes * cuts**2
    above = table.settings["max_depth"] - 2
    n_sets = sum((2 * cuts) ** k / math.factorial(k) for k in range(above + 1))
    return n_sets * pairs


def some_rows(rng: Rng, least: int = 8, most: int = MOST_ROWS) -> int:
    """A number of rows, each order of magnitude as often."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def numbers(rng: Rng, n: int, d: int) -> Frame:
    """Columns of numbers: even, heavy-tailed, whole or rounded."""
    makers: list[Callable[[], np.ndarray]] = [
        lambda: rng.random(n),
        lambda: rng.standard_normal(n),
        lambda: rng.standard_t(2, n) * 1e3,
        lambda: rng.integers(0, 5, n).astype(float),
        lambda: rng.random(n).round(1),
    ]
    columns = [makers[rng.integers(len(makers))]() for _ in range(d)]
    return Frame(np.column_stack(columns) if d else np.empty((n, 0)))


def some_numbers(rng: Rng, n: int | None = None, most: int = 12) -> Frame:
    """A table of numbers with a random number of columns, and of rows unless it is given."""
    n = some_rows(rng) if n is None else n
    return numbers(rng, n, int(rng.integers(1, most + 1)))


def tree_labels(rng: Rng, X: Frame, n_classes: int = 2, noise: float = 0.1) -> np.ndarray:
    """Labels of a random tree of depth two on numbers, a share of them at random."""
    values = X.to_numpy(float)

    def side(rows: np.ndarray) -> np.ndarray:
        column = values[:, rng.integers(values.shape[1])]
        return column <= np.quantile(column[rows], rng.uniform(0.2, 0.8))

    every = np.ones(len(X), dtype=bool)
    cells = 2 * side(every) + np.where(side(every), side(every), side(every))
    y = rng.permutation(max(4, n_classes))[cells] % n_classes
    return np.where(rng.random(len(X)) < noise, rng.integers(0, n_classes, len(X)), y)


def noise_labels(rng: Rng, n: int, n_classes: int = 2) -> np.ndarray:
    """Classes that no column knows anything of."""
    return rng.integers(0, n_classes, n)


Made = tuple[Frame, np.ndarray, dict[str, Any]]


def separable(rng: Rng) -> Made:
    """Classes that a tree separates."""
    X = some_numbers(rng)
    return X, tree_labels(rng, X, int(rng.integers(2, 5)), noise=0.0), {}


def leaking(rng: Rng, n_columns: int = 1, flips: float = 0.0) -> Made:
    """Columns that are the label plus a constant, a few of their values perhaps swapped."""
    X = some_numbers(rng)
    n_classes = int(rng.choice([2, 2, 3, 6]))
    y = noise_labels(rng, len(X), n_classes)
    for k in range(n_columns):
        wrong = rng.random(len(X)) < flips
        told = np.where(wrong, noise_labels(rng, len(X), n_classes), y)
        X[f"label {k}"] = told + float(rng.choice([0.0, 1.0, -1000.0, 0.5]))
    return X, y, {}


def leaking_many(rng: Rng) -> Made:
    """Several columns that give the class away."""
    return leaking(rng, n_columns=int(rng.integers(2, 9)))


def leaking_flipped(rng: Rng) -> Made:
    """Columns that give the class away but for a few rows."""
    return leaking(rng, int(rng.integers(1, 5)), flips=float(rng.choice([0.002, 0.01, 0.05])))


def constant_columns(rng: Rng) -> Made:
    """Some columns, or all, or the label, are always the same."""
    X = some_numbers(rng)
    y = tree_labels(rng, X)
    for name in X.columns[rng.random(X.shape[1]) < rng.choice([0.5, 1.0])]:
        X[name] = float(rng.choice([0.0, 7.0, -1e9, 1e-300]))
    return X, np.zeros(len(X), dtype=int) if rng.random() < 0.2 else y, {}


def duplicated_rows(rng: Rng) -> Made:
    """Few rows, each many times."""
    few = some_numbers(rng, n=some_rows(rng, 2, 40))
    pick = rng.integers(0, len(few), some_rows(rng, 20))
    noise = float(rng.choice([0.0, 0.1, 0.5]))
    y = tree_labels(rng, few)[pick]
    y = np.where(rng.random(len(pick)) < noise, noise_labels(rng, len(pick)), y)
    return few.iloc[pick].reset_index(drop=True), y, {}


def duplicated_columns(rng: Rng) -> Made:
    """Copies of a few columns, some of them rescaled or upside down."""
    X = some_numbers(rng, most=4)
    y = tree_labels(rng, X, noise=float(rng.choice([0.0, 0.1, 0.3])))
    n_first = X.shape[1]
    for copy in range(int(rng.integers(1, 10))):
        X[f"copy {copy}"] = X[int(rng.integers(n_first))] * float(rng.choice([1.0, 1.0, 2.0, -1.0]))
    return X, y, {}


def tiny(rng: Rng) -> Made:
    """At most ten rows."""
    X = some_numbers(rng, n=int(rng.integers(1, 11)), most=6)
    return X, noise_labels(rng, len(X), int(rng.integers(1, 4))), {}


def imbalanced(rng: Rng) -> Made:
    """One row in a hundred is of the other class; half of the time a column tells which."""
    X = some_numbers(rng, n=some_rows(rng, 100))
    y = (rng.random(len(X)) < 0.01).astype(int)
    y[rng.integers(len(X))] = 1
    if rng.random() < 0.5:
        X[X.columns[0]] += 5.0 * y * X[X.columns[0]].std()
    return X, y, {}


def many_classes(rng: Rng) -> Made:
    """Up to fifty classes."""
    n_classes = int(rng.choice([8, 15, 30, 50]))
    X = some_numbers(rng, n=some_rows(rng, 2 * n_classes, 1500), most=6)
    y = noise_labels(rng, len(X), n_classes)
    if rng.random() < 0.7:  # in the order of a column
        y = (X[0].rank(pct=True).to_numpy() * n_classes * 0.999).astype(int)
    return X, y, {}


def many_categories(rng: Rng) -> Made:
    """Words, some of which go with the label."""
    n = some_rows(rng, 30, 1500)
    n_words = int(rng.choice([5, 10, 20, 60, 200]))
    X = some_numbers(rng, n, most=3)
    y = tree_labels(rng, X, noise=0.4)
    for k in range(int(rng.integers(1, 3))):
        word = rng.integers(0, n_words, n)
        y = np.where((word < n_words // 4) & (rng.random(n) < 0.8), 1, y)
        X[f"word {k}"] = pandas.Series([f"w{w}" for w in word], dtype=object)
    return X, np.array(["no", "yes"])[y], {}


def wide(rng: Rng) -> Made:
    """Far more columns than rows."""
    n, d = int(rng.integers(5, 60)), some_rows(rng, 30, 300)
    X = numbers(rng, n, d)
    y = tree_labels(rng, X, noise=0.1) if rng.random() < 0.5 else noise_labels(rng, n)
    return X, y, {}


def pure_noise(rng: Rng) -> Made:
    """Nothing to learn."""
    X = some_numbers(rng)
    return X, noise_labels(rng, len(X), int(rng.integers(2, 5))), {}


def interactions(rng: Rng) -> Made:
    """The exclusive or of two or three columns, which alone tell nothing."""
    X = some_numbers(rng, n=some_rows(rng, 20))
    order = int(rng.integers(2, 4))
    extra = rng.integers(0, 2, (len(X), order))
    if rng.random() < 0.5:
        for k in range(order):
            X[f"bit {k}"] = extra[:, k].astype(float)
    else:
        for k in range(order):
            X[f"half {k}"] = 0.5 * extra[:, k] + 0.5 * rng.random(len(X))
    y = extra.sum(axis=1) % 2
    flipped = rng.random(len(X)) < rng.choice([0.0, 0.05, 0.2])
    return X, np.where(flipped, 1 - y, y), {"max_depth": int(rng.choice([2, 3, 4]))}


def missing_values(rng: Rng) -> Made:
    """Holes in numbers and words; half of the time a hole tells the label."""
    X = some_numbers(rng)
    y = tree_labels(rng, X)
    holes = rng.random(X.shape) < rng.choice([0.05, 0.3, 0.9])
    if rng.random() < 0.5:
        holes[:, 0] = (y == 1) ^ (rng.random(len(X)) < 0.05)
    X = X.mask(holes)
    if rng.random() < 0.5:
        words = np.array(["a", "b", "c", None], dtype=object)
        X["words"] = pandas.Series(words[rng.integers(0, 4, len(X))], dtype=object)
    if rng.random() < 0.2:
        X["empty"] = np.nan
    return X, y, {}


def weighted(rng: Rng) -> Made:
    """Weights that are whole, broken, mostly zero, or far apart."""
    X = some_numbers(rng)
    n = len(X)
    weight = [
        rng.integers(0, 4, n).astype(float),
        rng.exponential(1.0, n),
        (rng.random(n) < 0.1).astype(float),
        10.0 ** rng.uniform(-4, 2, n),
    ][rng.integers(4)]
    weight[0] = max(weight[0], 1.0)
    return X, tree_labels(rng, X), {"sample_weight": weight}


def numeric_target(rng: Rng) -> Made:
    """Steps of a random tree and noise, in any unit."""
    X = some_numbers(rng)
    steps = tree_labels(rng, X, 4, noise=0.0).astype(float)
    noise = rng.standard_t(3, len(X)) * rng.choice([0.01, 0.3, 3.0])
    unit, zero = float(rng.choice([1.0, 1e-6, 1e6])), float(rng.choice([0.0, 100.0]))
    return X, unit * (steps + noise + zero), {"leaf": some_leaf(rng)}


def odd_target(rng: Rng) -> Made:
    """Numbers that a column leaks, that are constant, two-valued, or have one outlier."""
    X = some_numbers(rng)
    y = rng.standard_normal(len(X))
    case = rng.integers(4)
    if case == 0:
        X["target"] = y + 3.0
    elif case == 1:
        y = np.full(len(X), 2.5)
    elif case == 2:
        y = tree_labels(rng, X).astype(float)
    else:
        y[0] = 1e4
    return X, y, {"leaf": some_leaf(rng)}


def some_leaf(rng: Rng) -> NormalLeaf:
    """A leaf model of numbers, with its default prior or another."""
    if rng.random() < 0.5:
        return NormalLeaf()
    return NormalLeaf(
        strength=float(rng.choice([0.01, 1.0])),
        shape=float(rng.choice([1.1, 3.0])),
        spread=float(rng.choice([0.01, 1.0])),
    )


def odd_priors(rng: Rng) -> Made:
    """Plain rows under an odd prior."""
    X = some_numbers(rng)
    return X, tree_labels(rng, X, int(rng.integers(2, 4)), noise=0.2), other_prior(rng)


def deep(rng: Rng) -> Made:
    """Few cuts, so that four or five levels are within reach."""
    X = some_numbers(rng, n=some_rows(rng, 20, 500), most=5)
    X = X.rank(pct=True).mul(int(rng.integers(2, 5))).round()
    depths = {"max_depth": int(rng.choice([4, 5])), "n_thresholds": 3}
    return X, tree_labels(rng, X, noise=0.2), depths


KINDS: dict[str, Callable[[Rng], Made]] = {
    "separable": separable,
    "leaking": leaking,
    "leaking, many": leaking_many,
    "leaking, flipped": leaking_flipped,
    "constant columns": constant_columns,
    "duplicated rows": duplicated_rows,
    "duplicated columns": duplicated_columns,
    "tiny": tiny,
    "imbalanced": imbalanced,
    "many classes": many_classes,
    "many categories": many_categories,
    "wide": wide,
    "pure noise": pure_noise,
    "interactions": interactions,
    "missing values": missing_values,
    "weighted": weighted,
    "numeric target": numeric_target,
    "odd target": odd_target,
    "odd priors": odd_priors,
    "deep": deep,
}
