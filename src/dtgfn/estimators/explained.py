"""ExplainedEstimator: the methods by which every estimator explains and exports its trees."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal

import pandas
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.arrays import Floats
from dtgfn.estimators.one_tree import OneTree, one_tree
from dtgfn.explain.column_dependence import partial_dependence
from dtgfn.explain.column_importance import co_occurrence, feature_importances, importances
from dtgfn.explain.rules import distinct_rules, leaf_rules
from dtgfn.explain.shapley import shap_values
from dtgfn.explain.text import DecisionPath, decision_path, tree_text
from dtgfn.explain.tree_set import Which, consensus_tree
from dtgfn.export.formats import export
from dtgfn.posterior.of_model import Posterior, lacks_of_sums
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch


def make_report(model: Any, X: Any, y: Any, title: str | None, labels: Any) -> Any:
    """Make a ``dtgfn.report.Report``, which knows all estimators: found only when it is asked for.

    So no fit, and no measurement of one, depends on how a page is written.
    """
    return importlib.import_module("dtgfn.report").Report(model, X, y, title=title, labels=labels)


class ExplainedEstimator:
    """What a fitted estimator with a ``posterior_`` says of itself; each method is a function.

    ``tree`` is "best", "consensus", "paper" or the index of a sampled tree; ``trees`` may also be
    "all".
    """

    posterior_: Posterior

    def _of_single_trees(self, name: str) -> TreePosterior:
        """Return the posterior of single trees, for an attribute that a sum of trees lacks."""
        check_is_fitted(self, "posterior_")
        if isinstance(self.posterior_, SumPosterior):
            raise AttributeError(lacks_of_sums(name))
        return self.posterior_

    def describe(self, tree: Which = "best") -> str:
        """Write a tree as nested rules in the user's units."""
        check_is_fitted(self, "posterior_")
        return tree_text(self, tree)

    def decision_path(self, row: Any, tree: Which = "best") -> DecisionPath:
        """Tell why a tree says what it says of one row; ``str`` of it is plain words."""
        check_is_fitted(self, "posterior_")
        return decision_path(self, row, tree)

    def importances(self, level: float = 0.9) -> pandas.DataFrame:
        """Posterior inclusion and gain of every column, with intervals."""
        check_is_fitted(self, "posterior_")
        return importances(self, level)

    def co_occurrence(
        self, measure: Literal["probability", "lift"] = "probability"
    ) -> pandas.DataFrame:
        """Probability that a tree uses both of two columns, or its lift."""
        check_is_fitted(self, "posterior_")
        return co_occurrence(self, measure)

    def partial_dependence(
        self, column: str | int, X: Any = None, level: float = 0.9
    ) -> pandas.DataFrame:
        """How predictions depend on one column, with a band over the posterior."""
        check_is_fitted(self, "posterior_")
        return partial_dependence(self, column, X, level=level)

    def rules(self, trees: Which = "best") -> pandas.DataFrame:
        """Rules as a frame, one row a leaf; those of "all" trees with their probability."""
        check_is_fitted(self, "posterior_")
        if isinstance(trees, str) and trees == "all":
            return distinct_rules(self)
        return leaf_rules(self, trees)

    def tree(
        self, max_splits: int | None = None, by: str = "prediction", of: str | None = None
    ) -> OneTree:
        """Return the one tree that stands for the model, with its fidelity.

        Parameters
        ----------
        max_splits : int or None
            How many splits it may have. None: by probability as many as the most probable tree has;
            by prediction each split must gain a nat over all rows, and there are at most 31.
        by : {"prediction", "probability"}
            The tree with the least expected log loss against the model's own predictions, searched
            among all trees; or the most probable one, which a sum of trees does not have.
        of : {"posterior", "ensemble"} or None
            What it stands for: the average over a posterior of single trees, or bags or sums of
            trees; None is what the model is.

        Returns
        -------
        OneTree
            To be printed, to predict, to be exported.

        """
        check_is_fitted(self, "posterior_")
        return one_tree(self, max_splits, by, of)

    @property
    def consensus_tree_(self) -> TreeBatch:
        """The tree that predicts most like the average of all, a batch of one."""
        return consensus_tree(self._of_single_trees("consensus_tree_")).tree

    @property
    def feature_importances_(self) -> Floats:
        """Share of the gain of each column [columns]; ``importances`` has it with intervals."""
        check_is_fitted(self, "posterior_")
        assert self.posterior_.binner is not None, "infer always sets it"
        return feature_importances(self, self.posterior_.binner.column_names)

    def shap_values(self, X: Any, trees: Which = "all") -> Any:
        """Shapley values of each row's prediction (extra ``shap``)."""
        check_is_fitted(self, "posterior_")
        return shap_values(self, X, trees)

    def report(
        self, X: Any = None, y: Any = None, *, title: str | None = None, labels: Any = None
    ) -> Any:
        """Return everything as a page or a dict; X, y are held-out rows. See ``dtgfn.report``."""
        check_is_fitted(self, "posterior_")
        return make_report(self, X, y, title, labels)

    def export(
        self, format: str, *, trees: Which = None, path: str | Path | None = None, **options: Any
    ) -> Any:
        """Write trees as text, dot, mermaid, json, sklearn or onnx; see ``dtgfn.export``."""
        check_is_fitted(self, "posterior_")
        return export(self, format, trees=trees, path=path, **options)
