"""Equations as MathML: browsers show it by themselves, so no page asks the network for a script."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

PARTS = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
# The converter sets "log R" without a space; TeX leaves one unless a bracket follows.
NAMED_FUNCTION = re.compile(r"<mi>(log|ln|exp|max|min)</mi>(?!<mo[^>]*>(&#x00028;|\())")


def to_mathml(tex: str, display: str) -> str:
    """Convert TeX, or raise ValueError with what the converter could not make sense of."""
    try:
        text = convert(tex, display=display)
    except Exception as problem:  # the converter's errors have no common parent
        raise ValueError(f"{type(problem).__name__} in {tex!r}") from problem
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise ValueError(f"no well-formed MathML for {tex!r}") from problem
    unknown = re.findall(r"\\\w*", "".join(tree.itertext()))
    if unknown:
        raise ValueError(f"unknown {', '.join(unknown)} in {tex!r}")
    for node in tree.iter():
        kind = node.tag.rpartition("}")[2]
        if len(node) != PARTS.get(kind, len(node)):
            raise ValueError(f"{kind} with {len(node)} parts in {tex!r}")
    # What browsers kept of MathML aligns cells by style alone.
    text = re.sub(r'columnalign="(left|right)"', r'style="text-align: \1"', text)
    return NAMED_FUNCTION.sub(r'<mi>\1</mi><mspace width="0.17em"/>', text)


def _written(node: nodes.Element, display: str) -> str:
    """Convert a node, or report its TeX with its place, which stops a build that has ``-W``."""
    try:
        return to_mathml(node.astext(), display)
    except ValueError as problem:
        logger.warning("bad equation: %s", problem, location=node)
        return ""


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write an equation inside a line."""
    translator.body.append(_written(node, "inline"))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write an equation of its own; it scrolls by itself where the page is narrow."""
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    text = _written(node, "block")
    translator.body.append(f'<div class="equation"{label} tabindex="0">{text}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name that ``html_math_renderer`` takes."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
