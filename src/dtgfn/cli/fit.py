"""``dtgfn fit``: from a table to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtgfn.cli.console import print_json, show_progress
from dtgfn.cli.options import AsJson
from dtgfn.cli.outputs import check_out

if TYPE_CHECKING:
    from dtgfn.estimators.base import PosteriorEstimator
    from dtgfn.tables import Column, Table

MANY_LABELS = 50  # numbers that are hardly classes any more


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
    check_out(out, data)
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
        "verbose": show_progress(as_json),
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
        print_json({**summary, "out": str(out)})
    else:
        typer.echo(summary_text(summary))
        typer.echo(f"\nWritten to {out}")


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
