"""The documentation keeps its word: commands exist, pages are found, parameters are described."""

import importlib
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from extras import WITH_BENCH
from sklearn.datasets import load_iris
from typer.testing import CliRunner

import dtgfn
from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def fences(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.M | re.S)


def simple_commands(text):
    """Words of each command in a shell text: lines, ``&&`` and pipes are taken apart."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        part = []
        for word in [*words, "&&"]:
            if word in ("&&", "|"):
                if part:
                    yield part
                part = []
            else:
                part.append(word)


def shell_commands():
    for path in TEXTS:
        typed = re.findall(r"^\$ (.*)$", "\n".join(fences(path, "console")), flags=re.M)
        for block in [*fences(path, "sh"), *typed]:
            for words in simple_commands(block):
                yield pytest.param(words, id=f"{path.name}: {' '.join(words)}"[:90])


def parse(words):
    """Let the command line's own parser read words, without running anything."""
    command = typer.main.get_command(app)
    context, rest = command.context_class(command, info_name="dtgfn"), words
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, rest)
        context = command.context_class(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(list(rest))
    return command


PROGRAMS = {"python3", "python", "pip", "cat", "head", "ruff", "mypy", "sphinx-build", "echo"}
PROGRAMS |= {"lint-imports", "nox", "pre-commit"}


@pytest.mark.parametrize("words", list(shell_commands()))
def test_every_command_in_the_docs_exists(words):
    program = words[0].removeprefix(".venv/bin/")
    if program == "dtgfn":
        if words[1] == "bench" and not WITH_BENCH:
            pytest.skip("dtgfn-bench is not installed")
        parse(words[1:])
        return
    assert program in PROGRAMS, f"what is {program}?"
    for word in words:
        for what, named in re.findall(r"(.*)\[([\w,-]+)\]$", word):
            folder = ROOT / "bench" if what in ("./bench", "dtgfn-bench") else ROOT
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            known = set(project["optional-dependencies"])
            assert set(named.split(",")) <= known, f"no such extra in {word}"


def test_a_wrong_flag_in_the_docs_would_be_seen():
    with pytest.raises(Exception, match="no-such-flag"):
        parse(["fit", "data.csv", "--no-such-flag"])
    with pytest.raises(Exception, match="fitt"):
        parse(["fitt", "data.csv"])


@pytest.mark.long
def test_the_commands_of_the_first_five_minutes_run_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    iris = load_iris(as_frame=True)
    names = {
        "X_train": iris.data,
        "X_test": iris.data[:3],
        "y_train": iris.target_names[iris.target],
    }
    (written,) = [b for b in fences(DOCS / "five-minutes.md", "python") if "to_csv" in b]
    exec(written, names)
    blocks = [block for block in fences(DOCS / "five-minutes.md", "sh") if "data.csv" in block]
    assert len(blocks) == 1
    for words in simple_commands(blocks[0]):
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{words}: {result.output}"
    assert Path("predictions.csv").read_text().count("setosa") >= 3
    assert "<html" in Path("report.html").read_text()


def test_every_page_is_in_the_navigation():
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        if page in reached or page == "gallery/index":  # made from examples when the site is built
            continue
        reached.add(page)
        for block in fences(DOCS / f"{page}.md", r"\{toctree\}"):
            entries = [line.strip() for line in block.splitlines()]
            pages = [entry for entry in entries if entry and not entry.startswith(":")]
            waiting += [(Path(page).parent / entry).as_posix() for entry in pages]
    assert reached == {path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES}


@pytest.mark.parametrize("path", [*TEXTS, *EXAMPLES], ids=lambda path: path.name)
def test_no_text_names_a_machine(path):
    text = path.read_text()
    assert not re.search(r"(?<![\w.~}])/(?:home|root|work|tmp|Users|mnt)/", text)
    assert not re.search(r"localhost|\b\d{1,3}(?:\.\d{1,3}){3}\b", text)
    if path in PAGES:
        assert not re.search(r"!\[[^\]]*\]\(https?:", text), "a picture from another host"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_files_that_the_docs_name_are_there(path):
    named = re.findall(
        r"`(?:python )?((?:bench|docs|examples|results|src|tests)/[\w./-]*)", path.read_text()
    )
    for name in named:
        name = name.replace("NAME.py", "")  # of a file to be written
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def reference_names():
    lines = (DOCS / "reference.md").read_text().splitlines()
    return [line.strip() for line in lines if re.fullmatch(r" {3}dtgfn\.[\w.]+", line)]


def find(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", reference_names())
def test_what_the_reference_lists_is_there_and_described(name):
    thing = find(name)
    first = (inspect.getdoc(thing) or "").split("\n")[0]
    assert first.endswith((".", ":")), f"{name} does not say what it is"
    described = described_parameters(thing)
    if described:
        assert described == parameters(thing), f"{name} describes other parameters than it takes"


def test_the_reference_is_complete():
    listed = set(reference_names())
    for module in ("dtgfn", "dtgfn.diagnostics", "dtgfn.export", "dtgfn.plots"):
        home = importlib.import_module(module)
        for name in home.__all__:
            if callable(getattr(home, name)):
                assert f"{module}.{name}" in listed, f"{module}.{name} is not in the reference"


def described_parameters(thing):
    """Names in the Parameters section of a docstring."""
    found = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)",
        inspect.getdoc(thing) or "",
        flags=re.M | re.S,
    )
    if not found:
        return []
    heads = [line for line in found.group(1).splitlines() if line and not line.startswith(" ")]
    return sorted(name.strip(" *") for head in heads for name in head.split(" : ")[0].split(","))


def parameters(thing):
    return sorted(inspect.signature(thing).parameters)


@pytest.mark.parametrize(
    "thing",
    [DTGFNClassifier, DTGFNRegressor, DTGFNAnomalyDetector, dtgfn.infer, dtgfn.select],
    ids=lambda thing: thing.__name__,
)
def test_every_parameter_is_described(thing):
    assert described_parameters(thing) == parameters(thing)
