"""The free-order GFlowNet against the enumeration of all trees and of all ways to grow them."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch
from enumeration import LEAF, Case, Enumeration, from_batch, n_splits, to_batch
from free_histories import all_histories, follow, log_pf

from dtgfn.engines.gfn.free.actors import TorchActor, choose, make_paths
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.free.policy import MlpPolicy
from dtgfn.engines.gfn.objectives import OBJECTIVES, SHAPES
from dtgfn.trees.batch import canonical_keys, check_trees
from dtgfn.trees.score import Rows, log_likelihood, log_prior, log_reward

SMALL = (16, 16, 16)
ARCHITECTURES = ("mlp", "set_transformer")
CASES = {
    "two columns": Case(np.array([[0, 1], [1, 0], [2, 2], [2, 0]]), np.array([0, 1, 1, 0]), 2),
    "one column, deeper": Case(
        np.array([[0], [1], [1], [3]]),
        np.array([0, 1, 1, 2]),
        3,
        np.array([1.5, 0.5, 2.0, 1.0]),
        max_depth=3,
        split_penalty="bcart",
        temperature=2.0,
    ),
    "no split at all": Case(np.array([[3, 3], [3, 3]]), np.array([0, 1]), 2),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small only wait for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(case: Case, **options) -> FreeSampler:
    return FreeSampler(case.rows, case.score, **({"hidden": SMALL, "seed": 3} | options))


def random_rows(rng: np.random.Generator, n_rows: int = 30, n_features: int = 3) -> Case:
    codes = rng.integers(0, 8, size=(n_rows, n_features))
    codes[:, -1] = 4  # a column that never splits
    return Case(codes, rng.integers(0, 3, size=n_rows), 3, max_depth=4, split_penalty="paper")


# Against brute force.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward_probabilities_sum_to_one(name, architecture):
    case = CASES[name]
    sampler, every = make(case, architecture=architecture), Enumeration(case)
    trajectories = follow(sampler, all_histories(case))
    assert math.isclose(np.exp(log_pf(sampler, trajectories)).sum(), 1.0, rel_tol=1e-5)
    backward: dict = {}
    for b, log_pb in enumerate(trajectories.log_pb):
        tree = from_batch(trajectories.trees, b)
        backward[tree] = backward.get(tree, 0.0) + math.exp(log_pb)
    assert set(backward) == set(every.trees)
    np.testing.assert_allclose(list(backward.values()), 1.0)


@pytest.mark.parametrize("name", CASES)
def test_backward_probability_counts_the_splits_that_can_be_undone(name):
    sampler = make(CASES[name])
    trajectories = follow(sampler, all_histories(CASES[name]))
    for history, log_pb in zip(all_histories(CASES[name]), trajectories.log_pb, strict=True):
        expected = 0.0
        for k in range(1, len(history) + 1):
            made = {path for path, _, _ in history[:k]}
            expected -= math.log(sum((*p, 0) not in made and (*p, 1) not in made for p in made))
        assert math.isclose(log_pb, expected, abs_tol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_rewards_of_all_states_and_trees_are_the_scores(name):
    case = CASES[name]
    sampler, every = make(case), Enumeration(case)
    trajectories = follow(sampler, all_histories(case))
    value = [
        every.log_reward(from_batch(trajectories.trees, b)) for b in range(len(trajectories.trees))
    ]
    np.testing.assert_allclose(trajectories.log_reward, value)
    np.testing.assert_allclose(
        trajectories.log_prior, log_prior(trajectories.trees, sampler.table.rows, case.score)
    )
    states = trajectories.states
    histories = all_histories(case)
    known = dict(zip(histories, value, strict=True))
    for tree, step, reward in zip(states.tree, states.step, states.log_reward, strict=True):
        assert math.isclose(reward, known[histories[tree][:step]], rel_tol=1e-9)


def test_masks_are_exactly_the_splits_with_rows_on_both_sides():
    rng = np.random.default_rng(0)
    case = random_rows(rng)
    nodes = make(case).rollout(40, 1.0, rng).nodes
    every = Enumeration(case)
    for node in range(len(nodes.tree)):
        rows, at = every.everything, node
        way = []
        while nodes.parent[at] >= 0:
            way.append((nodes.parent[at], at - nodes.left[nodes.parent[at]]))
            at = nodes.parent[at]
        for parent, side in reversed(way):
            rows = every.sides(rows, nodes.feature[parent], nodes.cut[parent])[side]
        assert rows
        valid = every.valid_splits(rows)
        if nodes.depth[node] == case.max_depth:
            assert nodes.n_actions[node] == 0
        else:
            assert nodes.n_actions[node] == len(valid)
        ranges = zip(nodes.lowest[node], nodes.highest[node], strict=True)
        assert valid == [(f, j) for f, (low, high) in enumerate(ranges) for j in range(low, high)]
        np.testing.assert_allclose(nodes.sums[node], every.class_counts(rows))


def test_uniform_actions_reach_every_tree_and_are_uniform():
    case = CASES["two columns"]
    sampler, every = make(case), Enumeration(case)
    trajectories = sampler.rollout(6000, 1.0, np.random.default_rng(1))
    drawn = [from_batch(trajectories.trees, b) for b in range(6000)]
    assert set(drawn) == set(every.trees)
    # Stop and the four first splits are equally likely.
    share = np.mean([tree == LEAF for tree in drawn])
    assert abs(share - 0.2) < 5 * math.sqrt(0.2 * 0.8 / 6000)
    assert (trajectories.log_pf < 0).all()


def test_drawing_follows_the_policys_own_probabilities():
    case = CASES["two columns"]
    sampler = make(case)
    everything = follow(sampler, all_histories(case))
    probability: dict = {}
    for b, value in enumerate(np.exp(log_pf(sampler, everything))):
        tree = from_batch(everything.trees, b)
        probability[tree] = probability.get(tree, 0.0) + value
    draws = sampler.draw(20_000, np.random.default_rng(2))
    share = dict.fromkeys(probability, 0.0)
    for b in range(len(draws.trees)):
        share[from_batch(draws.trees, b)] += 1 / len(draws.trees)
    for tree, p in probability.items():
        assert abs(share[tree] - p) < 5 * math.sqrt(p * (1 - p) / 20_000) + 1e-9


# Trajectories and residuals.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rollout_and_residuals_agree_on_log_pf(architecture):
    rng = np.random.default_rng(4)
    case = random_rows(rng)
    sampler = make(case, architecture=architecture)
    with torch.no_grad():
        sampler.network.stop_heads.bias[0] -= 2.0
    trajectories = sampler.rollout(50, 0.3, rng)
    assert trajectories.trees.n_splits.max() > 8
    np.testing.assert_allclose(trajectories.log_pf, log_pf(sampler, trajectories), atol=1e-4)
    check_trees(trajectories.trees, np.full(3, 8))
    np.testing.assert_allclose(
        trajectories.log_reward, log_reward(trajectories.trees, case.rows, case.score)
    )


@pytest.mark.parametrize("hidden", [(32,), SMALL])
def test_the_compiled_actor_and_torch_draw_the_same_trees(hidden, monkeypatch):
    case = random_rows(np.random.default_rng(15))
    sampler = make(case, hidden=hidden)
    with torch.no_grad():
        for parameter in sampler.network.parameters():
            parameter *= 1.5  # far from uniform
        sampler.network.stop_heads.bias[0] -= 2.0
    compiled = sampler.rollout(60, 0.2, np.random.default_rng(16))
    monkeypatch.setattr(sampler, "_actor", lambda *_: TorchActor(sampler.network, sampler.device))
    plain = sampler.rollout(60, 0.2, np.random.default_rng(16))
    assert canonical_keys(compiled.trees) == canonical_keys(plain.trees)
    np.testing.assert_allclose(compiled.log_pf, plain.log_pf, atol=1e-4)


def stopping(network, embeddings, leaves):
    seen = MlpPolicy.view(network, embeddings, leaves)
    return replace(seen, stop_logit=seen.stop_logit + 1e3)


class Stopping(MlpPolicy):
    view = stopping


class Certain(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1e3


CHANGES = {
    "subclass": lambda network: setattr(network, "__class__", Stopping),
    "method": lambda network: setattr(network, "view", partial(stopping, network)),
    "layer": lambda network: setattr(network.stop_heads, "__class__", Certain),
    "hook": lambda network: network.stop_heads.register_forward_hook(lambda m, x, y: y + 1e3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_policy_does_otherwise_than_ours_is_heard(change):
    """The compiled actor knows the parameters alone."""
    sampler = make(random_rows(np.random.default_rng(15)))

    def all_stop() -> bool:
        trees = sampler.rollout(20, 0.0, np.random.default_rng(16)).trees
        return bool((trees.n_splits == 0).all())

    assert not all_stop()
    CHANGES[change](sampler.network)
    assert all_stop()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_residuals_telescope_and_have_finite_gradients(architecture):
    rng = np.random.default_rng(5)
    sampler = make(random_rows(rng), architecture=architecture)
    trajectories = sampler.rollout(30, 0.5, rng)
    with_flows = sampler.residuals([trajectories], with_flows=True)
    without = sampler.residuals([trajectories], with_flows=False)
    torch.testing.assert_close(
        with_flows.delta.sum(dim=1), without.delta.sum(dim=1), atol=1e-6, rtol=0
    )
    assert torch.equal(with_flows.mask, without.mask)
    lengths = torch.from_numpy(trajectories.trees.n_splits + 1)
    assert torch.equal(with_flows.mask.sum(dim=1), lengths.long())
    assert (with_flows.delta[~with_flows.mask] == 0).all()
    for objective in OBJECTIVES.values():
        sampler.network.zero_grad()
        residuals = sampler.residuals([trajectories], objective.with_flows)
        loss = objective.loss(residuals, SHAPES["squared"])
        loss.backward()
        moved = [p for p in sampler.network.parameters() if p.grad is not None]
        slope = sum(float(p.grad.square().sum()) for p in moved)
        assert 0 < slope < math.inf
        before = [p.data.clone() for p in moved]
        with torch.no_grad():
            for p in moved:
                p -= 1e-3 * p.grad / math.sqrt(slope)
            residuals = sampler.residuals([trajectories], objective.with_flows)
            assert objective.loss(residuals, SHAPES["squared"]) < loss
            for p, value in zip(moved, before, strict=True):
                p.copy_(value)
    assert torch.isfinite(sampler.log_z.grad)


def test_retrace_ends_in_the_given_trees_and_draws_backwards_uniformly():
    case = Case(np.arange(4)[:, None], np.array([0, 1, 0, 1]), 2)
    sampler, every = make(case), Enumeration(case)
    trajectories = sampler.retrace(to_batch(every.trees), np.random.default_rng(6))
    assert canonical_keys(trajectories.trees) == canonical_keys(to_batch(every.trees))
    np.testing.assert_allclose(trajectories.log_reward, every.log_rewards)
    # Root in the middle, then left or right first: two orders, one as likely as the other.
    both = next(tree for tree in every.trees if n_splits(tree) == 3)
    again = sampler.retrace(to_batch([both] * 2000), np.random.default_rng(7))
    np.testing.assert_allclose(again.log_pb, -math.log(2))
    first = again.states.slot[again.states.step == 1]
    assert abs(first.mean() - 0.5) < 0.06


def test_retrace_refuses_trees_that_the_table_cannot_grow():
    sampler = make(CASES["two columns"])
    for tree in ((0, 2, LEAF, LEAF), (0, 1, (0, 1, LEAF, LEAF), LEAF)):
        with pytest.raises(ValueError, match="no training row"):
            sampler.retrace(to_batch([tree]), np.random.default_rng(0))


def test_a_forced_stop_is_certain():
    case = CASES["no split at all"]
    trajectories = make(case).rollout(5, 0.5, np.random.default_rng(0))
    assert (trajectories.log_pf == 0).all()
    assert (trajectories.trees.n_splits == 0).all()


def test_choices_are_never_masked_ones_even_at_the_edge_of_chance():
    logits = np.array([[0.0, 50.0, -90.0, 3.0]] * 2, dtype=np.float32)
    n_actions = np.array([[2, 0, 1, 0]] * 2)
    index, log_p = choose(logits, n_actions, np.array([False, True]), np.array([1.0, 1.0]))
    assert n_actions[0, index].all()
    assert np.isfinite(log_p).all()


# Mini-batches of rows.


def test_row_batches_estimate_the_likelihood_and_leave_the_prior_alone():
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    case = Case(np.array([[0], [1], [2], [2], [3]]), np.array([0, 1, 1, 0, 1]), 2, weight)
    sampler = make(case, row_batch=2)
    trees = to_batch(Enumeration(case).trees)
    rng = np.random.default_rng(8)
    seen = [sampler.retrace(trees, rng) for _ in range(200)]
    estimates = np.array([t.training_log_reward for t in seen])
    np.testing.assert_allclose(seen[0].log_reward, Enumeration(case).log_rewards)
    expected = []
    for drawn in map(list, combinations(range(5), 2)):
        rows = Rows(case.rows.codes[drawn], case.rows.target[drawn], weight[drawn])
        expected.append(2.5 * log_likelihood(trees, rows, case.score))
    likelihood = estimates - log_prior(trees, case.rows, case.score)
    # Every batch is one of the ten, all are seen, and on average all count the same.
    nearest = np.abs(likelihood[:, None, :] - np.array(expected)[None]).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-9
    assert set(nearest.argmin(axis=1)) == set(range(10))
    error = likelihood.std(axis=0) / math.sqrt(200)
    np.testing.assert_array_less(
        np.abs(likelihood.mean(0) - np.mean(expected, 0)), 5 * error + 1e-9
    )


def test_a_batch_of_all_rows_is_the_reward_and_residuals_aim_at_the_estimate():
    rng = np.random.default_rng(9)
    case = random_rows(rng)
    trajectories = make(case, row_batch=30).rollout(10, 0.5, rng)
    np.testing.assert_array_equal(trajectories.training_log_reward, trajectories.log_reward)
    sampler = make(case, row_batch=7)
    trajectories = sampler.rollout(10, 0.5, rng)
    total = sampler.residuals([trajectories], with_flows=False).delta.sum(dim=1).detach().numpy()
    aim = trajectories.log_pf - trajectories.log_pb + sampler.log_z.item() - total
    np.testing.assert_allclose(aim, trajectories.training_log_reward, atol=1e-4)
    assert not np.allclose(trajectories.training_log_reward, trajectories.log_reward)


# Networks.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_policy_does_not_see_the_order_of_leaves(architecture):
    rng = np.random.default_rng(10)
    sampler = make(random_rows(rng), architecture=architecture)
    trajectories = sampler.rollout(20, 0.9, rng)
    leaves = trajectories.states.leaves[-1]
    present = leaves[leaves >= 0]
    shuffled = rng.permutation(len(present))
    padded = np.concatenate([present[shuffled], [-1, -1]])
    policy = sampler.network
    with torch.no_grad():
        memory = policy.embed(make_paths(trajectories.nodes, slice(None), sampler.device))
        one = policy.view(memory, torch.from_numpy(present[None]))
        other = policy.view(memory, torch.from_numpy(padded[None]))
    close = {"atol": 1e-5, "rtol": 1e-4}
    torch.testing.assert_close(one.stop_logit, other.stop_logit, **close)
    torch.testing.assert_close(one.log_gain, other.log_gain, **close)
    expected = one.leaf_logit[0, torch.from_numpy(shuffled)]
    torch.testing.assert_close(expected, other.leaf_logit[0, : len(present)], **close)


def test_options_that_make_no_sense_are_refused():
    for wrong in ({"architecture": "gru"}, {"row_batch": 0}, {"hidden": ()}):
        with pytest.raises(ValueError, match="give"):
            make(CASES["two columns"], **wrong)


@pytest.mark.parametrize(
    ("objective", "architecture"),
    [("tb", "mlp"), pytest.param("subtb", "set_transformer", marks=pytest.mark.long)],
)
def test_training_finds_the_posterior(objective, architecture):
    case = Case(
        np.array([[0, 1], [1, 0], [2, 2], [2, 0]]),
        np.array([0, 1, 1, 0]),
        2,
        leaf_concentration=0.3,
        split_penalty=1.0,
    )
    sampler = make(case, architecture=architecture, hidden=(64, 64, 64))
    every = Enumeration(case)
    optimizer = torch.optim.Adam(
        [
            {"params": sampler.network.parameters(), "lr": 3e-3},
            {"params": [sampler.log_z], "lr": 3e-2},
        ]
    )
    rng = np.random.default_rng(11)
    chosen = OBJECTIVES[objective]
    for _ in range(300):
        residuals = sampler.residuals([sampler.rollout(32, 0.2, rng)], chosen.with_flows)
        optimizer.zero_grad()
        chosen.loss(residuals, SHAPES["squared"]).backward()
        optimizer.step()
    everything = follow(sampler, all_histories(case))
    learned: dict = dict.fromkeys(every.trees, 0.0)
    for b, value in enumerate(np.exp(log_pf(sampler, everything))):
        learned[from_batch(everything.trees, b)] += value
    distance = 0.5 * np.abs(np.array([learned[t] for t in every.trees]) - every.probability).sum()
    assert distance < 0.1
    assert abs(sampler.log_z.item() - every.log_z) < 0.3
    weight = np.exp(sampler.draw(2000, rng).log_weight(case.temperature))
    assert abs(math.log(weight.mean()) - every.log_z) < 0.1


# Reproducibility and edges.


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_same_seed_same_trees_and_no_global_seed_touched(architecture):
    case = random_rows(np.random.default_rng(12))
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    results = []
    for _ in range(2):
        sampler = make(case, architecture=architecture, row_batch=9)
        rng = np.random.default_rng(13)
        one = sampler.rollout(40, 0.2, rng)
        two = sampler.retrace(one.trees, rng)
        draws = sampler.draw(30, rng)
        delta = sampler.residuals([two], with_flows=True).delta.detach().numpy()
        results.append(
            (canonical_keys(one.trees), canonical_keys(draws.trees), draws.log_pf, delta)
        )
    assert results[0][:2] == results[1][:2]
    np.testing.assert_array_equal(results[0][2], results[1][2])
    np.testing.assert_array_equal(results[0][3], results[1][3])
    assert torch.equal(torch_before, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    "case",
    [
        Case(np.array([[0], [1], [2]]), np.zeros(3, dtype=int), 1),
        Case(np.array([[5, 5], [5, 5]]), np.array([0, 1]), 2),
        Case(np.array([[0], [1], [2]]), np.array([0, 1, 0]), 2, max_depth=0),
        Case(np.array([[7, 1]]), np.array([1]), 3),
        Case(np.array([[0], [65_000]]), np.array([1, 0]), 2, max_depth=30),
    ],
    ids=["one class", "constant columns", "max_depth 0", "single row", "far codes"],
)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_edges(case, architecture):
    rng = np.random.default_rng(14)
    sampler = make(case, architecture=architecture)
    trajectories = sampler.rollout(20, 0.5, rng)
    again = sampler.retrace(trajectories.trees, rng)
    for part in (trajectories, again):
        residuals = sampler.residuals([part], with_flows=True)
        assert torch.isfinite(residuals.delta).all()
        residuals.delta.square().sum().backward()
        np.testing.assert_allclose(part.log_reward, log_reward(part.trees, case.rows, case.score))
    draws = sampler.draw(600, rng)
    assert len(draws.trees) == 600
    assert np.isfinite(draws.log_weight(case.temperature)).all()


def test_the_sampler_has_nothing_to_remember():
    sampler = make(CASES["two columns"])
    sampler.restore(sampler.memory())
    assert sampler.memory() == {}
    assert sampler.learn([]) == {}
    assert not sampler.finished
