"""``dtgfn export``: trees for other programs."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated, Any

import typer

from dtgfn._support.printable import visible_json
from dtgfn.cli.console import say, say_data
from dtgfn.cli.models import load_with_posterior
from dtgfn.cli.options import Labels, MisuseError, Model, Quiet, names
from dtgfn.cli.outputs import SafeCsv, check_out, check_safe_csv, table_bytes, write_atomically
from dtgfn.cli.parameters import check_choice, complete

# Of each format the suffixes that tell it.
SUFFIXES = {
    "text": (".txt",),
    "dot": (".dot", ".gv"),
    "mermaid": (".mmd", ".mermaid"),
    "timbertrek": (".timbertrek.json",),
    "json": (".json",),
    "onnx": (".onnx",),
    "sql": (".sql",),
    "c": (".c",),
    "javascript": (".js", ".mjs"),
    "rules": (".csv", ".tsv", ".parquet"),
}
TREES = ("best", "consensus", "paper", "all")


def export(
    model: Model,
    out: Annotated[str, typer.Option(help="File to write; - for stdout.")] = "-",
    format: Annotated[
        str | None,
        typer.Option(
            help="What to write; by the suffix of --out, or else text.",
            metavar="|".join(SUFFIXES),
            show_default=False,
            autocompletion=complete(tuple(SUFFIXES)),
        ),
    ] = None,
    tree: Annotated[
        str | None,
        typer.Option(
            help="best, consensus, paper, all of them weighted, or the index of a sampled tree; "
            "best if left out, of a sum of trees all.",
            show_default=False,
            autocompletion=complete(TREES),
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Of sql: the table to select from; data if left out.", metavar="NAME"),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Of sql: columns to select too, such as a key.", metavar="NAME,..."),
    ] = None,
    labels: Labels = None,
    safe_csv: SafeCsv = False,
    quiet: Quiet = False,
) -> None:
    """Write trees as rules, Graphviz, Mermaid, JSON, ONNX, SQL, C or JavaScript.

    Examples:
      dtgfn export model.dtgfn

      dtgfn export model.dtgfn --format mermaid

      dtgfn export model.dtgfn --tree all --out trees.json

      dtgfn export model.dtgfn --tree all --out rules.csv

      dtgfn export model.dtgfn --tree all --out model.onnx

      dtgfn export model.dtgfn --out tree.sql --table patients --keep id

    """
    from dtgfn._support.progress import progress_bar

    chosen = _checked_format(model, out, format, safe_csv)
    which = _which(tree)
    options = _sql_options(chosen, table, keep)
    fitted = load_with_posterior(model, "export", labels)
    with progress_bar(not quiet) as progress:
        progress(f"writing {chosen}", None)
        content = _content(fitted, chosen, which, Path(out), safe_csv, options)
    if out == "-":
        text = content.decode().rstrip("\n") + "\n"
        say_data(visible_json(text) if chosen == "json" else text)
    else:
        write_atomically(Path(out), content)
        say(f"Written to {out}")


def _checked_format(model: Path, out: str, format: str | None, safe_csv: bool) -> str:
    """Name of the format; refuse one that does not fit the other options."""
    chosen = format or _format_of(out)
    if chosen == "sklearn":
        raise MisuseError(
            "--format sklearn is an object of Python, not a file; in Python, "
            "dtgfn.load(path).export('sklearn') has it."
        )
    check_choice("--format", chosen, tuple(SUFFIXES))
    check_safe_csv(safe_csv, is_csv=chosen == "rules" and not out.lower().endswith(".parquet"))
    if chosen == "onnx" and out == "-":
        raise MisuseError("--format onnx is not text; name a file with --out.")
    if out != "-":
        check_out(Path(out), model)
    return chosen


def _format_of(out: str) -> str:
    """What the suffix of a file tells."""
    if out == "-":
        return "text"
    for name, suffixes in SUFFIXES.items():
        if out.lower().removesuffix(".gz").endswith(suffixes):
            return name
    known = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    raise MisuseError(
        f"The suffix of --out {out!r} is not one of {known}; rename it, or give --format."
    )


def _which(tree: str | None) -> int | str | None:
    if tree is None or tree in TREES:
        return tree
    if tree.isdecimal():
        return int(tree)
    raise MisuseError(f"--tree {tree} names no tree; give {', '.join(TREES)} or an index from 0.")


def _sql_options(format: str, table: str | None, keep: str | None) -> dict[str, Any]:
    """Options of a statement; refuse them for another format."""
    for flag, value in (("--table", table), ("--keep", keep)):
        if value is not None and format != "sql":
            raise MisuseError(f"{flag} {value} is for --format sql; leave it out.")
    given = {"table": table, "keep": None if keep is None else names(keep)}
    return {name: value for name, value in given.items() if value is not None}


def _content(
    model: Any,
    format: str,
    which: int | str | None,
    out: Path,
    safe_csv: bool,
    options: dict[str, Any],
) -> bytes:
    """A file's content."""
    from dtgfn.explain.rules import distinct_rules, leaf_rules
    from dtgfn.export import export

    if format == "rules":
        frame = distinct_rules(model) if which == "all" else leaf_rules(model, which)
        return table_bytes(frame, out, safe_csv)
    made = export(model, format, trees=which, **options)
    content = made.encode() if isinstance(made, str) else bytes(made.SerializeToString())
    return gzip.compress(content, mtime=0) if out.suffix.lower() == ".gz" else content
