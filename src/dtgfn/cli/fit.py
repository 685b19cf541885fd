"""``dtgfn fit``: from a table to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dtgfn.cli import inputs
from dtgfn.cli.console import note, print_json, say
from dtgfn.cli.messages import in_flags, noted_warnings
from dtgfn.cli.options import AsJson, Data, MisuseError, Quiet, Separator, TextColumns, names
from dtgfn.cli.outputs import check_out
from dtgfn.cli.parameters import (
    TASKS,
    as_parameters,
    check_choice,
    complete,
    number,
    read_parameters,
    read_value,
    with_parameters,
)
from dtgfn.cli.scores import read_beside, read_for_model, score

if TYPE_CHECKING:
    from dtgfn.data.sources import Source
    from dtgfn.data.tables import Column, Table

MANY_LABELS = 50  # numbers that are hardly classes any more
RARE = 0.05  # share of a class below which accuracy says little


Out = Annotated[Path, typer.Option(help="Model file to write.", show_default=False)]
Predicted = Annotated[str | None, typer.Option(help="Column to predict.", show_default=False)]
Task = Annotated[
    str,
    typer.Option(
        help="Predict classes, predict numbers, or find anomalies.",
        metavar="|".join(TASKS),
        autocompletion=complete(tuple(TASKS)),
    ),
]
HeldOut = Annotated[
    str | None, typer.Option(help="Table of other rows to score on.", show_default=False)
]
TestSize = Annotated[
    str | None,
    typer.Option(
        help="Share of the rows to set aside and score on.", metavar="<float>", show_default=False
    ),
]
Drop = Annotated[str, typer.Option(help="Columns to leave out, with commas.")]
Positive = Annotated[
    str | None,
    typer.Option(help="The event, of two classes; the last one by default.", show_default=False),
]
NoRows = Annotated[
    bool,
    typer.Option("--no-rows", help="Keep no training rows in the file; for sums of trees."),
]
SampleWeight = Annotated[
    str | None, typer.Option(help="Column of row weights.", show_default=False)
]


@with_parameters
def fit(
    data: Data,
    out: Out,
    target: Predicted = None,
    task: Task = "classify",
    held_out: HeldOut = None,
    test_size: TestSize = None,
    drop: Drop = "",
    sample_weight: SampleWeight = None,
    text_columns: TextColumns = "",
    separator: Separator = None,
    positive: Positive = None,
    no_rows: NoRows = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **parameters: Any,
) -> None:
    r"""Infer the posterior of a table and write it to a model file.

    Flags from --inference on are the parameters of the estimators, by the same names.

    Examples:
      dtgfn fit data.csv --target y --max-depth 3 --out model.dtgfn

      dtgfn fit data.csv --target y --inference exact --max-depth 2 \
        --test-size 0.25 --random-state 0 --out exact.dtgfn

      dtgfn fit prices.csv --task regress --target price --out prices.dtgfn

      dtgfn fit data.csv --target y --ensemble sum --out sum.dtgfn

      dtgfn fit normal.csv --task anomalies --n-trees 100 --out detector.dtgfn

    """
    share = None if test_size is None else read_value("--test-size", test_size, number)
    _check_choices(task, target, share, held_out)
    _check_roles(target, sample_weight, names(drop))
    values, shown = read_parameters(parameters), not (as_json or quiet)
    _check_files(out, data, held_out, values.get("checkpoint"))
    model, as_text = _estimator(task, values, verbose=shown), names(text_columns)
    if target is not None and task != "anomalies" and inputs.is_large(data):
        large = _open_large(data, target, sample_weight, names(drop), separator, as_text, share)
        if "class_weight" in values:
            model.class_weight = _any_label(values["class_weight"])
        if held_out is not None and not Path(held_out).exists():
            raise ValueError(f"There is no file {held_out!r}; check the path.")
        if not as_json:
            _say_large(large)
        interrupted = _fit_and_save(model, large, out, not no_rows)
        if held_out is not None and not interrupted:
            known = read_for_model(model, held_out, target, separator, shown)
            _score_and_save(model, known, positive, shown, out, not no_rows, None)
        _end(model, out, as_json, interrupted)
        return
    table = inputs.read(data, separator, as_text, shown)
    rows = _training_rows(inputs.drop(table, names(drop)), target, sample_weight, task)
    inputs.note_odd_columns(rows.table, as_text)
    rows, others, which = _set_aside(rows, share, values.get("random_state"))
    if task == "classify":
        note_imbalance(rows.y, positive)
    if held_out is not None:
        labels = rows.y if task == "classify" else None
        others = read_beside(rows.table, labels, held_out, str(target), separator, shown)
    if not as_json:
        say(f"Columns: {inputs.kinds_text(inputs.kinds_of(rows.table))}")
    if "class_weight" in values:
        model.class_weight = inputs.by_label(values["class_weight"], sorted(set(rows.y)))
    interrupted = _fit_and_save(model, rows, out, not no_rows)
    if others is not None and not interrupted:
        _score_and_save(model, others, positive, shown, out, not no_rows, which)
    _end(model, out, as_json, interrupted)


class _Large(NamedTuple):
    """A table that is read in chunks, and the columns that are not predicted from."""

    source: Source
    target: str
    weight: str | None


def _open_large(
    data: str,
    target: str,
    weight: str | None,
    dropped: Sequence[str],
    separator: str | None,
    as_text: Sequence[str],
    share: float | None,
) -> _Large:
    """Look at the columns of a table that is read in chunks."""
    if share is not None:
        raise MisuseError(
            f"--test-size is for tables in memory, but {data!r} is read in chunks; name a table of "
            "other rows with --held-out."
        )
    source = inputs.open_large(data, separator, as_text)
    for name in as_text:
        source.check_column(name)
    return _Large(source.without(dropped), target, weight)


def _say_large(large: _Large) -> None:
    """Say which columns there are, and that they are read in chunks."""
    from dtgfn.inference.source_data import TrainingSource

    kinds = {name: large.source.kinds[name] for name in TrainingSource(*large).names}
    say(f"Columns: {inputs.kinds_text(kinds)}")
    note(f"{large.source.what} is large, so it is read in chunks, twice.")


def _any_label(weights: Any) -> Any:
    """Weights of classes that were typed, by text and by what the text may stand for."""
    from dtgfn.data.tables import parse_number

    if not isinstance(weights, dict):
        return weights
    found = dict(weights)
    for text, weight in weights.items():
        number = parse_number(text)
        if number is not None and number.is_integer():
            found[int(number)] = weight
    return found


class _Rows(NamedTuple):
    """Training rows: a table, what to predict, and weights."""

    table: Table
    y: Any
    weight: Any


def _check_files(out: Path, data: str, held_out: str | None, checkpoint: Path | None) -> None:
    """Refuse, before any work, a file that cannot or must not be written."""
    from dtgfn.storage.model_file import check_replaceable

    check_out(out, *filter(None, (data, held_out)))
    check_replaceable(out)
    if checkpoint == out:
        raise MisuseError(f"--checkpoint and --out are both {str(out)!r}; name two files.")


def _fit_and_save(model: Any, rows: _Rows | _Large, out: Path, with_rows: bool) -> bool:
    """Fit a model and write it; tell whether training was interrupted."""
    from dtgfn.storage.model_file import save

    table, y, weight = rows
    with noted_warnings():
        model.fit(table, y, sample_weight=weight)
    save(model, out, with_rows)
    interrupted = bool(getattr(getattr(model, "posterior_", None), "interrupted", False))
    if interrupted:
        note(f"interrupted: training ended early; {str(out)!r} holds what was learned by then.")
    return interrupted


def _score_and_save(
    model: Any,
    others: tuple[Table, Any],
    positive: str | None,
    shown: bool,
    out: Path,
    with_rows: bool,
    which: list[int] | None,
) -> None:
    """Score a model on other rows, and keep the scores, and which rows they are of, in the file."""
    from dtgfn.storage.model_file import save

    model.held_out_ = score(model, *others, shown, positive) | {"row_numbers": which or []}
    save(model, out, with_rows)


def _end(model: Any, out: Path, as_json: bool, interrupted: bool) -> None:
    """Print what was learned, with scores on other rows if there are some, and end."""
    from dtgfn.cli.summary import summarise, summary_text

    summary: dict[str, Any] = {**summarise(model), "out": str(out)}
    if as_json:
        print_json(summary)
    else:
        say(summary_text(summary, phrase=in_flags))
        say(f"\nWritten to {out}")
    if interrupted:
        raise typer.Exit(130)


def note_imbalance(y: Any, positive: str | None) -> None:
    """Say what to look at where one of two classes is rare."""
    import numpy as np

    labels, counts = np.unique(np.asarray(y).astype(str), return_counts=True)
    if len(labels) != 2 or counts.min() >= RARE * counts.sum():
        return
    rare, common = (str(labels[k]) for k in (counts.argmin(), counts.argmax()))
    note(
        f"{rare!r} is {counts.min()} of {counts.sum()} rows, so always saying {common!r} is right "
        f"in {counts.max() / counts.sum():.1%}; look at the average precision and the log loss of "
        f"held-out rows (--test-size) beside their baseline"
        + ("." if positive == rare else f", with --positive {rare}.")
    )


def _check_choices(
    task: str, target: str | None, test_size: float | None, held_out: str | None
) -> None:
    check_choice("--task", task, tuple(TASKS))
    if target is None and task != "anomalies":
        raise MisuseError("--target is missing; name the column to predict.")
    if target is None and (test_size or held_out):
        raise MisuseError(
            "Held-out rows are scored by --target; name the column that tells anomalies."
        )
    if test_size is not None and held_out is not None:
        raise MisuseError("--test-size and --held-out are two ways to the same; give one of them.")
    if test_size is not None and not 0 < test_size < 1:
        raise MisuseError(f"--test-size {test_size} is out of range; give a share between 0 and 1.")


def _check_roles(target: str | None, sample_weight: str | None, dropped: Sequence[str]) -> None:
    """Refuse a column that is to be two things at once."""
    roles = {"--target": target, "--sample-weight": sample_weight}
    for flag, name in roles.items():
        if name is not None and name in dropped:
            raise MisuseError(f"{flag} {name!r} is among --drop as well; take it out of one.")
    if target is not None and target == sample_weight:
        raise MisuseError(f"--target and --sample-weight are both {target!r}; name two columns.")


def _estimator(task: str, values: dict[str, Any], verbose: bool) -> Any:
    """The estimator of a task, with the parameters that were given."""
    from dtgfn import estimators

    if task != "anomalies":  # a command shows a tree, if nothing else is asked for
        values = {"ensemble": None, **values}
    model = getattr(estimators, TASKS[task])(verbose=verbose)
    return model.set_params(**as_parameters(values, model.get_params(), task))


def _training_rows(table: Table, target: str | None, sample_weight: str | None, task: str) -> _Rows:
    """Take the target and the weights out of a table."""
    from dtgfn.data.tables import split_column

    y = weight = None
    if target is not None:
        column, table = split_column(table, target)
        y = _target(column, task)
    if sample_weight is not None:
        weights, table = split_column(table, sample_weight)
        weight = weights.values
        if weights.kind != "number":
            raise ValueError(
                f"Column {sample_weight!r} holds no numbers to use as --sample-weight; name "
                "another."
            )
    if table.n_columns == 0:
        raise ValueError(f"There is no column besides {target!r}; add some to predict it from.")
    return _Rows(table, y, weight)


def _target(column: Column, task: str) -> Any:
    """Refuse, in the words of a file, a target that cannot be learned."""
    import pandas

    from dtgfn.data.tables import parse_number

    inputs.check_target(column)
    if task == "regress" and column.kind == "category":
        text = next((text for text in column.values if parse_number(text) is None), None)
        why = f"holds {text!r}, which is not a number" if text else "is read as text"
        raise ValueError(
            f"Column {column.name!r} {why}; leave out --task regress to predict classes."
        )
    if task == "regress":
        return column.values
    n_values = len(pandas.unique(column.values))
    if task == "classify" and n_values == 1:
        note(
            f"column {column.name!r} holds {column.values[0]!r} in every row, so there is nothing "
            "to tell apart; add rows of another class."
        )
    if task == "classify" and column.kind == "number" and n_values > MANY_LABELS:
        note(
            f"column {column.name!r} holds {n_values} different numbers, each a class of its own "
            "now; add --task regress to predict a number."
        )
    return inputs.labels(column)


def _set_aside(
    rows: _Rows, share: float | None, seed: int | None
) -> tuple[_Rows, tuple[Table, Any] | None, list[int] | None]:
    """Split rows into those to fit, columns and truth of those to score on, and their numbers."""
    if share is None:
        return rows, None, None
    import numpy as np

    from dtgfn.data.tables import take

    n_rows = rows.table.n_rows
    n_others = round(share * n_rows)
    if not 0 < n_others < n_rows:
        raise ValueError(
            f"--test-size {share} leaves {n_others} of {n_rows} rows to score on; give another "
            "share, or more rows."
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    kept, others = np.sort(order[n_others:]), np.sort(order[:n_others])
    weight = None if rows.weight is None else rows.weight[kept]
    y = np.asarray(rows.y)
    aside = take(rows.table, others), y[others]
    return _Rows(take(rows.table, kept), y[kept], weight), aside, others.tolist()
