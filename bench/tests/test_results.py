"""The records at hand: each says which code measured it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "results"
# seed-spread keeps bare numbers; its page names the commit.
FILES = [*sorted(RESULTS.glob("*.jsonl")), RESULTS / "studies" / "development.jsonl"]


def test_there_are_records():
    assert len(FILES) > 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_record_names_the_commit_that_measured_it(path):
    for line in path.read_text().splitlines():
        assert json.loads(line).get("commit"), line[:200]
