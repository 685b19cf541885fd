"""What all estimators share: columns, engine options, and what is told of a fitted posterior."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_choice
from dtgfn.data.binning import Binner, Binning, encode
from dtgfn.data.tables import Table, as_table
from dtgfn.data.targets import as_target
from dtgfn.engines.registry import find_engine
from dtgfn.estimators.columns import TableEstimator
from dtgfn.estimators.explained import ExplainedEstimator
from dtgfn.inference.extend import extend_prepared
from dtgfn.inference.infer import infer_prepared, read_method
from dtgfn.posterior.prediction import (
    WEIGHTINGS,
    CountedTrees,
    average_outputs,
    count_trees,
    knows_average,
    make_forest,
    sharpened,
    sharpness,
)
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.forest import Forest, average
from dtgfn.trees.leaves import LeafModel
from dtgfn.trees.score import SplitPenalty

# What only a GFlowNet has, by the estimators' parameter names; its defaults are its silence.
TRAINING_ONLY = (
    "preset",
    "leaf_order",
    "objective",
    "loss",
    "device",
    "callbacks",
    "checkpoint",
    "warm_start",
)


COMPUTED = ("_known_counts", "_forests")  # and can be computed again


class PosteriorEstimator(ExplainedEstimator, TableEstimator):
    """A table in, the posterior over its trees inside; a subclass says what leaves hold."""

    inference: str
    max_depth: int
    n_thresholds: int
    binning: Binning
    split_penalty: SplitPenalty
    weighting: str
    n_trees: int
    time_budget: float | None
    n_jobs: int | None
    random_state: int | np.random.RandomState | None
    verbose: bool
    n_steps: int | None
    options: dict[str, Any] | None
    callbacks: list[Any] | None
    checkpoint: str | Path | None
    warm_start: bool
    posterior_: TreePosterior

    def _read_training(
        self, X: Any, y: Any, *, reset: bool = True
    ) -> tuple[Table, npt.NDArray[Any]]:
        """Training columns and target as they were given, checked for their shape."""
        find_engine(self.inference, "inference")
        check_choice("weighting", self.weighting, WEIGHTINGS)  # not after an hour of training
        table = as_table(X)
        self._check_columns(X, table, reset=reset)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        return table, as_target(y)

    def _infer(
        self,
        table: Table,
        y: npt.NDArray[Any],
        sample_weight: npt.ArrayLike | None,
        leaf: LeafModel,
        temperature: float | str,
        *,
        classes: npt.ArrayLike | None = None,
        n_bags: int | None = None,
    ) -> TreePosterior:
        """Run the engine with this estimator's parameters on a table and target that were read."""
        started = time.monotonic()
        self._forget()
        options = self._engine_options()
        return infer_prepared(
            table,
            y,
            read_method(self.inference, options, n_bags, parameter="inference"),
            max_depth=self.max_depth,
            n_thresholds=self.n_thresholds,
            binning=self.binning,
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

    def _extend(
        self, table: Table, y: npt.NDArray[Any], sample_weight: npt.ArrayLike | None
    ) -> None:
        """Let more rows join the posterior; thresholds, categories and classes stay."""
        if self.inference != self.posterior_.engine:
            raise ValueError(
                f"inference={self.inference!r} cannot go on where {self.posterior_.engine!r} "
                "ended; call fit with all rows."
            )
        options = self._engine_options()
        for name in ("policy", "checkpoint"):  # those of one table
            options.pop(name, None)
        self.posterior_ = extend_prepared(
            self.posterior_,
            table,
            y,
            read_method(self.inference, options, parameter="inference").options,
            sample_weight=sample_weight,
            n_trees=self.n_trees,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
            random_state=self._seed(),
            verbose=self.verbose,
        )
        self._forget()

    def _seed(self) -> int:
        try:
            generator = check_random_state(self.random_state)
        except ValueError:
            raise ValueError(
                f"random_state={self.random_state!r} is not usable; give a whole number from 0 to "
                f"{2**32 - 1}, a numpy RandomState, or None."
            ) from None
        return int(generator.randint(np.iinfo(np.int32).max))

    def _forget(self) -> None:
        """Drop what was computed from another posterior.

        Made here, filled by predictions: predicting must not add attributes.
        """
        self._known_counts: dict[str | None, CountedTrees] = {}
        self._forests: dict[tuple[str | None, str], Forest] = {}

    def _counted(self, tree: str | None) -> CountedTrees:
        """Sums in the leaves of the sampled trees, or of the best one, computed once a fit."""
        known: dict[str | None, CountedTrees] = self.__dict__.setdefault("_known_counts", {})
        if tree not in known:
            known[tree] = count_trees(self.posterior_, tree, self.n_jobs)
        return known[tree]

    def _choices(self, tree: str | None) -> dict[str, Any]:
        """What the functions of ``predict`` and ``uncertainty`` are to be called with."""
        check_is_fitted(self, "posterior_")
        check_choice("tree", tree, (None, "best"))
        check_choice("weighting", self.weighting, WEIGHTINGS)
        return {
            "weighting": self.weighting,
            "tree": tree,
            "counted": self._counted(tree),
            "n_jobs": self.n_jobs,
        }

    def _average(self, codes: Codes, tree: str | None) -> Floats:
        """Average what leaves predict [n, J], exactly where the engine can."""
        if knows_average(self.posterior_, weighting=self.weighting, tree=tree):
            return average_outputs(self.posterior_, codes)
        key = (tree, self.weighting)
        known: dict[tuple[str | None, str], Forest] = self.__dict__.setdefault("_forests", {})
        if key not in known:
            known[key] = make_forest(self.posterior_, **self._choices(tree))
        power = sharpness(self.posterior_, weighting=self.weighting, tree=tree)
        return sharpened(average(known[key], codes, self.n_jobs), power)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in COMPUTED}

    def _codes(self, X: Any) -> Codes:
        """Code new rows as the training rows were."""
        check_is_fitted(self, "posterior_")
        table = as_table(X)
        self._check_columns(X, table, reset=False)
        return encode(self.binner_, table)

    def _engine_options(self) -> dict[str, Any]:
        """What the engine takes beyond what all of them do."""
        if not isinstance(self.options, dict | None):
            raise ValueError(
                f"options={self.options!r} is not usable; give a dict of option and value, or None."
            )
        if self.inference != "gfn":
            return self._other_options()
        named = ("leaf_order", "objective", "loss", "n_steps", "preset", "device")
        chosen = {name: getattr(self, name, None) for name in named}
        before = getattr(self, "posterior_", None) if self.warm_start else None
        return {
            "callbacks": self.callbacks or (),
            "checkpoint": self.checkpoint,
            "policy": before.solution if before is not None and before.engine == "gfn" else None,
            **{name: value for name, value in chosen.items() if value is not None},
            **(self.options or {}),
        }

    def _other_options(self) -> dict[str, Any]:
        """Options of an engine that is not trained; what only training knows is refused."""
        defaults = type(self)().get_params(deep=False)
        for name in TRAINING_ONLY:
            if name in defaults and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for inference='gfn', not "
                    f"{self.inference!r}; leave it out, or choose that engine."
                )
        steps = {} if self.n_steps is None else {"n_steps": self.n_steps}
        return {**steps, **(self.options or {})}

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
        check_is_fitted(self, "posterior_")
        return self.posterior_.log_evidence

    @property
    def temperature_(self) -> float:
        """The temperature that was used, or chosen."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.score.temperature

    @property
    def best_tree_(self) -> TreeBatch:
        """The most probable tree, a batch of one."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.best_tree
