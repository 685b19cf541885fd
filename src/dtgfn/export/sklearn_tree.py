"""Trees as fitted scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, TREE_LEAF, TREE_UNDEFINED, Tree
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_choice
from dtgfn.data.binning import Binner, encode
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import listing
from dtgfn.explain.tree_set import TreeSet

Columns = Literal["auto", "raw", "codes"]
RowType = Literal["float64", "float32"]


def to_sklearn(
    chosen: TreeSet, columns: Columns = "auto", dtype: RowType = "float64"
) -> BaseEstimator:
    """Make a fitted scikit-learn estimator of a set of trees.

    One tree gives a ``DecisionTreeClassifier`` (or ``DecisionTreeRegressor``), several an
    ``AveragedTreesClassifier`` (or ``AveragedTreesRegressor``): a forest of such trees with their
    weights, which ``shap.TreeExplainer`` takes. None sharpens its average, so all trees of bags are
    refused.

    Parameters
    ----------
    chosen : TreeSet
        The trees.
    columns : {"auto", "raw", "codes"}
        "raw" gives trees on the user's number and boolean columns, in their order. "codes" gives a
        ``Pipeline`` of an encoder and trees on codes: it takes every table that the model takes and
        always agrees with it. "auto" is "raw" unless a column has categories.
    dtype : {"float64", "float32"}
        Of "raw": what the rows are before scikit-learn makes float32 of them. For "float64" the
        thresholds are rounded to float32 too, so every row at or below a threshold stays on its
        side, and a row goes astray only if it lies above a threshold by less than float32 can tell
        (a relative 6e-8). For "float32" thresholds stay, and no row goes astray.

    Examples
    --------
    >>> from sklearn.tree import export_text
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(export_text(to_sklearn(take_tree(posterior))))
    |--- feature_0 <= 5.00
    |   |--- class: no
    |--- feature_0 >  5.00
    |   |--- class: yes

    """
    check_choice("columns", columns, get_args(Columns))
    check_choice("dtype", dtype, get_args(RowType))
    if chosen.sharpness != 1:
        raise ValueError(
            f"Bags predict the power {chosen.sharpness:.3g} of their trees' average, which a "
            "scikit-learn forest cannot; export one tree, or to json or onnx."
        )
    texts = [spec.name for spec in chosen.binner.columns if spec.kind == "category"]
    if columns == "raw" and texts:
        raise ValueError(
            f"A scikit-learn tree takes numbers, but {listing(texts)} have categories; "
            "give columns='codes' for a pipeline that encodes them."
        )
    if columns == "codes" or texts:
        encoder = CodeEncoder(chosen.binner).fit()
        fitted = [_on_codes(chosen, b) for b in range(len(chosen.trees))]
        return Pipeline([("codes", encoder), ("tree", _averaged(fitted, chosen))])
    return _averaged([_on_columns(chosen, b, dtype) for b in range(len(chosen.trees))], chosen)


class CodeEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table into the codes that a model's trees split on.

    Parameters
    ----------
    binner : Binner
        Learnt by the model from its training rows; ``fit`` learns nothing.

    """

    def __init__(self, binner: Binner) -> None:
        self.binner = binner

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing: the binner is fitted."""
        self.n_features_in_ = len(self.binner.columns)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Codes [n, features] of a table."""
        return encode(self.binner, as_new_table(X)).astype(np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Name of each code column."""
        texts = {"category": " is {0.category}", "missing": " is missing"}
        names = (
            feature.name + texts.get(feature.kind, "").format(feature)
            for feature in self.binner.features
        )
        return np.array(list(names), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


class AveragedTreesRegressor(RandomForestRegressor):  # type: ignore[misc]
    """A forest whose trees already hold their weights: what they say is added up."""

    def predict(self, X: Any) -> Floats:
        """Weighted average of the trees [n]."""
        return self._sum(X)[:, 0]

    def _sum(self, X: Any) -> Floats:
        """Add up the trees without asking each of them to check the rows again [n, K]."""
        check_is_fitted(self, "estimators_")
        rows = self._validate_X_predict(X)
        total = sum(tree.tree_.predict(rows) for tree in self.estimators_)
        return np.asarray(total / len(self.estimators_))


class AveragedTreesClassifier(ClassifierMixin, AveragedTreesRegressor):  # type: ignore[misc]
    """The same of class probabilities, of which a forest of classifiers would drop the weights."""

    def predict_proba(self, X: Any) -> Floats:
        """Weighted average of the trees' class probabilities [n, C]."""
        return self._sum(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable class of each row [n]."""
        return np.asarray(self.classes_[self._sum(X).argmax(axis=1)])


def _averaged(trees: list[BaseEstimator], chosen: TreeSet) -> BaseEstimator:
    """One tree as it is, several as a fitted forest."""
    if len(trees) == 1:
        return trees[0]
    kind = AveragedTreesRegressor if chosen.classes is None else AveragedTreesClassifier
    model = kind(n_estimators=len(trees))
    model.estimators_ = trees
    model.n_outputs_, model.n_features_in_ = chosen.value.shape[2], trees[0].n_features_in_
    if hasattr(trees[0], "feature_names_in_"):
        model.feature_names_in_ = trees[0].feature_names_in_
        for tree in trees:
            del tree.feature_names_in_  # the rows of a forest come to its trees without names
    if chosen.classes is not None:
        model.classes_ = chosen.classes
    return model


def _on_codes(chosen: TreeSet, b: int) -> BaseEstimator:
    cut = chosen.trees.cut[b].astype(np.float64) + 0.5
    return _fitted(chosen, b, cut, len(chosen.binner.features))


def _on_columns(chosen: TreeSet, b: int, dtype: RowType) -> BaseEstimator:
    binner, trees = chosen.binner, chosen.trees
    threshold = np.zeros(trees.feature.shape[1])
    for node in np.flatnonzero(trees.feature[b] >= 0):
        feature, cut = binner.features[trees.feature[b, node]], trees.cut[b, node]
        # No threshold: what is not missing goes left. Missing values go right at every split.
        exact = feature.thresholds[cut] if cut < len(feature.thresholds) else np.inf
        threshold[node] = np.float32(exact) if dtype == "float64" else exact
    # Without categories the features are the columns.
    model = _fitted(chosen, b, threshold, len(binner.columns))
    if binner.named:
        model.feature_names_in_ = np.array(binner.column_names, dtype=object)
    return model


def _fitted(chosen: TreeSet, b: int, threshold: Floats, n_features: int) -> BaseEstimator:
    """Fill a scikit-learn tree with the nodes of tree ``b``; threshold [N] is in its units."""
    n_nodes, n_trees = int(chosen.trees.n_nodes[b]), len(chosen.trees)
    feature, left = chosen.trees.feature[b, :n_nodes], chosen.trees.left[b, :n_nodes]
    value, rows = chosen.value[b, :n_nodes], chosen.rows[b, :n_nodes]
    inner = feature >= 0
    nodes = np.zeros(n_nodes, dtype=NODE_DTYPE)
    nodes["left_child"] = np.where(inner, left, TREE_LEAF)
    nodes["right_child"] = np.where(inner, left + 1, TREE_LEAF)
    nodes["feature"] = np.where(inner, feature, TREE_UNDEFINED)
    nodes["threshold"] = np.where(inner, threshold[:n_nodes], TREE_UNDEFINED)
    if chosen.spread is None:
        nodes["impurity"] = 1 - (value**2).sum(axis=1)
    else:
        nodes["impurity"] = chosen.spread[b, :n_nodes] ** 2
    nodes["n_node_samples"] = np.maximum(np.rint(rows), 1)
    nodes["weighted_n_node_samples"] = rows
    depth = int(chosen.trees[b : b + 1].depth[0])
    tree = Tree(n_features, np.array([value.shape[1]], dtype=np.intp), 1)
    state = {"max_depth": depth, "node_count": n_nodes, "nodes": nodes}
    shares = value * (chosen.weight[b] * n_trees)  # the value itself of one tree
    tree.__setstate__(state | {"values": np.ascontiguousarray(shares[:, None, :])})
    kind = DecisionTreeRegressor if chosen.classes is None else DecisionTreeClassifier
    model = kind(max_depth=depth or None)
    model.n_features_in_, model.n_outputs_, model.max_features_ = n_features, 1, n_features
    if chosen.classes is not None:
        model.classes_, model.n_classes_ = chosen.classes, np.intp(value.shape[1])
    model.tree_ = tree
    return model
