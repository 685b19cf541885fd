"""``dtgfn warm-up``: compile what a first fit needs, for images and CI."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dtgfn.cli.console import print_json, say
from dtgfn.cli.options import AsJson
from dtgfn.cli.parameters import check_choice, complete

KINDS = ("sum", "bags", "exact", "mcmc", "smc", "gfn", "anomaly")
SECONDS = 1.0  # of each fit: what is compiled does not depend on it


def warm_up(
    engine: Annotated[
        str | None,
        typer.Option(
            help="Only this one; all by default (gfn where PyTorch is).",
            metavar="|".join(KINDS),
            autocompletion=complete(KINDS),
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compile what a first fit and a first prediction need, and keep it for later runs.

    Examples:
      dtgfn warm-up

      dtgfn warm-up --engine sum

    """
    from importlib.util import find_spec

    from dtgfn._support.clock import compile_seconds

    if engine is not None:
        check_choice("--engine", engine, KINDS)
    kinds: tuple[str, ...] = KINDS if engine is None else (engine,)
    if engine is None and find_spec("torch") is None:
        kinds = tuple(kind for kind in kinds if kind != "gfn")
    found = {}
    for kind in kinds:
        before, begun = compile_seconds(), time.process_time()
        first_fits(kind)
        compiled = compile_seconds() - before
        found[kind] = {"compile_seconds": compiled, "cpu_seconds": time.process_time() - begun}
        if not as_json:
            say(f"{kind:8} {compiled:5.1f} s of compiling" if compiled else f"{kind:8} was ready")
    if as_json:
        print_json(found)


def first_fits(kind: str) -> None:
    """Fit and predict small tables, of two classes, of three and of numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so short a fit is not to be trusted
        for fit in fits_of(kind):
            fit()


def fits_of(kind: str) -> list[Callable[[], Any]]:
    """Return what a first user of a method would do."""
    from sklearn.datasets import load_iris

    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor

    X, y = load_iris(return_X_y=True)
    if kind == "anomaly":
        detector = DTGFNAnomalyDetector(random_state=0, time_budget=SECONDS)
        return [lambda: detector.fit(X).score_samples(X)]
    how: dict[str, Any] = {"ensemble": None, "inference": kind, "max_depth": 3}
    if kind in ("sum", "bags"):
        how = {"ensemble": kind}
    classes = DTGFNClassifier(**how, random_state=0, time_budget=SECONDS)
    numbers = DTGFNRegressor(**how, random_state=0, time_budget=SECONDS)
    return [
        lambda: classes.fit(X, y).predict_proba(X),
        lambda: numbers.fit(X[:, :3], X[:, 3]).predict(X[:, :3]),
    ]
