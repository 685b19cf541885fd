"""Trees in words: readable rules in the user's units, and the path of one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.printable import visible
from dtgfn.data.binning import Binner, encode
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import Table, label
from dtgfn.explain.rules import PathStep, gather_conditions, met_text
from dtgfn.explain.tree_set import (
    TreeSet,
    Which,
    event_text,
    leaf_text,
    number_text,
    rows_text,
    take_tree,
    tree_set_text,
)


def tree_text(source: Any, tree: Which = "best") -> str:
    """Write one tree (the best one by default) as nested rules with leaf probabilities.

    ``source`` is a posterior or a fitted model; ``tree`` is "best" (or None), "consensus", the
    index of a sampled tree, or a batch of one tree.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.
    tree : "best", "consensus", int or TreeBatch
        Which one; None is the best, an int the index of a sampled one.

    Returns
    -------
    str
        One line per split and leaf.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(tree_text(posterior))
    if x0 <= 5  [3 to 7]
        no  0.990  (10 rows)
    else (x0 > 5)
        yes  0.990  (10 rows)

    """
    return tree_set_text(take_tree(source, tree))


@dataclass(frozen=True, eq=False)
class DecisionPath:
    """Why one tree says what it says of one row; ``str()`` puts it in plain words.

    Attributes
    ----------
    conditions : tuple of str
        What the row meets, one condition per column, in the order in which the tree asks.
    nodes : tuple of int
        Nodes passed from the root to the leaf.
    vote : object
        Label of the likeliest class, or the number.
    value : float64 [K]
        Probability of each class in the leaf, or the number.
    rows : float
        Weighted training rows in the leaf.
    counts : float64 [K] or None
        Those of each class; None for numbers.
    said : str
        What the leaf says, in short.
    chance : str
        Its probability in words: of the event, or of the likeliest class.
    outputs : tuple of str
        What each class is called.

    """

    conditions: tuple[str, ...]
    nodes: tuple[int, ...]
    vote: Any
    value: Floats
    rows: float
    counts: Floats | None
    said: str
    chance: str
    outputs: tuple[str, ...]

    @property
    def title(self) -> str:
        """What the likeliest class is called; the number as text."""
        return self.said if self.counts is None else self.outputs[int(np.argmax(self.value))]

    def __str__(self) -> str:
        if self.counts is None:
            head, mix = f"The tree says {self.said}", ""
        else:
            head = f"The tree says {self.title} ({self.chance})"
            each = zip(self.outputs, self.counts, strict=True)
            mix = ": " + ", ".join(f"{number_text(n)} {visible(name)}" for name, n in each if n > 0)
        if self.conditions:
            head = "\n".join([f"{head}, because", *(f"- {text}" for text in self.conditions)])
        else:
            head += " of every row: it has no splits."
        return f"{head}\nIts leaf holds {rows_text(self.rows)} of training{mix}."


def decision_path(source: Any, row: Any, tree: Which = "best") -> DecisionPath:
    """Follow one row through a tree and say which conditions it meets, with its own values.

    ``row`` is a list, an array, a dict, a Series or a frame of one row.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Where the trees come from.
    row : list, array, dict, Series or frame of one row
        The row to follow.
    tree : "best", "consensus", int or TreeBatch
        Which tree; an int is the index of a sampled one.

    Returns
    -------
    DecisionPath
        Conditions, leaf and prediction; ``str`` puts it in words.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9)
    >>> print(decision_path(posterior, X.iloc[0]))
    The tree says 0 (probability 0.996), because
    - petal length (cm) = 1.4 is at most 2.18
    Its leaf holds 50 rows of training: 50 0.

    """
    chosen = take_tree(source, tree)
    binner, trees = chosen.binner, chosen.trees
    table = _one_row(row, binner)
    codes = encode(binner, table)[0]
    steps, nodes = [], [0]
    while (feature := int(trees.feature[0, nodes[-1]])) >= 0:
        cut = int(trees.cut[0, nodes[-1]])
        steps.append(PathStep(feature, cut, bool(codes[feature] > cut)))
        nodes.append(int(trees.left[0, nodes[-1]]) + steps[-1].goes_right)
    leaf = nodes[-1]
    return DecisionPath(
        conditions=tuple(
            met_text(binner, condition, *_cell(binner, table, condition.column))
            for condition in gather_conditions(binner, steps)
        ),
        nodes=tuple(nodes),
        vote=_vote(chosen, chosen.value[0, leaf]),
        value=chosen.value[0, leaf],
        rows=float(chosen.rows[0, leaf]),
        counts=None if chosen.counts is None else chosen.counts[0, leaf],
        said=leaf_text(chosen, 0, leaf),
        chance=_chance(chosen, chosen.value[0, leaf]),
        outputs=chosen.titles,
    )


def _chance(chosen: TreeSet, value: Floats) -> str:
    if chosen.event is not None:
        return event_text(chosen, value)
    return f"probability {value.max():.3f}"


def _vote(chosen: TreeSet, value: Floats) -> Any:
    return value[0] if chosen.classes is None else chosen.classes[int(np.argmax(value))]


def _one_row(row: Any, binner: Binner) -> Table:
    """Make a table of whatever a user may call a row."""
    if hasattr(row, "to_frame") and getattr(row, "ndim", 0) == 1:  # a pandas Series
        row = dict(zip(row.index, row.tolist(), strict=True)) if binner.named else row.tolist()
    if isinstance(row, Mapping):
        import pandas

        row = pandas.DataFrame([dict(row)])
    elif isinstance(row, list | tuple) and not any(isinstance(c, list | tuple) for c in row):
        row = [list(row)]
    elif isinstance(row, np.ndarray) and row.ndim == 1:
        row = row[None, :]
    table = as_new_table(row)
    if table.n_rows != 1:
        raise ValueError(f"row has {table.n_rows} rows; give one, such as X[:1].")
    return table


def _cell(binner: Binner, table: Table, column: int) -> tuple[str | None, bool]:
    """Text of a row's cell (None if missing), and whether training knows it if a category."""
    spec = binner.columns[column]
    index = table.names.index(spec.name) if binner.named and table.named else column
    given = table.columns[index]
    value = given.values[0]
    if value is None or (given.kind != "category" and np.isnan(value)):
        return None, True
    if spec.kind == "category":
        code = encode(binner, table)[0]
        own = [f for f, feature in enumerate(binner.features) if feature.column == column]
        text = str(bool(value)) if given.kind == "boolean" else label(value)
        return text, bool(code[own].any()) or text in spec.categories
    if given.kind == "category":
        return str(value), True
    if spec.kind == "boolean":
        return "true" if value else "false", True
    return _number_text(float(value), spec.thresholds), True


def _number_text(value: float, thresholds: Floats) -> str:
    """Six digits, or as many as it takes to stay between the same thresholds."""
    code = np.searchsorted(thresholds, value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 18))
    shown = next(text for text in texts if np.searchsorted(thresholds, float(text)) == code)
    return repr(float(shown)).removesuffix(".0")
