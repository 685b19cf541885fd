"""Temperature by leave-one-out and bags, through infer, the estimator and its files."""

import numpy as np
import pytest
from clocks import endless_grace
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from dtgfn import DTGFNClassifier, DTGFNRegressor, infer, load, save
from dtgfn.engines.smc import engine as smc
from dtgfn.explain.column_importance import effective_trees, importances
from dtgfn.inference.bagging import out_of_bag

X, Y = load_wine(return_X_y=True)
TRAIN, TEST, Y_TRAIN, Y_TEST = train_test_split(X, Y, test_size=0.3, random_state=0)


def small(**changes):
    settings = {"inference": "exact", "max_depth": 1, "n_thresholds": 5, "n_trees": 60}
    return DTGFNClassifier(**{**settings, "random_state": 0, **changes})


def test_the_temperature_is_the_one_with_the_best_score():
    model = small(temperature="auto").fit(TRAIN, Y_TRAIN)
    tried = model.posterior_.diagnostics["temperatures"]
    best = max(tried, key=lambda row: row["log_score"])
    assert model.temperature_ == best["temperature"]
    assert tried[0]["temperature"] == 1.0
    fixed = small(temperature=model.temperature_).fit(TRAIN, Y_TRAIN)
    assert fixed.log_evidence_ == pytest.approx(model.log_evidence_)


def bagged(n_bags=20, options=None, **changes):
    chosen = {"n_bags": n_bags, **(options or {})}
    usual = {"inference": "smc", "ensemble": "bags", "binning": "uniform"}
    return small(**{**usual, **changes}, options=chosen)


def test_bags_predict_the_same_after_saving(tmp_path):
    model = bagged().fit(TRAIN, Y_TRAIN)
    assert model.posterior_.diagnostics["bags"] == 20
    probability = model.predict_proba(TEST)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert model.score(TEST, Y_TEST) > 0.8
    save(model, tmp_path / "bags.dtgfn")
    np.testing.assert_allclose(load(tmp_path / "bags.dtgfn").predict_proba(TEST), probability)


def test_bags_of_exact_posteriors_are_saved_too(tmp_path):
    model = bagged(inference="exact", n_bags=3).fit(TRAIN, Y_TRAIN)
    save(model, tmp_path / "bags.dtgfn")
    back = load(tmp_path / "bags.dtgfn")
    np.testing.assert_allclose(back.predict_proba(TEST), model.predict_proba(TEST))


def test_options_of_bags_survive_a_file(tmp_path):
    """JSON has no tuples: what comes back is a list, and the model can be fitted again."""
    model = bagged(options={"column_share": (0.5, 1.0)}, n_bags=3).fit(TRAIN, Y_TRAIN)
    save(model, tmp_path / "bags.dtgfn")
    again = load(tmp_path / "bags.dtgfn").fit(TRAIN, Y_TRAIN)
    np.testing.assert_array_equal(again.predict_proba(TEST), model.predict_proba(TEST))


def test_bags_of_exact_posteriors_are_a_sample_of_which_columns_are_used():
    exact, bags = (
        make().fit(TRAIN, Y_TRAIN) for make in (small, lambda: bagged(5, inference="exact"))
    )
    assert (importances(exact).inclusion_low == importances(exact).inclusion_high).all()
    found = importances(bags)
    unsure = found.inclusion.between(0, 1, inclusive="neither")
    assert unsure.any()
    assert (found.inclusion_low < found.inclusion_high)[unsure].all()
    assert effective_trees(bags.posterior_) == 5
    for frame in (found, importances(exact)):
        told = frame[["inclusion", "inclusion_low", "inclusion_high"]].to_numpy()
        assert told.min() >= 0
        assert told.max() <= 1


def test_the_temperature_of_bags_is_judged_out_of_bag():
    model = bagged(temperature="auto", n_bags=5, n_trees=20).fit(TRAIN, Y_TRAIN)
    tried = model.posterior_.diagnostics["tried"]
    assert len(tried) >= 3
    best = max(tried, key=lambda line: line["log_score"])
    assert model.temperature_ == best["temperature"]
    outside = out_of_bag(model.posterior_)
    assert best["log_score"] == pytest.approx(outside.score)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"temperature": "warm"}, "temperature='warm'"),
        ({"ensemble": "bags", "options": {"n_bags": 1}}, "n_bags=1"),
        ({"ensemble": "bags", "options": {"column_share": 2.0}}, "column_share=2.0"),
        ({"ensemble": "boost"}, "ensemble='boost' is not known; give one of auto, None, bags, sum"),
        (
            {"options": {"column_share": 0.5}},
            "column_share=0.5 is for ensemble='bags'; leave it out, or choose",
        ),
        ({"options": {"n_bags": 5}}, "n_bags=5 is for ensemble='bags'; leave"),
        (
            {"inference": "gfn", "temperature": "auto", "options": {"checkpoint": "c"}},
            "no one checkpoint",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        small(**changes).fit(TRAIN, Y_TRAIN)


def test_bags_cannot_be_streamed():
    with pytest.raises(AttributeError) as refusal:
        bagged(n_bags=3).partial_fit(TRAIN, Y_TRAIN, classes=[0, 1, 2])
    assert "ensemble='bags' cannot be streamed" in str(refusal.value.__cause__)
    model = bagged(n_bags=3).fit(TRAIN, Y_TRAIN).set_params(ensemble=None, options=None)
    with pytest.raises(ValueError, match="bagged posterior cannot take more rows"):
        model.partial_fit(TEST, Y_TEST)


@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
def test_no_temperature_is_begun_after_the_time_is_over(monkeypatch):
    endless_grace(monkeypatch, smc)
    model = small(temperature="auto", time_budget=1e-3, inference="smc").fit(TRAIN, Y_TRAIN)
    assert len(model.posterior_.diagnostics["temperatures"]) == 1


def test_numbers_have_no_leave_one_out():
    with pytest.raises(ValueError, match=r"temperature='auto' .* for classes only"):
        DTGFNRegressor(inference="exact", max_depth=1, temperature="auto").fit(TRAIN, Y_TRAIN)


def test_infer_takes_both():
    posterior = infer(TRAIN, Y_TRAIN, engine="smc", ensemble="bags", n_bags=3, max_depth=1)
    assert posterior.diagnostics["bags"] == 3
    assert np.isnan(posterior.log_evidence)
