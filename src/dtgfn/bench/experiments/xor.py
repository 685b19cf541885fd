"""Hidden XOR: two features decide the label together, and noise features grow in number."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import numpy as np

from dtgfn.bench.contract import Codes, Floats, TrainingRows
from dtgfn.bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn.bench.splits import holdout

NAME = "xor"
N_ROWS = 1000
NOISE = (*range(0, 20, 2), 100, 1000)
QUICK_NOISE = (0, 18)
SEEDS = (1, 2, 3, 4, 5)
QUICK_SEEDS = (1,)
KINDS = ("binary", "real")
METHOD_NAMES = (
    "dtgfn",
    "dtgfn-tree",
    "dtgfn-paper",
    "forest",
    "extra-trees",
    "xgboost",
    "lightgbm",
    "smc-ensemble",
    "mcmc-ensemble",
    "cart-gini",
)
NOTE = (
    "Mean accuracy over seeds (± standard deviation) on the held-out fifth of 1000 rows. The label "
    "is the XOR of two binary features; the columns' order is random, so that no method gains from "
    "the place of these two."
)
PAPER_SAYS = (
    "The paper prints no numbers, only a plot with up to 18 noise features: DT-GFN stays at 1.0, "
    "the greedy forest drops a little with binary noise and much with real noise, SMC more."
)


def make_rows(kind: str, n_noise: int, seed: int) -> tuple[Floats, Codes]:
    """Features [1000, 2 + n_noise], in random order, and the XOR of two of them."""
    rng = np.random.default_rng(seed)
    signal = rng.integers(0, 2, (N_ROWS, 2))
    shape = (N_ROWS, n_noise)
    noise = rng.random(shape) if kind == "real" else rng.integers(0, 2, shape)
    X = np.column_stack([signal, noise]).astype(np.float64)
    return X[:, rng.permutation(X.shape[1])], signal[:, 0] ^ signal[:, 1]


def cells(quick: bool) -> list[Cell]:
    """Every method, kind and number of noise features, and seed."""
    from dtgfn.bench.methods import METHODS

    chosen = [METHODS[name] for name in METHOD_NAMES]
    return [
        Cell(
            experiment=NAME,
            table=table_name(kind, n_noise),
            method=method.name,
            seed=seed,
            settings={**method.settings, **(method.quick if quick else {})},
            variant={"kind": kind, "noise": n_noise},
        )
        for n_noise in (QUICK_NOISE if quick else NOISE)
        for kind in (KINDS if n_noise else KINDS[:1])  # no noise is of no kind
        for method in chosen
        for seed in (QUICK_SEEDS if quick else SEEDS)
    ]


def table_name(kind: str, n_noise: int) -> str:
    """Name of the data of a kind and number of noise features."""
    return f"xor-{kind}-{n_noise}" if n_noise else "xor"


def measure(cell: Cell) -> dict[str, float | None]:
    """Fit on four fifths of the rows, ask about the others."""
    from dtgfn.bench.measure import measure_classifier

    X, y = make_rows(cell.variant["kind"], cell.variant["noise"], cell.seed)
    train, test = holdout(N_ROWS, cell.seed)
    rows = TrainingRows(X[train], y[train], 2, cell.table)
    return measure_classifier(
        cell.method, cell.settings, rows, cell.seed, {"": (X[test], y[test])}
    )


def render(records: Sequence[Record]) -> list[Block]:
    """A table for either kind of noise, what is missing, and both as curves."""
    blocks = [
        Block(
            heading=f"Hidden XOR with {kind} noise",
            rows=_table(records, kind),
            text=NOTE if kind == KINDS[0] else "",
        )
        for kind in KINDS
    ]
    blocks.append(Block(text=" ".join([PAPER_SAYS, *_gaps(records)]), figure=_figure(records)))
    return blocks


def _of_kind(records: Sequence[Record], kind: str) -> list[Record]:
    """Records of a kind of noise; those without noise belong to both."""
    return [
        record
        for record in records
        if record.cell.variant["kind"] == kind or not record.cell.variant["noise"]
    ]


def _methods(records: Sequence[Record]) -> list[str]:
    """Names in the order of the experiment's list, then any other."""
    present = {record.cell.method for record in records}
    known = [name for name in METHOD_NAMES if name in present]
    return known + sorted(present.difference(known))


def _label(name: str) -> str:
    from dtgfn.bench.methods import METHODS

    return METHODS[name].label if name in METHODS else name


def _table(records: Sequence[Record], kind: str) -> list[list[str]]:
    chosen = _of_kind(records, kind)
    counts = sorted({record.cell.variant["noise"] for record in chosen})
    rows = [["method", *map(str, counts)]]
    for name in _methods(chosen):
        cells_of = [_cell_text(_at(chosen, name, count)) for count in counts]
        rows.append([_label(name), *cells_of])
    return rows


def _at(records: Sequence[Record], name: str, n_noise: int) -> list[Record]:
    return [
        record
        for record in records
        if record.cell.method == name and record.cell.variant["noise"] == n_noise
    ]


def _accuracies(records: Sequence[Record]) -> list[float]:
    found = [record.metrics.get("accuracy") for record in records if record.status == "done"]
    return [value for value in found if value is not None]


def _cell_text(records: Sequence[Record]) -> str:
    values = _accuracies(records)
    lost = sorted({record.status for record in records if record.status != "done"})
    if not values:
        return ", ".join(lost) or "–"
    spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    short = f" ({len(values)} of {len(records)} seeds)" if lost else ""
    return f"{mean(values):.3f}{spread}{short}"


def _gaps(records: Sequence[Record]) -> list[str]:
    """A sentence for each method and reason that kept it from being measured."""
    reasons = dict.fromkeys(
        (record.cell.method, record.status, record.reason)
        for record in records
        if record.status != "done"
    )
    return [f"{_label(name)} {status}: {reason}." for name, status, reason in reasons]


def _figure(records: Sequence[Record]) -> Figure:
    def draw(figure: Any) -> None:
        for axes, kind in zip(figure.subplots(1, 2, sharey=True), KINDS, strict=True):
            _draw_kind(axes, _of_kind(records, kind))
            axes.set_title(f"{kind} noise")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))

    return Figure(
        name=NAME,
        alt="Accuracy of each method on hidden XOR as noise features grow in number.",
        draw=draw,
        inches=(11.0, 4.5),
    )


def _draw_kind(axes: Any, records: Sequence[Record]) -> None:
    counts = sorted({record.cell.variant["noise"] for record in records})
    axes.axhline(0.5, color="grey", linestyle=":", label="chance")
    for name in _methods(records):
        heights = [_accuracies(_at(records, name, count)) for count in counts]
        points = [(place, mean(values)) for place, values in enumerate(heights) if values]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=_label(name))
    axes.set_xticks(range(len(counts)), map(str, counts))  # evenly: 18 to 1000 is a long way
    axes.set_xlabel("noise features")
    axes.set_ylabel("accuracy")


EXPERIMENT = Experiment(
    name=NAME,
    title="Hidden XOR among noise features",
    cells=cells,
    measure=measure,
    render=render,
)
