"""The number of trees against the paper's sum, against its printed numbers, and by listing all."""

import itertools
import json
import math
from decimal import Decimal

import pytest
from dtgfn_bench.experiment import Record
from dtgfn_bench.experiments.search_space import (
    DEPTHS,
    EXPERIMENT,
    FEATURES,
    count_trees,
    in_powers,
)
from dtgfn_bench.paper import SEARCH_SPACE
from dtgfn_bench.plots import new_figure
from hypothesis import given
from hypothesis import strategies as st


def paper_sum(depth, p):
    """The paper's nested sum: n nodes of a level have 2n children, of which some are split."""

    def deeper(level, n):
        if level == depth:
            return 1
        return sum(
            math.comb(2 * n, split) * (p - level) ** split * deeper(level + 1, split)
            for split in range(1, 2 * n + 1)
        )

    return p * deeper(1, 1)


def all_trees(depth, features):
    """Every tree with at least one split: a feature and two children, None for a leaf."""
    if depth == 0:
        return
    for feature in features:
        rest = features - {feature}
        children = [None, *all_trees(depth - 1, rest)]
        for left, right in itertools.product(children, children):
            yield (feature, left, right)


@pytest.mark.parametrize(("depth", "p"), [(1, 4), (2, 4), (3, 3), (3, 4), (4, 3), (2, 1), (9, 2)])
def test_the_count_is_the_length_of_the_list_of_all_trees(depth, p):
    trees = list(all_trees(depth, frozenset(range(p))))
    assert len(trees) == len(set(trees)) == count_trees(depth, p)


@pytest.mark.parametrize("p", [5, 7, 10, 20])
@pytest.mark.parametrize("depth", range(1, 5))
def test_the_recursion_equals_the_papers_sum(depth, p):
    assert count_trees(depth, p) == sum(paper_sum(d, p) for d in range(1, depth + 1))


@pytest.mark.parametrize("place", SEARCH_SPACE)
def test_the_printed_numbers_come_out(place):
    assert float(in_powers(count_trees(*place))) == SEARCH_SPACE[place]


def test_the_depth_that_the_paper_calls_prohibitive():
    assert count_trees(5, 10) == 650_600_424_667_304_190_489_601_000
    assert f"{count_trees(5, 20):.3e}" == "2.577e+38"


def test_trees_no_deeper_than_there_are_features():
    assert count_trees(3, 3) == count_trees(50, 3)
    assert count_trees(0, 5) == count_trees(5, 0) == 0


@given(st.integers(1, 10**40))
def test_powers_are_cut_off_after_four_digits(number):
    told = Decimal(in_powers(number))
    assert told <= number < told + Decimal(10) ** (len(str(number)) - 4)
    assert 1 <= float(in_powers(number).split("e")[0]) < 10


def records(status="done"):
    for cell in EXPERIMENT.cells(False):
        metrics = EXPERIMENT.measure(cell) if status == "done" else {}
        yield Record(cell, "key", {"experiment": 1}, status, metrics, reason="broken")


def test_cells_are_plain_and_all_different():
    cells = EXPERIMENT.cells(True)
    assert len(cells) == len(DEPTHS) * len(FEATURES)
    assert len({json.dumps(dict(cell.variant)) for cell in cells}) == len(cells)


def test_metrics_are_finite_floats():
    for record in records():
        assert math.isfinite(record.metrics["log10_trees"])


def test_the_page_shows_the_papers_numbers_beside_ours():
    table, exact, _ = EXPERIMENT.render(list(records()))
    assert table.rows[0] == ["d", "p = 10", "p = 10, paper", "p = 20", "p = 20, paper"]
    assert table.rows[3] == ["3", "5.329e6", "5.329e6", "9.411e8", "9.411e8"]
    assert table.rows[4] == ["4", "5.609e13", "5.609e13", "8.358e18", "8.358e18"]
    assert table.rows[5] == ["5", "6.506e26", "–", "2.576e38", "–"]
    assert len(table.rows) == 1 + len(DEPTHS)
    digits = {tuple(row[:2]): row[2].replace(" ", "") for row in exact.rows[1:]}
    assert int(digits["8", "20"]) == count_trees(8, 20)


def test_a_count_that_failed_is_told():
    table, *_ = EXPERIMENT.render(list(records("failed")))
    assert "Not counted: broken." in table.text


def test_the_plot_has_a_line_for_each_number_of_features():
    pytest.importorskip("matplotlib", reason="draws")
    *_, block = EXPERIMENT.render(list(records()))
    figure = new_figure(block.figure.inches)
    block.figure.draw(figure)
    assert len(figure.axes[0].lines) == len(FEATURES)
