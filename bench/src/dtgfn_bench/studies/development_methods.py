"""Methods of the development suite by name: ours and rivals, for classes and for numbers.

To try a configuration of ours, add a line to ``METHODS``: its settings are part of the key of a
record, so that only what is new is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
from dtgfn_bench.studies.development_rivals import (
    Bart,
    Make,
    boosting_machine,
    catboost,
    encoded,
    lightgbm,
)


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
    # without the default time_budget, which on a busy machine would end chains early
    "dtgfn": ours(time_budget=None, revision=4),
    # the default time_budget of 60 seconds would take a day
    "dtgfn single trees": ours(ensemble=None, time_budget=20.0),
    "dtgfn bags": ours(ensemble="bags", time_budget=None),
}
