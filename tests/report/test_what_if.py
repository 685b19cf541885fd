"""What a report carries to ask "what if", held against posteriors under demands; and in short."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dtgfn import DTGFNClassifier, condition, infer
from dtgfn.report.report import gather
from dtgfn.report.what_if import what_if

FEW = {"n_thresholds": 5, "random_state": 0, "n_trees": 200}


@pytest.fixture(scope="module")
def flowers():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def exact(flowers):
    return infer(*flowers, engine="exact", max_depth=3, **FEW)


def demand(option):
    """An option as the posterior is asked for it."""
    return option["rule"].replace("≤", "<=").replace(" cm", "").replace(" <=", " (cm) <=")


def best_product(asked, index=0):
    """Probability of the best subtree on a node."""
    node = asked[index]
    if node["best"] < 0:
        return node["stop"]
    option = node["options"][node["best"]]
    return option["p"] * best_product(asked, option["then"]) * best_product(asked, option["else"])


def test_probabilities_at_a_node_are_those_of_demands(exact):
    asked = what_if(exact)["nodes"]
    root = asked[0]
    assert root["draws"] is None
    for option in root["options"][:3]:
        under = condition(exact, {"root": demand(option)}, n_trees=5)
        assert option["p"] == pytest.approx(
            math.exp(under.log_evidence - exact.log_evidence), rel=1e-9, abs=1e-9
        )
    under = condition(exact, "stop", n_trees=5)
    assert root["stop"] == pytest.approx(
        math.exp(under.log_evidence - exact.log_evidence), abs=1e-9
    )
    first = next(option for option in root["options"] if option["then"] is not None)
    above = condition(exact, {"root": demand(first)}, n_trees=5).log_evidence
    node = asked[first["else"]]
    for option in node["options"][:3]:
        both = {"root": demand(first), "root.right": demand(option)}
        under = condition(exact, both, n_trees=5).log_evidence
        assert option["p"] == pytest.approx(math.exp(under - above), rel=1e-9, abs=1e-9)


def test_the_best_of_it_is_the_most_probable_tree_and_its_probability(exact):
    asked = what_if(exact)["nodes"]
    assert best_product(asked) == pytest.approx(exact.best_probability, rel=1e-9)
    # Under a demand it is the most probable tree that keeps it.
    other = next(
        option
        for k, option in enumerate(asked[0]["options"])
        if option["then"] is not None and k != asked[0]["best"]
    )
    grown = other["p"] * best_product(asked, other["then"]) * best_product(asked, other["else"])
    under = condition(exact, {"root": demand(other)}, n_trees=5)
    under = under.best_log_mass - exact.log_evidence
    assert grown == pytest.approx(math.exp(under), rel=1e-9)


def test_a_node_too_large_to_sum_is_told_by_draws_with_their_error(flowers):
    deep = infer(*flowers, engine="exact", max_depth=4, **(FEW | {"n_trees": 1000}))
    root = what_if(deep)["nodes"][0]
    assert root["draws"] == pytest.approx(1000)
    for option in root["options"][:3]:
        under = condition(deep, {"root": demand(option)}, n_trees=5)
        p = math.exp(under.log_evidence - deep.log_evidence)
        assert abs(option["p"] - p) < 5 * math.sqrt(p * (1 - p) / 1000) + 1e-3
        assert option["se"] == pytest.approx(math.sqrt(option["p"] * (1 - option["p"]) / 1000))


def test_nodes_hold_what_leaves_would(exact, flowers):
    root = what_if(exact)["nodes"][0]
    assert root["counts"] == [50, 50, 50]
    assert root["value"] == pytest.approx([1 / 3] * 3)
    assert sum(option["p"] for option in root["options"]) + root["stop"] <= 1 + 1e-9


def test_what_is_not_known_says_why(flowers, exact, monkeypatch):
    bagged = DTGFNClassifier(
        inference="smc", ensemble="bags", max_depth=1, options={"n_bags": 4}, **FEW
    ).fit(*flowers)
    told = gather(bagged)["what_if"]
    assert told["nodes"] == []
    assert told["why"].endswith(".")
    under = condition(exact, "petal width (cm)", n_trees=20)
    assert "demands" in what_if(under)["why"]
    monkeypatch.setattr("dtgfn.report.what_if.MOST_ROWS", 100)
    assert "more than 100 training rows" in what_if(exact)["why"]


def test_the_first_screen_says_what_is_known(flowers):
    X, y = flowers
    rng = np.random.default_rng(0).permutation(150)
    fitted, held = rng[:100], rng[100:]
    model = DTGFNClassifier(inference="exact", max_depth=2, **FEW).fit(X.iloc[fitted], y[fitted])
    report = gather(model, X.iloc[held], y[held])
    short, scores = report["short"], report["held_out"]
    assert f"{100 * scores['accuracy']:.0f} %" in short["quality"]
    assert f"{100 * scores['baseline']['accuracy']:.0f} %" in short["quality"]
    used = [row["name"] for row in report["importances"] if row["inclusion"] >= 0.5]
    assert all(name.removesuffix(" (cm)") in short["columns"] for name in used)
    assert len(short["tree"]["rules"]) == report["trees"][0]["n_splits"] + 1
    assert f"{100 * model.posterior_.best_probability:.0f} %" in short["tree"]["intro"]
    assert short["trust"]["level"] == "good"
    assert gather(model)["short"]["quality"].startswith("Not known")
    told = gather(
        DTGFNClassifier(inference="exact", max_depth=2, **FEW).fit(X.iloc[fitted], y[fitted][::-1])
    )
    assert "column" in told["short"]["columns"]
