"""The leave-one-out log score against refits, and the temperature that it chooses."""

import math

import numpy as np
import pytest
from enumeration import Case, Enumeration, to_batch
from keyword_engines import infer_exact

from dtgfn.inference.temperature import TEMPERATURES, choose_temperature, leave_one_out
from dtgfn.posterior.weighted_trees import sampled_posterior


def small_case(seed, **changes):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (9, 2)).astype(np.uint16)
    case = Case(codes, rng.integers(0, 3, 9), 3, max_depth=2, leaf_concentration=0.5)
    return case.but(split_penalty=1.5, **changes)


def everything(case):
    """Every tree of a case, weighted by its share of the target."""
    listed = Enumeration(case)
    trees = to_batch(listed.trees)
    log_weight = listed.log_rewards / case.temperature
    return sampled_posterior(
        trees,
        log_reward=listed.log_rewards,
        log_prob=np.full(len(trees), np.nan),
        log_weight=log_weight,
        log_evidence=listed.log_z,
        log_evidence_error=0.0,
        rows=case.rows,
        score=case.score,
        column=case.columns,
        n_columns=case.n_columns,
        engine="all",
    )


def refitted(case, i):
    """P(y_i | x_i, the other rows) by enumerating the trees of the other rows."""
    others = np.arange(len(case.labels)) != i
    weight = case.weight[others]
    rest = case.but(codes=case.codes[others], labels=case.labels[others], weight=weight)
    return Enumeration(rest).average(case.codes[i : i + 1])[0, case.labels[i]]


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("seed", range(3))
def test_leaving_a_row_out_is_a_refit_without_it(seed, temperature):
    case = small_case(seed, temperature=temperature)
    found = leave_one_out(everything(case))
    expected = [refitted(case, i) for i in range(9)]
    np.testing.assert_allclose(np.exp(found.log_prob), expected, rtol=1e-10)
    assert found.score == pytest.approx(np.mean(np.log(expected)))


def test_weighted_rows_are_left_out_whole():
    weight = np.array([1.0, 1.5, 0.5, 1.0, 1.7, 1.0, 0.7, 1.0, 1.2])
    case = small_case(4, weight=weight, temperature=1.5)
    found = leave_one_out(everything(case))
    expected = np.log([refitted(case, i) for i in range(9)])
    np.testing.assert_allclose(found.log_prob, expected, rtol=1e-9)
    assert found.score == pytest.approx(np.average(expected, weights=weight))


def test_exact_draws_come_near_the_refits():
    case = small_case(0)
    posterior = infer_exact(
        case.rows, case.score, column=case.columns, n_columns=2, n_trees=20_000, random_state=0
    )
    expected = np.log([refitted(case, i) for i in range(9)])
    np.testing.assert_allclose(leave_one_out(posterior).log_prob, expected, atol=0.05)


def test_a_row_alone_in_its_leaf_in_every_tree_gets_an_even_guess():
    codes = np.array([[0], [1], [1], [1]], dtype=np.uint16)
    case = Case(codes, np.array([1, 0, 0, 0]), 2, max_depth=1, split_penalty=0.0)
    posterior = everything(case)
    only_stump = posterior.trees.n_splits == 1
    stumps = sampled_posterior(
        posterior.trees[only_stump],
        log_reward=posterior.log_reward[only_stump],
        log_prob=np.full(1, np.nan),
        log_weight=np.zeros(1),
        log_evidence=0.0,
        log_evidence_error=0.0,
        rows=case.rows,
        score=case.score,
        column=case.columns,
        n_columns=1,
        engine="stumps",
    )
    found = leave_one_out(stumps)
    assert found.log_prob[0] == pytest.approx(math.log(0.5))
    assert found.effective[0] == 0.0
    assert found.effective[1:].min() == pytest.approx(1.0)


def test_rows_are_taken_in_parts_of_any_size(monkeypatch):
    posterior = everything(small_case(1))
    whole = leave_one_out(posterior).log_prob
    monkeypatch.setattr("dtgfn.inference.temperature.CHUNK", 1)
    np.testing.assert_allclose(leave_one_out(posterior).log_prob, whole, rtol=1e-12)


def test_the_error_is_the_spread_of_the_rows():
    found = leave_one_out(everything(small_case(2)))
    assert found.error == pytest.approx(found.log_prob.std() / 3)


def test_the_chosen_temperature_has_the_best_score_and_its_own_posterior():
    case = small_case(3)
    asked = []

    def infer_at(temperature, seconds):
        asked.append((temperature, seconds))
        return everything(case.but(temperature=temperature))

    choice = choose_temperature(infer_at, time_budget=9e6)
    table = choice.table
    assert table["temperature"].tolist() == [t for t, _ in asked]
    assert choice.temperature == table["temperature"][table["log_score"].idxmax()]
    assert choice.posterior.score.temperature == choice.temperature
    assert asked[0][1] == pytest.approx(1e6, rel=0.1)
    assert all(seconds > 0 for _, seconds in asked)
    best = table["log_score"].idxmax()
    ended = len(table) == len(TEMPERATURES) or best == len(table) - 3
    assert ended


def test_no_temperature_is_refused():
    with pytest.raises(ValueError, match="temperatures is empty"):
        choose_temperature(lambda temperature, seconds: None, temperatures=())
