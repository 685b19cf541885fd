"""Tables too wide or too long to keep everything of: what is left out is still counted."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from clocks import tick
from enumeration import Case, Enumeration

from dtgfn._support.clock import monotonic
from dtgfn._support.parallel import run_at_once
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.rowsets import ranking
from dtgfn.engines.rowsets.graph import RowSets, expand, root_row_set
from dtgfn.engines.rowsets.partial.graph import ALL_KEPT, Limits, limits_for
from dtgfn.engines.rowsets.partial.pairs import best_thresholds, find_pairs
from dtgfn.engines.rowsets.problem import make_problem
from dtgfn.engines.rowsets.tails import best_edge, best_last_split, middle_split, tail_values
from dtgfn.trees.batch import canonical_keys
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows, leaf_log_marginal, log_reward, make_score, merge_rows

CODES = np.array([[0, 1, 2], [1, 0, 2], [3, 2, 0], [3, 0, 1], [1, 2, 1], [0, 2, 0]])
CASE = Case(CODES, np.array([0, 1, 1, 0, 1, 0]), 2, max_depth=3, split_penalty=1.0)


def make(case: Case, kept_cuts: int | None, **options) -> FixedSampler:
    rows = merge_rows(case.rows)
    problem = make_problem(rows, case.score, case.columns, case.n_columns)
    limits = Limits(kept_cuts=kept_cuts, linked=False)
    given = {"hidden": (16,), "seed": 3, "exact_tails": 1, "limits": limits} | options
    return FixedSampler(problem, rows, **given)


@pytest.mark.parametrize("kept", [1, 2, 4])
@pytest.mark.parametrize(
    "case",
    [CASE, CASE.but(temperature=2.0), CASE.but(split_penalty="bcart", temperature=2.0)],
    ids=["penalty", "tempered", "branching"],
)
def test_a_node_that_keeps_few_cuts_is_worth_as_much_and_bounded(case, kept):
    few, all_of_them = make(case, kept, n_scouts=0), make(case, None, n_scouts=0)
    assert few.graph.levels[0].n_cuts[0] == kept < all_of_them.graph.levels[0].n_cuts[0]
    assert few.graph.levels[0].rest[0] > -math.inf
    assert float(few.graph.levels[0].flow[0]) == pytest.approx(
        float(all_of_them.graph.levels[0].flow[0]), abs=1e-6
    )
    exact = Enumeration(case).log_z
    rng = np.random.default_rng(0)
    for _ in range(5):
        floor, ceiling = few.bounds()
        assert floor <= exact + 1e-6
        assert ceiling >= exact - 1e-6
        few.learn([few.rollout(10, 0.3, rng)])
    assert not few.exact  # what is only a sum is not known


@pytest.mark.parametrize("kept", [1, 3])
def test_trees_of_the_rest_are_drawn_as_often_as_their_probability_says(kept):
    truth, sampler = Enumeration(CASE), make(CASE, kept, n_scouts=4)
    rng = np.random.default_rng(1)
    for _ in range(3):
        sampler.learn([sampler.rollout(10, 0.2, rng)])
    sampler.finish()
    draws = sampler.draw(4000, rng)
    np.testing.assert_allclose(sampler.log_prob(draws.trees), draws.log_pf, atol=1e-5)
    np.testing.assert_allclose(
        draws.log_reward, log_reward(draws.trees, CASE.rows, CASE.score), atol=1e-9
    )
    weight = np.exp(draws.log_weight(1.0) - truth.log_z)
    assert weight.mean() == pytest.approx(1.0, abs=5 * weight.std() / math.sqrt(len(weight)) + 0.01)
    keys, count = np.unique(canonical_keys(draws.trees), return_counts=True)
    first = {key: i for i, key in reversed(list(enumerate(canonical_keys(draws.trees))))}
    share = np.exp(draws.log_pf[[first[key] for key in keys.tolist()]])
    assert (np.abs(count / 4000 - share) < 5 * np.sqrt(share / 4000) + 2e-3).all()


def test_a_wanted_cut_is_kept_and_the_flow_stays():
    sampler = make(CASE, 2, n_scouts=0)
    graph, root = sampler.graph, sampler.graph.levels[0]
    all_cuts = make(CASE, None, n_scouts=0).graph.levels[0].cuts
    wanted = np.stack([all_cuts.feature[:6], all_cuts.low[:6]], axis=1)[[0, 3, 5]]
    before = float(root.flow[0])
    found = graph.keep(0, 0, wanted)
    graph.update(0, np.zeros(1, np.int64), remember=True)
    assert (found >= root.start[0]).all()
    assert (found < root.start[0] + root.n_cuts[0]).all()
    assert root.cuts.feature[found].tolist() == wanted[:, 0].tolist()
    assert root.cuts.low[found].tolist() == wanted[:, 1].tolist()
    assert float(root.flow[0]) == pytest.approx(before, abs=1e-6)


def test_memory_ends_looking_and_the_posterior_is_still_one():
    problem_rows = merge_rows(CASE.rows)
    problem = make_problem(problem_rows, CASE.score, CASE.columns, CASE.n_columns)
    sampler = FixedSampler(problem, problem_rows, limits=Limits(memory=1.0), exact_tails=1)
    n_known = [int((~np.isnan(level.flow)).sum()) for level in sampler.graph.levels]
    assert sampler.full
    sampler.learn([sampler.rollout(20, 0.2, np.random.default_rng(0))])
    assert [int((~np.isnan(level.flow)).sum()) for level in sampler.graph.levels] == n_known
    draws = sampler.draw(50, np.random.default_rng(0))
    assert draws.cut_short.any()
    floor, _ = sampler.bounds()
    assert float(draws.log_weight(1.0).mean()) >= floor - 1e-6


LONGER = np.random.default_rng(0).integers(0, 6, (60, 3))
LONGER_CASE = Case(LONGER, (LONGER[:, 0] > 2) ^ (LONGER[:, 1] > 1), 2, max_depth=3, split_penalty=1)


def explored() -> FixedSampler:
    """Return a sampler that knows a part of a table whose row sets have many cuts."""
    sampler, rng = make(LONGER_CASE, None, n_scouts=20), np.random.default_rng(0)
    for _ in range(5):
        sampler.learn([sampler.rollout(20, 0.3, rng)])
    return sampler


def watch_tails(monkeypatch) -> list[int]:
    """Note how many row sets of the last level are looked at together, to rank trees."""
    looked, tail_best = list[int](), ranking.tail_best

    def noted(problem, bits, depth, run):
        looked.append(len(bits))
        return tail_best(problem, bits, depth, run)

    monkeypatch.setattr(ranking, "tail_best", noted)
    return looked


def test_ranking_ends_with_the_time_and_the_best_known_tree_is_there(monkeypatch):
    sampler, looked = explored(), watch_tails(monkeypatch)
    every = sampler.most_probable(1000)
    assert sum(looked) > 10
    looked.clear()
    tick(monkeypatch, 1.0)
    sampler.deadline = monotonic() + 5.5  # what was compiled before is not of the time
    some = sampler.most_probable(1000)
    assert 1 <= sum(looked) <= 5
    assert 1 <= len(some) < len(every)
    looked.clear()
    sampler.deadline = monotonic()
    assert len(sampler.most_probable(1000)) >= 1
    assert not looked


def test_ranking_makes_no_row_sets_of_leaves_and_looks_at_few_sets_at_once(monkeypatch):
    sampler = explored()
    with_leaves = sampler.most_probable(12)
    looked, kept = watch_tails(monkeypatch), list[int]()
    ways = ranking.Search.ways

    def noted(search, depth, bits, position):
        found = ways(search, depth, bits, position)
        if depth >= len(search.support) - 1:
            kept.append(found.children.size)
        return found

    monkeypatch.setattr(ranking.Search, "ways", noted)
    for n_trees in (1, 12):
        sampler.most_probable(n_trees)
        assert max(kept) <= 2 * n_trees * sampler.graph.problem.n_words
        kept.clear()
    monkeypatch.setattr(ranking, "expand", None)  # nothing of a long table is cut into row sets
    monkeypatch.setattr(ranking, "LEAVES_AT_ONCE", 0)
    monkeypatch.setattr(ranking, "BYTES_AT_ONCE", 2 * 8 * sampler.graph.problem.n_words)
    looked.clear()
    without = sampler.most_probable(12)
    assert max(looked) <= 2
    np.testing.assert_allclose(
        *(
            log_reward(trees, LONGER_CASE.rows, LONGER_CASE.score)
            for trees in (without, with_leaves)
        ),
        rtol=1e-9,
    )


def test_small_tables_keep_everything():
    problem = make_problem(CASE.rows, CASE.score, CASE.columns, CASE.n_columns)
    assert limits_for(problem).kept_cuts is None
    assert limits_for(problem).linked
    assert problem.max_cuts <= ALL_KEPT


@pytest.mark.parametrize("seed", range(6))
def test_the_best_last_split_is_that_of_all_row_sets(seed):
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 3, 12).astype(float) if seed % 2 else rng.uniform(0.2, 3, 12)
    case = Case(rng.integers(0, 4, (12, 3)), rng.integers(0, 3, 12), 3, weight, max_depth=1)
    case = case.but(split_penalty=[0.0, 2.0, "bcart"][seed % 3])
    problem = make_problem(case.rows, case.score, case.columns, case.n_columns)
    this: RowSets = root_row_set(problem)
    edges, children = expand(problem, this, run_at_once)
    slow = best_edge(problem, this, edges, tail_values(problem, children, 0, run_at_once), 0)
    expected = None if slow is None else middle_split(problem, edges, slow)
    assert best_last_split(problem, this, 0) == expected


def xor_rows(n_rows: int, n_noise: int, numbers: bool) -> tuple[Rows, DirichletLeaf | NormalLeaf]:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, size=(n_rows, n_noise + 2))
    sides = (codes[:, 3] > 8) ^ (codes[:, 7] > 11)
    if numbers:
        target = np.where(sides, 1.0, -1.0) + rng.normal(0, 0.5, n_rows)
        return Rows(codes.astype(np.uint16), target, np.ones(n_rows)), NormalLeaf()
    return Rows(codes.astype(np.uint16), sides.astype(np.int32), np.ones(n_rows)), DirichletLeaf(2)


@pytest.mark.parametrize("numbers", [False, True])
def test_a_hidden_xor_is_found_among_noise_with_its_thresholds(numbers):
    rows, leaf = xor_rows(400, 150, numbers)
    n_features = rows.codes.shape[1]
    score = make_score(leaf, n_features=n_features, n_thresholds=19)
    columns = np.arange(n_features, dtype=np.int32)
    problem = make_problem(rows, score, columns, n_features)
    found = find_pairs(problem.root_bits, problem.loops, 4)
    assert found[:2].tolist() == [[3, 8], [7, 11]]


def test_the_best_thresholds_are_those_of_all_pairs():
    rng = np.random.default_rng(3)
    codes, y = rng.integers(0, 5, (30, 2)).astype(np.uint16), rng.integers(0, 3, 30)
    rows = Rows(codes, y.astype(np.int32), np.ones(30))
    score = make_score(DirichletLeaf(3), n_features=2, n_thresholds=4)
    problem = make_problem(rows, score, np.arange(2, dtype=np.int32), 2)

    def value(i: int, j: int) -> float:
        corner = 2 * (codes[:, 0] > i) + (codes[:, 1] > j)
        counts = np.zeros((4, 3))
        np.add.at(counts, (corner, y), 1.0)
        return float(leaf_log_marginal(counts, score).sum())

    best = max(((i, j) for i in range(4) for j in range(4)), key=lambda pair: value(*pair))
    listed = np.arange(problem.n_rows, dtype=np.int32)
    assert best_thresholds(listed, 0, 1, problem.loops) == best


FIT = """
import resource, warnings
import numpy as np
warnings.simplefilter("ignore")
from dtgfn import infer
rng = np.random.default_rng(0)
def table(n_rows, n_columns):
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)
infer(*table(60, 3), time_budget=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
found = infer(*table(SHAPE), time_budget=10, random_state=0, n_trees=100)
assert found.log_evidence >= found.best_log_reward - 1e-6
print(len(found.trees), found.diagnostics["stopped_because"])
"""


@pytest.mark.long
@pytest.mark.parametrize("shape", ["500, 1000", "250, 5000", "100_000, 50"])
def test_fits_within_two_gigabytes_of_address_space(shape):
    code = FIT.replace("SHAPE", shape).replace("ROOM", "2_000_000_000")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] in ("time", "memory", "finished", "plateau")
