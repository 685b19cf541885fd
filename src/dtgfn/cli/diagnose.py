"""``dtgfn diagnose``: what speaks for and against a fit."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtgfn.cli.console import note, paint, print_json, say
from dtgfn.cli.messages import in_flags
from dtgfn.cli.models import load_with_posterior
from dtgfn.cli.options import AsJson, MisuseError, Model, Quiet
from dtgfn.cli.parameters import number, read_value

if TYPE_CHECKING:
    from dtgfn.posterior.of_model import Posterior
    from dtgfn.posterior.tree_posterior import TreePosterior

COLOURS = {"good": "green", "fair": "yellow", "poor": "red", "unknown": "blue"}
WIDTH = 88
INTERVAL_SHARE = 0.2  # of the time for the exact posterior, where that is out of reach


def diagnose(
    model: Model,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Compare with the exact posterior, or with bounds of log Z."),
    ] = False,
    time_budget: Annotated[
        str, typer.Option(help="Seconds that --exact may take.", metavar="<float>")
    ] = "60",
    strict: Annotated[
        bool, typer.Option("--strict", help="End with code 1 if the fit is doubtful.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell how far to trust a model: each number with a level and a sentence.

    Examples:
      dtgfn diagnose model.dtgfn

      dtgfn diagnose model.dtgfn --exact --time-budget 30

    """
    from dtgfn.diagnostics.judgement import verdict
    from dtgfn.posterior.tree_posterior import TreePosterior

    seconds = read_value("--time-budget", time_budget, number)
    if not seconds > 0:
        raise MisuseError(f"--time-budget {time_budget} is out of range; give seconds above 0.")
    posterior = load_with_posterior(model, "judge").posterior_
    shown = not (as_json or quiet)
    truth = _exact(posterior, seconds, shown) if exact else None
    judged: dict[str, Any] = {"engine": posterior.engine, **verdict(posterior, truth)}
    refused = exact and truth is None and posterior.engine != "exact"
    if refused and isinstance(posterior, TreePosterior) and not posterior.demands:
        judged["interval"] = _interval(posterior, seconds)
    if truth is not None:
        from dtgfn._support.progress import progress_bar
        from dtgfn.diagnostics.exact_distance import compare

        with progress_bar(shown) as progress:
            progress("comparing", None)
            comparison = compare(posterior, truth)
        judged["comparison"] = comparison.to_dict()
    if as_json:
        print_json(judged)
    else:
        _print(judged)
        if "interval" in judged:
            say(f"\n{_interval_text(judged['interval'])}")
        if "comparison" in judged:
            say(f"\n{comparison.summary()}")
    if strict and judged["level"] != "good":
        raise typer.Exit(1)


def _exact(posterior: Posterior, seconds: float, shown: bool) -> TreePosterior | None:
    """The exact posterior of the rows in a model; None, with a note, where it is out of reach."""
    import numpy as np

    from dtgfn._support.progress import progress_bar
    from dtgfn.engines import Run, infer_exact
    from dtgfn.engines.contract import BudgetExceeded
    from dtgfn.posterior.sum_posterior import SumPosterior

    if isinstance(posterior, SumPosterior):
        raise ValueError("Sums of trees have no exact posterior in reach; leave out --exact.")
    if posterior.engine == "exact":
        return None
    if posterior.is_bagged:
        raise ValueError("Bags have no one exact posterior; leave out --exact.")
    binner = posterior.binner
    assert binner is not None, "a model's posterior has one"
    try:
        with progress_bar(shown) as progress:
            run = Run(
                column=np.asarray(binner.feature_column, dtype=np.int32),
                n_columns=len(binner.columns),
                n_trees=1,
                random_state=0,
                time_budget=seconds,
                progress=progress,
            )
            return infer_exact(posterior.rows, posterior.score, run)
    except BudgetExceeded as error:
        note(in_flags(f"the exact posterior is out of reach: {error}"))
        return None


def _interval(posterior: TreePosterior, seconds: float) -> dict[str, Any]:
    """What is certain of log Z, next to what the model says of it."""
    from dtgfn.engines.exact.interval import evidence_interval

    found = evidence_interval(posterior.rows, posterior.score, time_budget=INTERVAL_SHARE * seconds)
    told = posterior.log_evidence
    return {
        "lower": found.lower,
        "upper": found.upper if math.isfinite(found.upper) else None,
        "sub_problems": found.sub_problems,
        "log_evidence": told if told is not None and math.isfinite(told) else None,
    }


def _interval_text(interval: dict[str, Any]) -> str:
    """Say the interval, and whether the model's evidence lies in it."""
    upper, told = interval["upper"], interval["log_evidence"]
    text = f"log Z is at least {interval['lower']:.3f}"
    text += f" and at most {upper:.3f}, for certain" if upper is not None else ", for certain"
    if told is None:
        return f"{text}."
    least, most = interval["lower"], math.inf if upper is None else upper
    off = max(least - told, told - most, 0.0)
    outside = f", {off:.3f} outside" if off > 0 else ""
    return f"{text}; the model says {told:.3f}{outside}."


def _print(judged: dict[str, Any]) -> None:
    """Write levels, numbers and sentences."""
    say(
        f"  {in_flags(judged['sentence'])}",
        head=paint(judged["level"].upper(), COLOURS[judged["level"]]),
    )
    for item in judged["items"]:
        level = paint(f"{item['level']:<7}", COLOURS[item["level"]])
        say(f"  {item['name']}: {item['text']}", head=f"\n{level}")
        say(textwrap.fill(in_flags(item["sentence"]), WIDTH, initial_indent=" " * 9,
                          subsequent_indent=" " * 9))  # fmt: skip
