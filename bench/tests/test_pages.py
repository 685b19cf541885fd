"""Pages and their figures: complete files, deterministic drawings, nothing fetched."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from dtgfn_bench import pages
from dtgfn_bench.experiment import Block, Figure
from dtgfn_bench.plots import Point, Series, critical_difference, lines, scatter_sizes
from dtgfn_bench.statistics import rank_methods

HEADER = pages.Header("Trees <1>", "dtgfn bench trees", "2 cores", "2026-01-02", {"numpy": "2.0"})
SERIES = [
    Series("Ours", [100, 1000], [0.8, 0.9], [0.7, 0.8], [0.9, 1.0], ours=True),
    Series("Forest $x$", [100, 1000], [0.7, 0.8]),
]
VOID = {"meta", "link", "br", "img"}


def drawn_lines(name="scaling", **options):
    return Figure(name, "Lines & more", lambda f: lines(f, SERIES, "trees", "accuracy", **options))


def drawn_ranks():
    scores = np.random.default_rng(0).normal(size=(30, 6)) + 0.7 * np.arange(6)
    ranks = rank_methods([f"method {at}" for at in range(6)], scores)
    return Figure("ranks", "Ranks", lambda f: critical_difference(f, ranks, {"method 5"}))


def drawn_sizes():
    points = [Point("Ours", 8.0, 0.97, ours=True), Point("CART", 8.1, 0.97), Point("MAP", 300, 0.8)]
    return Figure("sizes", "Sizes", lambda f: scatter_sizes(f, points))


FIGURES = [drawn_lines(), drawn_lines(log_x=True, band=False), drawn_ranks(), drawn_sizes()]


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="figures need matplotlib")


class Balance(HTMLParser):
    """Notes every tag that is not closed in its place, and every address."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.addresses, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.note(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.note(attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def note(self, attrs):
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("figure", FIGURES, ids=["lines", "log", "ranks", "sizes"])
def test_drawings_are_deterministic_and_undated(figure):
    first = pages.svg(figure)
    assert first == pages.svg(figure)
    assert "dc:date" not in first
    assert "Matplotlib v" not in first
    ElementTree.fromstring(first)


def test_a_style_of_the_readers_own_changes_nothing(matplotlib):
    expected = pages.svg(drawn_lines())
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "text.color": "red"}):
        assert pages.svg(drawn_lines()) == expected
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.usefixtures("matplotlib")
def test_names_are_text_and_ours_is_highlighted():
    drawn = pages.svg(drawn_ranks())
    assert "method 5" in drawn
    assert "#d55e00" in drawn
    assert "critical difference" in drawn
    assert ">Forest $x$<" in pages.svg(drawn_lines()), "a name is not mathematics"


@pytest.mark.usefixtures("matplotlib")
def test_a_page_is_whole_and_asks_for_nothing(tmp_path):
    blocks = [
        Block("First", [["a", "b"], ["x | y", "1"]], "Some *text*.", drawn_lines()),
        Block("Second", figure=drawn_lines("again", log_x=True)),
        Block("Third", figure=drawn_ranks()),
    ]
    written = pages.write_page(tmp_path / "new", "trees", HEADER, blocks, "Notes with <b>.")
    assert [path.name for path in written] == [
        "trees-scaling.svg",
        "trees-again.svg",
        "trees-ranks.svg",
        "trees.md",
        "trees.html",
    ]
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    text = written[-2].read_text(encoding="utf-8")
    assert r"| x \| y | 1 |" in text
    assert "![Lines & more](trees-scaling.svg)" in text.replace("\\", "")
    page = written[-1].read_text(encoding="utf-8")
    found = Balance()
    found.feed(page)
    assert not found.open
    assert not found.wrong
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    assert len(found.ids) == len(set(found.ids))
    assert {address[1:] for address in found.addresses if address[0] == "#"} <= set(found.ids)
    assert set(re.findall(r"url\(#([^)]*)\)", page)) <= set(found.ids)
    assert "Notes with &lt;b&gt;." in page
    assert "<title>Trees &lt;1&gt;</title>" in page
    assert "currentColor" in page
    assert "@import" not in page


@pytest.mark.usefixtures("matplotlib")
def test_writing_twice_gives_the_same_bytes(tmp_path):
    blocks = [Block("Only", figure=drawn_sizes())]
    first = [path.read_bytes() for path in pages.write_page(tmp_path, "p", HEADER, blocks)]
    assert first == [path.read_bytes() for path in pages.write_page(tmp_path, "p", HEADER, blocks)]


def test_a_failed_write_leaves_the_old_page_and_no_rest(tmp_path):
    pages.write_page(tmp_path, "p", HEADER, [Block("Old")])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UnicodeEncodeError):
        pages.write_page(tmp_path, "p", HEADER, [Block("New \ud800")])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("matplotlib")
def test_two_figures_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        pages.write_page(
            tmp_path, "p", HEADER, [Block(figure=drawn_lines()), Block(figure=drawn_lines())]
        )


def test_without_matplotlib_the_page_says_so(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib.figure")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    written = pages.write_page(tmp_path, "p", HEADER, [Block("Only", figure=drawn_lines())])
    assert [path.name for path in written] == ["p.md", "p.html"]
    assert "Drawing figures needs matplotlib: pip install" in written[1].read_text("utf-8")


@pytest.mark.usefixtures("matplotlib")
def test_drawing_never_imports_pyplot():
    code = (
        "import sys\n"
        "from dtgfn_bench import pages\n"
        "from dtgfn_bench.experiment import Figure\n"
        "from dtgfn_bench.plots import Point, scatter_sizes\n"
        "pages.svg(Figure('a', 'b', lambda f: scatter_sizes(f, [Point('x', 1.0, 2.0)])))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
