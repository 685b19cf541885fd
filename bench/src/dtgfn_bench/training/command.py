"""The command ``dtgfn bench train-policy``: lessons, a fit, and a file with its card."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dtgfn.cli.console import say, tell

Folder = Annotated[Path, typer.Option(help="Where lessons are kept; those that are there count.")]


def train_policy(
    out: Annotated[Path, typer.Argument(help="File to write, a .safetensors.")],
    lessons: Folder = Path("lessons"),
    n_lessons: Annotated[int, typer.Option(help="Lessons (tables) to learn from.")] = 4000,
    epochs: Annotated[float, typer.Option(help="Times that each lesson is seen.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Of the tables and of the fit.")] = 1,
    worker: Annotated[
        str, typer.Option(help="'k/n': only write every n-th lesson from k, to share them out.")
    ] = "",
) -> None:
    """Train the policy for all tables anew: write what lessons are missing, fit, judge.

    Examples:
      dtgfn bench train-policy policy.safetensors --n-lessons 2000
      dtgfn bench train-policy policy.safetensors --worker 0/2 & dtgfn ... --worker 1/2

    """
    import torch

    from dtgfn_bench.training.fitting import HIDDEN, fit_policy, judge, read_lessons
    from dtgfn_bench.training.lessons import write_lessons

    lessons.mkdir(parents=True, exist_ok=True)
    first, step = (int(part) for part in worker.split("/")) if worker else (0, 1)
    for index in write_lessons(lessons, seed, first, n_lessons, step):
        if index % 100 < step:
            tell(f"lesson {index} of {n_lessons}")
    if worker:
        return
    torch.set_num_threads(1)
    learned = read_lessons(lessons, n_lessons)
    card = describe(len(set(learned.table.tolist())), len(learned.nats), seed, epochs)
    policy = fit_policy(learned, HIDDEN, epochs, seed, card)
    for name, number, error, root, none in judge(policy, learned):
        card[f"error, {name}"] = f"{error:.3f} nats of {none:.3f} ({number} row sets)"
        errors = f"mean error {error:.3f} of {none:.3f} nats, root mean square {root:.3f}"
        say(f"{name:<32} {number:>7} row sets, {errors}")
    replace(policy, card=card).save(out)
    tell(f"written: {out}")


def describe(n_tables: int, n_lessons: int, seed: int, epochs: float) -> dict[str, str]:
    """What the card says before anything is judged."""
    from dtgfn._version import __version__
    from dtgfn_bench.origin import commit

    return {
        "what": "nats that deeper trees add to the look-ahead of a row set, by its view",
        "data": f"{n_lessons} row sets with exact sums, of {n_tables} tables, made up and of R's "
        "packages (dtgfn_bench.training); one table of eight was held out for the errors below",
        "code": f"dtgfn {__version__}, {commit() or 'no commit'}",
        "date": datetime.date.today().isoformat(),
        "seed, epochs": f"{seed}, {epochs:g}",
    }
