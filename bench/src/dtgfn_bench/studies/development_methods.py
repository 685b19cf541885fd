"""Methods of the development suite: each takes raw columns, in the form that it takes best.

To try a configuration of ours, add a line to ``METHODS``: its settings are part of the key of a
record, so that only what is new is measured. A rival runs with its own defaults on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.ours.classifiers import BAGGED, fit_bagged
from dtgfn_bench.rivals.bart import fit_bart
from dtgfn_bench.studies.forty import readable, rival

STOCHTREE = {"n_trees": 200, "n_warm_starts": 5, "n_draws": 100}  # its defaults
Make = Callable[[int], Any]  # of a seed; fit(X, y), then predict_proba(X) or predict(X)


@dataclass(frozen=True)
class Contender:
    """A method: how to make it for classes and for numbers (None: not for these).

    ``settings`` are, by kind of task, what it was told; ``needs`` are modules whose versions
    matter; ``conformal`` says whether it gets intervals from residuals of other folds, having none
    of its own. ``revision`` is raised by hand when what it computes changes under the same
    settings.
    """

    classes: Make | None
    numbers: Make | None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    conformal: bool = False
    revision: int = 1

    def make(self, kind: str) -> Make | None:
        """How to make it for tasks of a kind."""
        return self.classes if kind == "class" else self.numbers


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
        from importlib import import_module

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


class Bagged:
    """``dtgfn-bagged`` of the experiments: the penalty that scores best out of bag."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: pandas.DataFrame, y: Int64s) -> Self:
        """Fit a bagged posterior for every penalty."""
        rows: Any = TrainingRows(X, y, int(y.max()) + 1, "")  # type: ignore[arg-type]
        settings: dict[str, Any] = dict(BAGGED)
        self.model = fit_bagged(rows, self.seed, **settings)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities [n, C]."""
        return self.model.predict_proba(X)


def ours(
    classes: Mapping[str, Any] | None = None,
    numbers: Mapping[str, Any] | None = None,
    revision: int = 1,
    **both: Any,
) -> Contender:
    """Our estimators with parameters of both and of one; what is not told is as by default."""

    def maker(kind: Any, own: Mapping[str, Any] | None) -> tuple[Make, dict[str, Any]]:
        told = {**both, **(own or {}), "n_jobs": 1}
        used = {n: v for n, v in kind(**told).get_params().items() if n != "random_state"}
        return lambda seed: kind(random_state=seed, **told), used

    of_classes, used = maker(DTGFNClassifier, classes)
    of_numbers, also = maker(DTGFNRegressor, numbers)
    return Contender(of_classes, of_numbers, {"class": used, "number": also}, revision=revision)


METHODS: dict[str, Contender] = {
    "linear": Contender(
        encoded("linear_model", "LogisticRegression", scaled=True, max_iter=1000),
        encoded("linear_model", "Ridge", scaled=True),
        needs=("sklearn",),
        conformal=True,
    ),
    "lightgbm": Contender(
        lightgbm("LGBMClassifier"), lightgbm("LGBMRegressor"), needs=("lightgbm",), conformal=True
    ),
    "random forest": Contender(
        encoded("ensemble", "RandomForestClassifier", n_jobs=1),
        encoded("ensemble", "RandomForestRegressor", n_jobs=1),
        needs=("sklearn",),
        conformal=True,
    ),
    "extra trees": Contender(
        encoded("ensemble", "ExtraTreesClassifier", n_jobs=1),
        encoded("ensemble", "ExtraTreesRegressor", n_jobs=1),
        needs=("sklearn",),
        conformal=True,
    ),
    "catboost": Contender(
        catboost("CatBoostClassifier"),
        catboost("CatBoostRegressor"),
        needs=("catboost",),
        conformal=True,
    ),
    "bart": Contender(lambda s: Bart(s, True), lambda s: Bart(s, False), needs=("stochtree",)),
    "ebm": Contender(
        boosting_machine("ExplainableBoostingClassifier"),
        boosting_machine("ExplainableBoostingRegressor"),
        needs=("interpret",),
    ),
    # the default time_budget of 60 seconds would take a day
    "dtgfn": ours(time_budget=20.0),
    "dtgfn bags": Contender(Bagged, None, settings={"class": BAGGED}),
}
