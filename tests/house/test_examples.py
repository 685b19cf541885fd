"""The gallery's scripts keep cheap promises here; building the docs executes them."""

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
IMPORTED_AS = {"scikit-learn": "sklearn"}  # where a distribution has another name
SEEDED = {
    "DTGFNClassifier",
    "DTGFNRegressor",
    "DTGFNAnomalyDetector",
    "ExtraTreesClassifier",
    "DecisionTreeClassifier",
    "IsolationForest",
    "RandomForestClassifier",
    "infer",
    "select",
    "train_test_split",
}
SPEED = re.compile(r"\d[\d.,]*\s*(ms|s|secs?|seconds?|minutes?|hours?|[KMG]i?B)\b")

every_script = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), path.name)


def prose(path: Path) -> str:
    """The docstring and the text of the cells."""
    cells, inside = [ast.get_docstring(parsed(path)) or ""], False
    for line in path.read_text(encoding="utf-8").splitlines():
        inside = line == "# %%" or (inside and line.startswith("#"))
        if inside and line != "# %%":
            cells.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(cells)


def declared() -> set[str]:
    """What the package and its docs may import besides the standard library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted, names = [*project["dependencies"], *optional["docs"]], {"dtgfn"}
    while wanted:
        requirement = wanted.pop()
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None, requirement
        if name[0] == "dtgfn":
            extras = re.search(r"\[(.*)\]", requirement)
            assert extras is not None, requirement
            wanted += [each for extra in extras[1].split(",") for each in optional[extra.strip()]]
        names.add(IMPORTED_AS.get(name[0], name[0]))
    return names


def imports(path: Path) -> list[tuple[str, str | None]]:
    """Each module that is imported, with the name taken from it."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def test_ten_scripts_are_numbered_without_gaps() -> None:
    numbers = [re.fullmatch(r"plot_(\d\d)_[a-z0-9_]+", path.stem) for path in SCRIPTS]
    assert [int(number[1]) for number in numbers if number] == list(range(1, 11))
    assert len(SCRIPTS) == 10


def test_the_site_shows_and_executes_them() -> None:
    configuration = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    pattern = re.search(r'"filename_pattern": r"(.*)"', configuration)
    assert '"examples_dirs": str(DOCS.parent / "examples")' in configuration
    assert pattern is not None
    assert all(re.search(pattern[1], path.as_posix()) for path in SCRIPTS)
    assert "gallery/index" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert (ROOT / "examples" / "GALLERY_HEADER.rst").exists()


@every_script
def test_it_is_a_story(path: Path) -> None:
    told = prose(path)
    title, line, _, question = told.splitlines()[:4]
    assert line == "=" * len(title)
    assert question.startswith("*")
    assert "?" in told.split("\n\n")[1], "it begins with a question"
    assert "\nLimits\n------\n" in told
    assert told.rindex("**Next:**") > told.rindex("\n------\n"), "it ends with what to read next"


@every_script
def test_it_draws_and_never_waits(path: Path) -> None:
    code = path.read_text(encoding="utf-8")
    assert "subplots(" in code or re.search(r"= plot_\w+\(", code)
    assert ".show(" not in code


@every_script
def test_links_lead_somewhere(path: Path) -> None:
    told = prose(path)
    pages = re.findall(r":doc:`/([\w/-]+)`", told)
    scripts = re.findall(r":ref:`sphx_glr_gallery_([\w.]+)`", told)
    assert pages or scripts
    for page in pages:
        assert (ROOT / "docs" / f"{page}.md").exists(), page
    for script in scripts:
        assert (ROOT / "examples" / script).exists(), script


@every_script
def test_it_imports_only_what_is_declared(path: Path) -> None:
    allowed = declared() | set(sys.stdlib_module_names)
    for module, name in imports(path):
        assert module.split(".")[0] in allowed, module
        if module.split(".")[0] == "dtgfn" and name is not None:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


@every_script
def test_it_needs_no_private_name(path: Path) -> None:
    names = [part for module, name in imports(path) for part in (*module.split("."), name or "")]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Name):
            names.append(node.id)
    assert [name for name in names if name.startswith("_")] == []


@every_script
def test_chance_is_seeded(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        given = {word.arg for word in node.keywords}  # None stands for **settings
        if called in SEEDED:
            assert given & {"random_state", None}, ast.unparse(node)
        if called == "default_rng":
            assert node.args, ast.unparse(node)


@every_script
def test_no_sentence_depends_on_the_machine(path: Path) -> None:
    assert SPEED.search(prose(path)) is None
