"""The records at hand: each says which code measured it."""

from __future__ import annotations

import json
import re
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


NOTES = sorted((RESULTS / "notes").glob("*.md"))
FIGURE = re.compile(r"(?<![\w.,/-])[+-]?\d+\.(\d{2,})\b")


def figures_of(page: Path) -> set[float]:
    """Numbers in the tables of a page, without their signs, and those of its sentences on ranks."""
    lines = page.read_text(encoding="utf-8").splitlines()
    printed = [line for line in lines if line.startswith(("|", "!["))]
    return {abs(float(number)) for number in re.findall(r"\d+\.\d+", " ".join(printed))}


def pages_of(note: Path) -> list[Path]:
    """The page of a note, and the pages that it names."""
    named = re.findall(r"\b(?:studies/)?[a-z-]+\.md", note.read_text(encoding="utf-8"))
    found = [RESULTS / name for name in (note.name, f"studies/{note.name}", *named)]
    return [page for page in found if page.is_file()]


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_every_figure_of_a_note_stands_in_a_table(note):
    """Of the note's page or of a page that it names, rounded as the note rounds it."""
    known = set().union(*(figures_of(page) for page in pages_of(note)))
    absent = []
    for found in FIGURE.finditer(note.read_text(encoding="utf-8")):
        number, digits = abs(float(found.group())), len(found.group(1))
        if not any(abs(number - one) <= 0.5 * 10**-digits + 1e-12 for one in known):
            absent.append(found.group())
    assert not absent, f"in no table: {', '.join(absent)}"
