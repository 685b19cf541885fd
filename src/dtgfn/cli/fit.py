"""``dtgfn fit``: from a table to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dtgfn.cli import inputs
from dtgfn.cli.console import note, print_json, say
from dtgfn.cli.messages import in_flags, noted_warnings
from dtgfn.cli.models import labelled, read_dictionary
from dtgfn.cli.options import (
    AsJson,
    Data,
    Decimal,
    Encoding,
    Labels,
    MisuseError,
    Quiet,
    Separator,
    TextColumns,
    names,
)
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
from dtgfn.cli.training_rows import Roles, TrainingRows, set_aside, training_rows

if TYPE_CHECKING:
    from dtgfn.data.csv_dialect import CsvDialect
    from dtgfn.data.meanings import Meaning
    from dtgfn.data.sources import Source
    from dtgfn.data.tables import Table

IN_MEMORY_ONLY = {
    "--test-size": "name a table of other rows with --held-out",
    "--drop-missing-target": "leave such rows out of the file",
}


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
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-target", help="Leave out rows whose target is empty.")
]
NoRows = Annotated[
    bool,
    typer.Option("--no-rows", help="Keep no training rows in the file."),
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
    drop_missing_target: DropMissing = False,
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    labels: Labels = None,
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

      dtgfn fit data.csv --target y --labels dictionary.csv --out model.dtgfn

      dtgfn fit data.csv --target y --ensemble sum --out sum.dtgfn

      dtgfn fit normal.csv --task anomalies --n-trees 100 --out detector.dtgfn

    """
    share = None if test_size is None else read_value("--test-size", test_size, number)
    _check_choices(task, target, share, held_out)
    _check_roles(target, sample_weight, names(drop))
    values, shown = read_parameters(parameters), not (as_json or quiet)
    written, told = inputs.dialect(separator, encoding, decimal), read_dictionary(labels)
    _check_files(out, data, held_out, values.get("checkpoint"))
    model, as_text = _estimator(task, values, verbose=shown), names(text_columns)
    if target is not None and task != "anomalies" and inputs.is_large(data):
        alone = {"--test-size": share is not None, "--drop-missing-target": drop_missing_target}
        large = _open_large(data, target, sample_weight, names(drop), written, as_text, alone)
        if "class_weight" in values:
            model.class_weight = _any_label(values["class_weight"])
        if held_out is not None and not Path(held_out).exists():
            raise ValueError(f"There is no file {held_out!r}; check the path.")
        if not as_json:
            _say_large(large)
        model, interrupted = _fit_and_save(model, large, out, not no_rows, (told, target))
        if held_out is not None and not interrupted:
            known = read_for_model(model, held_out, target, written, shown)
            _score_and_save(model, known, shown, out, not no_rows, None)
        _end(model, out, as_json, interrupted)
        return
    from dtgfn.data.dated_tables import as_training_table
    from dtgfn.data.hints import imbalance

    table = inputs.read(data, written, as_text, shown)
    roles = Roles(target, sample_weight, names(drop), as_text, drop_missing_target)
    rows = training_rows(table, roles, task)
    if values.get("dates") is not None:
        rows = rows._replace(table=as_training_table(rows.table, values["dates"]))
    inputs.note_odd_columns(rows.table)
    rows, others, which = set_aside(rows, share, values.get("random_state"))
    if task == "classify":
        rare = imbalance(rows.y, values.get("positive"), "--test-size")
        if rare is not None:
            note(in_flags(rare))
    if held_out is not None:
        labels = rows.y if task == "classify" else None
        others = read_beside(rows.table, labels, held_out, str(target), written, shown)
    if not as_json:
        say(f"Columns: {inputs.kinds_text(inputs.kinds_of(rows.table))}")
    if "class_weight" in values:
        model.class_weight = inputs.by_label(values["class_weight"], sorted(set(rows.y)))
    model, interrupted = _fit_and_save(model, rows, out, not no_rows, (told, target))
    if others is not None and not interrupted:
        _score_and_save(model, others, shown, out, not no_rows, which)
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
    written: CsvDialect,
    as_text: Sequence[str],
    alone: dict[str, bool],
) -> _Large:
    """Look at the columns of a table that is read in chunks."""
    for flag, way_out in IN_MEMORY_ONLY.items():
        if alone[flag]:
            raise MisuseError(
                f"{flag} is for tables in memory, but {data!r} is read in chunks; {way_out}."
            )
    source = inputs.open_large(data, written, as_text)
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


def _check_files(out: Path, data: str, held_out: str | None, checkpoint: Path | None) -> None:
    """Refuse, before any work, a file that cannot or must not be written."""
    from dtgfn.storage.model_file import check_replaceable

    check_out(out, *filter(None, (data, held_out)))
    check_replaceable(out)
    if checkpoint == out:
        raise MisuseError(f"--checkpoint and --out are both {str(out)!r}; name two files.")


def _fit_and_save(
    model: Any,
    rows: TrainingRows | _Large,
    out: Path,
    with_rows: bool,
    told: tuple[dict[str, Meaning] | None, str | None],
) -> tuple[Any, bool]:
    """Fit a model and write it; return it, and whether training was interrupted.

    ``told`` is a data dictionary and the name of the target.
    """
    from dtgfn.estimators.labelled import predicting
    from dtgfn.storage.model_file import save

    table, y, weight = rows[:3]
    with noted_warnings(), inputs.as_they_are():  # what is odd was noted before
        model.fit(table, y, sample_weight=weight)
    model = predicting(model, told[1])
    save(model, out, with_rows)
    if told[0] is not None:  # a dictionary that does not fit shall not cost the model
        model = labelled(model, *told)
        save(model, out, with_rows)
    interrupted = bool(getattr(getattr(model, "posterior_", None), "interrupted", False))
    if interrupted:
        note(f"interrupted: training ended early; {str(out)!r} holds what was learned by then.")
    return model, interrupted


def _score_and_save(
    model: Any,
    others: tuple[Table, Any],
    shown: bool,
    out: Path,
    with_rows: bool,
    which: list[int] | None,
) -> None:
    """Score a model on other rows, and keep the scores, and which rows they are of, in the file."""
    from dtgfn.storage.model_file import save

    model.held_out_ = score(model, *others, shown) | {"row_numbers": which or []}
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
