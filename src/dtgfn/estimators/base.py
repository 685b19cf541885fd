"""What all estimators share: columns, the engine's options, and a posterior ready to predict."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtgfn._support.arrays import Codes
from dtgfn._support.checks import check_choice
from dtgfn.data.binning import Binner, encode
from dtgfn.data.dated_tables import as_new_table, as_training_table
from dtgfn.data.hints import warn_of_oddities
from dtgfn.data.tables import Table
from dtgfn.data.targets import as_target
from dtgfn.data.thresholds import AnyBinning, Binning
from dtgfn.engines.registry import ENGINES, check_option_names, find_engine
from dtgfn.engines.sums.settings import OPTION_NAMES
from dtgfn.estimators.explained import ExplainedEstimator
from dtgfn.estimators.labelled import with_target
from dtgfn.inference.condition import condition
from dtgfn.inference.extend import extend_prepared
from dtgfn.inference.infer import infer_prepared
from dtgfn.inference.method import (
    ENSEMBLE_OPTIONS,
    ENSEMBLES,
    check_ensemble,
    read_method,
    resolve_binning,
)
from dtgfn.inference.source_data import TrainingSource, training_source
from dtgfn.inference.sums import (
    check_sum_parameters,
    infer_sum_prepared,
    read_sum_options,
    set_of_single_trees,
    summable,
)
from dtgfn.posterior.of_model import Posterior, as_posterior
from dtgfn.posterior.prediction import TREES, WEIGHTINGS, Predictor
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import LeafModel
from dtgfn.trees.score import SplitPenalty

OPTIONS_OF_ONE_RUN = ("callbacks", "checkpoint", "policy")  # of training; no part of a model
OPTIONS_OF_ONE_TABLE = ("checkpoint", "policy")


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that takes numbers, booleans, text and missing values as they are."""

    def _check_columns(self, X: Any, table: Table | TrainingSource, *, reset: bool) -> None:
        """Remember number and names of columns, or compare with them, as scikit-learn does."""
        lazy = hasattr(X, "collect")  # of which scikit-learn does not know the columns
        if not isinstance(X, Table | TrainingSource) and not lazy:
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = len(table.names)
            if not isinstance(table, Table) or table.named:
                self.feature_names_in_ = np.array(table.names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags


def streams(model: PosteriorEstimator) -> bool:
    """Tell why an ensemble has no ``partial_fit``."""
    if model.ensemble not in ("auto", None):
        raise AttributeError(
            f"ensemble={model.ensemble!r} cannot be streamed; call fit with all rows."
        )
    return True


class PosteriorEstimator(ExplainedEstimator, TableEstimator):
    """A table in, the posterior over its trees inside; a subclass says what leaves hold."""

    inference: str | None
    max_depth: int | str
    n_thresholds: int
    binning: AnyBinning
    split_penalty: SplitPenalty
    ensemble: str | None
    weighting: str
    dates: str | None
    n_trees: int
    time_budget: float | None
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: bool
    warm_start: bool
    options: dict[str, Any] | None
    # Options that this estimator itself knows, beside those of its engine.
    _own_options: tuple[str, ...] = ()

    def _read_source(self, X: Any, y: Any, sample_weight: Any) -> TrainingSource | None:
        """What is to be read in chunks, its columns checked; None if X is a table in memory."""
        self._check_settings()
        source = training_source(X, y, sample_weight)
        if source is not None:
            self._check_columns(source, source, reset=True)
        return source

    def _check_settings(self) -> None:
        check_choice("weighting", self.weighting, WEIGHTINGS)  # not after an hour of training
        self._check_options()
        check_choice("binning", self.binning, ("auto", *get_args(Binning)))

    def _read_training(
        self, X: Any, y: Any, *, reset: bool = True
    ) -> tuple[Table, npt.NDArray[Any]]:
        """Training columns and target as they were given, checked for their shape."""
        self._check_settings()
        table = as_training_table(X, self.dates) if reset else as_new_table(X)
        self._check_columns(X, table, reset=reset)
        if reset:
            warn_of_oddities(table)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        return table, as_target(y)

    def _infer(
        self,
        table: Table | TrainingSource,
        y: npt.NDArray[Any] | None,
        sample_weight: npt.ArrayLike | None,
        leaf: LeafModel,
        temperature: float | str,
        *,
        started: float,
        classes: npt.ArrayLike | None = None,
        streamed: bool = False,
        named: str | None = None,
    ) -> None:
        """Run the engine on a table and target that were read, and keep what it finds.

        Reading ``started`` the clock; what is predicted is ``named`` so. More rows may join a
        posterior that is ``streamed``, so "auto" is no sum then.
        """
        ensemble = self._ensemble()
        if ensemble == "sum" and not streamed:
            summed = self._infer_sum(table, y, sample_weight, leaf, classes, started)
            self._keep(with_target(summed, named))
            return
        ensemble = None if ensemble == "sum" else ensemble
        options = self._engine_options()
        posterior = infer_prepared(
            table,
            y,
            read_method(self._engine_name(), options, ensemble, parameter="inference"),
            max_depth=self.max_depth,
            n_thresholds=self.n_thresholds,
            binning=resolve_binning(self.binning, ensemble),
            leaf=leaf,
            classes=classes,
            split_penalty=self.split_penalty,
            temperature=temperature,
            n_trees=self.n_trees,
            sample_weight=sample_weight,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
            random_state=self._seed(),
            verbose=self.verbose,
            started=started,
        )
        self._keep(with_target(posterior, named))

    def _infer_sum(
        self,
        table: Table | TrainingSource,
        y: npt.NDArray[Any] | None,
        sample_weight: npt.ArrayLike | None,
        leaf: LeafModel,
        classes: npt.ArrayLike | None,
        started: float,
    ) -> SumPosterior:
        """Sample sums of trees."""
        return infer_sum_prepared(
            table,
            y,
            read_sum_options(self.options or {}),
            leaf=summable(leaf),
            classes=classes,
            max_depth=self.max_depth,
            n_thresholds=self.n_thresholds,
            binning=resolve_binning(self.binning, "sum"),
            sample_weight=sample_weight,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
            random_state=self._seed(),
            verbose=self.verbose,
            started=started,
        )

    def _extend(
        self,
        table: Table,
        y: npt.NDArray[Any],
        sample_weight: npt.ArrayLike | None,
        started: float,
    ) -> None:
        """Let more rows join the posterior; thresholds, categories and classes stay."""
        if self._engine_name() != self.posterior_.engine:
            raise ValueError(
                f"inference={self._engine_name()!r} cannot go on where {self.posterior_.engine!r} "
                "ended; call fit with all rows."
            )
        options = self._engine_options()
        kept = {name: value for name, value in options.items() if name not in OPTIONS_OF_ONE_TABLE}
        posterior = extend_prepared(
            as_posterior(self),
            table,
            y,
            read_method(self._engine_name(), kept, parameter="inference").options,
            sample_weight=sample_weight,
            n_trees=self.n_trees,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
            random_state=self._seed(),
            verbose=self.verbose,
            started=started,
        )
        self._keep(posterior)

    def given(self, given: str | Mapping[str, Any], **options: Any) -> Self:
        """Return a model of the trees that keep some demands, on the same rows.

        ``given`` and ``options`` are those of ``dtgfn.condition``:
        ``model.given({"root": "age <= 50"})``. ``dtgfn.given_effect`` of the model that is
        returned tells what the demands cost.
        """
        posterior = condition(
            self._of_single_trees("given"),
            given,
            **{
                "n_trees": self.n_trees,
                "time_budget": self.time_budget,
                "n_jobs": self.n_jobs,
                "random_state": self._seed(),
                "verbose": self.verbose,
                **options,
            },
        )
        model = copy.copy(self)
        model._keep(posterior)
        return model

    def _seed(self) -> int:
        try:
            generator = check_random_state(self.random_state)
        except ValueError:
            raise ValueError(
                f"random_state={self.random_state!r} is not usable; give a whole number from 0 to "
                f"{2**32 - 1}, a numpy RandomState, or None."
            ) from None
        return int(generator.randint(np.iinfo(np.int32).max))

    def _keep(self, posterior: Posterior) -> None:
        """Take a posterior as the fitted one, ready to predict by all trees and by the best."""
        self.posterior_ = posterior
        self.__dict__.pop("held_out_", None)  # scores of an earlier fit
        self._sums: SumPredictor | None = None
        if isinstance(posterior, SumPosterior):
            self._sums = SumPredictor(posterior, self.n_jobs)
            return
        self._predictors: dict[str | None, Predictor] = {
            tree: Predictor(posterior, self.weighting, tree, self.n_jobs) for tree in TREES
        }

    def _sum_predictor(self, tree: str | None = None) -> SumPredictor | None:
        """What predicts by sums of trees; None if single trees do, or one of them is asked for."""
        check_is_fitted(self, "posterior_")
        return self._sums if tree is None else None

    def _predictor(self, tree: str | None = None) -> Predictor:
        """What predicts by all sampled trees, or by the best one."""
        check_is_fitted(self, "posterior_")
        if isinstance(self.posterior_, SumPosterior):
            raise ValueError(
                f"tree={tree!r} is of a posterior over single trees, but this model is a sum of "
                "trees; leave it out, or fit with ensemble=None."
            )
        made = self._predictors[tree] if tree in TREES else None
        chosen = self.posterior_, self.weighting, tree, self.n_jobs
        if made is None or not made.is_of(*chosen):  # something was set since the fit
            made = self._predictors[tree] = Predictor(*chosen)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the predictors, which ``__setstate__`` makes again."""
        state = super().__getstate__()
        made_again = ("_predictors", "_sums")
        return {name: value for name, value in state.items() if name not in made_again}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be ready to predict again."""
        super().__setstate__(state)
        if hasattr(self, "posterior_"):
            self._keep(self.posterior_)

    def _codes(self, X: Any) -> Codes:
        """Code new rows as the training rows were."""
        check_is_fitted(self, "posterior_")
        table = as_new_table(X)
        self._check_columns(X, table, reset=False)
        return encode(self.binner_, table)

    def _check_options(self) -> None:
        """Refuse options that are none, or not those of the engine."""
        if not isinstance(self.options, dict | None):
            raise ValueError(
                f"options={self.options!r} is not usable; give a dict of option and value, or None."
            )
        if self.warm_start and self._engine_name() != "gfn":
            raise ValueError(
                f"warm_start=True is for inference='gfn', not {self.inference!r}; leave it out, or "
                "choose that engine."
            )
        engine, options = find_engine(self._engine_name(), "inference"), self.options or {}
        for name, value in options.items():
            if name in ENGINES["gfn"].option_names and name not in engine.option_names:
                raise ValueError(
                    f"{name}={value!r} is for inference='gfn', not {self.inference!r}; leave it "
                    "out, or choose that engine."
                )
        check_choice("ensemble", self.ensemble, ("auto", None, *ENSEMBLES))
        ensemble = self._ensemble()
        check_ensemble(ensemble, options, engine.option_names)
        if ensemble == "sum":
            check_sum_parameters(self.get_params(deep=False), self._usual())
            read_sum_options(options)
            return
        own = (*ENSEMBLE_OPTIONS, *self._own_options)
        check_option_names(engine, options, self.get_params(deep=False), also=own)

    def _ensemble(self) -> str | None:
        """The ensemble that was asked for: "auto" is a sum, unless only single trees will do."""
        if self.ensemble != "auto":
            return self.ensemble
        only_single = set_of_single_trees(self.get_params(deep=False), self._usual())
        only_single += [name for name in self.options or {} if name not in OPTION_NAMES]
        return None if only_single else "sum"

    def _engine_name(self) -> str:
        """The engine that was asked for, or that goes best with the ensemble."""
        return self.inference or ("smc" if self.ensemble == "bags" else "gfn")

    def _usual(self) -> dict[str, Any]:
        """Parameters as they are by default."""
        parameters = inspect.signature(type(self)).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    def _engine_options(self) -> dict[str, Any]:
        """What the engine takes beyond what all of them do."""
        given = self.options or {}
        options = {name: value for name, value in given.items() if name not in self._own_options}
        before = getattr(self, "posterior_", None) if self.warm_start else None
        if before is not None and before.engine == "gfn" and before.solution is not None:
            options = {**options, "policy": before.solution}  # which began from the one asked for
        return options

    @property
    def binner_(self) -> Binner:
        """How columns became codes."""
        check_is_fitted(self, "posterior_")
        binner = self.posterior_.binner
        assert binner is not None, "infer always sets it"
        return binner

    @property
    def log_evidence_(self) -> float:
        """Log Z of the training targets."""
        return self._of_single_trees("log_evidence_").log_evidence

    @property
    def temperature_(self) -> float:
        """The temperature that was used, or chosen."""
        return self._of_single_trees("temperature_").score.temperature

    @property
    def best_tree_(self) -> TreeBatch:
        """The most probable tree, a batch of one."""
        return self._of_single_trees("best_tree_").best_tree
