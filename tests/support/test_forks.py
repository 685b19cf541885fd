"""Forked processes fit and predict, whatever threads of the parent were doing."""

import multiprocessing
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

FIT = """
import os, sys, threading, warnings
import dtgfn
warnings.simplefilter("ignore")

def fit(inference="gfn", **options):
    import numpy as np
    X = np.random.default_rng(0).random((80, 5))
    y = X[:, 0] > X[:, 1]
    model = dtgfn.DTGFNClassifier(
        inference=inference, max_depth=3, n_trees=20, n_jobs=2, random_state=0, options=options
    )
    return model.fit(X, y).predict_proba(X).tolist()

def free():
    return fit(leaf_order="free", n_steps=3)

def in_a_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(7)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

AFTER = """
import torch
with torch.no_grad():  # so that OpenMP has threads, on any machine
    torch.set_num_threads(2)
    torch.ones(500, 500) @ torch.ones(500, 500) + torch.ones(500, 500).exp()
free()
assert in_a_child(free) == 7
assert torch.get_num_threads() == 2
"""

DURING = """
import time
thread = threading.Thread(target=free)
thread.start()
codes = []
while thread.is_alive() and len(codes) < 3:
    time.sleep(0.2)  # first of all it imports
    codes.append(in_a_child(free))
thread.join()
assert set(codes) == {7}, codes
"""

POOL = """
import multiprocessing

def again(inference):
    return fit(inference, n_steps=200)

here = again("mcmc")
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(again, ["mcmc", "mcmc"]) == [here, here]
"""


@pytest.mark.parametrize(
    "story",
    [AFTER, pytest.param(DURING, marks=pytest.mark.long), POOL],
    ids=["after", "during", "pool"],
)
def test_a_forked_process_fits(story):
    # In a process of its own: what hangs ends there.  Compiling anew takes minutes on a slow day.
    done = subprocess.run(
        [sys.executable, "-c", FIT + story], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr


def test_a_spawned_process_may_use_threads():
    from dtgfn._support.forks import was_forked

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(was_forked) is False
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(was_forked) is True
    assert not was_forked()
