"""A report in a real Chromium: quiet, drawn, answering as the model does, and for everyone."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from browsers import PATIENCE, running_chromium
from reported import KINDS, SCRIPT, case
from thoroughness import long_but

from dtgfn.report import Report
from dtgfn.report.page import render_page

pytestmark = pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")


@pytest.fixture(scope="module")
def chromium():
    yield from running_chromium()


@pytest.fixture
def opened(chromium, tmp_path):
    """Open the report of a kind; at the end nothing may have failed or been asked for."""
    contexts, wrong = [], []

    def open_report(kind, **options):
        path = tmp_path / f"{kind}.html"
        path.write_text(render_page(case(kind).report), encoding="utf-8")
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request", lambda request: request.url != path.as_uri() and wrong.append(request.url)
        )
        page.goto(path.as_uri())
        if options.get("java_script_enabled", True):  # what is folded away is looked at, too
            page.locator("#experts").evaluate("one => { one.open = true }")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert wrong == []


def drawn_nodes(page):
    return page.locator(".tree-box svg g[data-node]")


@pytest.mark.parametrize("kind", KINDS)
def test_it_opens_without_a_word_and_draws_every_tree(opened, kind):
    page = opened(kind)
    report = case(kind).report
    assert page.title() == report["title"]
    assert page.evaluate("window.hacked") is None
    for place, tree in enumerate(report["trees"][:4]):
        if len(report["trees"]) > 1:  # else there is nothing to choose from
            page.locator(".tree-list button").nth(place).click()
        assert drawn_nodes(page).count() == len(tree["nodes"])
        assert page.locator(".tree-box .edge").count() == len(tree["nodes"]) - 1
        assert page.locator(".as-text pre").text_content() == tree["text"]
    ids = set(page.locator("main section").evaluate_all("all => all.map((each) => each.id)"))
    assert {"explorer", "held-out", "details"} <= ids
    assert ("trees" in ids) == bool(report["trees"])
    assert ("dependence" in ids) == ("sum" in kind)
    assert ("history" in ids) == (report["history"] is not None)
    assert ("scores" in ids) == (kind == "detector")


def test_trees_are_browsed_by_keyboard(opened):
    page = opened("exact")
    trees = case("exact").report["trees"]
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("ArrowRight")
    caption = page.locator(".caption")
    assert caption.text_content().startswith(f"Tree 2 of {len(trees)}")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")  # there is none before the first
    assert caption.text_content().startswith("Tree 1 of")
    page.locator(".tree-list button").nth(2).press("ArrowRight")
    assert caption.text_content().startswith("Tree 2 of")
    drawn_nodes(page).first.focus()
    page.keyboard.press("ArrowDown")
    tip, node = page.locator(".tip"), trees[1]["nodes"][trees[1]["nodes"][0]["then"]]
    assert tip.is_visible()
    for count, name in zip(node["counts"], case("exact").report["fit"]["classes"], strict=True):
        row = tip.locator("tr", has_text=name)
        assert row.locator("td").first.text_content() == str(count)
    page.keyboard.press("Escape")
    assert not tip.is_visible()


@pytest.mark.parametrize("kind", ["exact", "gfn"])
def test_another_question_is_taken_and_the_tree_grows_anew(opened, kind):
    page, report = opened(kind), case(kind).report
    asked, tree = report["what_if"]["nodes"], report["trees"][0]
    drawn_nodes(page).first.click()
    page.keyboard.press("Escape")
    buttons = page.locator(".options button")
    wanted = sorted([option["p"] for option in asked[0]["options"]] + [asked[0]["stop"]])[::-1]
    wanted = np.clip(wanted, 0.001, 0.999)  # as they are told
    chances = page.locator(".options .chance").all_inner_texts()
    told = [float(text.strip("<> ").split("±")[0]) for text in chances]
    np.testing.assert_allclose(told, wanted, atol=5.1e-4)
    pressed = page.locator(".options button[aria-pressed=true] bdi")
    assert pressed.text_content() == tree["nodes"][0]["rule"]
    there = [k for k, one in enumerate(asked[0]["options"]) if one["then"] is not None][:2]
    taken = next(k for k in there if asked[0]["options"][k]["rule"] != tree["nodes"][0]["rule"])
    rule = asked[0]["options"][taken]["rule"]
    buttons.filter(has_text=rule).first.click()

    def subtree(index, option):
        """Splits and probability of the best subtree on a node."""
        node = asked[index]
        if option < 0:
            return [], node["stop"]
        chosen = node["options"][option]
        sides = [subtree(chosen[side], asked[chosen[side]]["best"]) for side in ("then", "else")]
        rules = [chosen["rule"], *sides[0][0], *sides[1][0]]
        return rules, chosen["p"] * sides[0][1] * sides[1][1]

    rules, p = subtree(0, taken)
    caption = page.locator(".caption").inner_text()
    assert caption.startswith("Your tree")
    assert drawn_nodes(page).count() == 2 * len(rules) + 1
    shown = page.locator(".as-text pre").text_content()
    assert [line.strip()[3:] for line in shown.splitlines() if line.strip()[:3] == "if "] == rules
    if asked[0]["draws"] is None:
        said = float(caption.split("probability ")[1].split(" ")[0])
        assert said == pytest.approx(p, abs=5.1e-4)
    page.get_by_role("button", name="Back to the listed tree").click()
    assert page.locator(".caption").inner_text().startswith("Tree 1 of")


def fill_row(page, columns, row):
    """Type a row as a reader would."""
    page.locator("#explorer details").evaluate_all("all => all.forEach((one) => (one.open = true))")
    for place, column in enumerate(columns):
        value = row[column["name"]]
        field = page.locator(f'#explorer [data-column="{place}"]')
        if column["kind"] == "number" and value is None:
            field.get_by_role("checkbox").set_checked(True)
        elif column["kind"] == "number":
            field.get_by_role("spinbutton").fill(repr(value))
        elif value is None:
            field.get_by_role("combobox").select_option("missing")
        elif column["kind"] == "boolean":
            field.get_by_role("combobox").select_option(label=str(value).lower())
        elif value in column["categories"]:
            field.get_by_role("combobox").select_option(str(column["categories"].index(value)))
        else:
            field.get_by_role("combobox").select_option(label="another one")


def plain_rows(frame, places):
    for place in places:
        row = frame.iloc[place]
        yield {
            name: None if pd.isna(value) else getattr(value, "item", lambda v=value: v)()
            for name, value in row.items()
        }


def answered(page, name):
    return float(page.locator(f".answer [data-{name}]").first.get_attribute(f"data-{name}"))


def lit_nodes(page):
    lit = page.locator(".tree-box svg g[data-node].on")
    return sorted(lit.evaluate_all("all => all.map((node) => Number(node.dataset.node))"))


@pytest.mark.parametrize("kind", long_but(["gfn"], ["gfn", "bags"]))
def test_typed_rows_are_answered_as_by_the_model(opened, kind):
    tried = case(kind)
    assert not tried.report["forest"]["exact_average"]
    page = opened(kind)
    rows = [*plain_rows(tried.rows, [3, 4, 5])]
    rows.append(rows[0] | {"colour": "a colour never seen", SCRIPT: None})
    rows.append(rows[1] | {"colour": None, "flag": not rows[1]["flag"]})
    assert any(row[SCRIPT] is None for row in rows)
    for row in rows:
        fill_row(page, tried.report["columns"], row)
        frame = pd.DataFrame([row], columns=tried.rows.columns)
        said = page.locator(".answer [data-probability]").evaluate_all(
            "all => all.map((one) => Number(one.dataset.probability))"
        )
        assert said == pytest.approx(tried.model.predict_proba(frame)[0].tolist(), abs=1e-9)
        parts = tried.model.predict_uncertainty(frame)
        for name in ("total", "noise", "model"):
            assert answered(page, name) == pytest.approx(getattr(parts, name)[0], abs=1e-9)
        assert lit_nodes(page) == sorted(tried.model.decision_path(row).nodes)


def test_typed_rows_get_the_number_of_the_model(opened):
    tried = case("numbers")
    page = opened("numbers")
    for row in plain_rows(tried.rows, [0, 1]):
        fill_row(page, tried.report["columns"], row)
        frame = pd.DataFrame([row], columns=tried.rows.columns)
        assert answered(page, "prediction") == pytest.approx(
            tried.model.predict(frame)[0], abs=1e-9
        )
        parts = tried.model.predict_uncertainty(frame)
        for name in ("total", "noise", "model"):
            assert answered(page, name) == pytest.approx(getattr(parts, name)[0], abs=1e-9)
        assert lit_nodes(page) == sorted(tried.model.decision_path(row).nodes)


def test_picked_rows_have_the_exact_sum_and_typed_ones_say_what_answers(opened):
    tried = case("exact")
    page = opened("exact")
    for place in (0, 7):
        page.get_by_label("Row", exact=True).select_option(str(place))
        values = tried.report["rows"][place]["values"]
        wanted = tried.model.predict_proba(pd.DataFrame([values]))[0].tolist()
        said = page.locator(".answer [data-probability]").evaluate_all(
            "all => all.map((one) => Number(one.dataset.probability))"
        )
        assert said == pytest.approx(wanted, abs=1e-12)
        assert lit_nodes(page) == sorted(tried.model.decision_path(values).nodes)
    assert "summed over all trees" in page.locator(".answer .note").text_content()
    page.locator('#explorer [data-column="2"] input').fill("4.9")
    note = page.locator(".answer .note").text_content()
    assert "Rows you type are answered by" in note
    assert "on average" in note
    assert page.get_by_label("Row", exact=True).input_value() == "own"
    spoken = page.locator("#explorer [aria-live]").text_content()
    assert spoken == page.locator(".answer .headline").text_content()


def test_without_an_evidence_trees_have_their_share_of_the_draws(opened):
    page = opened("bags")
    page.get_by_role("button", name="Next").click()
    assert "share of the drawn trees" in page.locator(".caption").text_content()
    assert "their share of the drawn trees" in page.locator("#trees .explanation").text_content()


def test_a_number_beyond_all_thresholds_is_pointed_out(opened):
    page = opened("exact")
    field = page.locator('#explorer [data-column="2"]')
    field.locator("input").fill("4.9")
    assert "beyond" not in field.text_content()
    field.locator("input").fill("490")
    assert "all beyond get the same answer" in field.text_content()


def test_what_is_no_number_gets_no_answer(opened):
    page = opened("exact")
    field = page.locator('#explorer [data-column="0"]')
    field.locator("input").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("1e")
    assert "mend it" in page.locator(".answer").text_content()
    assert field.locator("input").get_attribute("aria-invalid") == "true"
    assert lit_nodes(page) == []


def test_a_detector_shows_its_rows_and_scores(opened):
    page = opened("detector")
    row = case("detector").report["rows"][1]
    page.get_by_label("Row", exact=True).select_option("1")
    assert answered(page, "score") == row["score"]
    assert page.locator(".answer").text_content().startswith(row["prediction"])
    scores = case("detector").report["anomaly"]["scores"]
    assert page.locator("#scores svg rect").count() == len(scores["counts"])


WIDTHS = [*((kind, 390) for kind in KINDS), ("gfn", 1000)]


@pytest.mark.parametrize(
    ("kind", "width"), long_but([("exact", 390), ("summed numbers", 390), ("gfn", 1000)], WIDTHS)
)
def test_the_page_never_scrolls_sideways(opened, kind, width):
    page = opened(kind, viewport={"width": width, "height": 800})
    for button in page.locator(".switch button").all():
        button.click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") == width


PAGE_COLOUR = "getComputedStyle(document.body).backgroundColor"


def test_light_and_dark_follow_the_system_and_then_the_reader(opened):
    light = opened("exact").evaluate(PAGE_COLOUR)
    page = opened("exact", color_scheme="dark")
    dark = page.evaluate(PAGE_COLOUR)
    assert dark != light
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(PAGE_COLOUR) == light
    page.emulate_media(media="print")
    assert not page.locator("#contents").is_visible()


# Every text with what is behind it, as [colour, background, size in pixels, weight, text].
TEXTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return a === 255 ? [r, g, b] : null;
  };
  const behind = (element) => {
    const box = element.closest("g[data-node]")?.querySelector(".box");
    let found = box ? rgb(getComputedStyle(box).fill) : null;
    for (let up = element; up && !found; up = up.parentElement) {
      found = rgb(getComputedStyle(up).backgroundColor);
    }
    return found;
  };
  const unseen = "script, style, title, desc, noscript, .hidden, option, .skip";
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility() || element.closest(unseen)) continue;
    const style = getComputedStyle(element);
    const colour = rgb(element.closest("svg") ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    found.push([colour, behind(element), size, Number(style.fontWeight), text]);
  }
  return found;
}"""


def luminance(colour):
    share = np.array(colour) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


SCHEMES = [
    ("exact", "light"),
    ("exact", "dark"),
    ("gfn", "dark"),
    ("numbers", "light"),
    ("detector", "dark"),
]


@pytest.mark.parametrize(
    ("kind", "scheme"), long_but([("exact", "light"), ("exact", "dark")], SCHEMES)
)
def test_every_text_stands_out_from_what_is_behind_it(opened, kind, scheme):
    page = opened(kind, color_scheme=scheme)
    texts = page.evaluate(TEXTS)
    if kind == "exact":
        page.get_by_role("button", name="Lift").click()
        texts += page.evaluate(TEXTS)
    assert len(texts) > 100
    for colour, behind, size, weight, text in texts:
        bright, dim = sorted((luminance(colour), luminance(behind)), reverse=True)
        enough = 3 if size >= 24 or (size >= 18.66 and weight >= 700) else 4.5
        assert (bright + 0.05) / (dim + 0.05) >= enough, text


NAMELESS = """() => {
  const named = (one) => one.ariaLabel || one.getAttribute("aria-labelledby");
  const titled = (one) => one.querySelector(":scope > title")?.textContent;
  const rules = {
    "input, select": (one) => one.labels?.length,
    "button, a, summary": (one) => one.textContent.trim() || one.ariaLabel,
    "svg": (one) => one.closest("[aria-hidden=true]") || titled(one),
    "[role=img], [role=region], [role=group]": named,
    "table": (one) => one.caption?.textContent,
  };
  return Object.entries(rules).flatMap(([which, fine]) =>
    [...document.querySelectorAll(which)].filter((one) => !fine(one)).map((one) => one.outerHTML),
  );
}"""


@pytest.mark.parametrize("kind", long_but(["exact", "detector"], KINDS))
def test_everything_has_a_name_for_screen_readers(opened, kind):
    page = opened(kind)
    assert page.evaluate(NAMELESS) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    if case(kind).report["trees"]:
        assert page.locator("#trees .caption[aria-live]").text_content().startswith("Tree 1")


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened):
    page = opened("exact")
    seen = set()
    for _ in range(200):
        page.keyboard.press("Tab")
        here = page.evaluate("""() => {
          const one = document.activeElement, box = one.querySelector?.(".box");
          const style = getComputedStyle(box ?? one);
          const shown = box ? style.strokeWidth === "3px" : style.outlineStyle !== "none";
          return [one.closest("section")?.id ?? one.className, one.tagName, shown];
        }""")
        if here[1] == "BODY":  # past the last one
            break
        assert here[2], here
        seen.add((here[0], here[1].lower()))
    assert ("skip", "a") in seen
    assert {
        ("trees", "button"),
        ("trees", "g"),
        ("explorer", "select"),
        ("explorer", "input"),
    } <= seen
    assert ("pairs", "button") in seen


def test_without_scripts_the_summary_and_the_best_tree_are_there(opened):
    page = opened("gfn", java_script_enabled=False)
    report = case("gfn").report
    told = page.locator("body").inner_text()
    short = report["short"]
    assert all(short[part] in told for part in ("columns", "quality", "caution"))
    assert short["tree"]["intro"] in told
    assert report["trust"]["sentence"] not in told  # folded away, and opened without a script
    page.locator("#experts > summary").click()
    text = page.locator("body").inner_text()
    assert report["trust"]["sentence"] in text
    assert report["trees"][0]["text"].splitlines()[0] in text
    assert all(item["sentence"] in text for item in report["trust"]["items"])


def test_two_reports_live_in_frames_of_one_notebook(chromium, tmp_path):
    tried = case("exact")
    shown = Report(tried.model)._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{shown}{shown}", encoding="utf-8")
    page = chromium.new_page(reduced_motion="reduce")
    wrong = []
    page.on("console", lambda message: wrong.append(message.text))
    page.goto((tmp_path / "notebook.html").as_uri())
    for frame in page.frames[1:]:
        frame.get_by_role("link", name="Which columns matter").click()
        assert frame.evaluate("scrollY") > 500
        assert frame.locator("#importances").evaluate("one => one === document.activeElement")
        nodes = tried.report["trees"][0]["nodes"]
        assert frame.locator(".tree-box svg g[data-node]").count() == len(nodes)
    assert len(page.frames) == 3
    assert wrong == []
    page.close()


def test_the_page_lets_nothing_else_run_or_load(chromium, tmp_path):
    """Even if a name did become markup."""
    path = tmp_path / "report.html"
    path.write_text(render_page(case("exact").report), encoding="utf-8")
    (tmp_path / "other.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    page = chromium.new_page()
    page.goto(path.as_uri())
    loaded, refused = [], []
    page.on("requestfinished", lambda request: loaded.append(request.url))
    page.on("requestfailed", lambda request: refused.append(request.failure))
    page.evaluate("""() => {
      const box = document.createElement("div");
      box.innerHTML = "<img src='other.svg' onerror='window.hacked = 3'>";
      const script = document.createElement("script");
      script.textContent = "window.hacked = 4";
      document.body.append(box, script);
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert loaded == []
    assert refused == ["csp"]
    page.close()
