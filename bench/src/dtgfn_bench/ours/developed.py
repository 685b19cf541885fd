"""Our one tree by prediction, and settings for one tree and for shifted rows, chosen elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dtgfn._support.arrays import Floats
from dtgfn.estimators.one_tree import OneTree
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.ours.classifiers import FittedEstimator, fit_default
from dtgfn_bench.seen_classes import spread


@dataclass(frozen=True)
class EvenClasses(FittedEstimator):
    """A fitted estimator that takes all classes to be equally frequent."""

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, n_classes]."""
        probability = self.model.predict_proba(X, class_prior="uniform")
        return spread(probability, self.model.classes_, self.n_classes)


def fit_even(rows: TrainingRows, seed: int, **parameters: Any) -> EvenClasses:
    """Fit as ever; only predictions take the classes to be equally frequent."""
    fitted = fit_default(rows, seed, **parameters)
    return EvenClasses(fitted.model, fitted.n_classes, fitted.tree)


@dataclass(frozen=True)
class TreeByPrediction:
    """The one tree that predicts most like a model."""

    tree: OneTree
    n_classes: int

    def predict_proba(self, X: Floats) -> Floats:
        """Class probabilities [n, n_classes]."""
        classes = self.tree.tree_set.classes
        assert classes is not None, "a tree of a classifier"
        return spread(self.tree.predict_proba(X), classes, self.n_classes)

    def size(self) -> float:
        """Nodes of the tree."""
        return 2.0 * self.tree.n_splits + 1.0


def fit_by_prediction(
    rows: TrainingRows, seed: int, *, max_splits: int, **parameters: Any
) -> TreeByPrediction:
    """Fit as ever, then search the tree of at most so many splits that is nearest to the model."""
    fitted = fit_default(rows, seed, ensemble="sum", **parameters)
    return TreeByPrediction(fitted.model.tree(max_splits), rows.n_classes)


WARM_BAGS = {
    "max_depth": 5,
    "n_thresholds": 99,
    "binning": "quantile",
    "split_penalty": "mdl",
    "temperature": 2.0,
    "n_trees": 1000,
    "n_bags": 100,
    "inference": "smc",
    "options": {"n_particles": 50, "n_sweeps": 1},
    "time_budget": None,
}
FEW = {"n_trees": 40, "n_bags": 8, "options": {"n_particles": 20, "n_sweeps": 1}}
DEVELOPED = "22 shift tasks made of other tables chose them"

METHODS: tuple[Method, ...] = (
    Method(
        name="dtgfn-tree-quantile",
        label="dtgfn tree, quantiles",
        fit=fit_default,
        note=(
            "The most probable tree on 9 quantile thresholds, which led among our single trees on "
            "13 tasks made of other tables (by less than chance)."
        ),
        settings={
            "max_depth": 5,
            "n_thresholds": 9,
            "binning": "quantile",
            "n_trees": 1000,
            "n_steps": 50,
            "time_budget": None,
            "tree": "best",
        },
        quick={"n_steps": 2, "n_trees": 100},
        ours=True,
        revision=2,  # as that of "dtgfn-tree"
    ),
    Method(
        name="dtgfn-tree-prediction",
        label="dtgfn tree by prediction",
        fit=fit_by_prediction,
        note=(
            "The tree of at most four splits that predicts most like a sum of trees "
            "(`DTGFNClassifier().fit(X, y).tree(4)`), no larger than the best rival's on any table."
        ),
        settings={"max_splits": 4, "time_budget": None},
        quick={"options": {"n_sweeps": 4}},
        ours=True,
    ),
    Method(
        name="dtgfn-warm",
        label="dtgfn, warm bags",
        fit=fit_default,
        note=f"100 bags, 99 quantile thresholds, penalty mdl, temperature 2; {DEVELOPED}.",
        settings=WARM_BAGS,
        quick=FEW,
        ours=True,
    ),
    Method(
        name="dtgfn-even",
        label="dtgfn, even classes",
        fit=fit_even,
        note=(
            "The same trees, with predictions that take the classes to be equally frequent "
            '(`class_prior="uniform"`): an assumption about the shifted rows, as balanced class '
            "weights are."
        ),
        settings=WARM_BAGS,
        quick=FEW,
        ours=True,
    ),
)
