"""Shapley values of the averaged trees, through shap's tree explainer."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.binning import Binner, encode
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import Table
from dtgfn.explain.posterior_columns import columns_of, labels_of
from dtgfn.explain.sum_nodes import node_means, node_weights
from dtgfn.explain.tree_set import Which, take_trees
from dtgfn.posterior.of_model import lacks_of_sums, posterior_of
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.leaf_models import NormalLeaf


class Explained(NamedTuple):
    """B trees that add up to what is explained.

    ``value`` [B, N, K] is what each node adds, ``rows`` [B, N] the weight of the training rows at
    it; ``constant`` [K] is added to the trees, ``outputs`` name the K sums.
    """

    trees: TreeBatch
    value: Floats
    rows: Floats
    constant: Floats
    binner: Binner
    outputs: list[str]


def shap_values(source: Any, X: Any, trees: Which = "all") -> Any:
    """Explain the average of the sampled trees by Shapley values of the columns.

    The trees are explained in terms of their features, which are codes: a number is one feature, a
    text column has one per category. The values of a column's features are then added up, so the
    base value plus the sum over columns is the weighted average of the trees' class probabilities
    (or numbers), row by row. What is unknown is averaged over the training rows of each node
    (shap's "tree_path_dependent").

    A sum of trees is explained where it is a sum: values add up to the mean over draws of f(x), in
    the target's units for numbers, in log odds of the second of two classes, and of more classes in
    the logs of what softmax normalises (``dtgfn.SumPredictor.average_sums``), as ``output_names``
    say.

    Bags sharpen that average, and a power of a sum has no such shares: what is explained, and added
    up to, is the average before it. Its ``output_names`` then say "before sharpening".

    Parameters
    ----------
    source : TreePosterior, SumPosterior or fitted model
        Whose trees to explain.
    X : array or frame [n, columns]
        Rows to explain.
    trees : "all", "best", "consensus", int or TreeBatch
        Which of them, see ``dtgfn.explain.take_trees``; of sums of trees always "all".

    Returns
    -------
    shap.Explanation
        With ``values`` [n, columns, C] and ``base_values`` [n, C]; take ``[:, :, c]`` of it to plot
        class c. Of a regression, and of sums of trees for two classes, [n, columns] and [n].

    Examples
    --------
    >>> from dtgfn import infer
    >>> X = [[1.0], [2.0], [8.0], [9.0]] * 5
    >>> posterior = infer(X, ["no", "no", "yes", "yes"] * 5, engine="exact", max_depth=1)
    >>> explanation = shap_values(posterior, X[:2])
    >>> explanation.values.shape, explanation.base_values[0].round(2).tolist()
    ((2, 1, 2), [0.5, 0.5])

    """
    posterior = posterior_of(source)
    if isinstance(posterior, SumPosterior):
        if trees != "all":
            raise TypeError(lacks_of_sums("single tree"))
        explanation = _explain(sum_explained(posterior), X)
        _add_lines(posterior, X, explanation)
        return explanation[:, :, 0] if posterior.summed.n_sums == 1 else explanation
    chosen = take_trees(source, trees)
    names = list(chosen.outputs)
    if chosen.sharpness != 1:
        names = [f"{name} before sharpening" for name in names]
    explanation = _explain(
        Explained(
            chosen.trees,
            chosen.value * chosen.weight[:, None, None],
            chosen.rows,
            np.zeros(len(names)),
            chosen.binner,
            names,
        ),
        X,
    )
    return explanation if chosen.classes is not None else explanation[:, :, 0]


def _explain(explained: Explained, X: Any) -> Any:
    """Return the explanation of rows X, each column's features added up."""
    shap = _import_shap()
    table, binner = as_new_table(X), explained.binner
    codes = encode(binner, table).astype(np.float64)
    single = [_shap_tree(explained, b) for b in range(len(explained.trees))]
    model = {"trees": single, "internal_dtype": np.float64, "input_dtype": np.float64}
    explainer = shap.TreeExplainer(model, feature_perturbation="tree_path_dependent")
    by_feature = np.asarray(explainer.shap_values(codes, check_additivity=False))
    shape = len(codes), codes.shape[1], len(explained.outputs)
    values = np.zeros((shape[0], len(binner.columns), shape[2]))
    for feature, column in enumerate(binner.feature_column):
        values[:, column] += by_feature.reshape(shape)[:, feature]
    base = np.asarray(explainer.expected_value) + explained.constant
    return shap.Explanation(
        values,
        base_values=np.array(np.broadcast_to(base, (shape[0], shape[2]))),
        data=_cells(binner, table),
        feature_names=list(binner.column_names),
        output_names=explained.outputs,
    )


def sum_explained(posterior: SumPosterior) -> Explained:
    """All trees of all draws, whose sum divided by the number of draws is the mean of f."""
    summed, labels = posterior.summed, labels_of(posterior)
    if labels is not None and len(labels) == 1:
        raise ValueError("There is one class only, so there is nothing to share out.")
    weight = node_weights(posterior)
    unit, constant, outputs = 1.0, posterior.offset, ["value"]
    if isinstance(posterior.leaf, NormalLeaf):
        unit, constant = posterior.leaf.scale, np.array([posterior.leaf.location])
    elif labels is not None:
        few = len(labels) == 2
        outputs = [f"log odds of {labels[1]}"] if few else [f"log score of {c}" for c in labels]
    mean = node_means(posterior, weight) * (unit / summed.n_draws)
    member = np.arange(len(summed.batch)) // summed.n_summed % summed.n_sums
    value = mean[:, :, None] * (member[:, None, None] == np.arange(summed.n_sums))
    binner = columns_of(posterior, summed.batch)
    return Explained(summed.batch, value, weight, constant, binner, outputs)


def _add_lines(posterior: SumPosterior, X: Any, explanation: Any) -> None:
    """Add what the lines of a column say, whose mean over the training rows is 0."""
    lines = posterior.summed.lines
    if lines is not None:
        unit = posterior.leaf.scale if isinstance(posterior.leaf, NormalLeaf) else 1.0
        slope = lines.slope.mean(axis=0).T * unit
        said = lines.scores(posterior.encode(X))[:, :, None] * slope
        for d, feature in enumerate(lines.feature):
            explanation.values[:, posterior.column[feature]] += said[:, d]


def _import_shap() -> Any:
    try:
        with warnings.catch_warnings():  # of the libraries it imports
            warnings.simplefilter("ignore")
            import shap
    except ImportError as error:
        raise ImportError("Shapley values need shap: pip install 'dtgfn[shap]'.") from error
    return shap


def _shap_tree(explained: Explained, b: int) -> dict[str, Any]:
    """One tree as shap wants it; code <= cut goes left."""
    trees = explained.trees
    n_nodes = int(trees.n_nodes[b])
    feature = trees.feature[b, :n_nodes]
    left = trees.left[b, :n_nodes]
    right = np.where(feature >= 0, left + 1, -1)
    return {
        "children_left": left,
        "children_right": right,
        "children_default": right,
        "features": np.where(feature >= 0, feature, -2),
        "thresholds": np.where(feature >= 0, trees.cut[b, :n_nodes] + 0.5, 0.0),
        "values": explained.value[b, :n_nodes],
        "node_sample_weight": explained.rows[b, :n_nodes],
    }


def _cells(binner: Binner, table: Table) -> Floats | np.ndarray[Any, np.dtype[np.object_]]:
    """The user's cells [n, columns] to be shown beside the values."""
    by_name = {column.name: column for column in table.columns}
    matched = binner.named and table.named
    columns = [by_name[name] for name in binner.column_names] if matched else table.columns
    numeric = all(column.kind != "category" for column in columns)
    cells = [column.values.astype(np.float64 if numeric else object) for column in columns]
    return np.stack(cells, axis=1)
