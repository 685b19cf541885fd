"""How many threads there are, as the machine, its container and the environment allow."""

from __future__ import annotations

import joblib
import pytest

from dtgfn._support.parallel import count_threads


@pytest.mark.parametrize(
    ("environment", "none", "all_cores"),
    [
        ({}, 8, 8),
        ({"OMP_NUM_THREADS": "3"}, 3, 8),
        ({"OMP_NUM_THREADS": "3,2", "NUMBA_NUM_THREADS": "2"}, 2, 8),
        ({"OMP_NUM_THREADS": "99"}, 8, 8),
        ({"OMP_NUM_THREADS": "0", "NUMBA_NUM_THREADS": "many"}, 8, 8),
    ],
)
def test_none_is_what_joblib_sees_and_the_environment_allows(
    environment, none, all_cores, monkeypatch
):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)  # who heeds affinity and cgroups
    assert count_threads(None) == none
    assert count_threads(-1) == all_cores
    assert count_threads(5) == 5


def test_none_is_what_joblib_was_told_to_take(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    with joblib.parallel_config(n_jobs=3):
        assert count_threads(None) == 3
        assert count_threads(-1) == 8
        assert count_threads(2) == 2
    with joblib.parallel_config("threading", n_jobs=-2):
        assert count_threads(None) == 7
