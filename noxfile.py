"""The five things a contributor does: ``nox -s tests long lint docs bench``.

Each session makes its own environment (kept in ``.nox``); ``nox -R`` uses it again, and
``nox --no-venv`` runs in the environment that nox is in. What comes after ``--`` goes to pytest,
sphinx-build or ``dtgfn bench``. ``nox -s design`` measures the house anew for ``docs/design``.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["tests", "lint"]

PYTEST = ("python", "-m", "pytest", "-n", "2", "--dist", "loadfile")


@nox.session
def tests(session: nox.Session) -> None:
    """Run tests and doctests, but for the long ones."""
    session.install("-e", ".[test]")
    session.run(*PYTEST, *session.posargs)


@nox.session
def long(session: nox.Session) -> None:
    """Run what is long or exhaustive, and every property on twenty times as many examples."""
    session.install("-e", ".[test]")
    thorough = ("-m", "long or hypothesis", "--hypothesis-profile", "long")
    session.run(*PYTEST, *thorough, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, and the contracts between rooms."""
    session.install("-e", ".[dev]", "-e", "./bench")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("lint-imports", "--no-cache")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into build/site; its examples run, which takes minutes the first time."""
    session.install("-e", ".[docs]")
    session.run(
        "sphinx-build",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        *session.posargs,
        "docs",
        "build/site",
    )


@nox.session
def bench(session: nox.Session) -> None:
    """Test the rivals, then run all experiments in their quick form, or what is asked for."""
    session.install("-e", ".[test]", "-e", "./bench[more]")
    session.run(*PYTEST, "bench/tests")
    session.run("dtgfn", "bench", *(session.posargs or ["run", "all", "--quick"]))


@nox.session
def design(session: nox.Session) -> None:
    """Measure imports and calls anew, and write docs/design/measured.md."""
    session.install("-e", ".[test]")
    session.run("python", "docs/design/measure.py")
