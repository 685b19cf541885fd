"""Result pages: blocks and notes as Markdown, as one HTML page, and their figures as SVG files."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from dtgfn._support.atomic_write import write_atomically
from dtgfn.plots.colours import INK, PAPER
from dtgfn_bench.experiment import Block, Figure
from dtgfn_bench.markup import headings, html, inline, pipe_table, plain, slug
from dtgfn_bench.plots import NEEDS_MATPLOTLIB, new_figure


@dataclass(frozen=True)
class Header:
    """What a page says of itself: how to get it again, on what it was measured, when, by what.

    ``state`` says how much of it has been measured, and with which revisions.
    """

    title: str
    command: str
    machine: str = ""
    date: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    commit: str = ""


def write_page(
    folder: Path, name: str, header: Header, blocks: Sequence[Block], notes: str = ""
) -> list[Path]:
    """Write name-<figure>.svg of each figure, name.md and name.html; return their paths.

    Each file is replaced only once it is complete.  Without matplotlib the pages say so where the
    figures would be.
    """
    drawings = _drawings(name, blocks)
    text = markdown_page(name, header, blocks, notes, drawings)
    contents = {
        **{f"{name}-{slug(figure)}.svg": drawn for figure, drawn in drawings.items()},
        f"{name}.md": text,
        f"{name}.html": html_page(name, text, drawings),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file_name, content in contents.items():
        write_atomically(folder / file_name, content.encode())
        written.append(folder / file_name)
    return written


def svg(figure: Figure) -> str:
    """Draw a figure; the same drawing gives the same text, on any day."""
    new_figure((1.0, 1.0))  # refuses in one sentence where matplotlib is missing
    import matplotlib

    # text stays text: it can be read aloud, searched for, and needs no font of this machine
    settings: Any = {"svg.hashsalt": figure.name, "svg.fonttype": "none"}
    stream = io.StringIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # the reader's own style file must not change a page
        matplotlib.rcParams.update(settings)
        canvas = new_figure(figure.inches)
        figure.draw(canvas)
        canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    drawn = stream.getvalue()
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def markdown_page(
    name: str, header: Header, blocks: Sequence[Block], notes: str, drawings: Mapping[str, str]
) -> str:
    """Return the page as Markdown; figures that are in ``drawings`` are files beside it."""
    parts = [f"# {plain(header.title)}", facts(header)]
    if notes.strip():
        parts.append(notes.strip())
    for block in blocks:
        if block.heading:
            parts.append(f"## {block.heading}")
        if block.rows:
            parts.append(pipe_table(block.rows))
        if block.text.strip():
            parts.append(block.text.strip())
        if block.figure is not None:
            parts.append(_image(name, block.figure, drawings))
    return "\n\n".join(parts) + "\n"


def html_page(name: str, text: str, drawings: Mapping[str, str]) -> str:
    """Return a Markdown page as one HTML file that asks for nothing else."""
    images = {
        f"{name}-{slug(figure)}.svg": _within_page(slug(figure), drawn)
        for figure, drawn in drawings.items()
    }
    found = headings(text)
    title = next((heading for level, _, heading in found if level == 1), name)
    shown_title = re.sub(r"<[^>]*>", "", inline(title))
    sections = [(anchor, heading) for level, anchor, heading in found if level == 2]
    body = html(text, images)
    if len(sections) > 2:
        links = "\n".join(
            f'<li><a href="#{anchor}">{inline(heading)}</a></li>' for anchor, heading in sections
        )
        contents = f'<nav aria-label="Contents"><ul>\n{links}\n</ul></nav>'
        body = body.replace("</h1>", f"</h1>\n{contents}", 1)
    return _FRAME.format(title=shown_title, style=_STYLE, body=body)


def facts(header: Header) -> str:
    """Return what a page says of itself as a list of Markdown."""
    lines = [f"- Command: `{header.command}`"]
    if header.machine:
        lines.append(f"- Machine: {plain(header.machine)}")
    if header.date:
        lines.append(f"- Date: {plain(header.date)}")
    if header.commit:
        lines.append(f"- Commit: {plain(header.commit)}")
    if header.versions:
        versions = ", ".join(f"{name} {number}" for name, number in header.versions.items())
        lines.append(f"- Versions: {plain(versions)}")
    if header.state:
        lines.append(f"- Measured: {plain(header.state)}")
    return "\n".join(lines)


def _image(name: str, figure: Figure, drawings: Mapping[str, str]) -> str:
    if figure.name not in drawings:
        return f"*{plain(NEEDS_MATPLOTLIB)}* The figure would show: {plain(figure.alt)}"
    return f"![{plain(figure.alt)}]({name}-{slug(figure.name)}.svg)"


def _drawings(name: str, blocks: Sequence[Block]) -> dict[str, str]:
    """Draw every figure; none of them without matplotlib."""
    figures = [block.figure for block in blocks if block.figure is not None]
    slugs = [slug(figure.name) for figure in figures]
    if len(set(slugs)) < len(slugs):
        raise ValueError(f"Two figures of page {name!r} have the same name: {sorted(slugs)}.")
    try:
        new_figure((1.0, 1.0))
    except ImportError:
        return {}
    return {figure.name: _titled(svg(figure), figure.alt) for figure in figures}


def _titled(drawn: str, alt: str) -> str:
    """Give a drawing the words that stand for it."""
    tag = re.search(r"<svg\b[^>]*>", drawn)
    if tag is None:
        raise ValueError("A figure was not drawn as SVG.")
    opened = tag[0].replace("<svg", '<svg role="img"', 1)
    return drawn[: tag.start()] + f"{opened}\n <title>{escape(alt)}</title>" + drawn[tag.end() :]


def _within_page(prefix: str, drawn: str) -> str:
    """Fit a drawing into HTML: no prologue, names of its own, colours of the page, fluid width."""
    inner = drawn[drawn.index("<svg") :]
    inner = re.sub(r" <metadata>.*?</metadata>\n?", "", inner, flags=re.DOTALL)
    inner = re.sub(r'\bid="', f'id="{prefix}-', inner)
    inner = re.sub(r'href="#', f'href="#{prefix}-', inner)
    inner = re.sub(r"url\(#", f"url(#{prefix}-", inner)
    opened, closed, rest = inner.partition(">")
    opened = re.sub(r' (width|height)="[^"]*"', "", opened)
    return opened + closed + rest.replace(INK, "currentColor").replace(PAPER, "var(--paper)")


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """:root {
  --paper: #ffffff; --ink: #1b1f24; --muted: #59636e; --line: #d8dee4;
  --band: #f6f8fa; --ours: #fdf1e7; --accent: #b34700; --link: #0a5ea8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e4e7eb; --muted: #9ba4ae; --line: #343a42;
    --band: #1c2025; --ours: #33241a; --accent: #ff9a57; --link: #79b8ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem;
     border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
p, ul, ol { max-width: 46rem; overflow-wrap: break-word; }
a { color: var(--link); }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0; display: flex; flex-wrap: wrap;
         gap: .25rem 1.25rem; max-width: none; }
code { font: .9em ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace;
       background: var(--band); padding: .1em .3em; border-radius: 3px; }
pre { background: var(--band); padding: .75rem 1rem; overflow-x: auto; border-radius: 6px; }
pre code { padding: 0; background: none; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem;
        font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .75rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid var(--line); white-space: nowrap; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--band); font-weight: 600; }
tbody th { font-weight: 500; }
th:first-child { position: sticky; left: 0; background: var(--paper); max-width: 45vw;
                 white-space: normal; }
thead th:first-child { background: var(--band); }
tr.ours > * { background: var(--ours); }
tr.ours > th { color: var(--accent); font-weight: 700; }
td small { display: block; color: var(--muted); font-size: .92em; line-height: 1.4; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg, figure img { display: block; width: 100%; min-width: 34rem; max-width: 52rem;
                         height: auto; }"""
