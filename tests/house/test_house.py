"""The house: what imports what, what importing costs, and what every file says of itself."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import dtgfn

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench" / "src"
HOMES = [Path(dtgfn.__file__).parent, BENCH / "dtgfn_bench"]
FILES = [path for home in HOMES for path in sorted(home.rglob("*.py"))]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

# The one call from a room to a later one: the method `report` of a fitted model.
UPWARDS = {("estimators", "report")}


def name_of(path):
    home = next(home for home in HOMES if path.is_relative_to(home))
    parts = path.relative_to(home.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module):
    """Room of a module of dtgfn; the door itself has none."""
    return module.partition(".")[2].split(".")[0]


@pytest.fixture(scope="module")
def graph():
    sys.path.insert(0, str(BENCH))  # also where the bench is not installed
    try:
        return grimp.build_graph("dtgfn", "dtgfn_bench", cache_dir=None)
    finally:
        sys.path.remove(str(BENCH))


def test_the_contracts_between_rooms_are_kept():
    code = "from importlinter.cli import lint_imports_command as run; run()"
    path = os.pathsep.join([str(BENCH), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_imports_itself_by_a_detour(graph):
    """Cycles between single files, packages' own files among them, which contracts do not see."""
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imported).prepare()  # its CycleError names the files


def test_modules_found_by_a_string_keep_the_order_of_the_rooms(graph):
    """What opens on first use is named by a string, which neither grimp nor mypy can follow."""
    layers = next(each for each in CONTRACTS["contracts"] if each["id"] == "rooms")["layers"]
    height = {room: -i for i, layer in enumerate(layers) for room in layer.split(" | ")}
    upwards = set()
    for path in FILES:
        here = room_of(name_of(path)) if path.is_relative_to(HOMES[0]) else ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = node.value if isinstance(node, ast.Constant) else None
            if here and isinstance(named, str) and named in graph.modules and room_of(named):
                there = room_of(named)
                if there != here and height[there] >= height[here]:
                    upwards.add((here, there))
    assert upwards <= UPWARDS


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_says_its_responsibility_in_its_first_line(path):
    first = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    assert first, "the file does not say what it is for"
    assert first[0].endswith("."), "its first line is no sentence"


def test_importing_the_package_is_cheap_and_does_not_import_torch():
    code = (
        "import sys, dtgfn\n"
        "heavy = {'torch', 'numba', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from dtgfn import DTGFNClassifier, load\n"
        "assert dtgfn.plots and dtgfn.explain.importances, 'doors open from the top'\n"
        "from dtgfn.engines.gfn.engine import ENGINE\n"
        "ENGINE.read_options({'objective': 'tb', 'callbacks': [print], 'checkpoint': 'c'})\n"
        "heavy = {'torch', 'matplotlib.pyplot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_public_can_be_had_and_nothing_else():
    assert all(getattr(dtgfn, name) is not None for name in dtgfn.__all__)
    assert set(dir(dtgfn)) == set(dtgfn.__all__)


def test_no_placeholder_is_left_in_the_docs():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"@[A-Z]+@", page.read_text(encoding="utf-8")), page.name


def test_one_version_is_told_everywhere():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    assert cited is not None
    assert cited[1] == dtgfn.__version__
    bench = (ROOT / "bench" / "src" / "dtgfn_bench" / "__init__.py").read_text()
    told = re.search(r'^__version__ = "(\S+)"', bench, flags=re.M)
    assert told is not None
    assert told[1] == dtgfn.__version__, "both distributions are released together"


def test_words_of_the_glossary_are_in_order_and_in_use():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| (?!word|---)([^|]+) \|", page, flags=re.M)
    assert words == sorted(set(words), key=str.lower)
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.stem != "glossary"]
    said = " ".join(path.read_text(encoding="utf-8") for path in [*FILES, *pages])
    said = re.sub(r"[\s_-]+", " ", said).lower()
    parts = [part for word in words for part in word.lower().split(", ")]
    assert not [part for part in parts if part.replace("-", " ") not in said]


def test_files_that_the_design_pages_name_exist():
    homes = [ROOT / "src" / "dtgfn", ROOT, ROOT / "src" / "dtgfn" / "engines" / "rowsets"]
    absent = set()
    for page in [*(ROOT / "docs" / "design").glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`([\w./-]+(?:\.py|\.md|\.toml|/))`", text):
            if "NAME" not in name and not any((home / name).exists() for home in homes):
                absent.add((page.name, name))
    assert not absent


def test_sessions_that_contributors_are_told_of_exist():
    sessions = re.findall(r"^def (\w+)", (ROOT / "noxfile.py").read_text(), flags=re.M)
    told = re.findall(r"nox -s (\w+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert set(told) <= set(sessions)
    assert {"tests", "long", "lint", "docs", "bench"} <= set(told)


def test_loops_are_compiled_and_clocks_read_in_one_way():
    """Else compiling would be paid by a budget, or a read-only package could not be imported."""
    ours = Path(dtgfn.__file__).parent
    texts = {path: path.read_text() for path in ours.rglob("*.py")}
    outside = {path: text for path, text in texts.items() if path.parent.name != "_support"}
    assert [str(path) for path, text in outside.items() if "time.monotonic" in text] == []
    numbas = re.compile(r"^from numba import .*njit", re.MULTILINE)
    own = [path.name for path, text in outside.items() if numbas.search(text)]
    assert own == []
