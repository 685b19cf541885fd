"""A fit of a long table that begins on parts of its rows is of all rows in the end."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from dtgfn import infer
from dtgfn.diagnostics.judgement import UntrustworthyFit
from dtgfn.engines.gfn import parts
from dtgfn.engines.rowsets import problem as problem_room
from dtgfn.engines.rowsets.partial import graph as graph_room
from dtgfn.trees.score import Rows, log_reward, merge_rows

N_ROWS = 600


@pytest.fixture(autouse=True)
def tables_are_long_early(monkeypatch):
    monkeypatch.setattr(problem_room, "MAX_TABLE", 0)
    for room in (problem_room, graph_room, parts):
        monkeypatch.setattr(room, "LONG", 20)


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    return X, (X[:, 0] > 0) ^ (X[:, 1] > 0.5) ^ (rng.random(N_ROWS) < 0.1)


def test_parts_weigh_what_all_rows_do_and_ascend():
    assert parts.part_sizes(N_ROWS) == [24, 120]
    assert parts.part_sizes(99) == []
    rows = Rows(np.zeros((N_ROWS, 1), np.uint16), np.zeros(N_ROWS, np.int32), np.ones(N_ROWS))
    for size in (24, 120):
        part = parts.take_part(rows, np.arange(size))
        assert part.weight.sum() == N_ROWS
        assert len(part.target) == size


def test_trees_of_parts_are_known_on_all_rows_and_the_posterior_is_theirs(monkeypatch):
    looked, followed = [], []
    follow = parts.follow

    def noted(sampler, trees, deadline):
        follow(sampler, trees, deadline)
        looked.append(sampler.graph.problem.n_rows)
        followed.append(np.isfinite(sampler.log_prob(trees)).all())

    monkeypatch.setattr(parts, "follow", noted)
    X, y = table()
    given = {"max_depth": 3, "n_thresholds": 9, "n_trees": 200, "random_state": 0, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        found = infer(X, y, time_budget=8.0, callbacks=[lambda state: state.step < 5], **given)
    assert sorted(looked) == looked
    assert looked[-1] == len(np.unique(found.rows.codes, axis=0))
    assert all(followed)
    rows = merge_rows(found.rows)
    reward = log_reward(found.trees, rows, found.score)
    np.testing.assert_allclose(found.log_reward, reward, atol=1e-9)
    exact = infer(X, y, engine="exact", time_budget=None, **given)
    assert found.diagnostics["log_z_floor"] <= exact.log_evidence + 1e-6
    assert found.diagnostics["elbo"] <= exact.log_evidence + 1e-6 < math.inf


def test_what_must_be_told_by_steps_alone_begins_on_all_rows(monkeypatch):
    def refuse(*_):
        raise AssertionError("looked on parts")

    monkeypatch.setattr(parts, "look_on_parts", refuse)
    X, y = table()
    given = {"max_depth": 2, "n_thresholds": 5, "n_trees": 20, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        infer(X, y, n_steps=3, time_budget=None, **given)
        infer(X, y, n_steps=3, time_budget=60.0, **given)
