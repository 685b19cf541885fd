"""Settings compared by evidence: the prior's own mass, and what is done with it."""

import math

import numpy as np
import pytest
from enumeration import Case, Enumeration, n_splits
from scipy.special import logsumexp
from sklearn.datasets import load_iris

import dtgfn
from dtgfn.inference.prior_mass import log_prior_mass
from dtgfn.inference.select import Selection, select


def make_case(seed, **changes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (10, 3)).astype(np.uint16)
    return Case(codes, rng.integers(0, 2, 10), 2, **changes)


def listed_mass(case):
    """Sum of the prior over every valid tree."""
    return logsumexp([-case.split_penalty * n_splits(tree) for tree in Enumeration(case).trees])


@pytest.mark.parametrize("penalty", [0.5, 4.0])
def test_prior_mass_is_the_sum_over_valid_trees(penalty):
    case = make_case(0, split_penalty=penalty, max_depth=2)
    expected = listed_mass(case)
    found, error = log_prior_mass(case.rows, case.score, exact=True)
    assert (found, error) == (pytest.approx(expected), 0.0)
    found, error = log_prior_mass(case.rows, case.score)
    assert 0 < error < 0.1
    assert found == pytest.approx(expected, abs=5 * error)


def test_prior_mass_knows_neither_labels_nor_weights_nor_temperature():
    case = make_case(1, split_penalty=1.0)
    other = case.but(labels=1 - case.labels, weight=np.full(10, 2.5), temperature=3.0)
    first = log_prior_mass(case.rows, case.score, exact=True)
    assert first == log_prior_mass(other.rows, other.score, exact=True)


def test_the_branching_prior_sums_to_one():
    case = make_case(2, split_penalty="bcart")
    assert log_prior_mass(case.rows, case.score) == (0.0, 0.0)
    listed = Enumeration(case)
    no_rows_matter = [
        log_r - sum(listed.log_marginal(rows) for rows in leaves_of(listed, tree))
        for tree, log_r in zip(listed.trees, listed.log_rewards, strict=True)
    ]
    assert logsumexp(no_rows_matter) == pytest.approx(0.0, abs=1e-12)


def leaves_of(listed, tree, rows=None):
    rows = listed.everything if rows is None else rows
    if not tree:
        return [rows]
    left, right = listed.sides(rows, *tree[:2])
    return leaves_of(listed, tree[2], left) + leaves_of(listed, tree[3], right)


def test_evidences_of_all_labellings_add_up_to_one():
    """Only a proper prior makes P(y | X) a distribution over y, whatever the penalty."""
    codes = np.array([[0, 1], [1, 0], [2, 1], [2, 2]], dtype=np.uint16)
    for penalty in (0.3, 2.0):
        total = 0.0
        for bits in range(16):
            labels = np.array([bits >> i & 1 for i in range(4)])
            case = Case(codes, labels, 2, split_penalty=penalty, max_depth=2)
            mass, _ = log_prior_mass(case.rows, case.score, exact=True)
            total += math.exp(Enumeration(case).log_z - mass)
        assert total == pytest.approx(1.0)


X, Y = load_iris(return_X_y=True)
GRID = {"max_depth": [1, 2], "split_penalty": ["mdl", "paper"], "n_thresholds": 9}


def test_the_winner_has_the_largest_evidence_and_its_own_posterior():
    found = select(X, Y, **GRID, engine="exact", n_trees=50, random_state=0)
    assert isinstance(found, Selection)
    table = found.table
    assert len(table) == 4
    assert table["comparable"].all()
    assert table["log_evidence"].is_monotonic_decreasing
    assert found.best == {name: table[name][0] for name in found.best}
    again = dtgfn.infer(X, Y, **found.best, engine="exact", n_trees=1)
    assert found.posterior.log_evidence == pytest.approx(again.log_evidence)
    mass, _ = log_prior_mass(again.rows, again.score, exact=True)
    assert table["log_evidence"][0] == pytest.approx(again.log_evidence - mass)


def test_engines_agree_on_the_table():
    exact = select(X, Y, **GRID, engine="exact", n_trees=500, random_state=0).table
    particles = select(X, Y, **GRID, engine="smc", n_trees=500, random_state=0).table
    keys = ["max_depth", "split_penalty"]
    exact, particles = (table.sort_values(keys) for table in (exact, particles))
    np.testing.assert_allclose(exact["log_evidence"], particles["log_evidence"], atol=1.5)
    np.testing.assert_allclose(exact["log_score"], particles["log_score"], atol=0.05)


def test_by_score_needs_no_evidence():
    grid = {"max_depth": [0, 2], "n_thresholds": 9, "n_trees": 100, "n_steps": 2000}
    found = select(X, Y, **grid, engine="mcmc", by="score", random_state=0)
    assert found.best["max_depth"] == 2
    assert not found.table["comparable"].any()
    with pytest.raises(ValueError, match="does not estimate the evidence"):
        select(X, Y, **grid, engine="mcmc")


def test_a_refused_setting_is_told_and_not_chosen():
    given = {"engine": "exact", "n_trees": 10, "memory_budget": 1_000_000}
    found = select(X, Y, max_depth=[1, 5], **given)
    assert found.best["max_depth"] == 1
    assert found.table["note"][1]
    assert not found.table["comparable"][1]
    with pytest.raises(ValueError, match="None of the 1 settings could be judged"):
        select(X, Y, max_depth=5, **given)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="by='accuracy' is not known"):
        select(X, Y, by="accuracy")
    with pytest.raises(ValueError, match="A list of settings is empty"):
        select(X, Y, max_depth=[])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": 2.0}, "temperature=2.0 has no evidence"),
        ({"temperature": "auto"}, "temperature='auto' has no evidence"),
        ({"split_penalty": "auto"}, "split_penalty='auto' chooses by itself; give select"),
        ({"ensemble": "bags"}, "ensemble='bags' cannot be selected with"),
    ],
)
def test_what_has_no_evidence_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        select([[1.0], [2.0]], [0, 1], engine="exact", **given)


def test_a_tuple_is_as_good_as_a_list():
    X, y = [[1.0], [2.0], [3.0], [4.0]] * 3, [0, 0, 1, 1] * 3
    found = select(X, y, max_depth=(0, 1), n_thresholds=3, engine="exact", random_state=0)
    assert found.best["max_depth"] == 1
    prior = ("bcart", 0.5, 1.0)
    assert len(select(X, y, split_penalty=prior, max_depth=1, engine="exact").table) == 1


@pytest.mark.parametrize("several", [range(2), np.arange(2), iter([0, 1]), {0: "", 1: ""}.keys()])
def test_any_iterable_of_values_will_do(several):
    X, y = [[1.0], [2.0], [3.0], [4.0]] * 3, [0, 0, 1, 1] * 3
    found = select(X, y, max_depth=several, n_thresholds=3, engine="exact", random_state=0)
    assert sorted(found.table["max_depth"]) == [0, 1]
    assert repr(found.best["max_depth"]) == "1"


@pytest.mark.parametrize("call", [select, dtgfn.infer])
def test_the_estimators_name_of_the_engine_is_explained(call):
    with pytest.raises(ValueError, match=r"inference='exact' is the name .* give engine='exact'\."):
        call([[1.0], [2.0]], [0, 1], inference="exact")
