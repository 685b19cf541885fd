"""How many trees there are: the paper's count over binary features, exactly and at any depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dtgfn_bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn_bench.paper import SEARCH_SPACE
from dtgfn_bench.plots import Series, lines

NAME = "search-space"
DEPTHS = range(1, 9)
FEATURES = (10, 20)


def count_trees(depth: int, n_features: int) -> int:
    """Number of trees with 1 to ``depth`` levels of splits; a path uses a feature at most once.

    The paper sums over how many nodes each level splits.  The same trees, seen from the root: one
    feature out of p, and on either side a leaf or a tree one level lower over the other p - 1.

    >>> count_trees(3, 10)
    5329000
    """
    if depth < 1 or n_features < 1:
        return 0
    return n_features * (1 + count_trees(depth - 1, n_features - 1)) ** 2


def in_powers(number: int) -> str:
    """A whole number of any length in the paper's form: cut off, not rounded, after four digits.

    >>> in_powers(5329000), in_powers(99999), in_powers(7)
    ('5.329e6', '9.999e4', '7.000e0')
    """
    digits = str(number)
    return f"{digits[0]}.{digits[1:4]:0<3}e{len(digits) - 1}"


def cells(quick: bool) -> list[Cell]:
    """One count for every depth and number of features; the quick version leaves out nothing."""
    return [
        Cell(
            experiment=NAME,
            table=f"binary-{n_features}",
            method="count",
            seed=0,
            variant={"depth": depth, "features": n_features},
        )
        for n_features in FEATURES
        for depth in DEPTHS
    ]


def measure(cell: Cell) -> dict[str, float | None]:
    """Count; the logarithm, since the number itself may be too large for a float."""
    number = count_trees(cell.variant["depth"], cell.variant["features"])
    return {"log10_trees": math.log10(number)}


def render(records: Sequence[Record]) -> list[Block]:
    """The paper's table with its own numbers beside ours, all digits, and the growth."""
    found = {
        (record.cell.variant["depth"], record.cell.variant["features"]): record
        for record in records
    }
    done = {shape: record for shape, record in found.items() if record.status == "done"}
    failed = [record.reason for record in found.values() if record.status != "done"]
    note = (
        "Trees of at most d levels of splits over p binary features. The sum over levels equals "
        "the recursion N(d, p) = p (1 + N(d - 1, p - 1))², which gives any depth at once, also "
        "d = 5, which the paper calls prohibitive. Numbers are cut off after four digits, as the "
        "paper's are (rounded, two of them would end in another digit)."
    )
    text = " ".join([note, *(f"Not counted: {reason}." for reason in failed)])
    exact = [
        (str(depth), str(p), f"{count_trees(depth, p):_}".replace("_", " "))
        for depth, p in sorted(done)
    ]
    return [
        Block(heading="Size of the search space", rows=_table(done), text=text),
        Block(heading="All digits", rows=[("d", "p", "trees"), *exact]),
        Block(figure=_figure(done)),
    ]


def _table(done: dict[tuple[int, int], Record]) -> list[list[str]]:
    features = sorted({p for _, p in done})
    header = ["d"]
    for p in features:
        header += [f"p = {p}", f"p = {p}, paper"]
    rows = [header]
    for depth in sorted({depth for depth, _ in done}):
        row = [str(depth)]
        for p in features:
            ours = in_powers(count_trees(depth, p)) if (depth, p) in done else "–"
            printed = SEARCH_SPACE.get((depth, p))
            row += [ours, "–" if printed is None else in_powers(round(Decimal(str(printed))))]
        rows.append(row)
    return rows


def _figure(done: dict[tuple[int, int], Record]) -> Figure:
    def draw(figure: Any) -> None:
        series = []
        for p in sorted({p for _, p in done}):
            depths = sorted(depth for depth, other in done if other == p)
            heights = [float(done[depth, p].metrics["log10_trees"] or 0) for depth in depths]
            series.append(Series(f"{p} features", list(map(float, depths)), heights))
        lines(figure, series, "depth", "log10 of the number of trees")

    return Figure(
        name=NAME,
        alt="The number of decision trees grows doubly exponentially with their depth.",
        draw=draw,
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Number of decision trees by depth",
    cells=cells,
    measure=measure,
    render=render,
)
