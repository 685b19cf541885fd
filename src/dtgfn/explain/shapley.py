"""Shapley values of the averaged trees, through shap's tree explainer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.binning import encode
from dtgfn.data.tables import Table, as_table
from dtgfn.explain.tree_set import TreeSet, Which, take_trees


def shap_values(source: Any, X: Any, trees: Which = "all") -> Any:
    """Explain the average of the sampled trees by Shapley values of the columns.

    The trees are explained in terms of their features, which are codes: a number is one feature, a
    text column has one per category. The values of a column's features are then added up, so the
    base value plus the sum over columns is the weighted average of the trees' class probabilities
    (or numbers), row by row. What is unknown is averaged over the training rows of each node
    (shap's "tree_path_dependent").

    Bags sharpen that average, and a power of a sum has no such shares: what is explained, and added
    up to, is the average before it. Its ``output_names`` then say "before sharpening".

    Parameters
    ----------
    source : TreePosterior or fitted model
        Whose trees to explain.
    X : array or frame [n, columns]
        Rows to explain.
    trees : "all", "best", "consensus", int or TreeBatch
        Which of them, see ``dtgfn.explain.take_trees``.

    Returns
    -------
    shap.Explanation
        With ``values`` [n, columns, C] and ``base_values`` [n, C]; take ``[:, :, c]`` of it to plot
        class c. Of a regression, [n, columns] and [n].

    Examples
    --------
    >>> from dtgfn import infer
    >>> X = [[1.0], [2.0], [8.0], [9.0]] * 5
    >>> posterior = infer(X, ["no", "no", "yes", "yes"] * 5, engine="exact", max_depth=1)
    >>> explanation = shap_values(posterior, X[:2])
    >>> explanation.values.shape, explanation.base_values[0].round(2).tolist()
    ((2, 1, 2), [0.5, 0.5])

    """
    shap = _import_shap()
    chosen = take_trees(source, trees)
    table = as_table(X)
    codes = encode(chosen.binner, table).astype(np.float64)
    single = [_shap_tree(chosen, b) for b in range(len(chosen.trees))]
    model = {"trees": single, "internal_dtype": np.float64, "input_dtype": np.float64}
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    by_feature = np.asarray(explainer.shap_values(codes, check_additivity=False))
    shape = len(codes), codes.shape[1], len(chosen.outputs)
    values = np.zeros((shape[0], len(chosen.binner.columns), shape[2]))
    for feature, column in enumerate(chosen.binner.feature_column):
        values[:, column] += by_feature.reshape(shape)[:, feature]
    base = np.broadcast_to(np.asarray(explainer.expected_value), (shape[0], shape[2]))
    names = list(chosen.outputs)
    if chosen.sharpness != 1:
        names = [f"{name} before sharpening" for name in names]
    explanation = shap.Explanation(
        values,
        base_values=np.array(base),
        data=_cells(chosen, table),
        feature_names=list(chosen.binner.column_names),
        output_names=names,
    )
    return explanation if chosen.classes is not None else explanation[:, :, 0]


def _import_shap() -> Any:
    try:
        with warnings.catch_warnings():  # of the libraries it imports
            warnings.simplefilter("ignore")
            import shap
    except ImportError as error:
        raise ImportError("Shapley values need shap: pip install 'dtgfn[shap]'.") from error
    return shap


def _shap_tree(chosen: TreeSet, b: int) -> dict[str, Any]:
    """One tree as shap wants it, its values scaled by its weight; code <= cut goes left."""
    n_nodes = int(chosen.trees.n_nodes[b])
    feature = chosen.trees.feature[b, :n_nodes]
    left = chosen.trees.left[b, :n_nodes]
    right = np.where(feature >= 0, left + 1, -1)
    return {
        "children_left": left,
        "children_right": right,
        "children_default": right,
        "features": np.where(feature >= 0, feature, -2),
        "thresholds": np.where(feature >= 0, chosen.trees.cut[b, :n_nodes] + 0.5, 0.0),
        "values": chosen.value[b, :n_nodes] * chosen.weight[b],
        "node_sample_weight": chosen.rows[b, :n_nodes],
    }


def _cells(chosen: TreeSet, table: Table) -> Floats | np.ndarray[Any, np.dtype[np.object_]]:
    """The user's cells [n, columns] to be shown beside the values."""
    binner = chosen.binner
    by_name = {column.name: column for column in table.columns}
    matched = binner.named and table.named
    columns = [by_name[name] for name in binner.column_names] if matched else table.columns
    numeric = all(column.kind != "category" for column in columns)
    cells = [column.values.astype(np.float64 if numeric else object) for column in columns]
    return np.stack(cells, axis=1)
