"""The doors: everything public is there, described, and nothing is imported before it is wanted."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOORS = (
    "dtgfn",
    "dtgfn.dask",
    "dtgfn.datasets",
    "dtgfn.diagnostics",
    "dtgfn.engines",
    "dtgfn.explain",
    "dtgfn.export",
    "dtgfn.leaves",
    "dtgfn.mlflow",
    "dtgfn.plots",
    "dtgfn.report",
)
PUBLIC = [
    f"{door}.{name}"
    for door in DOORS
    for name in importlib.import_module(door).__all__
    if f"{door}.{name}" not in DOORS
]


def find(public):
    door, _, name = public.rpartition(".")
    return getattr(importlib.import_module(door), name)


def section(thing, title):
    """The lines below a title of a numpydoc docstring, up to the next title."""
    found = re.search(
        rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)",
        inspect.getdoc(thing) or "",
        flags=re.M | re.S,
    )
    return found.group(1).splitlines() if found else []


def described(thing, title):
    heads = [line for line in section(thing, title) if line and not line.startswith(" ")]
    return sorted(name.strip(" *") for head in heads for name in head.split(" : ")[0].split(","))


def takes(thing):
    return sorted(inspect.signature(thing).parameters)


@pytest.mark.parametrize("door", DOORS)
def test_a_door_opens_and_shows_what_is_behind_it(door):
    module = importlib.import_module(door)
    assert list(module.__all__) == sorted(module.__all__)
    assert dir(module) == sorted(module.__all__)
    with pytest.raises(AttributeError, match=f"module '{door}' has no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("public", PUBLIC)
def test_everything_public_is_there_under_its_own_name(public):
    assert find(public).__name__ == public.rpartition(".")[2]


def test_nothing_is_behind_two_doors():
    names = [public.rpartition(".")[2] for public in PUBLIC]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("public", [name for name in PUBLIC if inspect.isfunction(find(name))])
def test_public_functions_describe_what_they_take_and_return(public):
    function = find(public)
    assert described(function, "Parameters") == takes(function)
    returns = inspect.signature(function).return_annotation
    assert bool(section(function, "Returns")) == (returns not in (None, "None"))
    for title in ("Parameters", "Returns"):
        lines = section(function, title)
        heads = [i for i, line in enumerate(lines) if line and not line.startswith(" ")]
        for head in heads:
            assert lines[head + 1 : head + 2], f"{public} does not describe {lines[head]!r}"
            assert lines[head + 1].startswith("    "), f"{public}: {lines[head]!r} is not described"


@pytest.mark.parametrize("public", [name for name in PUBLIC if inspect.isclass(find(name))])
def test_public_classes_describe_their_parameters_or_attributes(public):
    kind = find(public)
    assert inspect.getdoc(kind).splitlines()[0].endswith("."), public
    told = described(kind, "Parameters") or described(kind, "Attributes")
    if told and not getattr(kind, "_is_protocol", False):
        assert set(takes(kind)) <= set(told), f"{public} describes other names than it has"


def test_the_reference_lists_every_public_name_once_and_no_other():
    lines = (ROOT / "docs" / "reference.md").read_text().splitlines()
    listed = [line.strip() for line in lines if re.fullmatch(r" {3}dtgfn\.[\w.]+", line)]
    assert sorted(listed) == sorted(PUBLIC)


@pytest.mark.parametrize("door", [door for door in DOORS if door != "dtgfn.plots"])
def test_importing_a_door_imports_nothing_heavy(door):
    code = (
        f"import sys, {door}\n"
        "heavy = {'numpy', 'scipy', 'torch', 'numba', 'sklearn', 'pandas', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_checkers_see_the_names_that_are_there_at_run_time():
    for door in DOORS:
        module = importlib.import_module(door)
        seen = re.findall(r"^    from .* import (\w+) as \1$", inspect.getsource(module), re.M)
        assert sorted(seen) == sorted(module.__all__), door
