"""The posterior given a part of the tree, against every tree one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas
import pytest
from enumeration import Case, Enumeration, from_batch, to_batch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import dtgfn
from dtgfn import DTGFNClassifier, DTGFNRegressor, condition, given_effect, infer
from dtgfn.data.demands import Demands
from dtgfn.inference.given import join_trees
from dtgfn.inference.kept_demands import kept_demands
from dtgfn.trees.batch import canonical_keys, from_splits

LEVELS = 4  # values of a column, and so three cuts


def table(seed: int, n_rows: int = 12) -> tuple[pandas.DataFrame, np.ndarray]:
    """Whole numbers, so that midpoints are the codes' own cuts."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, LEVELS, (n_rows, 3)).astype(float)
    X[:LEVELS] = np.arange(LEVELS)[:, None]  # every value occurs
    y = (X[:, 0] + rng.integers(0, 3, n_rows) > 2).astype(int)
    y[:2] = 0, 1
    return pandas.DataFrame(X, columns=["a", "b", "c"]), y


def exact(seed: int, **options: object) -> dtgfn.TreePosterior:
    X, y = table(seed)
    usual = {"max_depth": 2, "n_thresholds": 9, "binning": "midpoint"}
    return infer(X, y, engine="exact", **{**usual, **options})


def twin(posterior: dtgfn.TreePosterior) -> Enumeration:
    rows, score = posterior.rows, posterior.score
    return Enumeration(
        Case(
            rows.codes.astype(int),
            rows.target,
            2,
            weight=rows.weight,
            max_depth=score.max_depth,
            temperature=score.temperature,
        )
    )


def log_sum(found: Enumeration, keeps) -> float:
    return float(logsumexp([found.log_reward(t) for t in found.trees if keeps(t)]))


def used(tree: tuple) -> set[int]:
    return set() if not tree else {tree[0]} | used(tree[2]) | used(tree[3])


DEMANDS = {
    "a": ("a", lambda t: t and t[0] == 0),
    "cut": ("b <= 1.4", lambda t: t and t[:2] == (1, 1)),
    "stop": ("stop", lambda t: not t),
    "never": ({"never": ["a", "c"]}, lambda t: used(t) <= {1}),
    "nested": (
        {"root": "a <= 0.5", "root.right": "c", "root.left": "stop"},
        lambda t: t and t[:2] == (0, 0) and not t[2] and t[3] and t[3][0] == 2,
    ),
    "both": ({"root": "b", "never": "a"}, lambda t: t and t[0] == 1 and 0 not in used(t)),
}


DEEP = {
    # The lowest cut of a leaves nothing of a on its left, other cuts do.
    "again": ({"root": "a", "root.left": "a"}, lambda t: t and t[0] == 0 and t[2] and t[2][0] == 0),
    "sides": (
        {"root": "a", "root.left": "b", "root.right": "a"},
        lambda t: t and t[0] == 0 and t[2] and t[2][0] == 1 and t[3] and t[3][0] == 0,
    ),
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cuts_that_leave_nothing_for_what_is_demanded_below_are_left_out(name, seed):
    given, keeps = DEEP[name]
    posterior = exact(seed)
    found = condition(posterior, given, n_trees=50, random_state=0)
    assert found.log_evidence == pytest.approx(log_sum(twin(posterior), keeps), abs=1e-9)
    assert all(keeps(from_batch(found.trees, b)) for b in range(50))
    sampled = condition(posterior, given, engine="smc", n_trees=50, random_state=0)
    assert sampled.log_evidence == pytest.approx(
        found.log_evidence, abs=4 * sampled.log_evidence_error + 1e-9
    )


def test_what_cannot_stand_together_is_told():
    X, y = table(1)
    X["a"] = np.minimum(X["a"], 2.0)
    posterior = infer(X, y, engine="exact", max_depth=2, n_thresholds=9, binning="midpoint")
    with pytest.raises(ValueError, match="no training rows there with what is demanded below"):
        condition(posterior, {"root": "a", "root.left": "a", "root.right": "a"})


def test_a_share_that_is_drawn_is_never_certain():
    posterior = exact(1)
    found = condition(posterior, {"never below a": "c"}, n_trees=200, random_state=0)
    assert found.log_evidence_error > 1 / 400
    few = condition(posterior, {"never below a": "a"}, n_trees=1, random_state=2)
    assert len(few.trees) == 1  # and is not refused, as it keeps the demand


@pytest.mark.parametrize("name", DEMANDS)
@settings(max_examples=4, deadline=None)
@drawn(seed=st.integers(0, 10_000))
def test_evidence_is_the_sum_over_the_trees_that_keep_the_demands(name, seed):
    given, keeps = DEMANDS[name]
    posterior = exact(seed)
    found = condition(posterior, given, n_trees=20, random_state=0)
    assert found.log_evidence == pytest.approx(log_sum(twin(posterior), keeps), abs=1e-9)


def test_first_columns_and_the_leaf_add_up_to_all_trees():
    posterior = exact(3, max_depth=3)
    parts = [condition(posterior, first, n_trees=5).log_evidence for first in ("a", "b", "c")]
    parts.append(condition(posterior, "stop", n_trees=5).log_evidence)
    assert logsumexp(parts) == pytest.approx(posterior.log_evidence, abs=1e-9)


def test_draws_have_the_posteriors_probabilities():
    posterior = exact(1)
    given, keeps = DEMANDS["a"]
    found = condition(posterior, given, n_trees=20_000, random_state=0)
    every = twin(posterior)
    kept = [t for t in every.trees if keeps(t)]
    keys = canonical_keys(to_batch(kept))
    log_p = np.array([every.log_reward(t) for t in kept])
    p = np.exp(log_p - logsumexp(log_p))
    number = {key: k for k, key in enumerate(keys)}
    counts = np.bincount([number[k] for k in canonical_keys(found.trees)], minlength=len(keys))
    expected_error = np.sqrt(p * (1 - p) / 20_000)
    assert (np.abs(counts / 20_000 - p) <= 5 * expected_error + 1e-4).all()
    np.testing.assert_allclose(
        found.log_reward, [log_p[number[k]] for k in canonical_keys(found.trees)], atol=1e-9
    )


@pytest.mark.parametrize("name", DEMANDS)
@pytest.mark.parametrize("max_depth", [2, 3])
def test_the_best_tree_is_that_of_all_that_keep_the_demands(name, max_depth):
    given, keeps = DEMANDS[name]
    posterior = exact(4, max_depth=max_depth, temperature=2.0)
    found = condition(posterior, given, n_trees=5, random_state=0)
    every, masses = twin(posterior), {}
    for tree in filter(keeps, every.trees):
        masses.setdefault(every.parting(tree), []).append(every.log_reward(tree) / 2.0)
    masses = {parting: logsumexp(logs) for parting, logs in masses.items()}
    best = from_batch(found.best_tree, 0)
    assert masses[every.parting(best)] == pytest.approx(max(masses.values()), abs=1e-9)
    assert found.best_log_reward == pytest.approx(every.log_reward(best), abs=1e-9)


@pytest.mark.parametrize("name", ["a", "cut", "never"])
def test_effect_is_the_ratio_of_evidences_under_proper_priors(name):
    given, keeps = DEMANDS[name]
    posterior = exact(5)
    effect = given_effect(condition(posterior, given, n_trees=20, random_state=0))
    every = twin(posterior)
    penalty = posterior.score.prior.penalty

    def log_mass(trees) -> float:
        def splits(t):
            return 1 + splits(t[2]) + splits(t[3]) if t else 0

        return float(logsumexp([-penalty * splits(t) for t in trees]))

    change = log_sum(every, keeps) - log_mass([t for t in every.trees if keeps(t)])
    change -= posterior.log_evidence - log_mass(every.trees)
    assert effect.log_evidence_change == pytest.approx(change, abs=1e-9)
    assert effect.probability == pytest.approx(
        math.exp(log_sum(every, keeps) - posterior.log_evidence), rel=1e-9
    )
    assert effect.error == 0
    assert f"e^{change:.1f} times as probable" in str(effect)


def test_evidence_of_a_tempered_target():
    posterior = exact(2, temperature=3.0)
    given, keeps = DEMANDS["a"]
    found = condition(posterior, given, n_trees=20)
    total = [twin(posterior).log_reward(t) / 3 for t in twin(posterior).trees if keeps(t)]
    assert found.log_evidence == pytest.approx(logsumexp(total), abs=1e-9)


@pytest.mark.parametrize("engine", ["smc", "gfn"])
def test_engines_that_sample_agree_with_exact(engine):
    posterior = exact(4, max_depth=3)
    truth = condition(posterior, {"root": "c", "never": ["b"]}, n_trees=10).log_evidence
    found = condition(
        posterior, {"root": "c", "never": ["b"]}, engine=engine, n_trees=200, random_state=0
    )
    assert found.log_evidence == pytest.approx(truth, abs=0.3)
    assert found.engine == engine


@settings(max_examples=15, deadline=None)
@drawn(seed=st.integers(0, 10_000))
def test_monotone_trees_are_those_whose_predictions_never_fall(seed):
    posterior = exact(seed)
    every = twin(posterior)
    trees = every.trees[:: max(len(every.trees) // 60, 1)]
    column = np.arange(3, dtype=np.int32)
    n_cuts = np.full(3, LEVELS - 1)
    kept = kept_demands(
        to_batch(trees),
        Demands(monotone={0: 1}),
        column,
        posterior.rows,
        posterior.score,
        n_cuts,
    )
    others = list(itertools.product(range(LEVELS), repeat=2))

    def value(tree, row, rows) -> float:
        if not tree:
            counts = every.class_counts(rows)
            return (counts[1] + 0.1) / (sum(counts) + 0.2)
        side = int(row[tree[0]] > tree[1])
        return value(tree[2 + side], row, every.sides(rows, tree[0], tree[1])[side])

    for tree, is_kept in zip(trees, kept, strict=True):
        along = [
            [value(tree, (a, *rest), every.everything) for a in range(LEVELS)] for rest in others
        ]
        rising = np.diff(along).min() > -1e-9
        assert is_kept == rising


def test_never_below_looks_at_paths():
    trees = from_splits(
        [{(): (0, 0), (0,): (1, 0)}, {(): (1, 0), (0,): (0, 0)}, {(): (0, 0), (1,): (2, 0)}, {}]
    )
    posterior = exact(0)
    given = posterior.rows, posterior.score, np.full(3, LEVELS - 1)
    kept = kept_demands(trees, Demands(below={0: (1,)}), np.arange(3, dtype=np.int32), *given)
    assert kept.tolist() == [False, True, True, True]


def test_share_of_trees_that_keep_a_demand_on_paths():
    posterior = exact(7)
    found = condition(posterior, {"never below a": ["b", "c"]}, n_trees=5000, random_state=0)

    def keeps(tree, below=False) -> bool:
        if not tree:
            return True
        if below and tree[0] in (1, 2):
            return False
        under = below or tree[0] == 0
        return keeps(tree[2], under) and keeps(tree[3], under)

    share = math.exp(log_sum(twin(posterior), keeps) - posterior.log_evidence)
    assert given_effect(found).probability == pytest.approx(share, abs=0.04)


def test_joined_trees_have_their_parts_below():
    left = from_splits([{(): (1, 2), (1,): (2, 0)}, {}])
    right = from_splits([{}, {(): (0, 1), (0,): (1, 1)}])
    joined = join_trees(np.array([[3, 4], [5, 6]], np.int32), left, right)
    wanted = from_splits(
        [
            {(): (3, 4), (0,): (1, 2), (0, 1): (2, 0)},
            {(): (5, 6), (1,): (0, 1), (1, 0): (1, 1)},
        ]
    )
    assert canonical_keys(joined) == canonical_keys(wanted)


def test_text_truth_and_missing_can_be_demanded():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 60),
            "town": rng.choice(["x", "y", "z"], 60),
            "old": rng.random(60) < 0.5,
            "age": np.where(rng.random(60) < 0.2, np.nan, rng.random(60)),
        }
    )
    y = rng.integers(0, 2, 60)
    for given, words in {
        "sex is f": "sex is not m / sex is m",
        "town is y": "town is not y / town is y",
        "old is true": "old is false / old is true",
        "age is missing": "age is present / age is missing",
    }.items():
        found = infer(X, y, engine="exact", max_depth=2, n_thresholds=3, given=given, n_trees=10)
        assert found.diagnostics["given"] == [f"root: {words}"]
        assert (found.trees.feature[:, 0] >= 0).all()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("aa", "given names 'aa', which is no column; did you mean 'a'"),
        ("a <= x", "'x' is no number; give one"),
        ("a <= inf", "give a finite threshold"),
        ("a is red", "'a' has no such value to split on; it is a number"),
        ({}, "says nothing of trees"),
        ({"top": "a"}, "has the place 'top', which is none"),
        ({"root.left": "a"}, "says nothing of root, so root.left may not exist"),
        ({"root": "stop", "root.left": "a"}, "stops at root, so there is no root.left"),
        ({"root": "a", "never": ["a"]}, "demands 'a' at root and never"),
        ({"monotone": {"a": "sideways"}}, "give columns and 'up' or 'down'"),
        (
            {"root": "a <= 0.5", "root.left": "a <= 0.5"},
            "at root.left, but it parts no training rows",
        ),
        (
            {"root": "a", "root.left": "b", "root.left.left": "c"},
            "splits on 3 levels, but max_depth=2",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        condition(exact(0), given, n_trees=5)


def test_too_few_trees_that_keep_a_demand_are_told():
    X, _ = table(0, 60)
    posterior = infer(
        X, X["a"] > 1.5, engine="exact", max_depth=2, n_thresholds=3, binning="midpoint"
    )
    with pytest.raises(ValueError, match="of 30 drawn trees only, too few to tell more"):
        condition(posterior, {"monotone": {"a": "down"}}, n_trees=30)


def test_monotone_wants_an_order():
    X, _ = table(0)
    posterior = infer(X, np.arange(12) % 3, engine="exact", max_depth=1)
    with pytest.raises(ValueError, match="monotone needs an order, but there are 3 classes"):
        condition(posterior, {"monotone": {"a": "up"}})


def test_a_model_given_a_demand_predicts_shows_and_is_saved(tmp_path):
    X, y = table(9, 40)
    model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=3, random_state=0)
    forced = model.fit(X, y).given({"root": "c <= 1.5"})
    assert forced.describe().startswith("if c <= 1.")
    assert not np.allclose(forced.predict_proba(X), model.predict_proba(X))
    dtgfn.save(forced, tmp_path / "forced.dtgfn")
    again = dtgfn.load(tmp_path / "forced.dtgfn")
    np.testing.assert_array_equal(again.predict_proba(X), forced.predict_proba(X))
    assert str(given_effect(again)) == str(given_effect(forced))
    with pytest.raises(ValueError, match=r"under demands already .root: c <= 1"):
        forced.given("a")
    with pytest.raises(ValueError, match="under demands cannot take more rows"):
        forced.partial_fit(X, y)
    with pytest.raises(ValueError, match="no demands on these trees"):
        given_effect(model)


def test_numbers_can_be_given_demands_and_sums_and_bags_refuse_them():
    X, y = table(9, 60)
    number = X["a"] * 2.0 + X["b"]
    model = DTGFNRegressor(inference="exact", max_depth=2, n_thresholds=3).fit(X, number)
    rising = model.given({"monotone": {"a": "up"}})
    assert given_effect(rising).probability > 0.5
    assert math.isnan(given_effect(rising).log_evidence_change)
    with pytest.raises(AttributeError, match="sum of trees"):
        DTGFNRegressor(options={"n_sweeps": 4}, random_state=0).fit(X, number).given("a")
    bags = DTGFNClassifier(ensemble="bags", options={"n_bags": 3}, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="single trees"):
        bags.given("a")
    with pytest.raises(ValueError, match="leave out ensemble"):
        infer(X, y, engine="smc", ensemble="bags", given="a")
