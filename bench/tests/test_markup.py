"""The subset of Markdown that pages use."""

from html import unescape

import pytest
from dtgfn_bench.markup import headings, html, inline, pipe_table, plain, slug
from hypothesis import given, settings
from hypothesis import strategies as st

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40)


@settings(max_examples=200, deadline=None)
@given(PRINTABLE)
def test_text_from_elsewhere_is_shown_as_it_is(text):
    shown = inline(plain(text))
    assert unescape(shown) == " ".join(text.split())
    assert "<" not in shown


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(PRINTABLE, min_size=2, max_size=2), min_size=2, max_size=4))
def test_cells_of_any_text_keep_their_columns(rows):
    table = html(pipe_table([[plain(cell) for cell in row] for row in rows]))
    assert table.count("<tr>") + table.count('<tr class="ours">') == len(rows)
    assert table.count("<td>") == len(rows) - 1
    assert table.count('scope="col"') == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a **b** c", "a <strong>b</strong> c"),
        ("*a* 2 * 3 * 4", "<em>a</em> 2 * 3 * 4"),
        ("`x < *y*`", "<code>x &lt; *y*</code>"),
        ("[a & b](https://x.org/?a=1&b=2)", '<a href="https://x.org/?a=1&amp;b=2">a &amp; b</a>'),
        ("[page](iris.html#top)", '<a href="iris.html#top">page</a>'),
        ("[no](javascript:alert)", "no"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        (r"\*not\*", "*not*"),
        ("one<br>two", "one<br>two"),
        ("snake_case_name", "snake_case_name"),
        ("**a *b* c**", "<strong>a <em>b</em> c</strong>"),
    ],
)
def test_inline_constructs(text, expected):
    assert inline(text) == expected


def test_blocks():
    text = (
        "# Title\nA paragraph\nof two lines.\n- one\n  more\n- two\n\n3. three\n\n"
        "```\n# <no heading>\n\n```\n![a](b.svg)\n| x | y |\n| --- | --- |\n| `1|2` | 3 |\n"
    )
    text = text.replace("`1|2`", r"`1\|2`")
    converted = html(text, {"b.svg": "<svg></svg>"})
    assert '<h1 id="title">Title</h1>' in converted
    assert "<p>A paragraph\nof two lines.</p>" in converted
    assert "<ul>\n<li>one\nmore</li>\n<li>two</li>\n</ul>" in converted
    assert '<ol start="3">\n<li>three</li>\n</ol>' in converted
    assert "<pre><code># &lt;no heading&gt;\n</code></pre>" in converted
    assert "<figure><svg></svg></figure>" in converted
    assert '<th scope="row"><code>1|2</code></th><td>3</td>' in converted


def test_further_lines_of_a_cell_and_our_rows_are_set_apart():
    table = html(pipe_table([["Method", "Iris"], ["★ **Ours**", "0.9\npaper 0.8"]]))
    assert "<td>0.9<small>paper 0.8</small></td>" in table
    assert '<tr class="ours"><th scope="row">★ <strong>Ours</strong></th>' in table


def test_headings_have_anchors_of_their_own():
    assert headings("# A\n## B b\n## B b\n```\n# no\n```\n") == [
        (1, "a", "A"),
        (2, "b-b", "B b"),
        (2, "b-b-2", "B b"),
    ]
    assert slug("★") == "section"
