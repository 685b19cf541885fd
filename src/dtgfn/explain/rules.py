"""Rules as a frame: one row per leaf, with its conditions, its prediction and its probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner
from dtgfn.explain.conditions import Condition, condition_text, gather_conditions, paths_to_leaves
from dtgfn.explain.tree_set import TreeSet, Which, take_trees

if TYPE_CHECKING:
    import pandas

ALWAYS = "always"


def leaf_rules(source: Any, trees: Which = "best") -> pandas.DataFrame:
    """One row per leaf of each tree, leaves from left to right.

    ``trees`` is "best", "consensus", "all" (the distinct sampled trees, heaviest first), the place
    of a sampled tree or a batch of trees. Columns: ``tree`` (its number in this frame), ``weight``
    (share of the tree in the prediction), ``rule``, ``n_conditions``, ``rows`` (of training) and
    ``P(class)`` for each class, or ``value``.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(leaf_rules(posterior)[["rule", "rows", "P(yes)"]].round(2).to_string())
         rule  rows  P(yes)
    0 x0 <= 5  10.0    0.01
    1  x0 > 5  10.0    0.99

    """
    import pandas

    chosen = take_trees(source, trees)
    records, words = [], _Words(chosen.binner)
    for b in range(len(chosen.trees)):
        for node, turns in paths_to_leaves(chosen.trees, b):
            conditions = gather_conditions(chosen.binner, turns)
            head = {"tree": b, "weight": chosen.weight[b]}
            records.append(head | _record(chosen, b, node, words.of(conditions)))
    return pandas.DataFrame.from_records(records)


def distinct_rules(source: Any) -> pandas.DataFrame:
    """One row per distinct rule of the sampled trees, the most probable first.

    ``probability`` is that of a tree that has a leaf with exactly these conditions. A rule is the
    same whatever the order in which a tree asks; it is another one if a threshold differs. The
    other columns are those of ``leaf_rules``.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=1)
    >>> print(distinct_rules(posterior)[["rule", "probability"]].to_string())
         rule  probability
    0 x0 <= 5          1.0
    1  x0 > 5          1.0

    """
    import pandas

    chosen = take_trees(source, "all")
    records: dict[frozenset[Condition], dict[str, Any]] = {}
    words = _Words(chosen.binner)
    for b in range(len(chosen.trees)):
        for node, turns in paths_to_leaves(chosen.trees, b):
            conditions = gather_conditions(chosen.binner, turns)
            key = frozenset(conditions)
            if key not in records:
                records[key] = {"probability": 0.0} | _record(chosen, b, node, words.of(conditions))
            records[key]["probability"] += float(chosen.weight[b])
    frame = pandas.DataFrame.from_records(list(records.values()))
    order = ["probability", "rows"]
    return frame.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _record(chosen: TreeSet, b: int, node: int, texts: list[str]) -> dict[str, Any]:
    """What a frame says of one leaf."""
    value = zip(chosen.outputs, chosen.value[b, node].tolist(), strict=True)
    return {
        "rule": " and ".join(texts) or ALWAYS,
        "n_conditions": len(texts),
        "rows": float(chosen.rows[b, node]),
        **{name if chosen.classes is None else f"P({visible(name)})": said for name, said in value},
    }


class _Words(dict[Condition, str]):
    """Conditions in words, each put into words once: many leaves share them."""

    def __init__(self, binner: Binner) -> None:
        super().__init__()
        self.binner = binner

    def __missing__(self, condition: Condition) -> str:
        self[condition] = condition_text(self.binner, condition)
        return self[condition]

    def of(self, conditions: tuple[Condition, ...]) -> list[str]:
        """Put conditions into words, in the order of their columns."""
        return [self[c] for c in sorted(conditions, key=lambda condition: condition.column)]
