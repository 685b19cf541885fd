"""The paper's detector: its leaves by hand, its readings, and the target that one label leaves."""

from dataclasses import replace

import numpy as np
import pytest
from dtgfn_bench.contract import TrainingRows
from dtgfn_bench.ours import paper_detector
from dtgfn_bench.ours.paper_detector import CONCENTRATION, METHODS, with_probes
from scipy.special import gammaln

from dtgfn.posterior.prediction import Predictor
from dtgfn.trees.batch import route
from dtgfn.trees.score import log_prior

NAMED = {method.name: method for method in METHODS}
LITTLE = {"n_trees": 50, "n_steps": 2}


def made_rows(n=40, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return TrainingRows(X, np.zeros(n, dtype=np.int64), 1, "made")


def fit(name, rows, **changes):
    return NAMED[name].fit(rows, 3, **{**NAMED[name].settings, **LITTLE, **changes})


def leaf_counts(trees, codes):
    """Training rows in the leaf of each row by each tree [B, n]."""
    leaf = route(trees, codes)
    return (leaf[:, :, None] == leaf[:, None, :]).sum(axis=2)


@pytest.mark.parametrize("name", NAMED)
def test_keeps_the_contract(name):
    rows, new = made_rows(), made_rows(30, seed=1)
    one = fit(name, rows)
    paper_detector._trained.cache_clear()
    two = fit(name, rows)
    scores = one.score(new.X)
    assert scores.shape == (30,)
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_array_equal(scores, two.score(new.X))
    np.testing.assert_array_equal(one.training_scores(), one.score(rows.X))
    assert one.size() >= 1


def test_readings_that_train_alike_share_a_policy_and_its_seconds():
    """A fit that found its policy trained counts those seconds as its own; its answers are one's.

    Another seed, other rows or another reward is another policy.
    """
    rows = made_rows()
    paper_detector._trained.cache_clear()
    own = fit("dtgfn-detector-paper", rows)
    lent = fit("dtgfn-detector-tree-paper-means", rows)
    assert lent.predictor.posterior is own.predictor.posterior
    _, trained = paper_detector._trained(
        rows.X.tobytes(), 3, 3, False, 2, tuple(_training_settings().items())
    )
    assert 0.0 < lent.shared_cpu_seconds <= trained
    assert own.shared_cpu_seconds == 0.0
    for other in (
        fit("dtgfn-detector-paper-release", rows),
        fit("dtgfn-detector-paper", made_rows(seed=2)),
        NAMED["dtgfn-detector-paper"].fit(
            rows, 4, **{**NAMED["dtgfn-detector-paper"].settings, **LITTLE}
        ),
    ):
        assert other.predictor.posterior is not own.predictor.posterior


def _training_settings():
    """What a training is told, in the order of the settings."""
    read = ("tree", "leaf_draws", "empty_leaves", "reward_classes")
    settings = {**NAMED["dtgfn-detector-paper"].settings, **LITTLE}
    return {name: value for name, value in settings.items() if name not in read}


def test_mean_leaves_of_one_tree_by_hand():
    rows = made_rows()
    fitted = fit("dtgfn-detector-tree-paper-means", rows)
    posterior = fitted.predictor.posterior
    assert posterior.best_log_reward == posterior.log_reward.max()
    n = leaf_counts(posterior.best_tree, posterior.encode(rows.X))[0]
    expected = CONCENTRATION / (n + 2 * CONCENTRATION)
    np.testing.assert_allclose(fitted.training_scores(), expected)


def test_ensemble_by_hand():
    """Algorithm 1: the mean leaves of distinct trees, each by its posterior."""
    rows = made_rows()
    fitted = fit("dtgfn-detector-paper-means", rows)
    posterior = fitted.predictor.posterior
    keys = [tree.tobytes() for tree in leaf_keys(posterior.trees)]
    first = [keys.index(key) for key in dict.fromkeys(keys)]
    weight = np.exp(posterior.log_reward[first] - posterior.log_reward.max())
    n = leaf_counts(posterior.trees[first], posterior.encode(rows.X))
    expected = weight / weight.sum() @ (CONCENTRATION / (n + 2 * CONCENTRATION))
    np.testing.assert_allclose(fitted.training_scores(), expected)


def leaf_keys(trees):
    """What a tree is, as one array: nodes are in the order in which they were split."""
    return np.stack([trees.feature, trees.cut, trees.left], axis=1)


def test_one_label_rewards_no_split():
    """Of normal rows alone every split costs likelihood and prior: the best tree is one leaf."""
    rows = made_rows()
    n = np.arange(1, len(rows.X))
    term = gammaln(n + CONCENTRATION) - gammaln(n + 2 * CONCENTRATION)
    term -= gammaln(CONCENTRATION) - gammaln(2 * CONCENTRATION)
    parted = term + term[::-1]  # n rows on one side, the rest on the other
    whole = gammaln(40 + CONCENTRATION) - gammaln(40 + 2 * CONCENTRATION)
    whole -= gammaln(CONCENTRATION) - gammaln(2 * CONCENTRATION)
    assert (parted < whole).all()
    posterior = fit("dtgfn-detector-tree-paper", rows).predictor.posterior
    assert posterior.log_reward.max() <= whole + 1e-9


def test_reward_of_the_release_is_the_prior():
    found = fit("dtgfn-detector-paper-release", made_rows()).predictor.posterior
    n_splits = (found.trees.n_nodes - 1) // 2
    np.testing.assert_allclose(found.log_reward, -n_splits * (np.log(4) + np.log(3)), atol=1e-9)


@pytest.mark.parametrize("empty_leaves", [False, True])
def test_only_the_release_has_empty_leaves(empty_leaves):
    fitted = fit("dtgfn-detector-paper-means", made_rows(), empty_leaves=empty_leaves)
    found = fitted.predictor.posterior
    valid = np.isfinite(log_prior(found.trees, found.rows, found.score))
    assert valid.all() != empty_leaves
    if empty_leaves:  # where nothing is known, both classes are alike
        largest = found.trees[[int(found.trees.n_nodes.argmax())]]
        one = Predictor(replace(found, best_tree=largest), "posterior", "best", n_jobs=1)
        X = np.random.default_rng(5).uniform(-2, 2, size=(500, 3))
        assert replace(fitted, predictor=one).score(X).max() == pytest.approx(0.5)


def test_probes_weigh_nothing_and_are_everywhere():
    fitted = fit("dtgfn-detector-paper", made_rows())
    rows, binner = fitted.predictor.posterior.rows, fitted.predictor.posterior.binner
    probed = with_probes(rows, binner.n_cuts, 0)
    np.testing.assert_array_equal(probed.codes[: len(rows.codes)], rows.codes)
    assert probed.weight.sum() - rows.weight.sum() < 1e-5
    for feature, cuts in enumerate(binner.n_cuts):
        seen = np.unique(probed.codes[len(rows.codes) :, feature])
        np.testing.assert_array_equal(seen, np.arange(cuts + 1))


def test_readings_differ_only_where_they_say():
    paper = paper_detector.PAPER
    for name, _, _, changes in paper_detector.READINGS:
        for method, tree in (
            (f"dtgfn-detector-tree-{name}", "best"),
            (f"dtgfn-detector-{name}", None),
        ):
            assert NAMED[method].settings == {**paper, **changes, "tree": tree}
