"""Markdown as result pages use it, written and turned into HTML.

markdown-it reads it; here are the few things that are special about a page: anchors of headings,
drawings in the place of images, tables that scroll, rows of our own methods, and ``<br>``, which
breaks a line where Markdown has no other way.  All other HTML is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

# Rows of a table that begin with this mark are our own methods.
OUR_MARK = "★"

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#&])")
_BREAK = "<br>"
_SCHEME = re.compile(r"([a-zA-Z][\w+.-]*):")
_OPENED = '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>\n'


def plain(text: str) -> str:
    """Escape text from elsewhere, so that Markdown shows it as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows, the first of them the header, as a table; line breaks in cells are kept."""
    width = max(map(len, rows))
    cells = [[_cell(text) for text in row] + [""] * (width - len(row)) for row in rows]
    cells.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cell(text: str) -> str:
    """Escape the bars that are not yet escaped."""
    text = re.sub(r"(\\.)|\|", lambda found: found[1] or r"\|", text.strip())
    return _BREAK.join(line.strip() for line in text.splitlines())


def slug(text: str) -> str:
    """Return letters, digits and dashes, for anchors and names of files."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def inline(text: str) -> str:
    """Convert what stands within a line or a cell."""
    return _reader().renderInline(text)


def headings(text: str) -> list[tuple[int, str, str]]:
    """List level, anchor and text of every heading outside fenced code."""
    return _headings(_reader().parse(text))


def _headings(tokens: Sequence[Token]) -> list[tuple[int, str, str]]:
    found = []
    seen: dict[str, int] = {}
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            anchor = slug(content.content)
            seen[anchor] = seen.get(anchor, 0) + 1
            if seen[anchor] > 1:
                anchor = f"{anchor}-{seen[anchor]}"
            found.append((int(token.tag[1:]), anchor, content.content))
    return found


def html(text: str, images: Mapping[str, str] | None = None) -> str:
    """Convert a whole text; ``images`` holds what to put for an image's address."""
    reader = _reader()
    tokens = reader.parse(text)
    anchors = iter(_headings(tokens))
    for token in tokens:
        if token.type == "heading_open":
            token.attrs["id"] = next(anchors)[1]
        if token.type == "ordered_list_open":
            token.attrs.setdefault("start", 1)
    _shape_tables(tokens)
    shown = _with_figures(tokens, images or {})
    return str(reader.renderer.render(shown, reader.options, {})).rstrip("\n")


def _with_figures(tokens: Sequence[Token], images: Mapping[str, str]) -> list[Token]:
    """Put a figure in the place of every paragraph that is nothing but an image."""
    shown = list(tokens)
    for i, token in enumerate(tokens):
        inner = token.children or []
        if token.type == "inline" and [child.type for child in inner] == ["image"]:
            address, alt = str(inner[0].attrs["src"]), inner[0].content
            alt = re.sub(r"\\(.)", r"\1", alt)
            drawn = images.get(address, f'<img src="{escape(address)}" alt="{escape(alt)}">')
            figure = Token("html_block", "", 0, content=f"<figure>{drawn}</figure>\n")
            nothing = Token("html_block", "", 0)
            shown[i - 1 : i + 2] = [nothing, figure, nothing]
    return shown


def _shape_tables(tokens: Sequence[Token]) -> None:
    """Give header cells a scope, name rows by their first cell, and mark our own."""
    row, n_cells, in_body = None, 0, False
    for i, token in enumerate(tokens):
        token.block = token.block and token.type not in _WITHIN_ROW
        if token.type in ("thead_open", "tbody_open"):
            in_body = token.type == "tbody_open"
        elif token.type == "tr_open":
            row, n_cells = token, 0
        elif token.type == "th_open":
            token.attrs = {"scope": "col"}
        elif token.type == "td_open" and in_body:
            n_cells += 1
            content = tokens[i + 1]
            if n_cells == 1 and row is not None:
                token.tag = tokens[i + 2].tag = "th"
                token.attrs = {"scope": "row"}
                if content.content.strip("*").startswith(OUR_MARK):
                    row.attrs["class"] = "ours"
            else:
                content.children = _first_line_apart(content.children or [])


# so that a row of a table is a line of the page
_WITHIN_ROW = ("tr_open", "th_open", "th_close", "td_open", "td_close")


def _first_line_apart(children: Sequence[Token]) -> list[Token]:
    """Set the first line of a cell apart from those that explain it."""
    breaks = [i for i, child in enumerate(children) if child.type == "line_break"]
    if not breaks:
        return list(children)
    small = [Token("html_inline", "", 0, content=tag) for tag in ("<small>", "</small>")]
    return [*children[: breaks[0]], small[0], *children[breaks[0] + 1 :], small[1]]


@cache
def _reader() -> MarkdownIt:
    """Markdown with tables and ``<br>``, without HTML, and with no link that runs a script."""
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.validateLink = lambda url: True  # type: ignore[method-assign]  # see _link
    reader.inline.ruler.before("autolink", "line_break", _read_break)
    for name, rule in _RULES.items():
        reader.add_render_rule(name, rule)
    return reader


def _read_break(state: StateInline, silent: bool) -> bool:
    if not state.src.startswith(_BREAK, state.pos):
        return False
    if not silent:
        state.push("line_break", "br", 0)
    state.pos += len(_BREAK)
    return True


def _escaped(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    return escape(tokens[i].content)


def _code(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    return f"<code>{escape(tokens[i].content.strip())}</code>"


def _fence(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    content = tokens[i].content.removesuffix("\n")
    return f"<pre><code>{escape(content)}</code></pre>\n"


def _link(_: Any, tokens: Sequence[Token], i: int, *__: Any) -> str:
    """Open or close a link; one that would run a script is only its text."""
    opening = i
    while tokens[opening].type != "link_open":  # links hold no links
        opening -= 1
    address = str(tokens[opening].attrs["href"])
    scheme = _SCHEME.match(address)
    if scheme and scheme[1].lower() not in ("http", "https", "mailto"):
        return ""
    return f'<a href="{escape(address)}">' if i == opening else "</a>"


_RULES = {
    "text": _escaped,
    "code_inline": _code,
    "fence": _fence,
    "link_open": _link,
    "link_close": _link,
    "line_break": lambda *_: _BREAK,
    "table_open": lambda *_: _OPENED,
    "table_close": lambda *_: "</table></div>\n",
}
