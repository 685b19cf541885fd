"""The export formats, one line each, and the one function that writes trees in any of them.

A new format is a line in ``FORMATS``, and a writer that takes a ``TreeSet`` in a file beside this;
``cli/export.py`` knows its suffix.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dtgfn._support.atomic_write import write_atomically
from dtgfn._support.checks import check_choice
from dtgfn.explain.tree_set import TreeSet, Which, take_tree, take_trees, tree_set_text
from dtgfn.export.c_source import to_c
from dtgfn.export.dot import to_dot
from dtgfn.export.javascript import to_javascript
from dtgfn.export.json_document import to_json
from dtgfn.export.mermaid import to_mermaid
from dtgfn.export.onnx_graph import to_onnx
from dtgfn.export.onnx_sums import sums_to_onnx
from dtgfn.export.sklearn_tree import to_sklearn
from dtgfn.export.sql import to_sql
from dtgfn.export.timbertrek import to_timbertrek
from dtgfn.posterior.of_model import lacks_of_sums
from dtgfn.posterior.sum_posterior import SumPosterior


class Format(NamedTuple):
    """How to write trees, whether several of them fit in, and how to write sums of them."""

    write: Callable[..., Any]
    holds_many: bool
    write_sums: Callable[..., Any] | None = None


FORMATS = {
    "text": Format(tree_set_text, holds_many=False),
    "dot": Format(to_dot, holds_many=False),
    "mermaid": Format(to_mermaid, holds_many=False),
    "json": Format(to_json, holds_many=True),
    "sklearn": Format(to_sklearn, holds_many=True),
    "onnx": Format(to_onnx, holds_many=True, write_sums=sums_to_onnx),
    "sql": Format(to_sql, holds_many=True, write_sums=to_sql),
    "c": Format(to_c, holds_many=True, write_sums=to_c),
    "javascript": Format(to_javascript, holds_many=True, write_sums=to_javascript),
    "timbertrek": Format(to_timbertrek, holds_many=True),
}


def export(
    source: Any,
    format: str,
    *,
    trees: Which = None,
    path: str | Path | None = None,
    **options: Any,
) -> Any:
    """Write trees of a posterior or a fitted model for another program.

    Parameters
    ----------
    source : TreePosterior, SumPosterior, fitted model, or TreeSet
        A ``TreeSet``, such as ``from_json`` gives, is exported as it is.
    format : {"text", "dot", "mermaid", "json", "sklearn", "onnx", "sql", "c", "javascript", \
            "timbertrek"}
        What to write.
    trees : "best", "consensus", "all", int, TreeBatch or None
        Which trees; "all" (not of the first three) is the weighted average of the sampled trees.
        None is "best"; a sum of trees has "all" only, in "onnx", "sql", "c" or "javascript".
    path : path or None
        File to write, which is replaced only once it is complete; not for "sklearn".
    **options
        Of "sklearn" ``columns`` and ``dtype``, of "json" ``indent``, of "sql" ``table`` and
        ``keep``, of "c" ``name``.

    Returns
    -------
    str, estimator or onnx.ModelProto
        Text; of "sklearn" a fitted scikit-learn estimator, of "onnx" a model.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> export(posterior, "dot")[:12]
    'digraph tree'

    """
    check_choice("format", format, FORMATS)
    if path is not None and format == "sklearn":
        raise ValueError("A scikit-learn tree has no file format; leave out path and use joblib.")
    posterior = getattr(source, "posterior_", source)
    if isinstance(posterior, SumPosterior):
        result = _write_sums(posterior, format, trees, **options)
    else:
        result = _write_trees(source, format, trees, **options)
    if path is not None:
        write_atomically(Path(path), result.encode() if isinstance(result, str) else _bytes(result))
    return result


def _write_sums(posterior: SumPosterior, format: str, trees: Which, **options: Any) -> Any:
    """Write sums of trees, where a format can hold them."""
    write = FORMATS[format].write_sums
    if write is None:
        able = " or ".join(name for name, each in FORMATS.items() if each.write_sums)
        raise ValueError(
            f"{format} holds single trees, not sums of trees; give format {able}, or keep the "
            "model by dtgfn.save."
        )
    if trees not in (None, "all"):
        raise TypeError(lacks_of_sums("single tree"))
    return write(posterior, **options)


def _write_trees(source: Any, format: str, trees: Which, **options: Any) -> Any:
    """Write single trees, or their weighted average."""
    write, many, _ = FORMATS[format]
    if isinstance(trees, str) and trees == "all" and not many:
        able = " or ".join(name for name, each in FORMATS.items() if each.holds_many)
        raise ValueError(f"{format} shows one tree, not all; give another tree, or format {able}.")
    chosen = _tree_set(source, trees, many)
    if many and chosen.classes is None and chosen.spread is None:
        raise ValueError(f"Leaves are neither classes nor numbers; {format} cannot hold them.")
    return write(chosen, **options)


def _tree_set(source: Any, trees: Which, many: bool) -> TreeSet:
    if isinstance(source, TreeSet):
        if not many and len(source.trees) != 1:
            raise ValueError(f"This format shows one tree, not {len(source.trees)}.")
        return source
    return take_trees(source, trees) if many else take_tree(source, trees)


def _bytes(model: Any) -> bytes:
    return bytes(model.SerializeToString())
