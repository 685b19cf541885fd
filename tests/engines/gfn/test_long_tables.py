"""Long tables, whose row sets are made again and whose classes are counted at once: all as kept."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from enumeration import Case, Enumeration, to_batch

from dtgfn._support.parallel import run_at_once
from dtgfn.data.equal_rows import are_distinct
from dtgfn.engines.gfn import state as state_room
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.gfn.state import data_fingerprint
from dtgfn.engines.rowsets import problem as problem_room
from dtgfn.engines.rowsets.class_counts import make_class_counts
from dtgfn.engines.rowsets.graph import make_row_sets
from dtgfn.engines.rowsets.partial import graph as graph_room
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph, limits_for
from dtgfn.engines.rowsets.partial.saved import graph_arrays, restore_graph
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.trees import score as score_room
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, log_reward, merge_rows


def random_case(seed: int, n_rows: int = 150, depth: int = 3) -> Case:
    """Return an odd table: columns of two codes, one and many, and whole weights."""
    rng = np.random.default_rng(seed)
    n_codes = (2, 7, 1, 40, 3)[: 3 + seed % 3]
    codes = np.stack([rng.integers(0, k, n_rows) for k in n_codes], axis=1)
    n_classes = 2 + seed % 3
    y = (codes[:, 1] > 3) * 1 ^ (codes[:, 0] > 0) ^ (rng.random(n_rows) < 0.2)
    y = np.where(rng.random(n_rows) < 0.2, rng.integers(0, n_classes, n_rows), y)
    weight = rng.integers(1, 4, n_rows).astype(float) if seed % 2 else np.ones(n_rows)
    penalty = [1.0, "bcart", 2.5][seed % 3]
    return Case(
        codes, y, n_classes, weight, max_depth=depth, split_penalty=penalty, n_thresholds=39
    )


def made(case: Case, monkeypatch, long: bool) -> Problem:
    """Return the problem of a table that is taken as long, or not; without a table of leaves."""
    monkeypatch.setattr(problem_room, "MAX_TABLE", 0)
    for room in (problem_room, graph_room):
        monkeypatch.setattr(room, "LONG", 0 if long else 10**9)
    ranked = np.dtype(np.uint8 if long else np.uint16)
    rows = merge_rows(case.rows)
    return make_problem(rows, case.score, case.columns, case.n_columns, ranked=ranked)


def graphs(case: Case, monkeypatch, kept_cuts: int | None = None) -> tuple[PartialGraph, ...]:
    """Return graphs of a long table, and of the same one as other tables are treated."""
    out = []
    for long in (True, False):
        problem = made(case, monkeypatch, long)
        assert (problem.loops.counts.packed.size > 0) == long
        limits = Limits(kept_cuts, linked=False, rebuilt=long)
        out.append(PartialGraph(problem, 1, run_at_once, limits=limits))
    return tuple(out)


def grow(graph: PartialGraph, seed: int) -> None:
    """Look at some nodes of every depth."""
    rng = np.random.default_rng(seed)
    nodes = np.zeros(1, np.int64)
    for depth in range(graph.n_upper):
        graph.expand(depth, nodes)
        level = graph.levels[depth]
        cuts, owner = [], []
        for node in nodes.tolist():
            for _ in range(min(3, int(level.n_cuts[node]))):
                cuts.append(level.start[node] + rng.integers(level.n_cuts[node]))
                owner.append(node)
        nodes = np.unique(graph.reach(depth, np.array(owner), np.array(cuts)))
    graph.expand(graph.n_upper, nodes)
    for depth in range(graph.n_upper - 1, -1, -1):
        level = graph.levels[depth]
        graph.update(depth, np.flatnonzero(level.start[: len(level)] >= 0), remember=True)


@pytest.mark.parametrize("kept_cuts", [None, 4])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_made_again_and_counted_at_once_is_what_was_kept_and_summed(
    seed, kept_cuts, monkeypatch
):
    long, other = graphs(random_case(seed), monkeypatch, kept_cuts)
    for graph in (long, other):
        grow(graph, seed)
    for a, b in zip(long.levels, other.levels, strict=True):
        nodes = np.arange(len(a))
        assert len(a) == len(b)
        assert a.sets.bits.shape[1] == 0
        bits = long.bits_of(a.depth, nodes)
        np.testing.assert_array_equal(bits, b.sets.bits[nodes])
        np.testing.assert_array_equal(make_row_sets(long.problem, bits).keys, a.sets.keys[nodes])
        for name in ("flow", "best", "stop", "lookahead", "sums", "rest", "n_cuts"):
            np.testing.assert_array_equal(getattr(a, name)[nodes], getattr(b, name)[nodes])
        assert a.n_listed == b.n_listed
        for ours, theirs in zip(a.cuts, b.cuts, strict=True):
            np.testing.assert_array_equal(ours[: a.n_listed], theirs[: b.n_listed])


@pytest.mark.parametrize("kept", [None, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_table_has_the_posterior_of_all_its_trees(seed, kept, monkeypatch):
    case = random_case(seed, 12, depth=2)
    problem, exact = made(case, monkeypatch, True), Enumeration(case)
    limits = replace(limits_for(problem), kept_cuts=kept)
    assert limits.rebuilt
    sampler = FixedSampler(problem, merge_rows(case.rows), hidden=(8,), seed=1, limits=limits)
    rng = np.random.default_rng(0)
    for _ in range(30):
        sampler.learn([sampler.rollout(20, 0.3, rng)])
        floor, ceiling = sampler.bounds()
        assert floor - 1e-6 <= exact.log_z <= ceiling + 1e-6
    sampler.finish()
    draws = sampler.draw(2000, rng)
    np.testing.assert_allclose(sampler.log_prob(draws.trees), draws.log_pf, atol=1e-5)
    reward = log_reward(draws.trees, case.rows, case.score)
    np.testing.assert_allclose(draws.log_reward, reward, atol=1e-9)
    every = sampler.log_prob(to_batch(list(exact.trees)))
    assert float(np.exp(every).sum()) == pytest.approx(1.0, abs=1e-5)
    assert (every > -math.inf).all()
    if kept is None:
        assert sampler.graph.levels[0].flow[0] == pytest.approx(exact.log_z, abs=1e-4)


def test_a_graph_that_keeps_no_rows_comes_back_from_its_arrays(monkeypatch):
    case = random_case(1)
    graph, _ = graphs(case, monkeypatch, 4)
    grow(graph, 1)
    arrays = {name: array.copy() for name, array in graph_arrays(graph).items()}
    fresh, _ = graphs(case, monkeypatch, 4)
    restore_graph(fresh, arrays)
    for ours, theirs in zip(fresh.levels, graph.levels, strict=True):
        nodes = np.arange(len(theirs))
        np.testing.assert_array_equal(ours.flow[nodes], theirs.flow[nodes])
        np.testing.assert_array_equal(
            fresh.bits_of(ours.depth, nodes), graph.bits_of(ours.depth, nodes)
        )
    for name, changed in (("parent", 10**6), ("origin", 10**6), ("keys", 1)):
        wrong = {key: array.copy() for key, array in arrays.items()}
        wrong[f"level.1.{name}"][0] = changed
        with pytest.raises(ValueError, match="do not fit together"):
            restore_graph(fresh, wrong)


def test_counts_are_packed_only_where_they_are_whole_and_fit():
    sums = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert make_class_counts(sums, DirichletLeaf(2), wanted=True).packed.size == 2
    assert make_class_counts(sums, DirichletLeaf(2), wanted=False).packed.size == 0
    assert make_class_counts(0.5 * sums, DirichletLeaf(2), wanted=True).packed.size == 0
    assert make_class_counts(1e12 * sums, DirichletLeaf(2), wanted=True).packed.size == 0


@pytest.mark.parametrize("numbers", [False, True])
def test_rows_are_distinct_where_no_two_are_equal(numbers):
    rng = np.random.default_rng(0)
    for n_rows in (1, 50, 400):
        codes = rng.integers(0, 9, (n_rows, 3)).astype(np.uint16)
        target = rng.integers(0, 3, n_rows) if numbers else np.zeros(n_rows)
        n_distinct = len(np.unique(np.column_stack([codes, target]), axis=0))
        assert are_distinct(codes, target.astype(float)) == (n_distinct == n_rows)
        assert are_distinct(codes) == (len(np.unique(codes, axis=0)) == n_rows)


def test_rows_without_equal_ones_are_not_copied_and_named_whatever_their_order(monkeypatch):
    for room in (score_room, state_room):
        monkeypatch.setattr(room, "LONG", 0)
    codes = np.random.default_rng(0).permutation(200).reshape(-1, 2)
    case = Case(codes, codes[:, 0] % 2, 2, n_thresholds=250)
    rows = case.rows
    assert merge_rows(rows, ordered=False) is rows
    twice = Rows(*(np.concatenate([a, a]) for a in (rows.codes, rows.target, rows.weight)))
    assert len(merge_rows(twice, ordered=False).target) == len(rows.target)
    turned = Rows(rows.codes[::-1].copy(), rows.target[::-1].copy(), rows.weight[::-1].copy())
    assert data_fingerprint(turned, case.score) == data_fingerprint(rows, case.score)
    other = Rows(rows.codes, 1 - rows.target, rows.weight)
    assert data_fingerprint(other, case.score) != data_fingerprint(rows, case.score)
