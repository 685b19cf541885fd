"""``dtgfn demo``: the GFlowNet beside the exact posterior of an embedded table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dtgfn.cli.console import note, print_json, say
from dtgfn.cli.messages import in_flags
from dtgfn.cli.options import AsJson, Quiet
from dtgfn.cli.outputs import check_out
from dtgfn.cli.parameters import check_choice, complete
from dtgfn.cli.report import check_page, make_report, write_page
from dtgfn.cli.scores import score

# scikit-learn's tables, and as many thresholds as keep each a matter of seconds.
TABLES = {"iris": 99, "wine": 19, "breast-cancer": 9}
GAPS = ("log_z_error", "elbo_gap", "eubo_gap", "prediction_variation")


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
    """Train the GFlowNet on a small table, beside the sum over all trees; score both held out.

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
            f"{table}: {len(X)} training rows, {len(X_test)} held out; trees of depth <= 3 with "
            f"{TABLES[table]} thresholds per column.\n(A first run compiles, for some seconds.)\n"
        )
    single: dict[str, Any] = {
        "ensemble": None,
        "max_depth": 3,
        "n_thresholds": TABLES[table],
        "random_state": 1,
        "verbose": shown,
    }
    model = DTGFNClassifier(inference="exact", **single).fit(X, y)
    summary = {**summarise(model), "held_out": score(model, X_test, y_test, shown)}
    summary["gflownet"] = _beside(model, DTGFNClassifier(inference="gfn", **single), X, y)
    default = DTGFNClassifier(random_state=1, verbose=shown).fit(X, y)
    summary["default"] = {"held_out": score(default, X_test, y_test, shown)}
    if out is not None:
        save(model, out)
    if report is not None:
        title = f"{table}: the posterior over its trees"
        write_page(report, make_report(model, X_test, y_test, title, shown))
    if as_json:
        print_json(summary)
    else:
        say(summary_text(summary, phrase=in_flags))
        say(f"\n{_gap_text(summary['gflownet'], model.log_evidence_)}")
        say(f"\n{_scores_text(summary)}")
        _say_next(out, report)


def _beside(exact: Any, sampled: Any, X: Any, y: Any) -> dict[str, Any] | None:
    """Train the GFlowNet, and measure how far it is from the sum; None without torch."""
    from dtgfn.diagnostics import compare

    try:
        sampled.fit(X, y)
    except ImportError as error:
        note(str(error))
        return None
    found = compare(sampled, exact)
    return {
        "log_evidence": sampled.log_evidence_,
        "training_seconds": sampled.posterior_.diagnostics["training_seconds"],
        **{name: getattr(found, name) for name in GAPS},
    }


def _gap_text(gap: dict[str, Any] | None, log_evidence: float) -> str:
    """Say how far the GFlowNet is from the sum over all trees."""
    if gap is None:
        return "Without PyTorch there is no GFlowNet to hold against the sum over all trees."
    return (
        f"The GFlowNet, trained for {gap['training_seconds']:.1f} s on the same rows: log evidence "
        f"{gap['log_evidence']:.4f},\nexact {log_evidence:.4f}. Its ELBO is "
        f"{max(gap['elbo_gap'], 0.0):.4f} nats below, its EUBO {max(gap['eubo_gap'], 0.0):.4f} "
        f"nats above;\nits P(class | x) is {gap['prediction_variation']:.4f} off, on average over "
        "rows."
    )


def _scores_text(summary: dict[str, Any]) -> str:
    """Hold-out scores as a small table: all trees, the default estimator, the training shares."""
    single, default = summary["held_out"], summary["default"]["held_out"]
    lines = {
        "all single trees, averaged": single,
        "the default, sums of trees": default,
        "baseline: training shares": single["baseline"],
    }
    title = f"Held-out rows ({single['rows']})"
    rows = [f"{name:28} {of['accuracy']:8.3f} {of['log_loss']:9.3f}" for name, of in lines.items()]
    return "\n".join([f"{title:28} accuracy  log loss", *rows])


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
