"""The paper's figures, against the text that they were copied from where that is at hand."""

import os
from pathlib import Path

import pytest
from dtgfn_bench.paper import (
    ANOMALIES,
    AUXILIARY,
    COST,
    ENSEMBLES,
    SEARCH_SPACE,
    SHIFT,
    SINGLE_TREES,
    TABLES,
    Number,
)

NAMES = {
    "SMC": "smc",
    "MCMC": "mcmc",
    "MAPTree": "maptree",
    "BCART": "bcart",
    "(a*,b*)-Tsallis": "tsallis",
    "CART-Gini": "cart-gini",
    "CART-Entropy": "cart-entropy",
    "DPDT-4": "dpdt",
    "Quant-BnB": "quant-bnb",
    "Greedy RF": "forest",
    "RF": "forest",
    "XGBoost": "xgboost",
    "CatBoost": "catboost",
    "LightGBM": "lightgbm",
    "MLP": "mlp",
    "TabTransformer": "tab-transformer",
    "FTTransformer": "ft-transformer",
    "DROCC": "drocc",
    "GOAD": "goad",
    "ICL (Shenkar & Wolf)": "icl",
    "COPOD": "copod",
    "IForest": "isolation-forest",
    "KNN": "knn",
    "PIDForest": "pidforest",
    "RRCF": "rrcf",
    "Wu": "wu",
    "HMC-DF": "hmc-df",
    "HMC-DFI": "hmc-dfi",
    "DCC-Tree": "dcc-tree",
    "DT-GFN": "dt-gfn",
}


def test_a_number_keeps_how_it_was_printed():
    number = Number("0.911±1.2e-16")
    assert (number.value, number.spread) == (0.911, 1.2e-16)
    assert str(Number("3.80±0.45")) == "3.80 ± 0.45"
    assert Number("0.98").spread is None


def test_every_table_is_complete():
    for printed, n_methods in ((SINGLE_TREES, 10), (ENSEMBLES, 8), (AUXILIARY, 7), (ANOMALIES, 9)):
        assert len({method for method, _ in printed}) == n_methods
        assert {table for _, table in printed} <= TABLES.keys()
    assert len(SINGLE_TREES) == 40
    assert len(ENSEMBLES) == 32
    assert len(SHIFT) == 32
    assert len(AUXILIARY) == 26
    assert len(ANOMALIES) == 35
    assert len(COST) == 8


def test_the_search_space_follows_from_its_recurrence():
    def trees(depth, features):
        """A split on one feature, each side a leaf or a tree of the other features."""
        if depth == 0:
            return 0
        return features * (1 + trees(depth - 1, features - 1)) ** 2

    for (depth, features), printed in SEARCH_SPACE.items():
        assert printed == pytest.approx(trees(depth, features), rel=2e-4)


@pytest.fixture(scope="module")
def printed_tables():
    folder = os.environ.get("DTGFN_DATA_DIR")
    if not folder or not (path := Path(folder).parent / "paper-figures.md").exists():
        pytest.skip("the text of the paper's figures is not beside DTGFN_DATA_DIR")
    tables = {}
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").split(" (")[0].split(",")[0]
        elif line.startswith("|"):
            tables.setdefault(heading, []).append([c.strip() for c in line.strip("| ").split("|")])
    return {heading: rows[:1] + rows[2:] for heading, rows in tables.items()}


def method_numbers(rows):
    return {NAMES[row[0]]: row[1:] for row in rows[1:]}


@pytest.mark.parametrize(
    ("heading", "ours"), [("Single trees", SINGLE_TREES), ("Ensembles", ENSEMBLES)]
)
def test_scores_and_sizes_are_those_printed(printed_tables, heading, ours):
    tables = ["iris", "wine", "breast-cancer", "raisin"]
    found = method_numbers(printed_tables[heading])
    for method, cells in found.items():
        for table, score, size in zip(tables, cells[::2], cells[1::2], strict=True):
            entry = ours[method, table]
            assert entry.score.text == score
            assert (entry.size.text if entry.size else "-") == size
    assert len(ours) == 4 * len(found)


@pytest.mark.parametrize(
    ("heading", "ours", "columns"),
    [
        ("Distribution shift on Pima", SHIFT, ["bmi-in", "bmi-out", "age-in", "age-out"]),
        ("Anomaly detection", ANOMALIES, ["thyroid", "ecoli", "vertebral", "glass"]),
        (
            "Further Bayesian trees",
            AUXILIARY,
            ["iris", "wine", "breast-cancer-original", "raisin"],
        ),
    ],
)
def test_scores_are_those_printed(printed_tables, heading, ours, columns):
    expected = {
        (method, column): cell
        for method, cells in method_numbers(printed_tables[heading]).items()
        for column, cell in zip(columns, cells, strict=True)
        if cell != "-"
    }
    assert {key: entry.score.text for key, entry in ours.items()} == expected


def test_cost_and_search_space_are_those_printed(printed_tables):
    by_label = {label: name for name, label in TABLES.items()}
    cost = printed_tables["Cost"]
    for label, depth, *seconds in cost[1:]:
        found = COST[by_label[label], int(depth)]
        assert [found.train_1, found.draw_1, found.train_100, found.draw_100] == [
            float(second) for second in seconds
        ]
    assert len(cost) - 1 == len(COST)
    space = printed_tables["Search-space size"]
    expected = {
        (int(depth), features): float(count)
        for depth, *counts in space[1:]
        for features, count in zip((10, 20), counts, strict=True)
    }
    assert expected == SEARCH_SPACE
