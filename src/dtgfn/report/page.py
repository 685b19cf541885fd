"""Render a report's plain dict as one HTML page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

STYLES = ("report.css", "figures.css")
# Later files use what earlier ones define; together they are one script with a scope of its own.
SCRIPTS = (
    "elements.js",
    "colours.js",
    "forest.js",
    "tree_layout.js",
    "tree_drawing.js",
    "what_if.js",
    "tree_browser.js",
    "charts.js",
    "sections.js",
    "dependence.js",
    "row_fields.js",
    "explorer.js",
    "main.js",
)
# A word and a sign for each level, as colour alone does not reach everyone.
LEVELS = {
    "good": ("good", "✓"),
    "fair": ("fair", "!"),
    "poor": ("poor", "✕"),
    "unknown": ("not known", "?"),
}
# A good fit of useless columns is still a good fit.
TRUSTED = (
    "This judges the computation: whether the trees are those that the data and the prior "
    "want. How well they predict is for held-out rows to say."
)
MOST_CLASSES = 8  # named in the head of the page


def render_page(report: Mapping[str, Any]) -> str:
    """Make a complete HTML page of a report's dict (``Report.to_dict``).

    The page needs nothing else: style, script and numbers are in it, and its content security
    policy forbids the browser to load anything or to run any other script. Text from the data is
    escaped here, and only ever set as text by the script.

    Examples
    --------
    >>> page = render_page({"title": "Is a < b?", "version": "1", "made": "2026-01-01",
    ...     "fit": {"estimator": "DTGFNClassifier", "task": "classes", "engine": "exact",
    ...             "rows": 4.0, "n_columns": 1, "classes": ["no", "yes"], "settings": {}},
    ...     "columns": [], "trees": []})
    >>> "<title>Is a &lt; b?</title>" in page
    True

    """
    style = "\n".join(_compact(_asset(name)) for name in STYLES)
    body = "\n".join(_compact(_asset(name)) for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{body}\n}})();'
    return Template(_asset("template.html")).substitute(
        title=_text(report["title"]),
        version=_text(report["version"]),
        made=_text(report["made"]),
        lead=_text(_lead(report["fit"])),
        short=_short(report.get("short")),
        facts=_facts(report),
        trust=_trust(report.get("trust")),
        best_tree=_best_tree(report.get("trees") or []),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_data(report),
    )


def _asset(name: str) -> str:
    return (files("dtgfn") / "report" / "assets" / name).read_text(encoding="utf-8")


def _compact(source: str) -> str:
    """Leave out indentation and lines that are only comments; no asset has them inside a string."""
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("//", "/*")))


def _hash(source: str) -> str:
    """What a content security policy calls a source it trusts."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _data(report: Mapping[str, Any]) -> str:
    """Write the dict as JSON that is safe within a script element and in any encoding."""
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(value: object) -> str:
    """Escape for HTML; what UTF-8 cannot say becomes a question mark."""
    return escape(str(value).encode("utf-8", "replace").decode("utf-8"))


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _lead(fit: Mapping[str, Any]) -> str:
    """What this is, in a sentence without a foreign word."""
    classes, target = fit["classes"] or [], fit.get("target")
    if fit["task"] == "numbers":
        what = f"Decision trees that predict {_shortened(target) if target else 'a number'}"
    elif fit["task"] == "anomalies":
        what = "Decision trees that find rows where ordinary ones hardly ever are"
    elif target:
        some = _some(classes) if len(classes) != 2 else " or ".join(map(_shortened, classes))
        what = f"Decision trees that predict {_shortened(target)} ({some})"
    elif len(classes) == 2:
        what = f"Decision trees that tell {_shortened(classes[0])} from {_shortened(classes[1])}"
    else:
        what = "Decision trees that tell classes apart"
    if fit["engine"] == "sums":
        what = what.replace("Decision trees that", "Sums of decision trees that", 1)
    columns = f"{fit['n_columns']} column" + ("" if fit["n_columns"] == 1 else "s")
    return f"{what}, learned from {_number(fit['rows'])} rows with {columns}."


def _sentence(value: object) -> str:
    """Escape for HTML, and hold a number and its per cent sign on one line."""
    return re.sub(r"\d[\d.,]* %", r'<span class="amount">\g<0></span>', _text(value))


def _first_and_rest(text: str) -> str:
    """Write the first sentence large, which answers, and what else is to be said smaller."""
    first, stop, rest = text.partition(". ")
    more = f' <span class="rest">{_sentence(rest)}</span>' if rest else ""
    return f"{_sentence(first + stop.rstrip())}{more}"


def _short(short: Mapping[str, Any] | None) -> str:
    """What everyone should know, as HTML that needs no script."""
    if not short:
        return ""
    tree, trust = short["tree"], short["trust"]
    word, sign = LEVELS[trust["level"]]
    doubts = f" It has {trust['doubts']} doubts, told below." if trust["doubts"] > 1 else ""
    doubts = " It has a doubt, told below." if trust["doubts"] == 1 else doubts
    told = ""
    if tree is not None:
        rules = "".join(f"<li>{_text(rule)}</li>" for rule in tree["rules"])
        listed = f'<ul class="leaves">{rules}</ul>' if rules else ""
        told = _answer(
            "One tree", f"<p>{_sentence(tree['intro'])}</p>{listed}{_note(tree['note'])}"
        )
    return (
        '<section id="short" aria-labelledby="short-title">'
        '<h2 id="short-title">In short</h2><div class="questions">'
        + _answer("What decides", f"<p>{_sentence(short['columns'])}</p>{_note(short['caution'])}")
        + told
        + _answer("How good it is", f"<p>{_first_and_rest(short['quality'])}</p>")
        + _answer(
            "How far to trust it",
            f'<p class="verdict {trust["level"]}">{_icon(sign)}<span class="hidden">'
            f"{word.capitalize()}.</span> <span>{_text(trust['sentence'])}{doubts}</span></p>",
        )
        + "</div></section>"
    )


def _answer(question: str, answer: str) -> str:
    return f'<div class="question"><h3>{question}</h3>{answer}</div>'


def _note(note: str | None) -> str:
    return f'<p class="muted">{_text(note)}</p>' if note else ""


def _facts(report: Mapping[str, Any]) -> str:
    fit = report["fit"]
    found = [
        _fact(
            "Model",
            _text(fit["estimator"]),
            f"dtgfn {report['version']}, report made {report['made']}",
        ),
        _fact("Engine", _text(fit["engine"]), fit.get("engine_sentence")),
    ]
    if fit.get("seconds") is not None:
        found.append(_fact("Time", f"{fit['seconds']:.3g} s", "to fit"))
    if fit["task"] == "classes":
        found.append(_fact("Classes", str(len(fit["classes"])), _some(fit["classes"])))
    for name, key in (("Prior", "prior_sentence"), ("Leaves", "leaf_sentence")):
        if fit.get(key):
            found.append(_fact(name, "", fit[key]))
    changed = [f"{name} = {fit['settings'].get(name)}" for name in fit.get("changed") or []]
    if changed:
        items = "".join(f"<li><code>{_text(each)}</code></li>" for each in changed)
        chips = f'<ul class="chips">{items}</ul>'
        name = "Settings that differ from the default"
        found.append(f'<div class="whole"><dt>{name}</dt><dd>{chips}</dd></div>')
    return "".join(found)


def _fact(name: str, value: str, remark: object) -> str:
    beside = f"<span>{_text(remark)}</span>" if remark else ""
    return f"<div><dt>{name}</dt><dd>{value}{beside}</dd></div>"


def _some(names: list[object]) -> str:
    shown = [_shortened(str(name)) for name in names[:MOST_CLASSES]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _shortened(name: str, most: int = 40) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _trust(trust: Mapping[str, Any] | None) -> str:
    """How far to trust the fit, as HTML that needs no script."""
    if not trust:
        return ""
    word, sign = LEVELS[trust["level"]]
    doubts = "".join(f"<li>{_text(doubt)}</li>" for doubt in trust.get("doubts") or [])
    return (
        '<section id="trust" aria-labelledby="trust-title">'
        '<h2 id="trust-title">How far to trust it</h2>'
        f'<p class="explanation">{TRUSTED}</p>'
        f'<div class="verdict {trust["level"]}">{_icon(sign)}'
        f'<div><p><span class="word">{word.capitalize()}.</span> {_text(trust["sentence"])}</p>'
        f"{f'<ul>{doubts}</ul>' if doubts else ''}</div></div>"
        f'<ul class="items">{_items(trust.get("items") or [])}</ul></section>'
    )


def _items(items: Iterable[Mapping[str, Any]]) -> str:
    found = []
    for item in items:
        word, sign = LEVELS[item["level"]]
        said = f'{_icon(sign)}<span class="word">{word}</span>'
        badge = f'<span class="badge {item["level"]}">{said}</span>'
        found.append(
            f'<li><p class="name"><span>{_text(item["name"])}</span>{badge}</p>'
            f'<p class="value">{_text(item["text"])}</p>'
            f'<p class="sentence">{_text(item["sentence"])}</p></li>'
        )
    return "".join(found)


def _icon(sign: str) -> str:
    return f'<span class="icon" aria-hidden="true">{sign}</span>'


def _best_tree(trees: list[Mapping[str, Any]]) -> str:
    return f"<pre>{_text(trees[0]['text'])}</pre>" if trees else "<p>There is none to show.</p>"
