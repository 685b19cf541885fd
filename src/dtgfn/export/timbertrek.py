"""Trees of two classes as the JSON document that TimberTrek explores.

TimberTrek (github.com/poloclub/timbertrek) shows a set of good trees as a sunburst of their paths.
Its document has three parts. ``featureMap`` names each test: column, test and label. ``treeMap``
has for each tree its nodes (of a split the id of its test, its rows and -1; of a leaf "+" or "-",
its rows and those of them that it gets right), an objective and the accuracy on the training rows.
``trie`` joins the paths of all trees where they begin alike; it ends in the trees that have a path.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from dtgfn.data.meanings import shown_name
from dtgfn.explain.tree_set import TreeSet, split_text

MOST_TREES = 10_000


def to_timbertrek(chosen: TreeSet) -> str:
    """Write a set of trees for TimberTrek; "+" is the second class.

    Rows are rounded to whole ones. The objective is -log of a tree's share. Trees without a split
    have no path to show and are left out.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> document = json.loads(to_timbertrek(take_tree(posterior)))
    >>> document["featureMap"], document["treeMap"]["1"][2]
    ({'0': ['x0', '<= 5', 'x0']}, 1.0)
    >>> document["trie"]
    {'f': 'root', 'c': [{'f': '0', 'c': [{'f': '_', 't': 1}]}]}

    """
    if chosen.counts is None or chosen.classes is None or len(chosen.classes) != 2:
        raise ValueError("TimberTrek shows trees of two classes; export to json instead.")
    split = np.flatnonzero(chosen.trees.feature[:, 0] >= 0)
    if not len(split):
        raise ValueError("No tree here has a split, so TimberTrek has no path to show.")
    if len(split) > MOST_TREES:
        raise ValueError(
            f"{len(split):,} trees are more than the {MOST_TREES:,} that this format is written "
            "for; export one tree, or fit with fewer n_trees."
        )
    tests: dict[tuple[int, int], str] = {}
    names: dict[str, list[str]] = {}
    trees: dict[str, list[Any]] = {}
    trie: dict[str, Any] = {}
    for identity, b in enumerate(split.tolist(), start=1):
        root = _node(chosen, b, 0, tests, names)
        right = sum(leaf["f"][2] for leaf in _leaves(root))
        objective = -math.log(max(float(chosen.weight[b]), math.ulp(0.0)))
        trees[str(identity)] = [root, round(objective, 5), round(right / max(root["f"][1], 1), 5)]
        for path in _paths(root):
            place = trie
            for test in path:
                place = place.setdefault(test, {})
            place.setdefault("_", {})[identity] = None  # a tree may have a path twice
    document = {"trie": _spelled("root", trie), "featureMap": names, "treeMap": trees}
    return json.dumps(document, allow_nan=False)


def _node(
    chosen: TreeSet,
    b: int,
    node: int,
    tests: dict[tuple[int, int], str],
    names: dict[str, list[str]],
) -> dict[str, Any]:
    """A node and what is below it; tests that are new get an id and a name."""
    trees = chosen.trees
    assert chosen.counts is not None
    rows = round(float(chosen.rows[b, node]))
    if trees.feature[b, node] < 0:
        best = int(np.argmax(chosen.value[b, node]))
        return {"f": ["-+"[best], rows, min(round(float(chosen.counts[b, node, best])), rows)]}
    test = int(trees.feature[b, node]), int(trees.cut[b, node])
    if test not in tests:
        tests[test] = str(len(tests))
        feature = chosen.binner.features[test[0]]
        column = shown_name(feature.name, feature.meaning)
        names[tests[test]] = [column, _behind(column, split_text(chosen, b, node)[0]), column]
    left = int(trees.left[b, node])
    below = [_node(chosen, b, child, tests, names) for child in (left, left + 1)]
    return {"f": [tests[test], rows, -1], "c": below}


def _behind(column: str, words: str) -> str:
    """What a rule says after the column's name."""
    return words.removeprefix(column).strip()


def _leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [leaf for child in node["c"] for leaf in _leaves(child)] if "c" in node else [node]


def _paths(node: dict[str, Any]) -> list[tuple[str, ...]]:
    """The tests on the way to each leaf."""
    if "c" not in node:
        return [()]
    return [(node["f"][0], *path) for child in node["c"] for path in _paths(child)]


def _spelled(name: str, place: dict[str, Any]) -> dict[str, Any]:
    """A part of the trie as TimberTrek has it."""
    below = [_spelled(test, deeper) for test, deeper in place.items() if test != "_"]
    return {"f": name, "c": [*below, *({"f": "_", "t": tree} for tree in place.get("_", {}))]}
