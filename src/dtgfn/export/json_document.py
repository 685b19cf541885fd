"""Trees as a plain JSON document in the user's units, and back.

The document, with a NODE for the root of each tree::

    {"format": "dtgfn-trees", "version": 1, "named": true,
     "columns": [{"name": "petal length (cm)", "kind": "number", "categories": [],
                  "has_missing": false}, ...],
     "classes": ["setosa", ...], "sharpness": 1.0,
     "trees": [{"weight": 1.0, "root": NODE}, ...]}

A NODE has ``rows`` (weighted training rows), ``counts`` (those of each class) and ``value``
(probability of each class); a split also has ``test``, ``then`` and ``else``. A row goes to
``then`` where the test holds; its column is an index into "columns"::

    {"column": 0, "at_most": 2.45}      the number is there and at most 2.45
    {"column": 1, "is": false}          the boolean is there and false
    {"column": 2, "is_not": "red"}      the category is another one, or missing
    {"column": 2, "present": true}      the cell is not missing

"has_missing" tells whether training had missing cells, "named" whether columns have names of their
own and are to be matched by them. A column of numbers may have a "scale": the levels of an ordered
category, whose ranks from 0 are its numbers, or an empty list for dates, which are days since
1970-01-01 (UTC). The prediction is the weighted average of the trees' values, to
the power of "sharpness" (1 if it is left out) and divided by its sum over classes. Of a regression
"classes" is null, ``value`` is a list of one number, and instead of ``counts`` there is ``spread``,
the standard deviation of a new row's number.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.binner_dict import binner_from_dict
from dtgfn.data.binning import Binner
from dtgfn.data.thresholds import HALF
from dtgfn.explain.column_labels import split_test
from dtgfn.explain.tree_set import TreeSet
from dtgfn.trees.batch import empty_batch

FORMAT, VERSION = "dtgfn-trees", 1
LARGEST = sys.float_info.max
TESTS = ("at_most", "is", "is_not", "present")


def to_json(chosen: TreeSet, indent: int | None = 1) -> str:
    """Write a set of trees as a JSON document.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> text = to_json(take_tree(posterior))
    >>> json.loads(text)["trees"][0]["root"]["test"]
    {'column': 0, 'at_most': 5.0}

    """
    columns = [
        {
            "name": spec.name,
            "kind": spec.kind,
            "categories": list(spec.categories),
            "has_missing": spec.has_missing,
            **({} if spec.scale is None else {"scale": list(spec.scale.levels)}),
        }
        for spec in chosen.binner.columns
    ]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "named": chosen.binner.named,
        "columns": columns,
        "classes": None if chosen.classes is None else [plain_label(c) for c in chosen.classes],
        "sharpness": float(chosen.sharpness),
        "trees": [
            {"weight": float(weight), "root": _node(chosen, b, 0)}
            for b, weight in enumerate(chosen.weight)
        ],
    }
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)


def plain_label(label: Any) -> Any:
    """A class as JSON has it: a truth, a number or a text."""
    value = label.item() if isinstance(label, np.generic) else label
    return value if isinstance(value, bool | int | float | str) else str(value)


def _node(chosen: TreeSet, b: int, node: int) -> dict[str, Any]:
    trees = chosen.trees
    said: dict[str, Any] = {"rows": float(chosen.rows[b, node])}
    if chosen.spread is not None:
        said["spread"] = float(chosen.spread[b, node])
    if chosen.counts is not None:
        said["counts"] = chosen.counts[b, node].tolist()
    said["value"] = chosen.value[b, node].tolist()
    if trees.feature[b, node] < 0:
        return said
    left = int(trees.left[b, node])
    test = split_test(chosen.binner, int(trees.feature[b, node]), int(trees.cut[b, node]))
    return {
        "test": test,
        **said,
        "then": _node(chosen, b, left),
        "else": _node(chosen, b, left + 1),
    }


def from_json(text: str | bytes) -> TreeSet:
    """Read a document back: the trees predict as those that were written.

    The text may come from a stranger: what is wrong with it is said in a ValueError.

    Parameters
    ----------
    text : str or bytes
        What ``export(source, "json")`` gave.

    Returns
    -------
    TreeSet
        The trees, to predict with, or to export again.

    Examples
    --------
    >>> trees = from_json('''{"format": "dtgfn-trees", "version": 1, "named": true,
    ...   "columns": [{"name": "x", "kind": "number", "categories": [], "has_missing": false}],
    ...   "classes": ["no", "yes"],
    ...   "trees": [{"weight": 1.0, "root": {
    ...     "test": {"column": 0, "at_most": 2.5},
    ...     "rows": 4, "counts": [1, 3], "value": [0.25, 0.75],
    ...     "then": {"rows": 2, "counts": [1, 1], "value": [0.5, 0.5]},
    ...     "else": {"rows": 2, "counts": [0, 2], "value": [0.0, 1.0]}}}]}''')
    >>> trees.average([[2.0], [3.0]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]

    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"These trees are not JSON: {error}.") from error
    _demand(isinstance(document, dict), "it is no object")
    _demand(document.get("format") == FORMAT, f"its format is not {FORMAT!r}")
    _demand(document.get("version") == VERSION, f"its version is not {VERSION}")
    trees, classes = document.get("trees"), document.get("classes")
    _demand(isinstance(trees, list) and bool(trees), "it has no list of trees")
    _check_classes(classes)
    nodes = [_flat_nodes(tree, None if classes is None else len(classes)) for tree in trees]
    weight = np.array([tree["weight"] for tree in trees], dtype=np.float64)
    _demand(abs(weight.sum() - 1) < 1e-6, "its weights do not add up to one")
    chosen = _tree_set_of(nodes, weight, _binner_of(document, nodes), classes)
    return replace(chosen, sharpness=_sharpness_of(document))


def _sharpness_of(document: dict[str, Any]) -> float:
    sharpness = document.get("sharpness", 1.0)
    positive = _numbers([sharpness], 1, 0) and sharpness > 0
    _demand(positive, "its sharpness is no number above zero")
    _demand(document["classes"] is not None or sharpness == 1, "numbers have no sharpness but 1")
    return float(sharpness)


def _check_classes(classes: Any) -> None:
    if classes is not None:
        _demand(isinstance(classes, list) and bool(classes), "it has no list of classes")
        plain = all(isinstance(label, bool | int | float | str) for label in classes)
        distinct = plain and len(set(map(str, classes))) == len(classes)
        _demand(distinct, "its classes are not distinct")


def _demand(condition: bool, fault: str) -> None:
    if not condition:
        raise ValueError(f"This is not a document of trees: {fault}.")


def _flat_nodes(tree: Any, n_classes: int | None) -> list[dict[str, Any]]:
    """Nodes of one tree, parents first; each split gets the index of its left child."""
    _demand(isinstance(tree, dict) and {"weight", "root"} <= tree.keys(), "a tree lacks its root")
    _demand(_numbers([tree["weight"]], 1, 0), "a tree's weight is no number of at least zero")
    found = [tree["root"]]
    for node in found:  # grows as it goes
        _demand(isinstance(node, dict), "a node is no object")
        _demand(_numbers([node.get("rows")], 1, 0), "the rows of a node are no number")
        least, length = (-math.inf, 1) if n_classes is None else (0, n_classes)
        valued = _numbers(node.get("value"), length, least)
        _demand(valued, f"a node's value is not {length} numbers")
        beside = [node.get("spread")] if n_classes is None else node.get("counts")
        name = "spread" if n_classes is None else "counts"
        _demand(_numbers(beside, length, 0), f"a node's {name} is not {length} numbers")
        if "test" in node:
            _demand({"then", "else"} <= node.keys(), "a split lacks a side")
            node["left"] = len(found)
            found += [node["then"], node["else"]]
    return found


def _numbers(values: Any, length: int, least: float) -> bool:
    """Whether it is a list of so many finite numbers, none below ``least``."""
    return (
        isinstance(values, list)
        and len(values) == length
        and all(type(v) in (int, float) and least <= v and abs(v) <= LARGEST for v in values)
    )


def _binner_of(document: dict[str, Any], trees: list[list[dict[str, Any]]]) -> Binner:
    """Columns with the thresholds that the trees use."""
    columns = document.get("columns")
    _demand(isinstance(columns, list), "it has no list of columns")
    assert isinstance(columns, list)
    used: list[set[float]] = [set() for _ in columns]
    for node in (node for nodes in trees for node in nodes if "test" in node):
        column, kind, wanted = _parts(node["test"], len(columns))
        if kind == "at_most":
            _demand(type(wanted) in (int, float), "a threshold is no number")
            used[column].add(float(wanted))
        elif kind == "is":
            used[column].add(float(HALF[0]))
    specs = [
        {**column, "thresholds": sorted(thresholds)} if isinstance(column, dict) else column
        for column, thresholds in zip(columns, used, strict=True)
    ]
    most = max((len(thresholds) for thresholds in used), default=1)
    named = document.get("named")
    return binner_from_dict(
        {"named": named, "binning": "midpoint", "n_thresholds": max(most, 1), "columns": specs}
    )


def _parts(test: Any, n_columns: int) -> tuple[int, str, Any]:
    """Column, kind and value of a test."""
    _demand(isinstance(test, dict) and len(test) == 2 and "column" in test, "a test is no test")
    column = test["column"]
    placed = type(column) is int and 0 <= column < n_columns
    _demand(placed, "a test is on a column that does not exist")
    kind = next(key for key in test if key != "column")
    _demand(kind in TESTS, f"it has the unknown test {kind!r}")
    return column, kind, test[kind]


def _tree_set_of(
    trees: list[list[dict[str, Any]]], weight: Floats, binner: Binner, classes: list[Any] | None
) -> TreeSet:
    batch = empty_batch(len(trees), max(map(len, trees)))
    value = np.zeros((*batch.feature.shape, len(classes or "1")))
    rows = np.zeros(batch.feature.shape)
    beside = np.zeros_like(value)  # counts of classes, or the spread of a number
    for b, nodes in enumerate(trees):
        batch.n_nodes[b] = len(nodes)
        for index, node in enumerate(nodes):
            value[b, index], rows[b, index] = node["value"], node["rows"]
            beside[b, index] = node["counts"] if classes else node["spread"]
            if "test" in node:
                batch.feature[b, index], batch.cut[b, index] = _split_of(binner, node["test"])
                batch.left[b, index] = node["left"]
    if classes is None:
        return TreeSet(batch, weight, value, rows, None, beside[:, :, 0], binner, None)
    return TreeSet(batch, weight, value, rows, beside, None, binner, np.array(classes))


def _split_of(binner: Binner, test: dict[str, Any]) -> tuple[int, int]:
    """Feature and cut of a test."""
    column, kind, wanted = _parts(test, len(binner.columns))
    for index, feature in enumerate(binner.features):
        if feature.column != column:
            continue
        if kind == "at_most" and feature.kind == "number":
            return index, int(np.searchsorted(feature.thresholds, wanted))
        if kind == "is" and feature.kind == "boolean" and wanted is False:
            return index, 0
        if kind == "is_not" and feature.kind == "category" and feature.category == wanted:
            return index, 0
        if kind == "present" and wanted is True:
            if feature.kind == "missing":
                return index, 0
            if feature.has_missing:
                return index, len(feature.thresholds)
    raise ValueError(
        f"This is not a document of trees: column {binner.columns[column].name!r} "
        f"cannot be asked {kind!r} with {wanted!r}."
    )
