"""The target of mini-batch rewards, against the mean over every batch there is."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from dtgfn_bench.batch_target import SCALINGS, BatchLeaf, batch_target, mean_log_gammas
from scipy.special import gammaln, logsumexp

from dtgfn import infer
from dtgfn.trees.score import BranchingPrior, Rows, log_likelihood, log_prior, log_reward

N_BATCH = 3


@pytest.fixture(scope="module")
def exact():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (8, 2)).astype(float)
    y = np.array([0, 0, 1, 1, 2, 0, 1, 2])
    return infer(X, y, engine="exact", max_depth=2, n_thresholds=2, split_penalty=0.7, n_trees=300)


def mean_log_reward(exact, scaling):
    """E[log R_b / temperature] by going through all batches, each factor where it belongs."""
    rows, n_rows = exact.rows, len(exact.rows.target)
    likelihood = [
        log_likelihood(
            exact.trees,
            Rows(rows.codes[list(b)], rows.target[list(b)], rows.weight[list(b)]),
            exact.score,
        )
        for b in combinations(range(n_rows), N_BATCH)
    ]
    factor = n_rows / N_BATCH
    of_likelihood, of_prior = {
        "likelihood": (factor, 1),
        "both": (factor, factor),
        "neither": (1, 1),
    }[scaling]
    prior = log_prior(exact.trees, rows, exact.score)
    return of_likelihood * np.mean(likelihood, axis=0) + of_prior * prior


@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_target_is_the_mean_of_log_rewards_over_all_batches(exact, scaling):
    target = batch_target(exact.score, len(exact.rows.target), N_BATCH, scaling)
    found = log_reward(exact.trees, exact.rows, target) / target.temperature
    np.testing.assert_allclose(found, mean_log_reward(exact, scaling), rtol=0, atol=1e-9)


def test_a_batch_of_all_rows_changes_nothing(exact):
    n_rows = len(exact.rows.target)
    for scaling in SCALINGS:
        found = log_reward(
            exact.trees, exact.rows, batch_target(exact.score, n_rows, n_rows, scaling)
        )
        np.testing.assert_allclose(found, exact.log_reward, rtol=0, atol=1e-9)


def test_the_exact_engine_sums_over_the_target(exact):
    """Its evidence and its draws are those of rewards summed one by one."""
    from dtgfn.engines.contract import Run
    from dtgfn.engines.exact.engine import infer_exact
    from dtgfn.trees.batch import distinct_trees

    target = batch_target(exact.score, len(exact.rows.target), N_BATCH, "both")
    run = Run(column=np.arange(2, dtype=np.int32), n_columns=2, n_trees=5000, random_state=0)
    # A flat target meets every tree; its reward then has to be counted out.
    flat = infer_exact(exact.rows, replace(target, temperature=1e6), run)
    trees = flat.trees[distinct_trees(flat.trees)[0]]
    reward = log_reward(trees, exact.rows, target)
    found = infer_exact(exact.rows, target, run)
    assert found.log_evidence == pytest.approx(logsumexp(reward), abs=1e-9)
    splits = (trees.feature >= 0).sum(axis=1)
    mean = (np.exp(reward - found.log_evidence) * splits).sum()
    assert found.mean_splits == pytest.approx(mean, abs=1e-9)


def test_a_batch_of_one_row_has_it_or_not():
    means = mean_log_gammas(4, 1, 0.5)
    once = gammaln(1.5) - gammaln(0.5)
    np.testing.assert_allclose(means, np.arange(5) / 4 * once, atol=1e-12)


def test_what_has_no_such_target_is_refused(exact):
    with pytest.raises(ValueError, match="likelihood, both, neither"):
        batch_target(exact.score, 8, 3, "prior")
    with pytest.raises(TypeError, match="penalty"):
        batch_target(replace(exact.score, prior=BranchingPrior()), 8, 3, "both")
    assert BatchLeaf(3, 0.1, 8, 3).terms().gammas.shape == (2, 9)
