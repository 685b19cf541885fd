"""``dtgfn given``: a model under demands on its trees, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dtgfn.cli.console import print_json, say
from dtgfn.cli.models import load_with_posterior
from dtgfn.cli.options import AsJson, Labels, MisuseError, Model, Quiet
from dtgfn.cli.outputs import check_out
from dtgfn.cli.parameters import number, read_value


def given(
    model: Model,
    demands: Annotated[
        list[str],
        typer.Argument(
            help='"root: age <= 50", "root.right: sex is m", "never: income", '
            '"never below age: sex", "monotone: age up".',
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Model file to write.", show_default=False)
    ] = None,
    labels: Labels = None,
    time_budget: Annotated[str, typer.Option(help="Seconds.", metavar="<float>")] = "60",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Tell what it costs to demand a split, or to leave a column out; show the best such tree.

    Examples:
      dtgfn given model.dtgfn "root: age"

      dtgfn given model.dtgfn "root: age <= 50" "never: colour" --out forced.dtgfn

    """
    from dtgfn.inference.condition import given_effect
    from dtgfn.storage.model_file import save

    seconds = read_value("--time-budget", time_budget, number)
    asked = read_lines(demands)
    if out is not None:
        check_out(out, model)
    fitted: Any = load_with_posterior(model, "given demands", labels)
    forced = fitted.given(asked, time_budget=seconds, verbose=not (as_json or quiet))
    if out is not None:
        save(forced, out)
    effect = given_effect(forced)
    if as_json:
        print_json({**effect.to_dict(), "best_tree": forced.describe()})
        return
    say(str(effect))
    say(f"\nThe most probable tree that keeps this:\n\n{forced.describe()}")
    if out is not None:
        say(f"\nWritten to {out}")


def read_lines(demands: list[str]) -> dict[str, Any]:
    """Demands as ``dtgfn.condition`` takes them.

    >>> read_lines(["root: age <= 50", "never: a, b", "monotone: age up"])
    {'root': 'age <= 50', 'never': ['a', 'b'], 'monotone': {'age': 'up'}}
    """
    asked: dict[str, Any] = {}
    for line in demands:
        place, colon, wanted = line.partition(":")
        place, wanted = place.strip(), wanted.strip()
        if not colon or not wanted:
            raise MisuseError(f"{line!r} is no demand; give 'root: age <= 50' or 'never: income'.")
        if place in asked:
            raise MisuseError(f"{place!r} is demanded twice; give one of the two.")
        if place.startswith("never"):
            asked[place] = [name.strip() for name in wanted.split(",")]
        elif place == "monotone":
            pairs = (each.strip().rpartition(" ") for each in wanted.split(","))
            asked[place] = {name: direction for name, _, direction in pairs}
        else:
            asked[place] = wanted
    return asked
