"""One tree as a Mermaid flowchart."""

from __future__ import annotations

from dtgfn.explain.tree_set import TreeSet, drawn_nodes

# What Mermaid, or the HTML and Markdown that it makes of a label, would read as its own.
SPECIAL = frozenset("\"#&;<>`%\\*_~|{}[]()^$@'")


def to_mermaid(chosen: TreeSet) -> str:
    """Write the first tree of a set as a flowchart, e.g. for a Markdown page.

    Examples
    --------
    >>> from dtgfn import infer
    >>> from dtgfn.explain.tree_set import take_tree
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> print(to_mermaid(take_tree(posterior)))
    flowchart TD
      n0["x0 #60;= 5<br/>20 rows"]
      n1("no  0.990<br/>10 rows")
      n2("yes  0.990<br/>10 rows")
      n0 -->|yes| n1
      n0 -->|no| n2

    """
    nodes, edges = [], []
    for node, (said, rows, left) in enumerate(drawn_nodes(chosen)):
        opening, closing = "[]" if left > 0 else "()"
        nodes.append(f'  n{node}{opening}"{escape(said)}<br/>{rows}"{closing}')
        if left > 0:
            edges += [f"  n{node} -->|yes| n{left}", f"  n{node} -->|no| n{left + 1}"]
    return "\n".join(["flowchart TD", *nodes, *edges])


def escape(text: str) -> str:
    """Write special characters as Mermaid's character codes; control characters become spaces.

    >>> escape('5" <b>')
    '5#34; #60;b#62;'
    """
    printable = (c if c.isprintable() else " " for c in text)
    return "".join(f"#{ord(c)};" if c in SPECIAL else c for c in printable)
