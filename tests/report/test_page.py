"""The text of a report's page: whole, escaped, small, and without any address."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from reported import KINDS, case

from dtgfn.report.page import render_page

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")


class Reader(HTMLParser):
    """Collects elements and checks that each is closed where it should be."""

    VOID = frozenset(("meta", "input", "br", "link", "img"))

    def __init__(self):
        super().__init__()
        self.open, self.elements = [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader.elements


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_well_formed_and_its_names_are_no_markup(kind):
    page = render_page(case(kind).report)
    elements = read(page)
    tags = [tag for tag, _ in elements]
    assert tags.count("script") == 2, "the data and one script of our own"
    assert not {"img", "link", "iframe", "object"} & set(tags)
    assert not [a for _, attrs in elements for a in attrs if a.startswith("on") or a == "src"]
    assert ("html", {"lang": "en"}) in elements
    assert tags.count("h1") == 1


def test_the_data_go_in_whole():
    report = case("gfn").report
    page = render_page(report)
    data = re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.S)
    assert json.loads(data.group(1)) == report
    assert "<" not in data.group(1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_names_no_address(kind):
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)", render_page(case(kind).report))


def test_the_policy_allows_this_style_and_this_script_only():
    page = render_page(case("exact").report)
    policy = dict(
        part.split(" ", 1)
        for part in re.search(r'Security-Policy" content="([^"]*)"', page).group(1).split("; ")
    )
    assert policy["default-src"] == "'none'"
    for tag in ("style", "script"):
        text = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S).group(1)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"


def test_a_page_without_data_is_small():
    page = render_page(case("exact").report)
    rest = re.sub(
        r'(<script type="application/json" id="report">).*?</script>', "", page, flags=re.S
    )
    assert 50_000 < len(rest.encode()) < 110_000


def test_numbers_that_are_no_json_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        render_page(case("exact").report | {"n_importances": float("nan")})


def test_half_a_character_does_not_spoil_the_page():
    page = render_page(case("exact").report | {"title": "half \ud83d of it"})
    assert "half ? of it" in page
    page.encode()
