"""The most probable trees, equivalent ones told as one, against all trees of small tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from enumeration import Case, Enumeration, from_batch
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact, infer_mcmc, infer_smc
from thoroughness import examples

from dtgfn import DTGFNClassifier, DTGFNRegressor, infer
from dtgfn.cli.summary import summarise, summary_text
from dtgfn.plots import plot_tree
from dtgfn.report.report import gather

GIVEN = {"n_trees": 50, "random_state": 0}


def run(engine, case: Case, **options):
    columns = {"column": case.columns, "n_columns": case.n_columns}
    return engine(case.rows, case.score, **columns, **GIVEN, **options)


@st.composite
def cases(draw):
    n_rows, n_features = draw(st.integers(1, 7)), draw(st.integers(1, 2))
    cells = st.lists(st.integers(0, 7), min_size=n_features, max_size=n_features)
    codes = np.array(draw(st.lists(cells, min_size=n_rows, max_size=n_rows)))
    labels = np.array(draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows)))
    weight = draw(st.sampled_from([np.ones(n_rows), np.arange(1, n_rows + 1) * 0.7]))
    return Case(
        codes,
        labels,
        2,
        weight,
        max_depth=draw(st.sampled_from([0, 1, 2, 3])),
        split_penalty=draw(st.sampled_from([0.0, 1.5, "mdl", "bcart"])),
        temperature=draw(st.sampled_from([1.0, 2.0])),
    )


@examples(60)
@given(cases())
def test_exact_trees_come_in_the_order_of_their_mass(case):
    truth, exact = Enumeration(case), run(infer_exact, case)
    known = np.sort(list(truth.log_masses.values()))[::-1]
    best = truth.parting(from_batch(exact.best_tree, 0))
    assert truth.log_masses[best] == pytest.approx(known[0], abs=1e-9)
    assert exact.best_log_mass == pytest.approx(known[0], abs=1e-9)
    found = exact.most_probable(30)
    assert found.complete
    shown = [truth.parting(from_batch(found.trees, b)) for b in range(len(found))]
    assert len(set(shown)) == len(shown)
    masses = np.array([truth.log_masses[parting] for parting in shown])
    np.testing.assert_allclose(masses, known[: len(shown)], atol=1e-8)
    np.testing.assert_allclose(found.probability, np.exp(masses - truth.log_z), atol=1e-9)
    assert len(shown) >= min(30, (known - truth.log_z > math.log(1e-8)).sum())
    assert from_batch(found.trees, 0) == from_batch(exact.best_tree, 0)
    for share in (0.5, 0.9):
        n = found.n_holding(share)
        held = np.cumsum(np.exp(known - truth.log_z))
        wanted = int((held < share - 1e-9).sum()) + 1
        assert n == wanted if wanted <= len(found) else n is None


@examples(12)
@given(cases(), st.sampled_from([infer_smc, infer_mcmc]))
def test_samplers_weigh_what_they_drew_by_class(case, engine):
    truth, sampled = Enumeration(case), run(engine, case)
    drawn: dict = {}
    for b, weight in enumerate(sampled.weights):
        parting = truth.parting(from_batch(sampled.trees, b))
        drawn[parting] = drawn.get(parting, 0.0) + weight
    best = truth.parting(from_batch(sampled.best_tree, 0))
    if math.isnan(sampled.log_evidence):
        assert drawn[best] == pytest.approx(max(drawn.values()))
        assert sampled.best_probability == pytest.approx(drawn[best])
    else:
        most = max(truth.log_masses[parting] for parting in drawn)
        assert truth.log_masses[best] >= most - 1e-9
    found = sampled.most_probable(1000)
    assert not found.complete
    assert found.share.sum() == pytest.approx(1.0)
    assert (np.diff(found.probability) <= 1e-9).all()


def test_the_paper_takes_the_highest_single_tree():
    """A wide gap holds many equal thresholds: together they win, one alone does not."""
    codes, labels = np.array([[0], [9]] * 3), np.array([0, 1] * 3)
    case = Case(codes, labels, 2, split_penalty=6.0, max_depth=1)
    exact = run(infer_exact, case)
    assert exact.best_tree.n_splits.tolist() == [1]
    assert exact.best_tree.cut[0, 0] == 4  # in the middle
    assert exact.best_log_mass == pytest.approx(exact.best_log_reward + math.log(9))
    assert Enumeration(case).best_log_reward > exact.best_log_reward
    assert exact.paper_tree.n_splits.tolist() == [0]


def tables():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 4)).round(2), columns=["age", "dose", "bmi", "time"])
    X["sex"] = rng.choice(["f", "m"], 80)
    X.loc[::9, "dose"] = np.nan
    y = np.where(X["age"] + (X["sex"] == "f") + rng.normal(scale=0.5, size=80) > 0.6, "ill", "well")
    return {
        "classes": DTGFNClassifier(inference="exact", max_depth=2, random_state=0).fit(X, y),
        "numbers": DTGFNRegressor(inference="exact", max_depth=2, random_state=0).fit(X, X["age"]),
        "smc": DTGFNClassifier(
            inference="smc", max_depth=3, random_state=0, options={"n_sweeps": 30}
        ).fit(X, y),
        "mcmc": DTGFNClassifier(
            inference="mcmc", max_depth=3, random_state=0, options={"n_steps": 3000}
        ).fit(X, y),
    }


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_summary_report_pictures_exports_and_predictions_tell_one_story():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    for name, model in tables().items():
        posterior, text = model.posterior_, model.describe()
        chance = posterior.best_probability
        said = summarise(model)["best_tree"]
        assert (said["rules"], said["probability"]) == (text, chance), name
        printed = summary_text(summarise(model))
        assert "\n".join("  " + line for line in text.splitlines()) in printed
        assert f"{chance:.3g}" in printed
        first = gather(model)["trees"][0]
        assert (first["text"], first["best"]) == (text, True)
        assert first["probability"] == pytest.approx(chance, rel=1e-9)
        assert model.export("text") == text
        one = model.tree(by="probability")
        assert one.describe() == text
        frame = posterior.to_frame(1)
        assert frame["probability"].iloc[0] == pytest.approx(chance, rel=1e-9)
        assert len(frame) == model.best_tree_.n_nodes[0]
        X = pd.DataFrame({c: [0.1] for c in ("age", "dose", "bmi", "time")}).assign(sex="m")
        np.testing.assert_array_equal(one.predict(X), model.predict(X, tree="best"))
        title = plot_tree(model, ax=Figure().subplots()).get_title()
        shown = f"{chance:.2g}" if chance < 0.99 else ">0.99"
        assert shown in title, (name, title)


def test_a_frame_has_a_row_per_node_with_intervals():
    X = pd.DataFrame(
        {"x": [0.0, 1.0, 9.0, 10.0] * 6, "kind": ["a", "b", "b", "a", "a"] * 4 + ["b"] * 4}
    )
    y = np.where((X["x"] > 5) & (X["kind"] == "a"), "yes", "no")
    posterior = infer(X, y, engine="exact", max_depth=2, random_state=0)
    frame = posterior.to_frame(3)
    assert frame["tree"].unique().tolist() == [0, 1, 2]
    assert (frame.groupby("tree")["rows"].first() == 24).all()
    best = frame[frame["tree"] == 0].set_index("node")
    leaves = best[best["column"].isna()]
    assert leaves["rows"].sum() == 24
    np.testing.assert_allclose(frame[["p(no)", "p(yes)"]].sum(axis=1), 1.0)
    on_x = best[best["column"] == "x"].iloc[0]
    assert 1 <= on_x["threshold_low"] < on_x["threshold"] < on_x["threshold_high"] < 9
    on_kind = best[best["column"] == "kind"].iloc[0]
    assert on_kind["category"] in ("a", "b")
    assert math.isnan(on_kind["threshold"])
    for node, line in best[best["parent"].notna()].iterrows():
        assert line["depth"] == best.loc[line["parent"], "depth"] + 1, node
    with pytest.raises(ValueError, match="n_trees=0 is out of range"):
        posterior.most_probable(0)
    with pytest.raises(ValueError, match="share=2 is out of range"):
        posterior.most_probable(1).n_holding(2)
