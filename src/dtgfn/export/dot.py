"""One tree as Graphviz dot."""

from __future__ import annotations

from dtgfn.explain.tree_set import TreeSet, drawn_nodes


def to_dot(chosen: TreeSet) -> str:
    r"""Write the first tree of a set in the dot language.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(to_dot(take_tree(posterior)))
    digraph tree {
      node [shape=box, style=rounded, fontname="Helvetica"];
      edge [fontname="Helvetica"];
      n0 [label="x0 <= 5\n20 rows"];
      n1 [label="no  0.990\n10 rows"];
      n2 [label="yes  0.990\n10 rows"];
      n0 -> n1 [label="yes"];
      n0 -> n2 [label="no"];
    }

    """
    nodes, edges = [], []
    for node, (said, rows, left) in enumerate(drawn_nodes(chosen)):
        nodes.append(f'  n{node} [label="{escape(said)}\\n{rows}"];')
        if left > 0:
            edges += [
                f'  n{node} -> n{left} [label="yes"];',
                f'  n{node} -> n{left + 1} [label="no"];',
            ]
    head = [
        "digraph tree {",
        '  node [shape=box, style=rounded, fontname="Helvetica"];',
        '  edge [fontname="Helvetica"];',
    ]
    return "\n".join([*head, *nodes, *edges, "}"])


def escape(text: str) -> str:
    r"""Make a text safe inside a quoted label; control characters become spaces.

    >>> print(escape('5" \\N'))
    5\" \\N
    """
    printable = "".join(c if c.isprintable() else " " for c in text)
    # Graphviz resolves HTML entities in every label.
    return printable.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
