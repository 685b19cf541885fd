"""Compiling on a busy machine: two rows get more time, rather than a refusal."""

import numpy as np
import pytest

from dtgfn.engines import find_engine, warm_up
from dtgfn.engines.contract import BudgetExceeded, Run
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, make_score


def test_a_first_try_without_time_is_not_the_last(monkeypatch):
    engine = find_engine("exact")
    options = engine.read_options({})
    rows = Rows(np.array([[0], [1]], dtype=np.int32), np.array([0, 1]), np.ones(2))
    score = make_score(DirichletLeaf(2), n_features=1, n_thresholds=3, max_depth=2)
    run = Run(column=np.array([0], dtype=np.int32), n_columns=1)
    monkeypatch.setattr(warm_up, "SECONDS", (1e-9,))
    with pytest.raises(BudgetExceeded):
        warm_up.compile_engine(engine, rows, score, run, options)
    monkeypatch.setattr(warm_up, "SECONDS", (1e-9, 3.0))
    found = warm_up.compile_engine(engine, rows, score, run, options)
    assert len(found.trees) == 2
