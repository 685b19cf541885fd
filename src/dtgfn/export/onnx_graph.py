"""Trees as an ONNX model that routes every double as the trees do.

Numbers and booleans enter as doubles, and thresholds are doubles, so no row goes astray. A text
column enters as strings and becomes the index of its category. The trees are one
TreeEnsembleRegressor (ai.onnx.ml, version 3) with an output per class, whose sums are doubles
that leave as floats: probabilities agree to 1e-7. Where the average is sharpened, as that of bags,
its power is taken in doubles and leaves as floats: to 1e-6.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s
from dtgfn._version import __version__
from dtgfn.data.binning import Binner, ColumnSpec
from dtgfn.explain.tree_set import TreeSet
from dtgfn.export.json_document import plain_label
from dtgfn.trees.batch import TreeBatch

PRIVATE = "dtgfn: "
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8  # old enough for most runtimes


def to_onnx(chosen: TreeSet) -> Any:
    """Make an ``onnx.ModelProto`` of a set of trees, their weighted average.

    Without categories there is one input, ``X``, double [n, columns], NaN for missing. With
    categories each column is an input [n, 1] of its own, named as the column: doubles, or strings
    with "" for missing. Outputs are ``label`` [n] and ``probabilities`` float [n, C]; of a
    regression ``value`` float [n, 1], as exact as float32 numbers are.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> model = to_onnx(take_tree(posterior))
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> label, probabilities = session.run(None, {"X": np.array([[2.5]])})
    >>> label.tolist(), probabilities.round(2).tolist()
    (['no'], [[0.99..., 0.00...]])

    """
    helper, types = import_onnx()
    inputs, nodes = column_inputs(chosen.binner, helper, types)
    name, n_targets = "value" if chosen.classes is None else "probabilities", chosen.value.shape[2]
    average = name if chosen.sharpness == 1 else f"{PRIVATE}average"
    leaves = leaf_nodes(chosen.trees)
    value = chosen.value[leaves] * chosen.weight[leaves[0], None]
    targets = Targets(
        np.repeat(leaves, n_targets, axis=1), np.tile(np.arange(n_targets), len(value)), value
    )
    nodes.append(
        tree_ensemble(chosen.trees, chosen.binner, targets, n_targets, average, helper, types)
    )
    constants: list[Any] = []
    if chosen.sharpness != 1:
        more, constants = _sharpen(average, name, chosen.sharpness, helper, types)
        nodes += more
    model = finish(nodes, inputs, constants, (name, n_targets), average, chosen.classes)
    return described(model, chosen.binner, chosen.classes)


def described(model: Any, binner: Binner, classes: npt.NDArray[Any] | None) -> Any:
    """Write into a model's metadata who wrote it, its columns and its classes, the latter JSON.

    ``columns`` has name, kind and categories of each column, in the order of the table;
    ``classes`` the labels in the order of the probabilities, null for numbers.
    """
    columns = [
        {"name": spec.name, "kind": spec.kind, "categories": list(spec.categories)}
        for spec in binner.columns
    ]
    labels = None if classes is None else [plain_label(label) for label in classes]
    said = {"columns": json.dumps(columns), "classes": json.dumps(labels)}
    model.producer_version = __version__
    for key, text in {"dtgfn_version": __version__, **said}.items():
        model.metadata_props.add(key=key, value=text)
    return model


def finish(
    nodes: list[Any],
    inputs: list[Any],
    constants: list[Any],
    output: tuple[str, int],
    average: str,
    classes: npt.NDArray[Any] | None,
) -> Any:
    """Make the model, with the label of the class that has most of ``average`` if there are some.

    ``output`` is the name and the width of what is predicted.
    """
    helper, types = import_onnx()
    name, width = output
    outputs = [helper.make_tensor_value_info(name, types.FLOAT, [None, width])]
    if classes is not None:
        nodes = [
            *nodes,
            helper.make_node("ArgMax", [average], ["best"], axis=1, keepdims=0),
            helper.make_node("Gather", ["classes", "best"], ["label"]),
        ]
        labels, kind = _class_labels(classes, helper, types)
        outputs.insert(0, helper.make_tensor_value_info("label", kind, [None]))
        constants = [*constants, labels]
    return helper.make_model(
        helper.make_graph(nodes, "dtgfn", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="dtgfn",
    )


def _sharpen(
    average: str, name: str, sharpness: float, helper: Any, types: Any
) -> tuple[list[Any], list[Any]]:
    """Nodes that make ``name`` of the average, as ``prediction.sharpened``; their constants."""
    steps = ("double", "top", "ratio", "power", "sum", "sharp", "sharpness", "axis")
    double, top, ratio, power, total, sharp, exponent, axis = (PRIVATE + step for step in steps)
    nodes = [
        helper.make_node("Cast", [average], [double], to=types.DOUBLE),
        helper.make_node("ReduceMax", [double], [top], axes=[1], keepdims=1),
        helper.make_node("Div", [double, top], [ratio]),
        helper.make_node("Pow", [ratio, exponent], [power]),
        helper.make_node("ReduceSum", [power, axis], [total], keepdims=1),
        helper.make_node("Div", [power, total], [sharp]),
        helper.make_node("Cast", [sharp], [name], to=types.FLOAT),
    ]
    return nodes, [
        helper.make_tensor(exponent, types.DOUBLE, [], [sharpness]),
        helper.make_tensor(axis, types.INT64, [1], [1]),
    ]


def import_onnx() -> tuple[Any, Any]:
    """ONNX's helpers and types, or how to get them."""
    try:
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError("Export to ONNX needs onnx: pip install 'dtgfn[onnx]'.") from error
    return helper, TensorProto


def _class_labels(classes: npt.NDArray[Any], helper: Any, types: Any) -> tuple[Any, Any]:
    """The labels as a tensor, whole numbers or text, and its type."""
    if classes.dtype.kind in "iu":
        values, kind = classes.astype(np.int64).tolist(), types.INT64
    else:
        values, kind = [str(label).encode() for label in classes], types.STRING
    return helper.make_tensor("classes", kind, [len(values)], values), kind


def column_inputs(binner: Binner, helper: Any, types: Any) -> tuple[list[Any], list[Any]]:
    """Inputs, and the nodes that make one matrix "X" of them."""
    columns = binner.columns
    if all(spec.kind != "category" for spec in columns):
        return [helper.make_tensor_value_info("X", types.DOUBLE, [None, len(columns)])], []
    taken = {"X", "probabilities", "best", "label", "classes", "value"}
    inputs, nodes, parts = [], [], []
    for index, spec in enumerate(columns):
        if not spec.name or spec.name in taken or spec.name.startswith(PRIVATE):
            raise ValueError(f"ONNX has another use for the name {spec.name!r}; rename the column.")
        is_text = spec.kind == "category"
        kind = types.STRING if is_text else types.DOUBLE
        inputs.append(helper.make_tensor_value_info(spec.name, kind, [None, 1]))
        parts.append(f"{PRIVATE}index {index}" if is_text else spec.name)
        if is_text:
            nodes += _index_of(spec, parts[-1], helper, types)
    return inputs, [*nodes, helper.make_node("Concat", parts, ["X"], axis=1)]


def _index_of(spec: ColumnSpec, name: str, helper: Any, types: Any) -> list[Any]:
    """Nodes that find a text among the categories; their number if missing, -1 if unknown."""
    keys = list(spec.categories)
    if "" not in keys:
        keys.append("")
    elif spec.has_missing:
        raise ValueError(
            f"Column {spec.name!r} has both empty texts and missing cells, which ONNX cannot tell "
            "apart; replace the empty texts and fit again."
        )
    found = helper.make_node(
        "LabelEncoder",
        [spec.name],
        [f"{name} as float"],
        domain="ai.onnx.ml",
        keys_strings=keys,
        values_floats=[float(k) for k in range(len(keys))],
        default_float=-1.0,
    )
    return [found, helper.make_node("Cast", [f"{name} as float"], [name], to=types.DOUBLE)]


class Targets(NamedTuple):
    """What leaves add to which output: ``leaf`` [2, T] is tree and node of each, ``value`` [T]."""

    leaf: Int64s
    output: Int64s
    value: Floats


def leaf_nodes(trees: TreeBatch) -> tuple[Int64s, Int64s]:
    """Tree and node of every leaf."""
    tree, node = np.nonzero(_used(trees) & (trees.feature < 0))
    return tree, node


def _used(trees: TreeBatch) -> Bools:
    return np.asarray(np.arange(trees.feature.shape[1]) < trees.n_nodes[:, None])


def tree_ensemble(
    trees: TreeBatch,
    binner: Binner,
    targets: Targets,
    n_targets: int,
    output: str,
    helper: Any,
    types: Any,
) -> Any:
    """Make the operator that adds up what the leaves of all trees say of "X"."""
    used = _used(trees)
    tree, node = np.nonzero(used)
    feature, cut = trees.feature[used], trees.cut[used]
    column, threshold, modes = _tests(binner, feature, cut)
    inner = feature >= 0

    def doubles(name: str, values: Floats) -> Any:
        return helper.make_tensor(name, types.DOUBLE, [values.size], values.ravel().tolist())

    return helper.make_node(
        "TreeEnsembleRegressor",
        ["X"],
        [output],
        domain="ai.onnx.ml",
        aggregate_function="SUM",
        n_targets=n_targets,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=column.tolist(),
        nodes_modes=modes,
        nodes_values_as_tensor=doubles("thresholds", threshold),
        nodes_truenodeids=np.where(inner, trees.left[used], 0).tolist(),
        nodes_falsenodeids=np.where(inner, trees.left[used] + 1, 0).tolist(),
        nodes_missing_value_tracks_true=[0] * tree.size,
        target_treeids=targets.leaf[0].tolist(),
        target_nodeids=targets.leaf[1].tolist(),
        target_ids=targets.output.tolist(),
        target_weights_as_tensor=doubles("leaves", targets.value),
    )


def _tests(binner: Binner, feature: Int32s, cut: Int32s) -> tuple[Int32s, Floats, list[str]]:
    """Column, number and mode of each node; where the test holds a row goes left."""
    column = np.zeros(feature.size, dtype=np.int32)
    threshold = np.zeros(feature.size)
    modes = []
    for k, (f, j) in enumerate(zip(feature.tolist(), cut.tolist(), strict=True)):
        if f < 0:
            modes.append("LEAF")
            continue
        known = binner.features[f]
        column[k] = known.column
        if known.kind in ("category", "missing"):
            categories = binner.columns[known.column].categories
            threshold[k] = [*categories, None].index(known.category)
            modes.append("BRANCH_NEQ")
        else:
            # No threshold: what is not missing goes left. NaN fails every test.
            threshold[k] = known.thresholds[j] if j < len(known.thresholds) else np.inf
            modes.append("BRANCH_LEQ")
    return column, threshold, modes
