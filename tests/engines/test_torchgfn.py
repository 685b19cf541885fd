"""The environment for torchgfn: masks, reward and log Z against brute force."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

with warnings.catch_warnings():  # of the libraries that torchgfn imports
    warnings.simplefilter("ignore")
    pytest.importorskip("gfn.env", reason="needs torchgfn")

import torch
from gfn.estimators import DiscretePolicyEstimator, ScalarEstimator
from gfn.gflownet import DBGFlowNet, SubTBGFlowNet, TBGFlowNet
from gfn.samplers import Sampler
from gfn.utils.modules import MLP, DiscreteUniform

from dtgfn.inference.infer import infer
from dtgfn.torchgfn import TreeEnvironment
from dtgfn.trees.batch import canonical_keys, node_sums
from dtgfn.trees.score import log_reward


def small_table(seed: int = 0, n_rows: int = 14, n_columns: int = 2) -> tuple:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n_rows, n_columns)).astype(float)
    return X, (X[:, 0] + rng.integers(0, 2, n_rows) > 2).astype(int)


@pytest.fixture(scope="module")
def env() -> TreeEnvironment:
    X, y = small_table()
    return TreeEnvironment(X, y, max_depth=2, n_thresholds=3, debug=True)


def all_states(env: TreeEnvironment) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """Every state that actions lead to, with the states that lead to it: by walking the masks."""
    start = tuple([0] * env.n_places)
    parents: dict[tuple[int, ...], list[tuple[int, ...]]] = {start: []}
    queue = [start]
    while queue:
        here = queue.pop()
        states = env.states_from_tensor(torch.tensor([here]))
        for action in states.forward_masks[0, :-1].nonzero().ravel():
            step = env.actions_from_tensor(action.reshape(1, 1))
            child = tuple(env.step(states, step).tensor[0].tolist())
            if child not in parents:
                parents[child] = []
                queue.append(child)
            parents[child].append(here)
    return parents


def test_states_are_all_trees_and_their_rewards_add_up_to_z(env):
    states = env.states_from_tensor(torch.tensor(list(all_states(env))))
    keys = canonical_keys(env.trees(states))
    assert len(set(keys)) == len(keys)
    total = torch.logsumexp(env.log_reward(states).double(), 0)
    assert float(total) == pytest.approx(env.log_partition(), abs=1e-4)
    X, y = small_table()
    exact = infer(X, y, engine="exact", max_depth=2, n_thresholds=3)
    assert env.log_partition() == pytest.approx(exact.log_evidence, abs=1e-9)


def test_backward_actions_are_the_parents(env):
    for state, parents in all_states(env).items():
        states = env.states_from_tensor(torch.tensor([state]))
        undone = []
        for action in states.backward_masks[0].nonzero().ravel():
            step = env.actions_from_tensor(action.reshape(1, 1))
            undone.append(tuple(env.backward_step(states, step).tensor[0].tolist()))
        assert sorted(undone) == sorted(parents)


def test_every_leaf_of_every_tree_holds_rows(env):
    trees = env.trees(env.states_from_tensor(torch.tensor(list(all_states(env)))))
    rows = env.rows
    _, n_rows = node_sums(trees, rows.codes, rows.target, rows.weight, env.score.leaf)
    inside = np.arange(trees.feature.shape[1]) < trees.n_nodes[:, None]
    assert (n_rows[inside] > 0).all()


def test_exact_draws_become_states_and_trees_again(env):
    drawn = env.exact_trees(50, np.random.default_rng(0))
    states = env.states_of(drawn)
    assert list(canonical_keys(env.trees(states))) == list(canonical_keys(drawn))
    expected = log_reward(drawn, env.rows, env.score)
    np.testing.assert_allclose(env.log_reward(states).numpy(), expected, rtol=1e-5)


def estimators(env: TreeEnvironment) -> tuple:
    described = env.preprocessor()
    network = MLP(described.output_dim, env.n_actions, hidden_dim=16)
    forward = DiscretePolicyEstimator(network, env.n_actions, preprocessor=described)
    uniform = DiscreteUniform(env.n_actions - 1)
    backward = DiscretePolicyEstimator(
        uniform, env.n_actions, is_backward=True, preprocessor=described
    )
    flow = ScalarEstimator(MLP(described.output_dim, 1, hidden_dim=16), preprocessor=described)
    return forward, backward, flow


@pytest.mark.parametrize("objective", ["tb", "db", "subtb"])
def test_objectives_of_torchgfn_train_on_it(env, objective):
    torch.manual_seed(0)
    forward, backward, flow = estimators(env)
    make = {
        "tb": lambda: TBGFlowNet(forward, backward),
        "db": lambda: DBGFlowNet(forward, backward, flow),
        "subtb": lambda: SubTBGFlowNet(forward, backward, flow),
    }
    gflownet = make[objective]()
    optimiser = torch.optim.Adam(gflownet.parameters(), lr=1e-2)
    for _ in range(3):
        drawn = Sampler(forward).sample_trajectories(env, n=8, epsilon=0.1)
        loss = gflownet.loss_from_trajectories(env, drawn, recalculate_all_logprobs=True)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert torch.isfinite(loss)


@pytest.mark.long
def test_trajectory_balance_of_torchgfn_finds_z(env):
    torch.manual_seed(0)
    forward, backward, _ = estimators(env)
    gflownet = TBGFlowNet(forward, backward)
    rates = [
        {"params": gflownet.pf_pb_parameters(), "lr": 5e-3},
        {"params": gflownet.logz_parameters(), "lr": 1e-1},
    ]
    optimiser = torch.optim.Adam(rates)
    for _ in range(400):
        drawn = Sampler(forward).sample_trajectories(env, n=32, epsilon=0.1)
        loss = gflownet.loss(env, drawn, recalculate_all_logprobs=True)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(gflownet.logZ.detach()) == pytest.approx(env.log_partition(), abs=0.3)


def test_the_example_of_the_docs_runs():
    page = (Path(__file__).parents[2] / "docs" / "torchgfn.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    found: dict = {}
    exec(compile(example, "docs/torchgfn.md", "exec"), found)
    assert len(found["trees"]) == 16
    assert len(found["back"]) == 100
    iris = infer(found["X"], found["y"], engine="exact", max_depth=2, n_thresholds=9)
    assert found["log_z"] == pytest.approx(iris.log_evidence, abs=1e-9)


def test_a_problem_with_too_many_actions_is_refused():
    X = np.random.default_rng(0).random((300, 40))
    with pytest.raises(ValueError, match=r"max_depth=10 .* actions, more than"):
        TreeEnvironment(X, X[:, 0] > 0.5, max_depth=10, n_thresholds=99)
