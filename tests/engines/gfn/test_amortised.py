"""The policy for all tables: what it sees, its file, and the trees it draws without training."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from enumeration import Case, Enumeration, to_batch
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from thoroughness import examples

from dtgfn import infer
from dtgfn._support.parallel import run_at_once
from dtgfn.engines import MlpPolicy, load_policy, shipped_policy
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.gfn.fixed.kept_views import view_children, view_nodes
from dtgfn.engines.gfn.fixed.looks import affordable_looks, look_around
from dtgfn.engines.gfn.fixed.network import CorrectedNetwork
from dtgfn.engines.gfn.fixed.policies import N_VIEW, pack_tensors, softplus
from dtgfn.engines.gfn.zero_shot import make_zero_shot
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph
from dtgfn.engines.rowsets.partial.levels import known_nodes
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, make_score, merge_rows

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")


def make_graph(codes, target, leaf, tails: int = 2, max_depth: int = 4) -> PartialGraph:
    given = {"n_features": codes.shape[1], "n_thresholds": 9, "max_depth": max_depth}
    score = make_score(leaf, **given, split_penalty=1.0)
    kind = np.int32 if isinstance(leaf, DirichletLeaf) else np.float64
    rows = Rows(codes.astype(np.uint16), np.asarray(target, kind), np.ones(len(codes)))
    column = np.arange(codes.shape[1], dtype=np.int32)
    problem = make_problem(merge_rows(rows), score, column, column.size)
    graph = PartialGraph(problem, tails, run_at_once)
    graph.expand(0, np.zeros(1, np.int64))
    return graph


def root_views(graph: PartialGraph) -> np.ndarray:
    """Views of all children of the root, in an order that no table's order decides."""
    cuts = np.arange(graph.levels[0].n_cuts[0])
    views = view_children(graph, graph.levels[0], np.zeros_like(cuts), cuts)
    return views[np.lexsort(np.round(views, 3).T)]


tables = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@given(tables, st.sampled_from([1, 2]), st.booleans())
@examples(10)
def test_views_do_not_know_the_order_of_classes_columns_and_rows(rng, tails, numbers):
    n_rows, n_columns = int(rng.integers(12, 40)), int(rng.integers(1, 5))
    codes = rng.integers(0, 10, (n_rows, n_columns))
    leaf = NormalLeaf() if numbers else DirichletLeaf(3)
    target = rng.normal(size=n_rows) if numbers else rng.integers(0, 3, n_rows)
    swapped = target if numbers else rng.permutation(3)[target]
    rows, columns = rng.permutation(n_rows), rng.permutation(n_columns)
    before = root_views(make_graph(codes, target, leaf, tails))
    after = root_views(make_graph(codes[rows][:, columns], swapped[rows], leaf, tails))
    assert np.isfinite(before).all()
    np.testing.assert_allclose(before.sum(axis=0), after.sum(axis=0), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(np.sort(before, axis=0), np.sort(after, axis=0), atol=1e-3)


def test_a_node_looks_as_it_did_from_where_it_was_reached_first():
    rng = np.random.default_rng(0)
    graph = make_graph(rng.integers(0, 10, (60, 3)), rng.integers(0, 2, 60), DirichletLeaf(2))
    cuts = np.arange(graph.levels[0].n_cuts[0])
    children = graph.reach(0, np.zeros_like(cuts), cuts)
    nodes, first = np.unique(children.ravel(), return_index=True)
    views = view_children(graph, graph.levels[0], np.zeros_like(cuts), cuts)
    np.testing.assert_array_equal(view_nodes(graph, 1, nodes), views[first])


def test_numpy_and_torch_say_the_same():
    policy, rng = shipped_policy(), np.random.default_rng(0)
    views = (policy.mean + policy.spread * rng.normal(size=(500, N_VIEW))).astype(np.float32)
    x = torch.from_numpy((views - policy.mean) / policy.spread)
    for i, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        x = x @ torch.from_numpy(weight) + torch.from_numpy(bias)
        if i < len(policy.weights) - 1:
            x = torch.nn.functional.silu(x)
    said = torch.nn.functional.softplus(x[:, 0]).numpy() ** 2
    np.testing.assert_allclose(policy.guess(views), said, rtol=1e-3, atol=1e-3)
    for n in (0, 1, 15, 17):  # rows go through the layers in blocks
        np.testing.assert_array_equal(policy.guess(views[:n]), policy.guess(views)[:n])
    own = softplus(policy.score(views)) ** 2  # numpy's, row by row the same
    np.testing.assert_allclose(policy.guess(views), own, rtol=1e-4, atol=1e-4)
    # What trains begins exactly there.
    network = CorrectedNetwork(policy, (8,))
    np.testing.assert_allclose(network.predict(views), policy.guess(views), rtol=1e-3, atol=2e-3)


def test_a_policy_learns_row_sets_that_are_known_and_is_saved_and_loaded(tmp_path):
    policy, rng = shipped_policy(), np.random.default_rng(1)
    views = (policy.mean + policy.spread * rng.normal(size=(300, N_VIEW))).astype(np.float32)
    nats = 2.0 * policy.guess(views).astype(np.float64)
    learned = policy.adapted(views, nats)
    assert isinstance(learned, MlpPolicy)
    before, after = (np.abs(p.guess(views) - nats).mean() for p in (policy, learned))
    assert after < 0.7 * before
    path = tmp_path / "own.safetensors"
    learned.save(path)
    np.testing.assert_array_equal(load_policy(path).guess(views), learned.guess(views))
    content = path.read_bytes()
    for broken in (b"", content[:50], content[:-8], b"\xff" * 60):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="no policy file"):
            load_policy(path)
    path.write_bytes(pack_tensors({"mean": policy.mean, "spread": policy.spread}, {}))
    with pytest.raises(ValueError, match="other views"):
        load_policy(path)


def test_the_card_says_what_it_was_trained_on():
    assert {"data", "code", "date"} <= set(shipped_policy().card)


def small_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 5, (25, 2))
    labels = (codes[:, 0] > 2) ^ (codes[:, 1] > 2)
    return Case(codes, labels.astype(int), 2, max_depth=3, split_penalty=1.0)


class Wild:
    """A policy of one's own that promises much, whatever it sees."""

    def guess(self, views):
        return np.full(len(views), 8.0, np.float32)


@pytest.mark.parametrize("policy", ["shipped", Wild()])
def test_what_is_drawn_is_weighed_right_whatever_the_policy_says(policy):
    case = small_case(0)
    X, y = case.codes.astype(float), case.labels
    options = {"max_depth": 4, "n_thresholds": 9, "split_penalty": 1.0, "n_trees": 300}
    exact = infer(X, y, engine="exact", **options)
    found = infer(X, y, n_steps=0, policy=policy, random_state=0, **options)
    floor = found.diagnostics["log_z_floor"]
    assert floor <= exact.log_evidence + 1e-9
    assert found.diagnostics["elbo"] <= exact.log_evidence + 1e-6
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=0.3)
    log_prob = found.solution.log_prob(found.trees)
    np.testing.assert_allclose(log_prob, found.log_prob, atol=1e-6)


def test_its_probabilities_sum_to_one_over_all_trees():
    case = small_case(1)
    sampler = FixedSampler(
        make_problem(merge_rows(case.rows), case.score, case.columns, case.n_columns),
        merge_rows(case.rows),
        policy=shipped_policy(),
        hidden=(8,),
        exact_tails=1,
        n_scouts=2,
    )
    every = Enumeration(case)
    log_prob = sampler.log_prob(to_batch(every.trees))
    assert np.exp(log_prob).sum() == pytest.approx(1.0, abs=1e-6)
    truth = infer_exact(case.rows, case.score, column=case.columns, n_columns=case.n_columns)
    assert sampler.bounds()[0] <= truth.log_evidence + 1e-6


def test_training_corrects_it_and_the_same_seed_gives_the_same_trees():
    case = small_case(2)
    X, y = case.codes.astype(float), case.labels
    options = {"max_depth": 4, "n_thresholds": 9, "n_trees": 50, "random_state": 0}
    one, two = (infer(X, y, policy="shipped", n_steps=2, **options) for _ in range(2))
    np.testing.assert_array_equal(one.log_reward, two.log_reward)
    assert known_nodes(one.solution.sampler.graph.levels[1]).size
    free = {"leaf_order": "free", "n_steps": 1}
    for options in ({"policy": "shiped"}, {"policy": "shipped", **free}):
        with pytest.raises(ValueError, match="policy="):
            infer(X, y, **options)


def graph_state(graph: PartialGraph) -> list[dict[bytes, float]]:
    """Flow of every row set known, by level."""
    return [
        {level.sets.bits[i].tobytes(): float(level.flow[i]) for i in known_nodes(level)}
        for level in graph.levels
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_training_begins_with_the_looks_of_a_fit_without_training(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 5))
    y = (X[:, 0] > 0) ^ (X[:, 1] > X[:, 2])
    score = make_score(DirichletLeaf(2), n_features=5, n_thresholds=19, max_depth=5)
    codes = np.clip((X + 3) / 6 * 20, 0, 19).astype(np.uint16)
    rows = merge_rows(Rows(codes, y.astype(np.int32), np.ones(150)))
    run = Run(column=np.arange(5, dtype=np.int32), n_columns=5, n_trees=10, n_jobs=1)
    given = rows, score, run, shipped_policy(), 2, np.inf
    alone = make_zero_shot(*given, seed=7)
    look_around(alone, affordable_looks(alone.graph))
    assert not alone.exact  # else it would be no wonder
    sampler = FixedSampler(alone.graph.problem, rows, policy=shipped_policy(), hidden=(8,), seed=7)
    sampler.look_first()
    assert graph_state(sampler.graph) == graph_state(alone.graph)
    # And where the correction begins is what the looks have taught.
    views = view_nodes(alone.graph, 1, known_nodes(alone.graph.levels[1]))
    learned = alone.flows.network
    np.testing.assert_allclose(sampler.network.predict(views), learned.predict(views), atol=2e-3)
    assert np.abs(learned.policy.guess(views) - learned.predict(views)).max() > 0.01
    floor = sampler.bounds()[0]
    for step in range(3):
        paths = sampler.rollout(20, 0.1, rng)
        sampler.learn([paths])
        assert sampler.bounds()[0] >= floor - 1e-9, step


def test_a_run_that_was_broken_off_goes_on_from_what_the_looks_taught(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] > 0) ^ (X[:, 1] > X[:, 2])
    options = {"max_depth": 5, "n_thresholds": 19, "n_trees": 50, "random_state": 0}
    options |= {"policy": "shipped", "hidden": (8,), "n_scouts": 4}
    path = tmp_path / "checkpoint"
    infer(X, y, n_steps=2, checkpoint=path, **options)
    on = infer(X, y, n_steps=4, checkpoint=path, **options)
    once = infer(X, y, n_steps=4, **options)
    np.testing.assert_array_equal(on.log_reward, once.log_reward)
    np.testing.assert_array_equal(on.log_prob, once.log_prob)
    assert once.diagnostics["open"] > 0


def test_zero_shot_needs_no_torch():
    code = (
        "import sys, numpy as np; from dtgfn import infer\n"
        "X = np.random.default_rng(0).normal(size=(40, 2)); y = X[:, 0] > 0\n"
        "p = infer(X, y, n_steps=0, policy='shipped', n_trees=20, max_depth=3, n_thresholds=5)\n"
        "p.solution.sample(5, np.random.default_rng(0))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.parametrize("kept_cuts", [None, 6])
def test_views_that_are_kept_are_those_that_would_be_made_anew(kept_cuts):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 10, (80, 4)), rng.integers(0, 2, 80), DirichletLeaf(2)
    graph = make_graph(*table, tails=1 if kept_cuts else 2)
    graph.limits = Limits(kept_cuts=kept_cuts, linked=not kept_cuts)
    graph.clear()
    root = np.zeros(1, np.int64)
    graph.expand(0, root)
    graph.update(0, root, remember=True)

    def anew(depth: int, nodes: np.ndarray) -> np.ndarray:
        for level in graph.levels:
            level.memo.clear()
        return view_nodes(graph, depth, nodes)

    cuts = np.arange(graph.levels[0].n_cuts[0])
    nodes = np.unique(graph.reach(0, np.zeros_like(cuts), cuts))
    for some in (nodes[::2], nodes, nodes[::3]):  # in pieces, as training asks
        kept = view_nodes(graph, 1, some)
    np.testing.assert_array_equal(kept, anew(1, nodes[::3]))
    if kept_cuts:  # the root lists its cuts anew, one more of them: what it looks like has changed
        before = view_nodes(graph, 1, nodes)
        listed = {tuple(cut) for cut in zip(*root_rules(graph), strict=True)}
        wanted = next(c for c in ((f, 4) for f in range(4)) if c not in listed)
        graph.keep(0, 0, np.array([wanted], np.int32))
        kept = view_nodes(graph, 1, nodes)
        assert (kept != before).any()
        np.testing.assert_array_equal(kept, anew(1, nodes))


def root_rules(graph: PartialGraph) -> tuple[np.ndarray, np.ndarray]:
    """Features and thresholds of the root's cuts."""
    root = graph.levels[0]
    here = slice(int(root.start[0]), int(root.start[0] + root.n_cuts[0]))
    return root.cuts.feature[here], root.cuts.low[here]
