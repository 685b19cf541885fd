"""Depth, penalty and temperature of bags by rows out of bag: what is tried, chosen and refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dtgfn import DTGFNClassifier, DTGFNRegressor, infer, load, save
from dtgfn.engines import find_engine
from dtgfn.inference import bag_search
from dtgfn.inference.bag_search import DEPTHS, Trials, make_grids, search
from dtgfn.inference.bagging import out_of_bag
from dtgfn.inference.method import Method
from dtgfn.inference.penalty import PENALTIES
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import make_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = ((X[:, 0] > 0) ^ (RNG.random(90) < 0.15)).astype(int)
FEW = {"n_particles": 15, "n_sweeps": 1}
SMALL = {"inference": "smc", "ensemble": "bags", "n_thresholds": 9, "n_trees": 60}
SMALL |= {"random_state": 0, "n_jobs": 1, "time_budget": None}
AUTO = {"split_penalty": "auto", "max_depth": "auto", "temperature": "auto"}
MDL = math.log(4) + math.log(3) + math.log(9)


def fitted(kind=DTGFNClassifier, n_bags=6, y=Y, **changes):
    return kind(options={"n_bags": n_bags, **FEW}, **{**SMALL, **changes}).fit(X, y)


@pytest.mark.parametrize("kind", [DTGFNClassifier, DTGFNRegressor])
def test_the_best_of_all_trials_is_taken(kind):
    y = Y if kind is DTGFNClassifier else X[:, 0] + RNG.normal(size=90)
    found = fitted(kind, y=y, **AUTO).posterior_
    tried = found.diagnostics["tried"]
    best = max(tried, key=lambda line: line["log_score"])
    assert best["log_score"] == found.diagnostics["out_of_bag_log_score"]
    assert best["max_depth"] == found.score.max_depth
    assert best["split_penalty"] == found.score.prior.penalty
    assert best["temperature"] == found.score.temperature
    assert out_of_bag(found).score == pytest.approx(best["log_score"])
    json.dumps(tried, allow_nan=False)


def test_trials_are_those_of_the_grids_and_none_is_made_twice():
    tried = fitted(**AUTO).posterior_.diagnostics["tried"]
    settings = [(t["split_penalty"], t["max_depth"], t["temperature"]) for t in tried]
    assert settings[0] == (pytest.approx(MDL), 5, 1.0)
    assert len(set(settings)) == len(settings)
    costs = {pytest.approx(MDL * share).expected for share in PENALTIES}
    assert {round(penalty, 9) for penalty, _, _ in settings} <= {round(c, 9) for c in costs}
    assert {depth for _, depth, _ in settings} <= set(DEPTHS)


@pytest.mark.parametrize("name", AUTO)
def test_what_is_not_auto_stays(name):
    tried = fitted(**{name: "auto"}).posterior_.diagnostics["tried"]
    assert len(tried) >= 3
    for other in set(AUTO) - {name}:
        assert len({line[other] for line in tried}) == 1


def test_the_chosen_setting_given_by_hand_is_the_same_fit():
    chosen = fitted(n_bags=40, **AUTO).posterior_
    score = chosen.score
    same = fitted(
        n_bags=40,
        split_penalty=score.prior.penalty,
        max_depth=score.max_depth,
        temperature=score.temperature,
    ).posterior_
    assert chosen.n_bags == 40
    assert chosen.diagnostics["tried"][0]["bags"] == bag_search.FEW_BAGS
    np.testing.assert_array_equal(chosen.trees.feature, same.trees.feature)
    assert chosen.sharpness == same.sharpness


class Scripted:
    """Trials whose scores are written down, by penalty, depth and temperature."""

    is_over = False

    def __init__(self, of) -> None:
        self.of, self.asked = of, []

    def log_score(self, score):
        self.asked.append(score)
        return self.of(score.prior.penalty / MDL, score.max_depth, score.temperature)


def start(names):
    score = make_score(DirichletLeaf(2), n_features=3, n_thresholds=9)
    return score, make_grids(score, names)


def test_the_search_climbs_to_the_top_one_setting_at_a_time():
    top = {"penalty": 0.5, "depth": 8, "temperature": 2.0}
    trials = Scripted(
        lambda p, d, t: (
            -abs(p - top["penalty"]) - abs(d - top["depth"]) - abs(t - top["temperature"])
        )
    )
    best = search(trials, *start(tuple(AUTO)))
    assert best.prior.penalty == pytest.approx(0.5 * MDL)
    assert (best.max_depth, best.temperature) == (8, 2.0)


def test_two_values_that_are_no_better_end_a_grid():
    trials = Scripted(lambda p, d, t: -t)
    best = search(trials, *start(("temperature",)))
    assert [score.temperature for score in trials.asked] == [1.0, 1.5, 2.0]
    assert best.temperature == 1.0


def test_without_any_score_nothing_changes():
    score, grids = start(tuple(AUTO))
    assert search(Scripted(lambda p, d, t: None), score, grids) == score


def test_time_that_is_over_ends_the_search(monkeypatch):
    monkeypatch.setattr(Trials, "is_over", property(lambda trials: True))
    found = fitted(**AUTO).posterior_
    assert len(found.diagnostics["tried"]) == 1
    assert found.score.max_depth == 5


def test_a_trial_with_fewer_bags_is_not_compared(monkeypatch):
    """The second trial loses bags, but none of its score: it is not believed."""
    calls, real = [], Method.infer

    def infer_fewer(method, rows, score, run):
        calls.append(score)
        found = real(method, rows, score, run)
        fewer = {"bags_left_out": 1, "out_of_bag_log_score": -1e-9} if len(calls) == 2 else {}
        return replace(found, diagnostics={**found.diagnostics, **fewer})

    monkeypatch.setattr(Method, "infer", infer_fewer)
    found = fitted(split_penalty="auto").posterior_
    assert found.diagnostics["tried"][1]["log_score"] is None
    assert found.score.prior.penalty != pytest.approx(0.7 * MDL)


@pytest.mark.parametrize(("fills_time", "first"), [(True, 2.0), (False, 8.0)])
def test_trials_get_an_even_share_if_they_would_take_it_all(monkeypatch, fills_time, first):
    """Four penalties, sixteen seconds, half of which are for trials."""
    given, real = [], Method.infer

    def note_time(method, rows, score, run):
        given.append(run.time_budget)
        return real(method, rows, score, run)

    monkeypatch.setattr(Method, "infer", note_time)
    engine = replace(find_engine("smc"), fills_time=fills_time)
    monkeypatch.setattr("dtgfn.engines.smc.engine.ENGINE", engine)
    fitted(split_penalty="auto", time_budget=16.0)
    assert given[0] == pytest.approx(first, rel=0.1)


def test_without_a_seed_trials_have_the_same_bags():
    seen = []

    class Noting(Trials):
        def __init__(self, *given):
            super().__init__(*given)
            seen.append(self.run.random_state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bag_search, "Trials", Noting)
        generator = np.random.default_rng(5)
        given = {**SMALL, "random_state": generator, "temperature": "auto"}
        given["engine"] = given.pop("inference")
        infer(X, Y, n_bags=4, **FEW, **given)
    assert isinstance(seen[0], int)


def test_a_file_keeps_the_word_and_the_choice(tmp_path):
    model = fitted(**AUTO)
    save(model, tmp_path / "auto.dtgfn")
    again = load(tmp_path / "auto.dtgfn")
    assert (again.max_depth, again.split_penalty, again.temperature) == ("auto", "auto", "auto")
    assert again.posterior_.score == model.posterior_.score
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_depth": "auto"}, "max_depth='auto' is chosen by rows out of bag; give ensemble="),
        ({"max_depth": "deep"}, "max_depth='deep' is out of range"),
        (
            {"inference": "gfn", "ensemble": "bags", "max_depth": "auto",
             "options": {"checkpoint": "c"}},
            "max_depth='auto' trains once for each value, so there is no one checkpoint",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        DTGFNClassifier(**{"inference": "smc", **changes}).fit(X, Y)
