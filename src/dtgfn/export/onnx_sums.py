"""Sums of trees as an ONNX model: one output for each draw, averaged in the graph.

The trees of all draws are one TreeEnsembleRegressor with a target per draw and sum. What it adds up
leaves it as floats; logistic function or softmax and the mean over draws are taken in doubles.
Predictions agree to 1e-5, of numbers in units of their spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn.explain.posterior_columns import columns_of, labels_of
from dtgfn.export.onnx_graph import (
    PRIVATE,
    Targets,
    column_inputs,
    described,
    finish,
    import_onnx,
    leaf_nodes,
    tree_ensemble,
)
from dtgfn.export.sum_trees import n_sum_nodes, only_trees
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.leaf_models import NormalLeaf

MOST_NODES = 10_000_000  # of all trees: a file of ONNX has two gigabytes at most


def sums_to_onnx(posterior: SumPosterior) -> Any:
    """Make an ``onnx.ModelProto`` of all draws; inputs and outputs are as of ``to_onnx``."""
    helper, types = import_onnx()
    n_nodes = n_sum_nodes(posterior)
    if n_nodes > MOST_NODES:
        raise ValueError(
            f"These sums have {n_nodes:,} nodes, more than the {MOST_NODES:,} that an ONNX file "
            "has room for; fit with fewer n_draws."
        )
    summed = only_trees(posterior)
    binner = columns_of(posterior, summed.batch)
    inputs, nodes = column_inputs(binner, helper, types)
    leaves = np.array(leaf_nodes(summed.batch))
    targets = Targets(leaves, leaves[0] // summed.n_summed, summed.value[leaves[0], leaves[1]])
    n_targets = summed.n_draws * summed.n_sums
    sums = f"{PRIVATE}sums"
    nodes.append(tree_ensemble(summed.batch, binner, targets, n_targets, sums, helper, types))
    labels = labels_of(posterior)
    steps = _Steps(helper, types, nodes)
    double = steps.add("Cast", [sums], to=types.DOUBLE)
    average = _average(posterior, double, steps)
    name, width = ("value", 1) if labels is None else ("probabilities", len(labels))
    nodes.append(helper.make_node("Cast", [average], [name], to=types.FLOAT))
    model = finish(nodes, inputs, steps.constants, (name, width), average, labels)
    return described(model, binner, labels)


class _Steps:
    """Nodes of a graph that is being made, each with an output of its own, and constants."""

    def __init__(self, helper: Any, types: Any, nodes: list[Any]) -> None:
        self.helper, self.types, self.nodes = helper, types, nodes
        self.constants: list[Any] = []

    def add(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        output = f"{PRIVATE}step {len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, values: Any, whole: bool = False) -> str:
        """Add numbers; return their name."""
        array, name = np.asarray(values), f"{PRIVATE}constant {len(self.constants)}"
        kind = self.types.INT64 if whole else self.types.DOUBLE
        self.constants.append(
            self.helper.make_tensor(name, kind, array.shape, array.ravel().tolist())
        )
        return name


def _average(posterior: SumPosterior, sums: str, steps: _Steps) -> str:
    """Add what makes P(class) [n, C], or a number [n, 1], of sums [n, K x S]."""
    summed, leaf = posterior.summed, posterior.leaf
    if isinstance(leaf, NormalLeaf):
        mean = steps.add("ReduceMean", [sums], axes=[1], keepdims=1)
        wide = steps.add("Mul", [mean, steps.constant(leaf.scale)])
        return steps.add("Add", [wide, steps.constant(leaf.location)])
    if leaf.n_classes == 1:
        mean = steps.add("ReduceMean", [sums], axes=[1], keepdims=1)
        nothing = steps.add("Mul", [mean, steps.constant(0.0)])
        return steps.add("Add", [nothing, steps.constant(1.0)])
    if summed.n_sums == 1:
        odds = steps.add("Add", [sums, steps.constant(float(posterior.offset[0]))])
        each = steps.add("Sigmoid", [odds])
        second = steps.add("ReduceMean", [each], axes=[1], keepdims=1)
        first = steps.add("Sub", [steps.constant(1.0), second])
        return steps.add("Concat", [first, second], axis=1)
    shape = steps.constant([-1, summed.n_draws, summed.n_sums], whole=True)
    by_draw = steps.add("Reshape", [sums, shape])
    scores = steps.add("Add", [by_draw, steps.constant(posterior.offset)])
    each = steps.add("Softmax", [scores], axis=2)
    return steps.add("ReduceMean", [each], axes=[1], keepdims=0)
