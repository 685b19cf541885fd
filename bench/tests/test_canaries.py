"""Canaries: every method computes what its revision stands for, or the check says what to do."""

import json
from dataclasses import replace

import numpy as np
import pytest
from dtgfn_bench import canaries
from dtgfn_bench.contract import Method
from dtgfn_bench.method_lookup import METHODS

KEPT = canaries.read_canaries()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_computes_what_its_records_say(name):
    finding = canaries.check_canary(METHODS[name], KEPT.get(name))
    assert not finding.failed, finding.sentence
    if METHODS[name].missing() is not None:
        pytest.skip(finding.sentence)


def test_no_canary_is_of_a_method_that_is_gone():
    assert set(KEPT) <= set(METHODS)


class Constant:
    """Says the same of every row."""

    def __init__(self, share):
        self.share = share

    def predict_proba(self, X):
        return np.tile([self.share, 1 - self.share, 0.0], (len(X), 1))

    def score(self, X):
        return 100 * self.share * np.ones(len(X))


def pretend(share=0.25, **changes):
    method = Method("pretend", "Pretend", lambda rows, seed: Constant(share), "note")
    return replace(method, **changes)


@pytest.fixture
def kept():
    return canaries.make_canary(pretend())


def test_the_same_again_is_fine(kept):
    finding = canaries.check_canary(pretend(0.25 + 1e-8), kept)
    assert not finding.failed
    assert finding.sentence == "pretend: as kept."


def test_a_change_under_the_same_revision_fails_with_the_way_out(kept):
    finding = canaries.check_canary(pretend(0.26), kept)
    assert finding.failed
    assert finding.sentence == (
        "what pretend computes has changed (by 0.01): raise its revision, and write canaries anew "
        "with `dtgfn bench canaries --write --methods pretend`."
    )


def test_scores_are_compared_in_their_own_size():
    kept = canaries.make_canary(pretend(detects=True))
    assert not canaries.check_canary(pretend(0.25 + 1e-8, detects=True), kept).failed
    assert canaries.check_canary(pretend(0.2501, detects=True), kept).failed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"libraries": "Python 1.0, numpy 2.0"}, "numpy"),
        ({"processor": "abacus"}, "another kind of processor"),
    ],
)
def test_a_difference_elsewhere_is_said_and_no_failure(kept, changes, words):
    finding = canaries.check_canary(pretend(0.26), replace(kept, **changes))
    assert not finding.failed
    assert words in finding.sentence
    assert "differs by 0.01" in finding.sentence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"revision": 2}, "is at revision 2, its canary at 1"),
        ({"quick": {"n": 1}}, "quick settings of pretend have changed"),
    ],
)
def test_a_canary_of_something_else_is_refused(kept, changes, words):
    method = pretend(**changes)
    method = replace(method, fit=lambda rows, seed, **settings: Constant(0.25))
    finding = canaries.check_canary(method, kept)
    assert finding.failed
    assert words in finding.sentence


def test_without_a_canary_or_a_library_it_says_so(kept):
    assert canaries.check_canary(pretend(), None).failed
    absent = pretend(needs=("no_such_module",))
    finding = canaries.check_canary(absent, kept)
    assert not finding.failed
    assert "not checked, needs no_such_module" in finding.sentence


def test_what_is_written_is_read_again_and_others_stay(tmp_path):
    path = tmp_path / "canaries.json"
    other, absent = pretend(0.5, name="other"), pretend(name="absent", needs=("no_such_module",))
    assert canaries.write_canaries([other], path) == []
    assert canaries.write_canaries([pretend(), absent], path) == ["absent"]
    found = canaries.read_canaries(path)
    assert list(found) == ["other", "pretend"]
    assert found["pretend"] == canaries.make_canary(pretend())
    assert len(path.read_text().splitlines()) == 4  # a line each, so that changes are seen
    json.loads(path.read_text())
