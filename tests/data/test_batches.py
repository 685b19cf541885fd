"""A row's codes and predictions depend on the row alone, not on the batch it comes in."""

import csv
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from thoroughness import examples

from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn._support.progress import silent
from dtgfn.cli import inputs
from dtgfn.data.binning import encode, fit_binner
from dtgfn.data.csv_dialect import CsvDialect
from dtgfn.data.tables import as_table, take

TEXTS = [
    "1", "1.0", "7", "007", "07", "True", "true", "FALSE", "0", "a", "", " nan", "2.5", "b", "inf",
]  # fmt: skip
NUMBERS = [
    0, 1, 1.0, -0.0, 7, 2.5, 2**53, 2**53 + 1, 1e300, Decimal("2.5"), Decimal(7), Fraction(5, 2),
    np.float32(0.1), np.float64(7), np.int64(1), np.uint8(7), 10**400, float("inf"),
]  # fmt: skip
TRUTHS = [True, False, np.True_, np.False_]
MISSING = [None, float("nan"), pd.NA, np.nan]
CELLS = st.sampled_from([*TEXTS, *NUMBERS, *TRUTHS, *MISSING, b"7", b"a", np.str_("1")])

# What a column may have been in training: a number, a boolean, categories of every sort.
TRAINING = {
    "number": [0.0, 1.0, 2.5, 7.0],
    "number or missing": [0.0, None, 2.5, 7.0],
    "boolean": [True, False, True, False],
    "words": ["a", "b", "a", "True"],
    "mixed": [1, True, "a", 7],
    "padded": ["007", "7", "a", "07"],
    "spelled": ["1.0", "true", "a", None],
    "large": [2**53 + 1, 2**53, "a", "2.5"],
    "numbers as text": ["1", "2.5", "0", "x"],
    "constant": [1.0, 1.0, 1.0, 1.0],
    "one word": ["a", "a", "a", "a"],
    "never there": [None, None, None, None],
}
BINNERS = {
    name: fit_binner(as_table([[cell] for cell in cells])) for name, cells in TRAINING.items()
}


def objects(cells):
    column = np.empty((len(cells), 1), dtype=object)
    column[:, 0] = cells
    return column


CONTAINERS = {
    "rows": lambda cells: [[cell] for cell in cells],
    "objects": objects,
    "pandas": lambda cells: pd.DataFrame(objects(cells)),
    "table": lambda cells: as_table([[cell] for cell in cells]),
}


def piece(batch, place):
    if hasattr(batch, "iloc"):
        return batch.iloc[place : place + 1]
    return take(batch, [place]) if hasattr(batch, "n_rows") else batch[place : place + 1]


def coded(binner, batch):
    """Codes, or None where the batch is refused."""
    try:
        return encode(binner, as_table(batch)).tolist()
    except ValueError:
        return None


def same_alone(binner, batch, n_rows):
    together = coded(binner, batch)
    alone = [coded(binner, piece(batch, place)) for place in range(n_rows)]
    if together is None:
        assert None in alone  # some row is to blame
    else:
        assert [codes for (codes,) in alone] == together


@pytest.mark.parametrize("trained", BINNERS)
@examples(60)
@given(cells=st.lists(CELLS, min_size=1, max_size=5), container=st.sampled_from([*CONTAINERS]))
@example(cells=[1, True, "a"], container="rows")
@example(cells=[1, True], container="rows")
@example(cells=[2**53 + 1, "a"], container="objects")
def test_a_cell_is_coded_by_what_it_is(trained, cells, container):
    try:
        batch = CONTAINERS[container](cells)
    except ValueError:  # infinity makes no table
        return
    same_alone(BINNERS[trained], batch, len(cells))


@pytest.mark.parametrize("trained", BINNERS)
@examples(40)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5), raw=st.booleans())
@example(texts=["07", "a"], raw=False)
def test_a_cell_of_a_string_array_is_coded_by_what_it_is(trained, texts, raw):
    batch = np.array([[text] for text in texts], dtype="S" if raw else str)
    same_alone(BINNERS[trained], batch, len(texts))


@pytest.mark.parametrize("trained", BINNERS)
@pytest.mark.parametrize(
    "dtype", ["Int64", "boolean", "string", "category", "float32", "int8", "bool", "object"]
)
def test_a_cell_of_any_dtype_is_coded_by_what_it_is(trained, dtype):
    cells = {"string": TEXTS[:-1], "category": ["a", "1", "7", None]}.get(dtype, [1, 0, 1, 0])
    if dtype in ("Int64", "boolean"):
        cells = [*cells, None]
    batch = pd.DataFrame({"x0": pd.Series(cells, dtype=dtype)})
    for given_as in (batch, batch.convert_dtypes()):
        same_alone(BINNERS[trained], given_as, len(cells))
    polars = pytest.importorskip("polars")
    same_alone(BINNERS[trained], polars.from_pandas(batch), len(cells))


SPELLINGS = [
    *TEXTS, "TRUE", "False", "NA", "null", "-inf", "1e400", " 1", "1 ", "+1", "1e5", "0x10", "1_0",
    "１", ".5", "1,5", "9007199254740993", "18446744073709551616", "nan ", "+nan", "true ",
]  # fmt: skip


@pytest.mark.parametrize("trained", BINNERS)
@examples(25)
@given(texts=st.lists(st.sampled_from(SPELLINGS), min_size=2, max_size=4))
@example(texts=["True", "2.5"])
@example(texts=["1.0", "False"])
@example(texts=["inf", "a"])
@example(texts=["18446744073709551616", "1_0"])
@example(texts=["18446744073709551616", "NA"])
def test_a_cell_of_a_file_is_coded_by_what_it_is(tmp_path_factory, trained, texts):
    path, model = (
        tmp_path_factory.getbasetemp() / "t.csv",
        SimpleNamespace(binner_=BINNERS[trained]),
    )

    def read(cells):
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([["x0", "other"], *([cell, "k"] for cell in cells)])
        try:
            table = inputs.read_known(
                str(path), CsvDialect(), inputs.text_columns_of(model), silent
            )
            return encode(model.binner_, inputs.columns_for(model, table)).tolist()
        except ValueError:
            return None

    together, alone = read(texts), [read([text]) for text in texts]
    if together is None:
        assert None in alone
    else:
        assert [codes for (codes,) in alone] == together


def test_one_and_true_are_two_categories_in_any_company():
    binner = BINNERS["mixed"]
    one, true, word = encode(binner, as_table([[1], [True], ["a"]])).tolist()
    assert len({tuple(one), tuple(true), tuple(word)}) == 3
    assert encode(binner, as_table([[1], [True]])).tolist() == [one, true]
    assert encode(binner, as_table([[True]])).tolist() == [true]


ROWS = [
    [cell_a, cell_b, cell_c, float(place % 5)]
    for place, (cell_a, cell_b, cell_c) in enumerate(
        zip(TRAINING["mixed"] * 10, TRAINING["number or missing"] * 10, TRAINING["spelled"] * 10,
            strict=True)
    )
]  # fmt: skip
TARGET = np.array([place % 3 == 0 for place in range(40)])
MODELS = {
    "exact": DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=5),
    "mcmc": DTGFNClassifier(inference="mcmc", max_depth=3, options={"n_steps": 300}, n_trees=30),
    "bags": DTGFNClassifier(
        inference="exact",
        max_depth=1,
        n_thresholds=5,
        ensemble="bags",
        options={"n_bags": 3},
    ),
    "numbers": DTGFNRegressor(inference="smc", max_depth=2, n_trees=30),
    "detector": DTGFNAnomalyDetector(inference="mcmc", n_trees=5, time_budget=None),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    chosen = MODELS[request.param].set_params(random_state=0)
    if request.param == "detector":
        return chosen.fit(ROWS)
    return chosen.fit(ROWS, TARGET if hasattr(chosen, "class_weight") else TARGET + 0.5)


@pytest.mark.filterwarnings("ignore")
@examples(15)
@given(
    batch=st.lists(
        st.tuples(
            st.sampled_from([1, True, "a", "1", "True", 7, None, "z", 1.0]),
            st.sampled_from([0.0, 1, True, "2.5", None, Fraction(5, 2), "nan"]),
            st.sampled_from(["1.0", True, 1, "a", None, "true", "other"]),
            st.sampled_from([0.0, 2, "3", None]),
        ).map(list),
        min_size=1,
        max_size=6,
    )
)
def test_a_prediction_depends_on_the_row_alone(model, batch):
    said = model.score_samples if hasattr(model, "score_samples") else model.predict
    said = getattr(model, "predict_proba", said)
    together = said(batch)
    alone = np.concatenate([said(batch[place : place + 1]) for place in range(len(batch))])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-14)
