"""Hidden XOR: two features decide the label together, and noise features grow in number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.cells import method_cells
from dtgfn_bench.comparison import comparison_block
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.experiment import Block, Cell, Experiment, Figure, Record
from dtgfn_bench.measure import Metrics, measure_classifier
from dtgfn_bench.method_lookup import find_method
from dtgfn_bench.plots import Series, lines
from dtgfn_bench.splits import holdout
from dtgfn_bench.statistics import summary

NAME = "xor"
N_ROWS = 1000
NOISE = (0, 2, 6, 10, 14, 18, 100, 1000)
QUICK_NOISE = (0, 18)
SEEDS = (1, 2, 3)
WIDE = 1000  # noise features that get one seed but of ours: rivals' fits take minutes
# Each set of rows has a million pairs of cuts (binary) or 100,000 cuts (real) there.
PAIRED, FEWER = ("dtgfn", "dtgfn-tree"), {"n_steps": 5, "n_trees": 100}
RESTARTS = 10  # of greedy trees, which hardly differ here, instead of 1000
KINDS = ("binary", "real")
OURS = ("dtgfn", "dtgfn-tree", "dtgfn-paper", "dtgfn-paper-text", "dtgfn-paper-release")
BINARY_ONLY = ("dtgfn-paper-one",)  # one threshold, as the text says, where columns are binary
RIVALS = (
    "forest",
    "extra-trees",
    "xgboost",
    "lightgbm",
    "smc-ensemble",
    "mcmc-ensemble",
    "cart-gini",
)
METHOD_NAMES = {"binary": (*RIVALS, *OURS, *BINARY_ONLY), "real": (*RIVALS, *OURS)}
NOTE = (
    "The label is the XOR of two binary features of 1000 rows, a fifth of which is held out. The "
    "columns' order is random, so that no method gains from where these two stand. The paper "
    "prints no numbers, only a plot of up to 18 noise features, in which DT-GFN stays at 1.0 while "
    "the greedy forest and SMC fall. With 1000 noise features there is one seed of all but our two "
    "default rows, whose GFlowNet has 5 steps there and draws 100 trees."
)


def make_rows(kind: str, n_noise: int, seed: int) -> tuple[Floats, Int64s]:
    """Features [1000, 2 + n_noise], in random order, and the XOR of two of them."""
    rng = np.random.default_rng(seed)
    signal = rng.integers(0, 2, (N_ROWS, 2))
    shape = (N_ROWS, n_noise)
    noise = rng.random(shape) if kind == "real" else rng.integers(0, 2, shape)
    X = np.column_stack([signal, noise]).astype(np.float64)
    return X[:, rng.permutation(X.shape[1])], signal[:, 0] ^ signal[:, 1]


def table_name(kind: str, n_noise: int) -> str:
    """Name of the data of a kind and number of noise features; no noise is of no kind."""
    return f"xor-{kind}-{n_noise}" if n_noise else "xor"


def cells(quick: bool) -> list[Cell]:
    """Every method, kind and number of noise features, and seed; quick: 0 and 18, one seed."""
    found = []
    for n_noise in QUICK_NOISE if quick else NOISE:
        for kind in KINDS if n_noise else KINDS[:1]:
            tables, variant = [table_name(kind, n_noise)], {"kind": kind, "noise": n_noise}
            few = {} if quick else {"n_restarts": RESTARTS}
            for name in METHOD_NAMES[kind]:
                wide, paired = n_noise >= WIDE, name in PAIRED
                seeds = SEEDS[:1] if quick or (wide and not paired) else SEEDS
                changes = {**few, **FEWER} if wide and paired else few
                found += method_cells(NAME, tables, [name], seeds, quick, variant, **changes)
    return found


def measure(cell: Cell) -> Metrics:
    """Fit on four fifths of the rows, ask about the others."""
    X, y = make_rows(cell.variant["kind"], cell.variant["noise"], cell.seed)
    train, test = holdout(N_ROWS, cell.seed)
    rows = TrainingRows(X[train], y[train], 2, cell.table)
    tests = {"": (X[test], y[test])}
    return measure_classifier(cell.method, cell.settings, rows, cell.seed, tests)


def render(records: Sequence[Record]) -> list[Block]:
    """A table and curves for either kind of noise."""
    blocks = [Block(text=NOTE)]
    for kind in KINDS:
        chosen = [r for r in records if r.cell.table in _tables(records, kind)]
        table = comparison_block(
            chosen,
            "accuracy",
            _tables(records, kind),
            _methods(records, kind),
            {},
            size=False,
            ours=(*OURS, *BINARY_ONLY),
            heading=f"Accuracy by number of {kind} noise features",
        )
        blocks += [table, Block(figure=_figure(chosen, kind))]
    return blocks


def _tables(records: Sequence[Record], kind: str) -> dict[str, str]:
    """Tables of a kind, by number of noise features; the one without noise belongs to both."""
    counts = {r.cell.variant["noise"] for r in records if _is_of(r, kind)}
    return {table_name(kind, n_noise): str(n_noise) for n_noise in sorted(counts)}


def _is_of(record: Record, kind: str) -> bool:
    return record.cell.variant["kind"] == kind or not record.cell.variant["noise"]


def _methods(records: Sequence[Record], kind: str) -> dict[str, str]:
    """Methods of a kind that have records, in the order of this experiment, and their labels."""
    present = {record.cell.method for record in records}
    return {name: find_method(name).label for name in METHOD_NAMES[kind] if name in present}


def _figure(records: Sequence[Record], kind: str) -> Figure:
    def draw(figure: Any) -> None:
        series = [_series(records, name, label) for name, label in _methods(records, kind).items()]
        shown = [one for one in series if one.x]
        lines(figure, shown, "features, two of which matter", "accuracy", log_x=True)

    alt = f"Accuracy on hidden XOR as {kind} noise features grow in number"
    return Figure(f"{NAME}-{kind}", alt, draw)


def _series(records: Sequence[Record], name: str, label: str) -> Series:
    """Mean accuracy and its spread over seeds, by the number of all features."""
    found: dict[int, list[float | None]] = {}
    for record in records:
        if record.cell.method == name and record.status == "done":
            found.setdefault(record.cell.variant["noise"], []).append(record.metrics["accuracy"])
    counts = sorted(found)
    means = [summary(found[n_noise]) for n_noise in counts]
    return Series(
        label,
        [float(2 + n_noise) for n_noise in counts],
        [one.mean for one in means],
        [one.mean - one.spread for one in means],
        [one.mean + one.spread for one in means],
        ours=name in (*OURS, *BINARY_ONLY),
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Hidden XOR among noise features",
    cells=cells,
    measure=measure,
    render=render,
)
