"""The document for TimberTrek holds the trees, and its own program draws it."""

from __future__ import annotations

import base64
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from browsers import PATIENCE, running_chromium
from random_posterior import make_posterior, mixed_frame

from dtgfn.explain.tree_set import take_trees
from dtgfn.export import export, timbertrek
from dtgfn.trees.batch import route

FRAME = mixed_frame(90, np.random.default_rng(3))


def case(n_classes=2):
    y = np.random.default_rng(4).integers(0, n_classes, 90)
    return make_posterior(FRAME, np.array(["no", "yes", "so"])[y])


def holds(said, cell):
    """What a test's words say of a cell."""
    if said == "is present":
        return not pd.isna(cell)
    if said.startswith("is not "):
        return pd.isna(cell) or cell != said.removeprefix("is not ")
    if pd.isna(cell):
        return False
    return not cell if said == "is false" else cell <= float(said.removeprefix("<= "))


def test_trees_can_be_followed_by_the_documentation_alone():
    posterior = case()
    chosen = take_trees(posterior, "all")
    document = json.loads(export(posterior, "timbertrek", trees="all"))
    split = [b for b in range(len(chosen.trees)) if chosen.trees.feature[b, 0] >= 0]
    assert list(document["treeMap"]) == [str(k + 1) for k in range(len(split))]
    for b, (root, objective, accuracy) in zip(split, document["treeMap"].values(), strict=True):
        leaf = np.argmax(
            chosen.value[b][route(chosen.trees[b : b + 1], posterior.rows.codes)[0]], axis=1
        )
        found = []
        for i in range(len(FRAME)):
            node = root
            while "c" in node:
                column, said, label = document["featureMap"][node["f"][0]]
                assert label == column
                assert node["f"][2] == -1
                node = node["c"][0 if holds(said, FRAME[column].iloc[i]) else 1]
            found.append("-+".index(node["f"][0]))
        assert found == leaf.tolist()
        assert objective == pytest.approx(-np.log(chosen.weight[b]), abs=1e-5)
        right = np.average(leaf == posterior.rows.target, weights=posterior.rows.weight)
        assert accuracy == pytest.approx(right, abs=0.1), "rows are rounded to whole ones"


def paths_of(node):
    """The paths of a tree, as the tests on them."""
    if "c" not in node:
        return {()}
    return {(node["f"][0], *path) for child in node["c"] for path in paths_of(child)}


def ends_of(node, path=()):
    """The trie's paths with the trees that end them."""
    for child in node["c"]:
        if child["f"] == "_":
            yield path, child["t"]
        else:
            yield from ends_of(child, (*path, child["f"]))


def test_the_trie_has_every_path_of_every_tree_once():
    document = json.loads(export(case(), "timbertrek", trees="all"))
    found = list(ends_of(document["trie"]))
    wanted = {
        (path, int(tree))
        for tree, each in document["treeMap"].items()
        for path in paths_of(each[0])
    }
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_what_it_cannot_show_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="TimberTrek shows trees of two classes"):
        export(case(n_classes=3), "timbertrek")
    numbers = make_posterior(np.arange(20.0)[:, None], np.arange(20.0))
    with pytest.raises(ValueError, match="TimberTrek shows trees of two classes"):
        export(numbers, "timbertrek")
    bare = make_posterior(np.ones((20, 1)), np.arange(20) % 2)
    with pytest.raises(ValueError, match="No tree here has a split"):
        export(bare, "timbertrek", trees="all")
    monkeypatch.setattr(timbertrek, "MOST_TREES", 3)
    with pytest.raises(ValueError, match=r"trees are more than the 3 .* export one tree"):
        export(case(), "timbertrek", trees="all")


@pytest.mark.skipif(find_spec("timbertrek") is None, reason="timbertrek is not installed")
def test_timbertrek_draws_it(tmp_path):
    document = export(case(), "timbertrek", trees="all")
    bundle = Path(find_spec("timbertrek").origin).with_name("timbertrek.js").read_bytes()
    send = (
        "const event = new Event('timbertrekData'); event.width = 500;"
        f"event.data = {document}; document.dispatchEvent(event);"
    )
    coded = (base64.b64encode(code).decode() for code in (bundle, send.encode()))
    scripts = "".join(
        f"<script defer src='data:text/javascript;base64,{code}'></script>" for code in coded
    )
    path = tmp_path / "page.html"
    path.write_text(f"<!DOCTYPE html><html><head>{scripts}</head><body></body></html>")
    for browser in running_chromium():
        page, wrong = browser.new_page(), []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error, wrong=wrong: wrong.append(str(error)))
        page.goto(path.as_uri())
        n_trees = len(json.loads(document)["treeMap"])
        page.get_by_text(f"{n_trees} trees").wait_for()
        assert wrong == []
