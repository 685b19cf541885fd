"""Rivals of the development suite: each gets raw columns, in the form that it takes best.

They run with their own defaults, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Self

import numpy as np
import pandas

from dtgfn._support.arrays import Floats
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.rivals.bart import fit_bart
from dtgfn_bench.studies.forty import readable, rival

STOCHTREE = {"n_trees": 200, "n_warm_starts": 5, "n_draws": 100}  # its defaults
Make = Callable[[int], Any]  # of a seed; fit(X, y), then predict_proba(X) or predict(X)


class Prepared:
    """A model that gets columns as ``prepare`` makes them; the training rows come first."""

    def __init__(self, model: Any, prepare: Callable[[pandas.DataFrame], pandas.DataFrame]) -> None:
        self.model = model
        self.prepare = prepare

    def fit(self, X: pandas.DataFrame, y: Any) -> Self:
        """Fit to training rows."""
        self.model.fit(self.prepare(X), y)
        return self

    def predict_proba(self, X: pandas.DataFrame) -> Floats:
        """Class probabilities [n, C]."""
        return np.asarray(self.model.predict_proba(self.prepare(X)), dtype=np.float64)

    def predict(self, X: pandas.DataFrame) -> Floats:
        """Numbers [n]."""
        return np.asarray(self.model.predict(self.prepare(X)), dtype=np.float64)


class AsCategories:
    """Words as pandas' categories, those of the rows that it saw first."""

    def __init__(self) -> None:
        self.known: dict[str, pandas.CategoricalDtype] | None = None

    def __call__(self, X: pandas.DataFrame) -> pandas.DataFrame:
        """The rows with words as categories."""
        plain = readable(X)
        plain.columns = [f"x{k}" for k in range(plain.shape[1])]  # LightGBM refuses some names
        if self.known is None:
            self.known = {
                name: pandas.CategoricalDtype(sorted(plain[name].unique())) for name in words(plain)
            }
        return plain.astype(self.known)


def words(plain: pandas.DataFrame) -> list[str]:
    """Names of the columns that hold text."""
    return [c for c in plain if not pandas.api.types.is_numeric_dtype(plain[c])]


class CatBoosted(Prepared):
    """CatBoost, told which columns hold text."""

    def fit(self, X: pandas.DataFrame, y: Any) -> Self:
        """Fit to training rows."""
        plain = self.prepare(X)
        self.model.fit(plain, y, cat_features=words(plain))
        return self


def catboost(name: str) -> Make:
    """CatBoost's defaults."""

    def make(seed: int) -> Any:
        import catboost as library

        settings = {"random_seed": seed, "thread_count": 1, "verbose": False}
        return CatBoosted(getattr(library, name)(allow_writing_files=False, **settings), readable)

    return make


def lightgbm(name: str) -> Make:
    """LightGBM's defaults."""

    def make(seed: int) -> Any:
        import lightgbm as library

        model = getattr(library, name)(random_state=seed, n_jobs=1, verbose=-1)
        return Prepared(model, AsCategories())

    return make


def boosting_machine(name: str) -> Make:
    """The defaults of interpret's explainable boosting machine."""

    def make(seed: int) -> Any:
        import interpret.glassbox as library

        return Prepared(getattr(library, name)(random_state=seed, n_jobs=1), readable)

    return make


def encoded(module: str, name: str, scaled: bool = False, **settings: Any) -> Make:
    """A model of scikit-learn behind imputation and one-hot columns."""

    def make(seed: int) -> Any:
        model = getattr(import_module(f"sklearn.{module}"), name)(random_state=seed, **settings)
        return Prepared(rival(model, scaled), readable)

    return make


class Bart:
    """BART on one-hot columns; of numbers with intervals from its draws."""

    def __init__(self, seed: int, of_classes: bool) -> None:
        self.seed = seed
        self.of_classes = of_classes
        self.columns = rival(None, False)[0]

    def fit(self, X: pandas.DataFrame, y: Any) -> Self:
        """Sample a chain, or one for each of more than two classes."""
        codes = self.columns.fit_transform(readable(X))
        if self.of_classes:
            rows = TrainingRows(codes, y, int(y.max()) + 1, "")
            self.model: Any = fit_bart(rows, self.seed, **STOCHTREE)
            return self
        from stochtree import BARTModel

        self.model = BARTModel()
        told = {"random_seed": self.seed, "num_threads": 1}
        self.model.sample(X_train=codes, y_train=y, general_params=told)
        return self

    def predict_proba(self, X: pandas.DataFrame) -> Floats:
        """Class probabilities [n, C]."""
        return np.asarray(self.model.predict_proba(self.columns.transform(readable(X))))

    def predict(self, X: pandas.DataFrame) -> Floats:
        """Numbers [n]."""
        return self._draws(X).mean(axis=1)

    def predict_interval(self, X: pandas.DataFrame, level: float) -> Floats:
        """Interval [n, 2] of draws with noise."""
        means = self._draws(X)
        spread = np.sqrt(self.model.global_var_samples)
        noise = np.random.default_rng(self.seed).normal(size=(10, *means.shape)) * spread
        tails = [0.5 - level / 2, 0.5 + level / 2]
        drawn = np.concatenate([means + part for part in noise], axis=1)
        return np.quantile(drawn, tails, axis=1).T

    def _draws(self, X: pandas.DataFrame) -> Floats:
        codes = self.columns.transform(readable(X))
        return np.asarray(self.model.predict(codes, type="posterior", terms="y_hat"))
