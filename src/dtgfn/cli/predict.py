"""``dtgfn predict``: what a model says of new rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dtgfn.cli import inputs
from dtgfn.cli.console import print_json, say, say_data
from dtgfn.cli.models import load_model
from dtgfn.cli.options import (
    AsJson,
    Data,
    Decimal,
    Encoding,
    MisuseError,
    Model,
    Quiet,
    Separator,
    names,
)
from dtgfn.cli.outputs import (
    SafeCsv,
    check_out,
    check_safe_csv,
    check_table_suffix,
    csv_text,
    table_writer,
)
from dtgfn.cli.parameters import check_choice, complete, number, read_value, weights

if TYPE_CHECKING:
    import pandas

    from dtgfn._support.progress import Progress
    from dtgfn.data.csv_dialect import CsvDialect
    from dtgfn.data.tables import Table

AT_ONCE = 10_000  # rows between two steps of the bar
LEVEL = 0.9


Out = Annotated[
    str, typer.Option(help="CSV, TSV, gzip of these or Parquet to write; - for stdout.")
]
Interval = Annotated[
    str | None,
    typer.Option(
        metavar="<float>",
        help="Add bounds that hold with this probability; numbers have 0.9 anyway.",
        show_default=False,
    ),
]
WithUncertainty = Annotated[
    bool, typer.Option("--uncertainty", help="Add the uncertainty and its parts.")
]
ONE_TREE = ("best", "paper")
OneTree = Annotated[
    str | None,
    typer.Option(
        help="best: the most probable tree predicts alone; paper: the single drawn tree with the "
        "highest log R.",
        show_default=False,
        autocompletion=complete(ONE_TREE),
    ),
]
ClassPrior = Annotated[
    str | None,
    typer.Option(
        help="How frequent classes are now: uniform, or as in yes=0.2,no=0.8.",
        show_default=False,
        autocompletion=complete(("uniform",)),
    ),
]
Keep = Annotated[str, typer.Option(help="Columns to copy, with commas.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out, with commas.")]


def predict(
    model: Model,
    data: Data,
    out: Out = "-",
    interval: Interval = None,
    uncertainty: WithUncertainty = False,
    tree: OneTree = None,
    class_prior: ClassPrior = None,
    keep: Keep = "",
    drop: Drop = "",
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    safe_csv: SafeCsv = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict new rows: class probabilities, numbers with intervals, or anomalies.

    Rows stay in their order; columns that the model does not know, such as the target, are ignored.

    Examples:
      dtgfn predict model.dtgfn new.csv --out predictions.csv

      dtgfn predict model.dtgfn new.csv --interval 0.9 --uncertainty --keep id

      cat new.csv | dtgfn predict model.dtgfn - --tree best

    """
    import pandas

    from dtgfn._support.progress import progress_bar

    level = None if interval is None else read_value("--interval", interval, number)
    check_safe_csv(
        safe_csv, is_csv=not as_json if out == "-" else not out.lower().endswith(".parquet")
    )
    if out != "-":
        check_out(Path(out), data, model)
        check_table_suffix(Path(out))
    written = inputs.dialect(separator, encoding, decimal)
    fitted = load_model(model)
    asked = _read_question(fitted, level, uncertainty, tree, class_prior)
    shown, copied = not (as_json or quiet), names(keep)
    known = (*inputs.text_columns_of(fitted), *copied)
    with progress_bar(shown) as progress:
        tables = _tables(fitted, data, written, (known, copied, names(drop)), progress)
        pieces: Iterator[pandas.DataFrame] = (
            _beside(copies, _answers(fitted, rows, asked)) for copies, rows in tables
        )
        if as_json:
            frame = pandas.concat(list(pieces), ignore_index=True)
            pieces = iter([frame])
        elif out == "-" and sys.stdout.isatty():  # not into the bar
            pieces = iter(list(pieces))
        n_rows = len(frame) if as_json and out == "-" else _write(pieces, out, safe_csv)
    if as_json:
        print_json({"rows": n_rows, "out": out, "predictions": frame.to_dict("records")})
    elif out != "-":
        say(f"{n_rows} predictions written to {out}")


def _write(pieces: Iterator[pandas.DataFrame], out: str, safe_csv: bool) -> int:
    """Write predictions as they come; return how many."""
    n_rows = 0
    if out == "-":
        for piece in pieces:
            say_data(csv_text(piece, header=n_rows == 0, safe=safe_csv))
            n_rows += len(piece)
        return n_rows
    with table_writer(Path(out), safe_csv) as write:
        for piece in pieces:
            write(piece)
            n_rows += len(piece)
    return n_rows


class _Question(NamedTuple):
    """What is asked of each row."""

    level: float | None
    uncertainty: bool
    tree: str | None
    class_prior: Any


def _read_question(
    model: Any, interval: float | None, uncertainty: bool, tree: str | None, prior: str | None
) -> _Question:
    """Refuse what a model cannot be asked."""
    from dtgfn._support.checks import check_level
    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier

    if tree is not None:
        check_choice("--tree", tree, ONE_TREE)
    if interval is not None:
        check_level(interval)
    if isinstance(model, DTGFNAnomalyDetector):
        for flag, given in (("interval", interval), ("uncertainty", uncertainty), ("tree", tree)):
            if given:
                raise MisuseError(f"--{flag} is not for an anomaly detector; leave it out.")
    if prior is not None and not isinstance(model, DTGFNClassifier):
        raise MisuseError("--class-prior is for models of classes; leave it out.")
    if prior is not None and (interval is not None or uncertainty):
        raise MisuseError(
            "--class-prior changes probabilities only; leave out --interval and --uncertainty."
        )
    shares = None
    if prior is not None:
        typed = read_value("--class-prior", prior, weights)
        if isinstance(typed, str) and typed != "uniform":
            raise MisuseError(
                f"--class-prior {typed} is not known; give uniform, or as in yes=0.2,no=0.8."
            )
        shares = inputs.by_label(typed, model.classes_)
    return _Question(interval, uncertainty, tree, shares)


def _tables(
    model: Any,
    data: str,
    written: CsvDialect,
    columns: tuple[Sequence[str], Sequence[str], Sequence[str]],
    progress: Progress,
) -> Iterator[tuple[pandas.DataFrame, Table]]:
    """Read new rows, some at a time: columns to copy, and those that the model wants.

    ``columns`` are those that stay text, that are copied and that are left out.
    """
    from dtgfn.data.tables import take

    text, copied, dropped = columns
    if not inputs.is_large(data):
        table = inputs.read_known(data, written, text, progress)
        copies = _copies(table, copied)
        wanted = inputs.columns_for(model, inputs.drop(table, dropped))
        for some in _slices(table.n_rows):
            progress("predicting", some[0] / table.n_rows)
            yield copies.iloc[some].reset_index(drop=True), take(wanted, some)
        return
    first = True
    for table in inputs.read_large(model, data, written, columns, progress):
        copies = _copies(table, copied)
        wanted = inputs.columns_for(model, inputs.drop(table, dropped), tell=first)
        first = False
        for some in _slices(table.n_rows):
            yield copies.iloc[some].reset_index(drop=True), take(wanted, some)


def _slices(n_rows: int) -> Iterator[range]:
    for first in range(0, n_rows, AT_ONCE):
        yield range(first, min(first + AT_ONCE, n_rows))


def _copies(table: Table, copied: Sequence[str]) -> pandas.DataFrame:
    """Columns to copy, one row for each of the table's."""
    import pandas

    from dtgfn.data.tables import split_column

    found = {name: split_column(table, name)[0].values for name in copied}
    return pandas.DataFrame(found, index=range(table.n_rows))


def _beside(copies: pandas.DataFrame, answers: pandas.DataFrame) -> pandas.DataFrame:
    """Copied columns, then the answers; one name must not stand for both."""
    for name in copies.columns.intersection(answers.columns):
        raise ValueError(
            f"--keep {name!r} is also the name of a column of predictions; rename it in the table."
        )
    return copies.join(answers)


def _answers(model: Any, rows: Table, asked: _Question) -> pandas.DataFrame:
    """What a model says of some rows, a column each."""
    import pandas

    from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNRegressor

    if isinstance(model, DTGFNAnomalyDetector):
        score = model.score_samples(rows)
        flagged = score < model.offset_
        return pandas.DataFrame({"prediction": 1 - 2 * flagged.astype(int), "score": score})
    tree = asked.tree
    if isinstance(model, DTGFNRegressor):
        frame = pandas.DataFrame({"prediction": model.predict(rows, tree=tree)})
        level = LEVEL if asked.level is None else asked.level
        frame["lower"], frame["upper"] = model.predict_interval(rows, level, tree).T
    else:
        probability = model.predict_proba(rows, tree, asked.class_prior)
        frame = pandas.DataFrame({"prediction": model.classes_[probability.argmax(axis=1)]})
        texts = model.posterior_.class_names
        frame[[f"p({text})" for text in texts]] = probability
        if asked.level is not None:
            bounds = model.predict_interval(rows, asked.level, tree)
            for c, text in enumerate(texts):
                frame[f"lower({text})"], frame[f"upper({text})"] = bounds[:, c].T
    if asked.uncertainty:
        parts = model.predict_uncertainty(rows, tree)
        for part in ("total", "noise", "model"):
            frame[f"uncertainty({part})"] = getattr(parts, part)
    return frame
