"""The few constructs of Markdown that result pages use, as HTML.

Blocks: headings, paragraphs, lists of one level, fenced code, pipe tables and an image on its own
line.  Inline: ``**strong**``, ``*emphasis*``, code, links and backslash escapes; ``<br>`` breaks a
line.  All other text is escaped, so no HTML gets through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

# Rows of a table that begin with this mark are our own methods.
OUR_MARK = "★"

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#&])")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"(?:[-*]|(\d+)\.)\s+(.*)")
_IMAGE = re.compile(r"!\[((?:\\.|[^\]\\])*)\]\(([^)\s]+)\)\s*$")
_RULE_ROW = re.compile(r"\|[\s:|-]+\|\s*$")
_INLINE = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?P<fence>`+)(?P<code>.+?)(?P=fence)(?!`)"
    r"|\*\*(?P<strong>(?:\\.|[^\\])+?)\*\*"
    r"|\*(?!\s)(?P<emphasis>(?:\\.|[^\\*])+?)(?<!\s)\*"
    r"|\[(?P<text>(?:\\.|[^\]\\])+)\]\((?P<address>[^)\s]+)\)"
    r"|(?P<line><br>)",
    re.DOTALL,
)


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
    return "<br>".join(line.strip() for line in text.splitlines())


def slug(text: str) -> str:
    """Return letters, digits and dashes, for anchors and names of files."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def inline(text: str) -> str:
    """Convert what stands within a line or a cell."""
    parts = []
    at = 0
    for found in _INLINE.finditer(text):
        parts.append(escape(text[at : found.start()]))
        parts.append(_construct(found))
        at = found.end()
    parts.append(escape(text[at:]))
    return "".join(parts)


def _construct(found: re.Match[str]) -> str:
    part = found.groupdict()
    if part["escaped"]:
        return escape(part["escaped"])
    if part["code"]:
        return f"<code>{escape(part['code'].strip())}</code>"
    if part["strong"]:
        return f"<strong>{inline(part['strong'])}</strong>"
    if part["emphasis"]:
        return f"<em>{inline(part['emphasis'])}</em>"
    if part["line"]:
        return "<br>"
    text = inline(part["text"])
    scheme = re.match(r"([a-zA-Z][\w+.-]*):", part["address"])
    if scheme and scheme[1].lower() not in ("http", "https", "mailto"):
        return text  # a page runs no script
    return f'<a href="{escape(part["address"])}">{text}</a>'


def headings(text: str) -> list[tuple[int, str, str]]:
    """List level, anchor and text of every heading outside fenced code."""
    found = []
    seen: dict[str, int] = {}
    for chunk in _chunks(text):
        heading = _HEADING.match(chunk[0])
        if heading:
            anchor = slug(heading[2])
            seen[anchor] = seen.get(anchor, 0) + 1
            if seen[anchor] > 1:
                anchor = f"{anchor}-{seen[anchor]}"
            found.append((len(heading[1]), anchor, heading[2]))
    return found


def html(text: str, images: Mapping[str, str] | None = None) -> str:
    """Convert a whole text; ``images`` holds what to put for an image's address."""
    anchors = iter(headings(text))
    parts = []
    for chunk in _chunks(text):
        if _HEADING.match(chunk[0]):
            level, anchor, title = next(anchors)
            parts.append(f'<h{level} id="{anchor}">{inline(title)}</h{level}>')
        else:
            parts.append(_block(chunk, images or {}))
    return "\n".join(parts)


def _block(chunk: list[str], images: Mapping[str, str]) -> str:
    first = chunk[0]
    image = _IMAGE.match(first)
    if first.startswith("```"):
        return f"<pre><code>{escape(chr(10).join(chunk[1:]))}</code></pre>"
    if image:
        address = image[2]
        alt = re.sub(r"\\(.)", r"\1", image[1])
        drawn = images.get(address, f'<img src="{escape(address)}" alt="{escape(alt)}">')
        return f"<figure>{drawn}</figure>"
    if len(chunk) > 1 and first.startswith("|") and _RULE_ROW.match(chunk[1]):
        return _table(chunk)
    item = _ITEM.match(first)
    if item:
        return _list(chunk, item[1])
    return f"<p>{inline(chr(10).join(chunk))}</p>"


def _list(chunk: list[str], start: str | None) -> str:
    items: list[str] = []
    for line in chunk:
        item = _ITEM.match(line)
        if item:
            items.append(item[2])
        else:
            items[-1] += "\n" + line.strip()
    inner = "\n".join(f"<li>{inline(item)}</li>" for item in items)
    if start is None:
        return f"<ul>\n{inner}\n</ul>"
    return f'<ol start="{start}">\n{inner}\n</ol>'


def _table(chunk: list[str]) -> str:
    header, _, *rows = chunk
    head = "".join(f'<th scope="col">{inline(cell)}</th>' for cell in _split(header))
    body = []
    for row in rows:
        name, *cells = _split(row)
        ours = ' class="ours"' if name.strip("*").startswith(OUR_MARK) else ""
        inner = "".join(f"<td>{_cell_html(cell)}</td>" for cell in cells)
        body.append(f'<tr{ours}><th scope="row">{inline(name)}</th>{inner}</tr>')
    return (
        '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n" + "\n".join(body) + "\n</tbody></table></div>"
    )


def _cell_html(cell: str) -> str:
    """Set the first line of a cell apart from those that explain it."""
    first, line_break, rest = cell.partition("<br>")
    return inline(first) + (f"<small>{inline(rest)}</small>" if line_break else "")


def _split(row: str) -> list[str]:
    """Split a table's row at the bars that are not escaped."""
    inner = row.strip().removeprefix("|")
    cells = re.split(r"(?<!\\)((?:\\\\)*)\|", inner)
    joined = ["".join(pair) for pair in zip(cells[::2], [*cells[1::2], ""], strict=True)]
    if joined and not joined[-1].strip():
        joined.pop()
    return [cell.strip().replace(r"\|", "|") for cell in joined]


def _chunks(text: str) -> list[list[str]]:
    """Split into blocks: at blank lines, at headings and images, and around fences."""
    chunks: list[list[str]] = []
    current: list[str] = []
    fenced = False

    def close() -> None:
        nonlocal current
        if current:
            chunks.append(current)
        current = []

    for line in text.splitlines():
        if fenced:
            if line.startswith("```"):
                fenced = False
                close()
            else:
                current.append(line)
        elif line.startswith("```"):
            close()
            current, fenced = [line], True
        elif not line.strip():
            close()
        elif _HEADING.match(line) or _IMAGE.match(line):
            close()
            chunks.append([line])
        elif _starts_another_block(line, current):
            close()
            current = [line]
        else:
            current.append(line)
    close()
    return chunks


def _starts_another_block(line: str, current: list[str]) -> bool:
    if not current:
        return False
    if line.startswith("|") != current[0].startswith("|"):
        return True
    return bool(_ITEM.match(line)) and not _ITEM.match(current[0])
