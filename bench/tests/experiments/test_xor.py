"""Hidden XOR: its data, its cells, and its page, with stand-ins for the methods."""

import dataclasses
import json

import numpy as np
import pytest
from dtgfn_bench import method_lookup
from dtgfn_bench.contract import Method
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments.xor import (
    EXPERIMENT,
    KINDS,
    METHOD_NAMES,
    NOISE,
    PAIRED,
    SEEDS,
    WIDE,
    make_rows,
)
from dtgfn_bench.plots import new_figure


class Nearest:
    """Votes by the training rows that agree in the first columns."""

    def __init__(self, rows, depth):
        self.columns = range(min(depth, rows.X.shape[1]))
        self.rows = rows

    def predict_proba(self, X):
        same = np.ones((len(X), len(self.rows.X)), bool)
        for column in self.columns:
            same &= X[:, column, None] == self.rows.X[None, :, column]
        hits = np.stack([(same & (self.rows.y == c)).sum(axis=1) for c in range(2)], axis=1) + 1e-9
        return hits / hits.sum(axis=1, keepdims=True)

    def size(self):
        return None


def fit(rows, seed, depth):
    return Nearest(rows, depth)


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    for name in METHOD_NAMES["binary"]:
        method = Method(name, name.upper(), fit, "a stand-in", {"depth": 2}, {"depth": 1})
        monkeypatch.setitem(method_lookup.METHODS, name, method)


def measured(quick=True):
    return [
        Record(cell, "key", {"experiment": 1}, "done", EXPERIMENT.measure(cell))
        for cell in EXPERIMENT.cells(quick)
    ]


@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize("n_noise", [0, 2, 18])
def test_two_columns_give_the_label_and_no_other_helps(kind, n_noise):
    X, y = make_rows(kind, n_noise, seed=1)
    assert X.shape == (1000, 2 + n_noise)
    assert X.dtype == np.float64
    whole = [i for i in range(X.shape[1]) if set(X[:, i]) == {0.0, 1.0}]
    assert len(whole) == (2 if kind == "real" else 2 + n_noise)
    pairs = [(i, j) for i in whole for j in whole if i < j]
    right = [
        pair
        for pair in pairs
        if (X[:, pair[0]] != X[:, pair[1]]).astype(int).tolist() == y.tolist()
    ]
    assert len(right) == 1
    assert set(y) == {0, 1}


def test_the_two_columns_are_not_always_the_first():
    places = set()
    for seed in range(1, 6):
        X, _ = make_rows("real", 18, seed)
        places.add(tuple(i for i in range(20) if set(X[:, i]) == {0.0, 1.0}))
    assert len(places) > 1


def test_seeds_give_other_rows_and_the_same_seed_the_same():
    first, again, other = (make_rows("real", 4, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_cells_cover_methods_noise_and_seeds_once():
    cells = EXPERIMENT.cells(False)
    assert {0, 18, 100, 1000} <= set(NOISE)
    narrow = len([n for n in NOISE if n < WIDE])
    per_kind = {"binary": narrow * len(SEEDS) + 1, "real": (narrow - 1) * len(SEEDS) + 1}
    more = len(KINDS) * len(PAIRED) * (len(SEEDS) - 1)  # of ours, with the most noise
    assert len(cells) == sum(len(METHOD_NAMES[kind]) * n for kind, n in per_kind.items()) + more
    told = {json.dumps(dataclasses.asdict(cell), sort_keys=True) for cell in cells}
    assert len(told) == len(cells)
    assert {tuple(cell.settings.items()) for cell in cells} == {(("depth", 2),)}


def test_the_quick_version_is_three_tables_with_quick_settings():
    cells = EXPERIMENT.cells(True)
    assert {cell.table for cell in cells} == {"xor", "xor-binary-18", "xor-real-18"}
    assert len(cells) == 2 * len(METHOD_NAMES["binary"]) + len(METHOD_NAMES["real"])
    assert {tuple(cell.settings.items()) for cell in cells} == {(("depth", 1),)}


def test_what_knows_both_columns_is_always_right():
    cell = next(cell for cell in EXPERIMENT.cells(False) if cell.table == "xor")
    assert EXPERIMENT.measure(cell)["accuracy"] == 1.0
    alone = EXPERIMENT.measure(dataclasses.replace(cell, settings={"depth": 1}))
    assert 0.3 < alone["accuracy"] < 0.7


def test_the_page_has_a_table_and_a_plot_for_either_kind():
    pytest.importorskip("matplotlib", reason="draws")
    blocks = EXPERIMENT.render(measured())
    tables = [block for block in blocks if block.rows]
    assert [table.rows[0] for table in tables] == [["Method", "0", "18"]] * 2
    n_methods = [len(METHOD_NAMES[kind]) for kind in KINDS]
    assert [len(table.rows) - 1 for table in tables] == n_methods
    figures = [block.figure for block in blocks if block.figure]
    assert len(figures) == 2
    for one, n_lines in zip(figures, n_methods, strict=True):
        figure = new_figure(one.inches)
        one.draw(figure)
        assert len(figure.axes[0].lines) >= n_lines


def test_what_is_missing_or_failed_is_shown():
    records = measured()
    lost = [
        dataclasses.replace(record, status=status, metrics={}, reason="no reason")
        for record, status in zip(records[:2], ("failed", "missing"), strict=True)
    ]
    blocks = EXPERIMENT.render(lost + records[2:])
    text = "".join(cell for block in blocks for row in block.rows for cell in row)
    assert "failed" in text
    assert "not installed" in text
    assert any("no reason" in block.text for block in blocks)


def test_a_page_of_nothing_is_still_a_page():
    from dtgfn_bench.pages import svg

    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    figures = [block.figure for block in EXPERIMENT.render([]) if block.figure is not None]
    assert figures
    assert all("nothing measured yet" in svg(figure) for figure in figures)
