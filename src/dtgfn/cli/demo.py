"""``dtgfn demo``: the posterior of an embedded table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dtgfn.cli.console import print_json, say
from dtgfn.cli.messages import in_flags
from dtgfn.cli.options import AsJson, Quiet
from dtgfn.cli.outputs import check_out
from dtgfn.cli.parameters import check_choice, complete
from dtgfn.cli.report import check_page, make_report, write_page
from dtgfn.cli.scores import held_out_text, score

# scikit-learn's tables, and as many thresholds as keep each a matter of seconds.
TABLES = {"iris": 99, "wine": 19, "breast-cancer": 9}


def demo(
    table: Annotated[
        str,
        typer.Option(
            help="Embedded table.",
            metavar="|".join(TABLES),
            autocompletion=complete(tuple(TABLES)),
        ),
    ] = "iris",
    out: Annotated[
        Path | None, typer.Option(help="Model file to write.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML report to write.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Sum over all trees of a small table, show the posterior, and score it on held-out rows.

    Examples:
      dtgfn demo

      dtgfn demo --out model.dtgfn --report report.html

    """
    from dtgfn.cli.summary import summarise, summary_text
    from dtgfn.estimators import DTGFNClassifier
    from dtgfn.storage.model_file import check_replaceable, save

    check_choice("--table", table, tuple(TABLES))
    if report is not None:
        check_page(report)
    if out is not None:
        check_out(out)
        check_replaceable(out)
    shown = not (as_json or quiet)
    X, y, X_test, y_test = _rows(table)
    if not as_json:
        say(
            f"{table}: {len(X)} training rows, {len(X_test)} held out. Summing over every tree of "
            f"depth <= 3 with\n{TABLES[table]} thresholds per column (the first run compiles, which"
            " takes about a minute) ...\n"
        )
    model = DTGFNClassifier(
        inference="exact",
        max_depth=3,
        n_thresholds=TABLES[table],
        random_state=1,
        verbose=shown,
    ).fit(X, y)
    summary = {**summarise(model), "held_out": score(model, X_test, y_test, shown)}
    if out is not None:
        save(model, out)
    if report is not None:
        title = f"{table}: the posterior over its trees"
        write_page(report, make_report(model, X_test, y_test, title, shown))
    if as_json:
        print_json(summary)
    else:
        say(summary_text(summary, phrase=in_flags))
        say(f"\nAveraged over all trees. {held_out_text(summary['held_out'])}")
        _say_next(out, report)


def _say_next(out: Path | None, report: Path | None) -> None:
    """Say what was written, and what to do next."""
    if out is not None:
        say(f"\nWritten to {out}; next:  dtgfn diagnose {out}")
    if report is not None:
        say(f"\nWritten to {report}; open it in a browser.")
    say("\nYour own table:  dtgfn fit data.csv --target y --max-depth 3 --out model.dtgfn")


def _rows(table: str) -> tuple[Any, Any, Any, Any]:
    """Training rows and labels, held-out rows and labels."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    loaded = getattr(datasets, f"load_{table.replace('-', '_')}")(as_frame=True)
    names = loaded.target_names[loaded.target]
    X, X_test, y, y_test = train_test_split(loaded.data, names, test_size=0.2, random_state=1)
    return X, y, X_test, y_test
