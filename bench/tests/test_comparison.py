"""Blocks of methods against each other and the paper."""

import math

import numpy as np
import pytest
from dtgfn_bench.comparison import comparison_block, paired_block, rank_block
from dtgfn_bench.experiment import Cell, Record
from dtgfn_bench.paper import SINGLE_TREES, Number, Printed


def record(method, table, seed, accuracy, status="done", reason="", **metrics):
    found = {"accuracy": accuracy, **metrics} if status == "done" else {}
    return Record(
        Cell("trees", table, method, seed), "key", {"experiment": 1}, status, found, reason
    )


def records_of(**accuracies):
    """One table, Iris; one record for each seed."""
    return [
        record(method, "iris", seed, accuracy)
        for method, values in accuracies.items()
        for seed, accuracy in enumerate(values, 1)
    ]


def test_a_cell_shows_ours_the_papers_and_the_sizes():
    records = [
        record("cart-gini", "iris", 1, 0.9, size=14.0),
        record("cart-gini", "iris", 2, 1.0, size=15.0),
        record("gfn", "iris", 1, 0.8, size=None),
        record("gfn", "iris", 2, 0.8, size=None),
    ]
    methods = {"gfn": "Ours*", "cart-gini": "CART", "dt-gfn": "DT-GFN as printed"}
    block = comparison_block(records, "accuracy", ["iris"], methods, SINGLE_TREES, ours=["gfn"])
    assert block.rows == [
        ["Method", "Iris"],
        [r"★ **Ours\***", "0.800 ± 0.000"],
        ["CART", "**0.950** ± 0.050\npaper 0.9494 ± 0.02\n14.5 nodes, paper 14.6"],
        ["DT-GFN as printed", "paper 0.98 ± 0.04\npaper 8.6 nodes"],
    ]
    assert block.text == ""


def test_ties_as_shown_are_all_bold_and_fewer_seeds_never_are():
    records = records_of(a=[0.9, 0.9], b=[0.90001, 0.9], c=[0.99], d=[0.1, 0.2])
    rows = comparison_block(records, "accuracy", ["iris"], list("abcd"), {}, size=False).rows
    assert ["**" in row[1] for row in rows[1:]] == [True, True, False, False]
    assert [row[1].endswith("\n1 of 2 seeds") for row in rows[1:]] == [False, False, True, False]
    low = comparison_block(
        records, "accuracy", ["iris"], list("abcd"), {}, size=False, higher_is_better=False
    )
    assert ["**" in row[1] for row in low.rows[1:]] == [False, False, False, True]


def test_what_is_missing_or_failed_is_said_in_footnotes():
    records = [
        record("a", "iris", 1, 0, "missing", "needs catboost: pip install 'dtgfn-bench[more]'"),
        record("a", "wine", 1, 0, "missing", "needs catboost: pip install 'dtgfn-bench[more]'"),
        record("b", "iris", 1, 0.5),
        record("b", "iris", 2, 0, "failed", "ValueError: a|b\nsecond line"),
        record("b", "wine", 1, 0, "failed", "x" * 1000),
    ]
    paper = {("a", "iris"): Printed(Number("0.9"))}
    block = comparison_block(records, "accuracy", ["iris", "wine"], ["a", "b", "c"], paper)
    assert block.rows[1] == ["a", "not installed (1)\npaper 0.9", "not installed (1)"]
    assert block.rows[2] == ["b", "0.500\nfailed: 1 of 2 seeds (2)", "failed (3)"]
    assert block.rows[3] == ["c", "–", "–"]
    notes = block.text.splitlines()
    assert notes[0] == r"1. a: needs catboost: pip install 'dtgfn-bench\[more\]'"
    assert notes[1] == r"2. b on Iris, seed 2: ValueError: a\|b second line"
    assert len(notes) == 3
    assert len(notes[2]) < 260


def test_a_metric_without_a_value_is_undefined():
    block = comparison_block(records_of(a=[math.nan, None]), "accuracy", ["iris"], ["a"], {})
    assert block.rows[1] == ["a", "undefined"]


def test_two_variants_in_one_table_are_refused():
    with pytest.raises(ValueError, match="choose one variant"):
        comparison_block(records_of(a=[0.1]) * 2, "accuracy", ["iris"], ["a"], {})


def test_pairs_are_with_the_best_rival_of_each_table():
    records = records_of(ours=[0.9, 0.8, 0.7], bad=[0.1, 0.2, 0.3], good=[0.8, 0.8, 0.8])
    block = paired_block(
        records, "accuracy", "ours", {"bad": "Bad", "good": "Good"}, label="Our trees"
    )
    (row,) = block.rows[1:]
    assert row == ["Iris", "Good", "+0.000", "-0.100 to +0.100", "1.000", "1 / 1 / 1"]
    assert "Our trees" in block.text
    assert "with 3 pairs, p cannot fall below 0.25" in block.text


def test_pairs_over_all_tables_and_lower_is_better():
    records = [
        record(method, table, seed, loss)
        for table in ("iris", "wine")
        for seed in (1, 2)
        for method, loss in (("ours", 0.1 * seed), ("rival", 0.3), ("worse", 0.5))
    ]
    block = paired_block(records, "accuracy", "ours", ["rival", "worse"], higher_is_better=False)
    assert [row[0] for row in block.rows[1:]] == ["Iris", "Wine", "All"]
    assert block.rows[3][1:] == [
        "the best on each",
        "-0.150",
        block.rows[3][3],
        "0.125",
        "4 / 0 / 0",
    ]


def test_pairs_cope_with_one_seed_and_with_nothing():
    one = paired_block(records_of(ours=[0.9], other=[0.8]), "accuracy", "ours", ["other"])
    assert one.rows[1] == ["Iris", "other", "+0.100", "one pair only", "1.000", "1 / 0 / 0"]
    none = paired_block(records_of(ours=[0.9]), "accuracy", "ours", ["other"])
    assert none.rows[1][1] == "nothing to compare"


def ranked_records():
    rng = np.random.default_rng(0)
    return [
        record(method, table, seed, rng.normal() + 3 * at)
        for table in ("iris", "wine")
        for seed in range(8)
        for at, method in enumerate(["worst", "middle", "best"])
    ]


def test_ranks_leave_out_methods_with_gaps_and_say_so():
    records = [
        *ranked_records(),
        record("gap", "iris", 1, 0.5),
        record("absent", "iris", 1, 0, "missing", "needs x"),
    ]
    methods = {"worst": "W", "middle": "M", "best": "B", "gap": "Gap", "absent": "Absent"}
    block = rank_block(records, "accuracy", ["iris", "wine"], methods=methods, ours=["best"])
    assert "Left out, for want of some blocks: Gap, Absent." in block.text
    assert "over 16 blocks" in block.text
    assert block.figure.alt.startswith("Mean rank by accuracy, best first: B 1.")
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    from dtgfn_bench.pages import svg

    assert "  W<" in svg(block.figure)


def test_ranks_of_one_method_are_no_figure():
    assert rank_block(records_of(a=[0.1, 0.2]), "accuracy", ["iris"]).figure is None
    assert "Too few" in rank_block(records_of(a=[0.1]), "accuracy", ["iris"]).text
    assert rank_block(ranked_records(), "accuracy", ["iris"]).figure is not None
