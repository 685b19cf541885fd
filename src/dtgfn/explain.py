"""Trees and posteriors in words: readable rules in the user's units."""

from __future__ import annotations

import numpy as np

from dtgfn.posterior import TreePosterior
from dtgfn.predict import leaf_probabilities
from dtgfn.trees import TreeBatch, node_sums


def tree_text(posterior: TreePosterior, tree: TreeBatch | None = None) -> str:
    """Write one tree (the best one if None) as nested rules with leaf probabilities.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(tree_text(posterior))
    if x0 <= 5
        no  0.990  (10 rows)
    else (x0 > 5)
        yes  0.990  (10 rows)

    """
    tree = posterior.best_tree if tree is None else tree
    rows, score = posterior.rows, posterior.score
    probability = leaf_probabilities(tree, rows, score)[0]
    counts, _ = node_sums(tree, rows.codes, rows.target, rows.weight, score.leaf)
    lines: list[str] = []

    def write(node: int, indent: str) -> None:
        if tree.feature[0, node] < 0:
            best = int(np.argmax(probability[node]))
            label, chance = posterior.class_names[best], probability[node, best]
            n_rows = counts[0, node].sum()
            rows_text = "1 row" if n_rows == 1 else f"{n_rows:g} rows"
            lines.append(f"{indent}{label}  {chance:.3f}  ({rows_text})")
            return
        left, right = posterior.rule(int(tree.feature[0, node]), int(tree.cut[0, node]))
        child = int(tree.left[0, node])
        lines.append(f"{indent}if {left}")
        write(child, indent + "    ")
        lines.append(f"{indent}else ({right})")
        write(child + 1, indent + "    ")

    write(0, "")
    return "\n".join(lines)
