"""Measure the house, and write what was measured into ``docs/design/measured.md``.

``python docs/design/measure.py`` draws the imports between rooms, traces a few calls, counts the
files they walk through, and sets all of it beside ``before.json``, the same of the flat row of
files that the rooms replaced (commit 4ab095b). ``--save FILE`` writes such a file for whichever
``dtgfn`` is imported. A trace does not see compiled functions, nor files that hold nothing else.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import threading
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

import grimp
from sklearn.datasets import load_iris

import dtgfn
from dtgfn import DTGFNClassifier, infer

HERE = Path(__file__).parent
IMAGES = HERE.parent / "images"
SOURCE = Path(dtgfn.__file__).parent
INK = {"light": ("#1b1f25", "#3a6ea5", "#b3261e"), "dark": ("#e6e8eb", "#8ab4e8", "#ff8a80")}

PAGE = """<!-- written by docs/design/measure.py -->
# The rooms, measured

What `python docs/design/measure.py` saw of the flat row of files (commit 4ab095b), and sees of the
rooms. Before, the rivals were part of the package (`bench`); now they are a distribution of their
own and not counted.

| | before | now |
| --- | --- | --- |
{facts}

Files of which a call runs Python code, pairs of files of which one calls the other, and calls from
one file to another (Iris, depth 3, 9 thresholds; the training step: depth 5, 99 thresholds):

| call | files before | now | fewer | pairs before | now | switches before | now |
| --- | --- | --- | --- | --- | --- | --- | --- |
{calls}

A name imports those above it that an arc leads to; red arcs lead the wrong way. Lazy imports count.

## Imports now

{now}

## Imports before

{before}
"""


class Trace:
    """Counts calls of Python functions in the package: by file, and from file to file."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.switches: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        """Begin to look, in this thread and in new ones."""
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def stop(self) -> None:
        """Look no longer."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        here = _file(frame) if event == "call" else None
        if here is None:
            return
        self.files[here] += 1
        caller = frame.f_back
        while caller is not None and _file(caller) is None:
            caller = caller.f_back
        there = None if caller is None else _file(caller)
        if there is not None and there != here:
            self.switches[there, here] += 1


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    inside = path.is_relative_to(SOURCE) and frame.f_code.co_name != "<module>"
    return path.relative_to(SOURCE).as_posix() if inside else None


def trace(call: Callable[[], Any]) -> dict[str, Any]:
    """Count what a call walks through, made a second time: imports and compiling are over."""
    call()
    seen = Trace()
    seen.start()
    try:
        call()
    finally:
        seen.stop()
    return _counts(seen)


def _counts(seen: Trace) -> dict[str, Any]:
    pairs, switches = len(seen.switches), sum(seen.switches.values())
    return {"files": sorted(seen.files), "pairs": pairs, "switches": switches}


def trace_step(X: Any, y: Any) -> dict[str, Any]:
    """Count what one step of the GFlowNet's training walks through, between two callbacks."""
    seen = Trace()

    def watch(state: Any) -> None:
        if state.step == 4:
            seen.stop()
        elif state.step == 3:  # the first ones compile
            seen.start()

    infer(X, y, n_steps=5, max_depth=5, random_state=0, n_jobs=1, callbacks=[watch])
    return _counts(seen)


def trace_calls() -> dict[str, dict[str, Any]]:
    """Trace what a user does with a model of Iris."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    models: dict[str, Any] = {}

    def fit(engine: str) -> Callable[[], None]:
        def call() -> None:
            model = DTGFNClassifier(inference=engine, max_depth=3, n_thresholds=9, random_state=0)
            models[engine] = model.fit(X, y)

        return call

    return {
        "fit, gfn": trace(fit("gfn")),
        "fit, exact": trace(fit("exact")),
        "one training step, gfn": trace_step(X, y),
        "predict_proba, gfn": trace(lambda: models["gfn"].predict_proba(X)),
        "predict_proba, exact": trace(lambda: models["exact"].predict_proba(X)),
        "report, gfn": trace(lambda: models["gfn"].report().to_html()),
    }


def measure_imports() -> dict[str, Any]:
    """Count imports from room to room, lazy ones and those of types among them."""
    graph = grimp.build_graph("dtgfn", cache_dir=None)
    imports: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            here, there = (_room(name) for name in (module, other))
            if here != there:
                imports[here, there] += 1
    names = {_room(name) for name in graph.modules}
    return {
        "rooms": _order(sorted(names - {"dtgfn", "_version"}), imports),
        "imports": [[a, b, n] for (a, b), n in sorted(imports.items())],
        "files": len(graph.modules),
        "lines": sum(len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")),
        "longest function": _longest_function(),
        "cycle": _cycle(graph),
    }


def _room(module: str) -> str:
    return module.removeprefix("dtgfn.").split(".")[0]


def _order(rooms: list[str], imports: Counter[tuple[str, str]]) -> list[str]:
    """Rooms in the order of the contract, or, of sources that have none, in any that fits."""
    settings = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(each for each in contracts if each["id"] == "rooms")["layers"]
    order = [room for layer in reversed(layers) for room in layer.split(" | ")]
    if set(rooms) <= set(order):
        return [room for room in order if room in rooms]
    below = {room: {b for a, b in imports if a == room and b in rooms} for room in rooms}
    return list(TopologicalSorter(below).static_order())


def _cycle(graph: grimp.ImportGraph) -> list[str]:
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _longest_function() -> int:
    """Lines of the longest function, its signature among them and its docstring not."""
    longest = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0] if ast.get_docstring(node) is not None else None
                told = 0 if first is None else _lines(first)
                longest = max(longest, _lines(node) - told)
    return longest


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def draw(house: dict[str, Any], name: str) -> None:
    """Draw rooms as a column, and imports as arcs: up to a room above, red if to one below."""
    rooms, step = house["rooms"], 18
    place = {room: step * (i + 1) for i, room in enumerate(rooms)}
    right = 8 * max(map(len, rooms)) + 10
    width, height = right + step * len(rooms) // 2 + 20, step * (len(rooms) + 1)
    for theme, (ink, blue, red) in INK.items():
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="monospace" font-size="13">'
        ]
        for importer, imported, count in house["imports"]:
            if importer in place and imported in place:
                a, b = place[importer], place[imported]
                lines.append(
                    f'<path d="M{right} {a} A{abs(a - b) / 2:g} {abs(a - b) / 2:g} 0 0 '
                    f'{int(a < b)} {right} {b}" fill="none" stroke="{blue if a > b else red}" '
                    f'stroke-opacity="0.55" stroke-width="{0.7 + min(count, 30) / 12:.1f}"/>'
                )
        for room, y in place.items():
            lines.append(
                f'<text x="{right - 6}" y="{y + 4}" text-anchor="end" fill="{ink}">{room}</text>'
            )
        (IMAGES / f"{name}-{theme}.svg").write_text("\n".join([*lines, "</svg>"]) + "\n")


def page(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Write the page: two drawings and two tables."""
    facts = {
        "rooms and single files at the top": lambda house: len(house["rooms"]),
        "imports between them": lambda house: sum(n for _, _, n in house["imports"]),
        "files": lambda house: house["files"],
        "lines": lambda house: f"{house['lines']:,}",
        "longest function, lines without its docstring": lambda house: house["longest function"],
        "cycle of imports": lambda house: " -> ".join(house["cycle"]) or "none",
    }
    rows = [f"| {name} | {of(before)} | {of(now)} |" for name, of in facts.items()]
    calls = []
    for name, old in before["calls"].items():
        new = now["calls"][name]
        fewer = 1 - len(new["files"]) / len(old["files"])
        calls.append(
            f"| {name} | {len(old['files'])} | {len(new['files'])} | {fewer:.0%} | {old['pairs']} "
            f"| {new['pairs']} | {old['switches']:,} | {new['switches']:,} |"
        )
    return PAGE.format(
        facts="\n".join(rows),
        calls="\n".join(calls),
        now=_picture("rooms-now", "Rooms in the order in which data walks through them."),
        before=_picture("rooms-before", "Sixty files and packages in a row, with many arcs."),
    )


def _picture(name: str, alt: str) -> str:
    return "\n".join(
        f"```{{image}} ../images/{name}-{theme}.svg\n:alt: {alt}\n:class: only-{theme}\n```"
        for theme in INK
    )


def main() -> None:
    """Measure, and write a file of numbers or the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="write the numbers here, and no page")
    save = parser.parse_args().save
    warnings.simplefilter("ignore")
    now = {**measure_imports(), "calls": trace_calls()}
    if save is not None:
        save.write_text(json.dumps(now, indent=1) + "\n")
        return
    before = json.loads((HERE / "before.json").read_text())
    draw(before, "rooms-before")
    draw(now, "rooms-now")
    (HERE / "measured.md").write_text(page(before, now))


if __name__ == "__main__":
    main()
