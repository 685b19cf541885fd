"""``dtgfn predict``: what a model says of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dtgfn.cli.console import print_json
from dtgfn.cli.options import AsJson
from dtgfn.cli.outputs import check_out, write_whole


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
        check_out(Path(out), data, model)
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
        write_whole(Path(out), frame.to_csv(index=False))
    if as_json:
        print_json({"rows": len(frame), "out": out, "predictions": frame.to_dict("records")})
    elif out == "-":
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        typer.echo(f"{len(frame)} predictions written to {out}")
