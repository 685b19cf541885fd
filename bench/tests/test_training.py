"""What the policy for all tables learns from: exact sums, the same whenever they are made."""

from __future__ import annotations

import numpy as np
import pytest
from dtgfn_bench.training.fitting import Lessons, fit_policy, judge, read_lessons
from dtgfn_bench.training.lessons import draw_graph, draw_lesson, open_graph, write_lessons
from dtgfn_bench.training.made_tables import Table

from dtgfn.engines.gfn.fixed.policies import MlpPolicy, load_policy
from dtgfn.engines.gfn.fixed.views import N_VIEW


def test_what_is_opened_wholly_sums_all_trees():
    from dtgfn.engines import Rows, Run, infer_exact

    rng = np.random.default_rng(4)
    X = rng.integers(0, 4, (30, 2)).astype(float)
    y = (X[:, 0] > X[:, 1]).astype(np.int32)
    graph = draw_graph(Table("small", X, y.astype(float), True), np.random.default_rng(11))
    open_graph(graph, rng)
    loops, column = graph.problem.loops, np.arange(graph.problem.feature.size, dtype=np.int32)
    codes = np.take_along_axis(loops.rank_code, loops.ranks.astype(np.int64), axis=1).T
    count = loops.sums.astype(int)
    rows = [(r, c) for r in range(len(count)) for c in range(2) for _ in range(count[r, c])]
    at, target = np.array(rows).T
    given = Rows(codes[at].astype(np.uint16), target.astype(np.int32), np.ones(at.size))
    exact = infer_exact(given, graph.problem.score, Run(column=column, n_columns=column.size))
    assert graph.levels[0].open[0] == 0.0
    assert graph.levels[0].flow[0] == pytest.approx(exact.log_evidence, abs=1e-6)


def test_lessons_are_the_same_again_and_go_on_where_they_were_broken_off(tmp_path):
    lessons = [draw_lesson(1, index) for index in (15, 10)]  # of tables made here
    again = draw_lesson(1, 15)
    np.testing.assert_array_equal(lessons[0].views, again.views)
    np.testing.assert_array_equal(lessons[0].nats, again.nats)
    assert (lessons[0].nats >= 0).all()
    list(write_lessons(tmp_path, 1, 15, 16, 1))
    before = (tmp_path / "000015.npz").stat().st_mtime_ns
    list(write_lessons(tmp_path, 1, 15, 16, 1))
    assert (tmp_path / "000015.npz").stat().st_mtime_ns == before
    read = read_lessons(tmp_path, 20)
    np.testing.assert_array_equal(read.nats, lessons[0].nats)


def test_a_fit_learns_what_views_tell(tmp_path):
    rng = np.random.default_rng(0)
    views = rng.normal(size=(4000, N_VIEW)).astype(np.float32)
    views[:, 5] = 1.0
    nats = np.exp(views[:, 0]).astype(np.float32)
    left, share = np.full(4000, 2), np.ones(4000, np.float32)
    lessons = Lessons(views, nats, left, share, np.arange(4000) // 10)
    policy = fit_policy(lessons, (16,), 600.0, 0, {"data": "made up"})
    assert isinstance(policy, MlpPolicy)
    (_, number, error, _, none), *_ = judge(policy, lessons)
    assert number == lessons.held_out.sum()
    assert error < 0.3 * none
    policy.save(tmp_path / "p.safetensors")
    assert load_policy(tmp_path / "p.safetensors").card == {"data": "made up"}
