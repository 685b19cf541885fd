"""``dtgfn diagnose``: what speaks for and against a fit."""

from __future__ import annotations

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


def diagnose(
    model: Model,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute the exact posterior and compare.")
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

    seconds = read_value("--time-budget", time_budget, number)
    if not seconds > 0:
        raise MisuseError(f"--time-budget {time_budget} is out of range; give seconds above 0.")
    posterior = load_with_posterior(model, "judge").posterior_
    shown = not (as_json or quiet)
    truth = _exact(posterior, seconds, shown) if exact else None
    judged: dict[str, Any] = {"engine": posterior.engine, **verdict(posterior, truth)}
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
