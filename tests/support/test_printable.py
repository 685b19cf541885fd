"""What people read holds nothing that commands a terminal, and data stay as they are."""

import csv
import io
import json
import unicodedata

import numpy as np
import pandas as pd
import pytest
from command_line import dtgfn
from hypothesis import example, given
from hypothesis import strategies as st
from terminal import DTGFN, SOON, on_a_terminal
from thoroughness import examples

from dtgfn import DTGFNClassifier, load, save
from dtgfn._support.printable import visible, visible_json, visible_lines
from dtgfn._support.progress import progress_bar
from dtgfn.cli.outputs import csv_text
from dtgfn.explain import distinct_rules, leaf_rules

NAME, CATEGORY, LABEL = "a\x1b[2J\u202eb", "re\x07\x9bd\n", "=cmd|' /C calc'!\x1b[31m"
EVIL = "\x1b\x07\x9b\u202e"


def is_harmless(text):
    return all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") or c == "\n" for c in text)


@given(st.text(st.characters(codec=None)))
@example("\u202e\u2066\u200f\ufeff\x85\x7f\ud800")
def test_what_is_visible_commands_nothing_and_prints_anywhere(text):
    shown = visible(text)
    assert is_harmless(shown)
    assert not any(c in shown for c in "\n\u202d\u202e\u2066\u2067\u200f")
    assert shown.encode().decode() == shown
    assert visible(shown) == shown
    assert visible_lines(text).count("\n") == text.count("\n")
    for kept in ("é漢", "naïve \N{NO-BREAK SPACE}x", "می\u200cخواهم", "👩\u200d🚀"):
        assert visible(kept) == kept


@given(st.dictionaries(st.text(), st.text(st.characters(codec=None))))
def test_json_means_the_same(value):
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert is_harmless(text)
    assert json.loads(text) == value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({NAME: rng.random(60).round(3), "c\x1b": rng.choice([CATEGORY, "b"], 60)})
    frame["y"] = np.where((frame[NAME] > 0.5) ^ (frame["c\x1b"] == "b"), LABEL, "n\no")
    frame.to_csv(folder / "t.csv", index=False)
    fitted = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=5, n_trees=20)
    save(fitted.fit(frame[[NAME, "c\x1b"]], frame["y"]), folder / "m.dtgfn")
    return folder


LINES = [
    ("show",), ("show", "--json"), ("diagnose",), ("diagnose", "--json"), ("export",),
    ("export", "--format", "dot"), ("export", "--format", "mermaid"), ("report", "--json"),
    ("export", "--format", "json"),
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_no_command_prints_what_commands_a_terminal(folder, line):
    done = dtgfn(line[0], folder / "m.dtgfn", *line[1:])
    assert done.returncode == 0
    assert not any(c in done.stdout + done.stderr for c in EVIL)
    assert "x1b" in done.stdout or "\\u001b" in done.stdout or line[0] == "diagnose"


def test_fitting_and_mistakes_print_nothing_that_commands_a_terminal(folder, tmp_path):
    line = ("fit", folder / "t.csv", "--inference", "exact", "--max-depth", "1", "--out")
    done = dtgfn(*line, tmp_path / "m\x1b.dtgfn", "--target", "y")
    assert done.returncode == 0
    assert "m\\x1b.dtgfn" in done.stdout
    wrong = [
        dtgfn(*line, tmp_path / "m.dtgfn", "--target", NAME),
        dtgfn(*line, tmp_path / "m.dtgfn", "--target", "\x1b[31m"),
        dtgfn("predict", folder / "m.dtgfn", tmp_path / "no\x1b.csv"),
        dtgfn("fit\x1b[2J"),
        dtgfn("fit", "--\x1b[2J"),
    ]
    for told in [done, *wrong]:
        assert not any(c in told.stdout + told.stderr for c in EVIL)
    assert all(told.returncode in (1, 2) for told in wrong)


def test_predictions_are_data_in_a_pipe(folder):
    piped = dtgfn("predict", str(folder / "m.dtgfn"), str(folder / "t.csv")).stdout
    assert set(pd.read_csv(io.StringIO(piped))["prediction"]) == {LABEL, "n\no"}


@pytest.mark.long
def test_predictions_are_text_on_a_terminal(folder):
    # A bar, which appears where a machine is busy, is drawn by such codes.
    line = ("predict", str(folder / "m.dtgfn"), str(folder / "t.csv"), "--quiet")
    code, shown = on_a_terminal([*DTGFN, *line])
    assert code == 0
    assert "x1b" in shown
    assert not any(c in shown for c in EVIL)


def test_words_of_a_model_command_no_terminal(folder):
    model = load(folder / "m.dtgfn")
    row = {NAME: 0.2, "c\x1b": CATEGORY}
    texts = [
        model.describe(),
        str(model.decision_path(row)),
        str(model.decision_path({**row, "c\x1b": "\x1b"})),
    ]
    for frame in (leaf_rules(model, "best"), distinct_rules(model)):
        texts += [frame.to_string()]
    for text in texts:
        assert not any(c in text for c in EVIL)


def test_a_file_may_be_called_like_markup():
    def run():
        with progress_bar(True) as show:
            show("reading [/b]\x1b.csv", 0.5)

    run()
    code = (
        f"{SOON}with progress.progress_bar(True) as show:\n"
        "    show('reading [/b]\\x07.csv', 0.5)\n    appeared.wait()\n"
    )
    ended, told = on_a_terminal([DTGFN[0], "-c", code])
    assert ended == 0
    assert "[/b]\\x07.csv" in told


CELLS = st.one_of(
    st.sampled_from(
        ["=1+1", "+x", "-x", "@x", "\tx", "\r=x", " =x", "-1.5", "+2", "1e5", "", "a=b"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=5),
)


@examples(50)
@given(st.lists(CELLS, min_size=1, max_size=5), st.lists(st.floats(allow_nan=False), max_size=3))
@example(["\r=x", "a"], [])
def test_safe_csv_holds_no_formula_and_leaves_numbers_alone(texts, numbers):
    frame = pd.DataFrame({"=t": texts, "n": [*numbers, *[-1.5] * len(texts)][: len(texts)]})
    rows = list(csv.reader(io.StringIO(csv_text(frame, safe=True), newline="")))
    plain = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert [cell for cell, _ in plain[1:]] == texts
    assert rows[0] == ["'=t", "n"]
    for (cell, number), (before, number_before) in zip(rows[1:], plain[1:], strict=True):
        assert number == number_before
        assert cell in (before, f"'{before}")
        if cell.lstrip()[:1] in tuple("=+-@"):
            float(cell)


def test_safe_csv_is_a_flag(folder, tmp_path):
    line = ("predict", folder / "m.dtgfn", folder / "t.csv", "--keep", NAME)
    safe = pd.read_csv(io.StringIO(dtgfn(*line, "--safe-csv").stdout))
    plain = pd.read_csv(io.StringIO(dtgfn(*line).stdout))
    assert set(safe["prediction"]) == {f"'{LABEL}", "n\no"}
    assert set(plain["prediction"]) == {LABEL, "n\no"}
    assert (safe[NAME] == plain[NAME]).all()
    out = tmp_path / "p.tsv"
    assert dtgfn(*line, "--safe-csv", "--out", out).returncode == 0
    assert "'=cmd" in out.read_text()
    assert dtgfn(*line, "--safe-csv", "--out", tmp_path / "p.parquet").returncode == 2
    assert dtgfn("export", folder / "m.dtgfn", "--safe-csv").returncode == 2
    rules = tmp_path / "r.csv"
    assert dtgfn("export", folder / "m.dtgfn", "--safe-csv", "--out", rules).returncode == 0
