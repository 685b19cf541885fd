"""Compiled loops where nothing can be written, and the clock that waits for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dtgfn
from dtgfn._support import clock, compiled
from dtgfn._support.compiled import INNER, njit

SOURCES = Path(dtgfn.__file__).parent


@njit(**INNER)
def doubled(x):
    return 2 * x


@njit(nogil=True)
def twice_doubled(x):
    return doubled(x) + doubled(1)


def test_what_only_loops_call_refuses_python_in_a_sentence():
    assert twice_doubled(3) == 8
    with pytest.raises(TypeError, match="doubled is INNER: only compiled code can call it"):
        doubled(3)
    assert twice_doubled(3) == 8


def test_a_constant_needs_no_loop_of_its_own():
    twice_doubled(3)
    assert len(doubled.overloads) == 1


def test_the_clock_stands_still_while_loops_are_compiled(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    begun, compiled_before = clock.monotonic(), clock.compile_seconds()
    clock.begin_compiling()
    now[0] += 7.0
    clock.begin_compiling()  # another thread
    now[0] += 1.0
    assert clock.monotonic() == begun
    clock.end_compiling()
    clock.end_compiling()
    now[0] += 2.0
    assert clock.monotonic() - begun == pytest.approx(2.0)
    assert clock.compile_seconds() - compiled_before == pytest.approx(8.0)


def test_compiling_stops_the_clock():
    @njit(nogil=True)
    def fresh(x):
        return np.sqrt(x) + 1.0

    fresh.py_func.__module__ = "dtgfn.of_a_test"
    before = clock.compile_seconds()
    fresh(2.0)
    assert clock.compile_seconds() > before


def test_who_waits_for_long_is_told_once(monkeypatch, capsys):
    listener = compiled._Listener()
    monkeypatch.setattr(clock, "compile_seconds", lambda: 1.9)
    listener.tell()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(clock, "compile_seconds", lambda: 2.1)
    listener.tell()
    listener.tell()
    assert capsys.readouterr().err == (
        "dtgfn: compiling loops for a first run; later runs find them.\n"
    )


def test_a_temporary_cache_that_others_can_write_to_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path))
    find = compiled.temporary_cache.__wrapped__
    place = find()
    assert place.parent == tmp_path
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)
    assert find() is None


LOAD = """
import numpy as np
import dtgfn
from dtgfn._support import compiled
from dtgfn.trees.leaf_models import DirichletLeaf, log_marginal, log_marginals
out = np.empty(1)
log_marginals(np.ones((1, 2)), DirichletLeaf(2).terms(), out)
print(dtgfn.__file__)
print(compiled.what_is_happening())
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize(
    "temporary",
    [True, pytest.param(False, marks=pytest.mark.long)],
    ids=["temporary files", "nothing at all"],
)
def test_a_read_only_package_without_a_home_works(temporary, tmp_path):
    without_power = []
    if os.getuid() == 0:  # who may write whatever the permissions say
        if shutil.which("setpriv") is None:
            pytest.skip("root can write everywhere, and setpriv is not there to forbid it")
        without_power = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-all"]
    package, home = tmp_path / "site" / "dtgfn", tmp_path / "home"
    shutil.copytree(SOURCES, package, ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()
    for folder in (home, *(path for path in package.rglob("*") if path.is_dir()), package):
        folder.chmod(0o555)
    code = LOAD if temporary else "import tempfile; tempfile.tempdir = '/nonexistent'\n" + LOAD
    (tmp_path / "tmp").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(package.parent),
        "HOME": str(home),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    done = subprocess.run(
        [*without_power, sys.executable, "-c", code],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    for folder in (home, package, *(path for path in package.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # so that they can be cleared away
    assert done.returncode == 0, done.stderr
    file, hint = done.stdout.splitlines()
    assert Path(file).parent == package
    assert not list(package.rglob("*.nbi"))
    assert "NUMBA_CACHE_DIR may name a directory that can be written" in hint
    kept = list((tmp_path / "tmp").rglob("*.nbi"))
    assert bool(kept) == temporary
    assert ("every process does it again" in hint) != temporary
