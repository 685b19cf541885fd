"""A measurement's version changes with the code it depends on, and with nothing else."""

import importlib
import linecache
import sys

import pytest
from dtgfn_bench import versions
from dtgfn_bench.contract import Method


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write modules of a package that stands in for ours, and forget what was known of them."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(versions, "_is_ours", lambda name: name.split(".")[0] == "pretend")
    (tmp_path / "pretend").mkdir()
    (tmp_path / "pretend" / "__init__.py").write_text("")

    def write_modules(**sources):
        for name, source in sources.items():
            (tmp_path / "pretend" / f"{name}.py").write_text(source)
        for name in [name for name in sys.modules if name.split(".")[0] == "pretend"]:
            del sys.modules[name]
        for function in (versions._source_file, versions._file_digest, versions._imported_modules):
            function.cache_clear()
        linecache.clearcache()
        importlib.invalidate_caches()
        return importlib.import_module("pretend.top")

    yield write_modules
    for name in [name for name in sys.modules if name.split(".")[0] == "pretend"]:
        del sys.modules[name]
    for function in (versions._source_file, versions._file_digest, versions._imported_modules):
        function.cache_clear()


TOP = """
def fit(rows, seed):
    from pretend.below import help
    return help()
"""
BELOW = '''
"""Docstring."""
def help():
    """Another."""
    return 1  # comment
'''


def version_of(module):
    return versions.method_version(Method("m", "M", module.fit, "note"))


def test_a_change_below_changes_the_version_and_comments_do_not(write):
    first = version_of(write(top=TOP, below=BELOW, aside="x = 1"))
    reworded = BELOW.replace("comment", "other").replace("Another", "Others").replace("\n", "\n\n")
    assert version_of(write(top=TOP, below=reworded)) == first
    assert version_of(write(aside="x = 2")) == first
    assert version_of(write(below=BELOW.replace("return 1", "return 2"))) != first


def test_words_about_a_method_do_not_count(write):
    named = TOP + "\nMETHOD = dict(fit=fit, note='one', settings={'n': 1})\n"
    first = version_of(write(top=named, below=BELOW))
    assert (
        version_of(write(top=named.replace("'one'", "'two'").replace("'n': 1", "'n': 2"))) == first
    )


def test_another_version_of_a_library_is_another_version(write, monkeypatch):
    module = write(top=TOP, below=BELOW)
    method = Method("m", "M", module.fit, "note", needs=("numpy",))
    first = versions.method_version(method)
    monkeypatch.setattr(versions, "library_version", lambda name: "0.0.0")
    assert versions.method_version(method) != first


MEASURE = """
SIZE = 3
OTHER = 4
def measure(cell):
    return [inner() for _ in range(SIZE)]
def inner():
    return 1
def render(records):
    return OTHER
"""


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("SIZE = 3", "SIZE = 5", True),
        ("return 1", "return 2", True),
        ("OTHER = 4", "OTHER = 5", False),
        ("return OTHER", "return 0", False),
    ],
)
def test_an_experiments_version_is_of_what_its_measure_reaches(write, old, new, changes):
    first = versions.function_version(write(top=MEASURE).measure)
    second = versions.function_version(write(top=MEASURE.replace(old, new)).measure)
    assert (first != second) == changes
