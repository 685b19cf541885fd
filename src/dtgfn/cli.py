"""The command line: demo, fit, predict, show; bench and data have files of their own.

Exit codes: 0 done, 1 refused or failed, 2 misuse, 130 interrupted (nothing is half-written).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dtgfn
from dtgfn import cli_bench, cli_data

if TYPE_CHECKING:
    from dtgfn.estimators.base import PosteriorEstimator
    from dtgfn.tables import Column, Table

app = typer.Typer(
    help="The Bayesian posterior over decision trees of a table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cli_bench.app, name="bench")
app.add_typer(cli_data.app, name="data")

MANY_LABELS = 50  # numbers that are hardly classes any more

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence on standard error."""
    from dtgfn.engines.exact.budget import BudgetExceeded

    try:
        app()
    except (ValueError, TypeError, OSError, MemoryError, BudgetExceeded) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output went away (as `head` does); that is no failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sentence = " ".join(str(error).split()) or "there is not enough memory for this table."
        print(f"dtgfn: {sentence}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"dtgfn {dtgfn.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """The Bayesian posterior over decision trees of a table."""


@app.command()
def demo(as_json: AsJson = False) -> None:
    """Fit Iris exactly and show the posterior.

    Example: dtgfn demo
    """
    from sklearn.datasets import load_iris
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.model_selection import train_test_split

    from dtgfn.estimators import DTGFNClassifier
    from dtgfn.summary import summarise, summary_text

    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    X, X_test, y, y_test = train_test_split(iris.data, names, test_size=0.2, random_state=1)
    if not as_json:
        typer.echo(
            "Iris: 120 training rows, 30 held out. Summing over every tree of depth <= 3 with 99\n"
            "thresholds per column (the first run compiles, which takes about a minute) ...\n"
        )
    model = DTGFNClassifier(
        inference="exact", max_depth=3, random_state=1, verbose=_show_progress(as_json)
    ).fit(X, y)
    probability = model.predict_proba(X_test)
    held_out = {
        "accuracy": float(accuracy_score(y_test, model.classes_[probability.argmax(axis=1)])),
        "log_loss": float(log_loss(y_test, probability, labels=model.classes_)),
    }
    summary = {**summarise(model), "held_out": held_out}
    if as_json:
        _print_json(summary)
        return
    typer.echo(summary_text(summary))
    typer.echo(
        f"\nHeld-out rows, averaged over all trees: accuracy {held_out['accuracy']:.3f}, "
        f"log loss {held_out['log_loss']:.3f}\n\n"
        "Your own table:  dtgfn fit data.csv --target y --max-depth 3 --out model.dtgfn"
    )


@app.command()
def fit(
    data: Annotated[str, typer.Argument(help="CSV, TSV, gzip of these, Parquet, or - for stdin.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    task: Annotated[str, typer.Option(help="classify or regress.")] = "classify",
    engine: Annotated[str, typer.Option(help="gfn, exact, mcmc or smc.")] = "gfn",
    max_depth: Annotated[int, typer.Option(help="Edges on a tree's longest path.")] = 5,
    n_thresholds: Annotated[int, typer.Option(help="Candidate thresholds per column.")] = 99,
    binning: Annotated[str, typer.Option(help="uniform, quantile or midpoint.")] = "uniform",
    leaf_concentration: Annotated[float, typer.Option(help="Dirichlet, per class.")] = 0.1,
    split_penalty: Annotated[str, typer.Option(help="mdl, paper, bcart or nats.")] = "mdl",
    temperature: Annotated[str, typer.Option(help="Target is R^(1/temperature).")] = "1",
    n_trees: Annotated[int, typer.Option(help="Posterior samples to keep.")] = 1000,
    sample_weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    time_budget: Annotated[float, typer.Option(help="Seconds at most.")] = 60.0,
    n_jobs: Annotated[int | None, typer.Option(help="Threads (all cores).")] = None,
    random_state: Annotated[int | None, typer.Option(help="Seed of the samples.")] = None,
    preset: Annotated[str, typer.Option(help="gfn: default or paper.")] = "default",
    leaf_order: Annotated[str | None, typer.Option(help="gfn: fixed or free.")] = None,
    objective: Annotated[str | None, typer.Option(help="gfn: db, tb, vargrad or subtb.")] = None,
    n_steps: Annotated[int | None, typer.Option(help="gfn: training steps at most.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="gfn: file to resume from.")] = None,
    as_json: AsJson = False,
) -> None:
    """Infer the posterior of a table and write it to a model file.

    Example: dtgfn fit data.csv --target y --max-depth 3 --out model.dtgfn
    """
    from dtgfn.checks import check_choice
    from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
    from dtgfn.files import read_table
    from dtgfn.inference import ENGINES
    from dtgfn.storage import check_replaceable, save
    from dtgfn.summary import summarise, summary_text
    from dtgfn.tables import split_column

    check_choice("--task", task, ("classify", "regress"))
    check_choice("--engine", engine, tuple(ENGINES))
    _check_out(out, data)
    check_replaceable(out)
    label_column, table = split_column(read_table(data), target)
    _check_target(label_column, table, task)
    weight = None
    if sample_weight is not None:
        weight_column, table = split_column(table, sample_weight)
        weight = weight_column.values
        if weight_column.kind != "number":
            raise ValueError(f"Column {sample_weight!r} holds no numbers to use as sample_weight.")
    settings: dict[str, Any] = {
        "inference": engine,
        "max_depth": max_depth,
        "n_thresholds": n_thresholds,
        "binning": binning,
        "split_penalty": _number_or_name(split_penalty),
        "temperature": _number_or_name(temperature),
        "n_trees": n_trees,
        "time_budget": time_budget,
        "n_jobs": n_jobs,
        "random_state": random_state,
        "n_steps": n_steps,
        "checkpoint": checkpoint,
        "verbose": _show_progress(as_json),
    }
    of_classes: dict[str, Any] = {
        "leaf_concentration": leaf_concentration,
        "preset": preset,
        "leaf_order": leaf_order,
        "objective": objective,
    }
    model: PosteriorEstimator
    if task == "classify":
        model = DTGFNClassifier(**settings, **of_classes)
        model.fit(table, _labels(label_column), sample_weight=weight)
    else:
        _refuse_changed(of_classes, DTGFNClassifier().get_params())
        model = DTGFNRegressor(**settings)
        model.fit(table, label_column.values, sample_weight=weight)
    save(model, out)
    summary = summarise(model)
    if as_json:
        _print_json({**summary, "out": str(out)})
    else:
        typer.echo(summary_text(summary))
        typer.echo(f"\nWritten to {out}")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="Table of new rows, or - for stdin.")],
    out: Annotated[str, typer.Option(help="CSV file to write, or - for stdout.")] = "-",
    as_json: AsJson = False,
) -> None:
    """Predict new rows: class probabilities, numbers with 90 % intervals, or anomalies.

    Example: dtgfn predict model.dtgfn new.csv --out p.csv
    """
    import pandas

    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNRegressor
    from dtgfn.files import read_table
    from dtgfn.storage import load
    from dtgfn.tables import keep_columns

    if out != "-":
        _check_out(Path(out), data, model)
    fitted = load(model)
    table = read_table(data)
    if any(name in fitted.binner_.column_names for name in table.names):
        table = keep_columns(table, fitted.binner_.column_names)
    if isinstance(fitted, DTGFNAnomalyDetector):
        columns = {"prediction": fitted.predict(table), "score": fitted.score_samples(table)}
        frame = pandas.DataFrame(columns)
    elif isinstance(fitted, DTGFNRegressor):
        lower, upper = fitted.predict_interval(table).T
        columns = {"prediction": fitted.predict(table), "lower": lower, "upper": upper}
        frame = pandas.DataFrame(columns)
    else:
        probability = fitted.predict_proba(table)
        frame = pandas.DataFrame({"prediction": fitted.classes_[probability.argmax(axis=1)]})
        for c, name in enumerate(fitted.posterior_.class_names):
            frame[f"p({name})"] = probability[:, c]
    if out != "-":
        _write_whole(Path(out), frame.to_csv(index=False))
    if as_json:
        _print_json({"rows": len(frame), "out": out, "predictions": frame.to_dict("records")})
    elif out == "-":
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        typer.echo(f"{len(frame)} predictions written to {out}")


@app.command()
def show(
    model: Annotated[Path, typer.Argument(help="Model file.")], as_json: AsJson = False
) -> None:
    """Show evidence, most probable tree and column use of a model.

    Example: dtgfn show model.dtgfn
    """
    from dtgfn.storage import load
    from dtgfn.summary import summarise, summary_text

    summary = summarise(load(model))
    if as_json:
        _print_json(summary)
    else:
        typer.echo(summary_text(summary))


def _check_target(column: Column, table: Table, task: str) -> None:
    """Refuse, in the words of a file, a target that cannot be learned."""
    import pandas

    absent = pandas.isna(column.values)
    if absent.any():
        which = "every row" if absent.all() else f"row {int(absent.argmax()) + 1} of the table"
        raise ValueError(f"Column {column.name!r} is empty in {which}; drop such rows, or fill it.")
    if task == "regress" and column.kind == "category":
        from dtgfn.tables import parse_number

        text = next(text for text in column.values if parse_number(text) is None)
        raise ValueError(
            f"Column {column.name!r} holds {text!r}, which is not a number; leave out --task "
            "regress to predict classes."
        )
    if table.n_columns == 0:
        raise ValueError(
            f"There is no column besides {column.name!r}; add some to predict it from."
        )
    n_values = len(pandas.unique(column.values))
    if task == "classify" and column.kind == "number" and n_values > MANY_LABELS:
        typer.echo(
            f"dtgfn: column {column.name!r} holds {n_values} different numbers, each a class of "
            "its own now; add --task regress to predict a number.",
            err=True,
        )


def _labels(column: Column) -> Any:
    """Class labels of a target column; numbers must be whole to count as classes."""
    import numpy as np

    values = column.values
    if column.kind == "boolean" and not np.isnan(values.astype(float)).any():
        return values.astype(bool)
    if column.kind == "number":
        numbers = values.astype(float)
        present = numbers[~np.isnan(numbers)]
        broken = present[present != np.rint(present)]
        if broken.size:
            raise ValueError(
                f"Column {column.name!r} holds numbers such as {broken[0]:g}, not classes; "
                "add --task regress to predict numbers."
            )
        if (np.abs(present) > 2**53).any():
            raise ValueError(
                f"Column {column.name!r} holds numbers too large to be told apart; "
                "write the labels as text."
            )
        if len(present) == len(numbers):
            return numbers.astype(np.int64)
    return values


def _refuse_changed(options: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Refuse options that only classification has."""
    for name, value in options.items():
        if value != defaults[name]:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag} {value} is for --task classify; leave it out.")


def _number_or_name(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _show_progress(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def _check_out(path: Path, *inputs: str | Path) -> None:
    """Refuse before the work, not after it, what cannot or must not be written."""
    for source in map(Path, inputs):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"--out {str(path)!r} would overwrite its own input; name another.")
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a directory; name a file in it.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"There is no directory {str(path.parent)!r} to write {path.name!r} in.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"The directory {str(path.parent)!r} cannot be written to.")


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2, default=float))


if __name__ == "__main__":
    main()
