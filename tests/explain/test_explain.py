"""Explanations say what the trees do, and agree with slow, obvious twins."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars
import pytest
from enumeration import Case, Enumeration
from hypothesis import given
from hypothesis import strategies as st
from keyword_engines import infer_exact
from random_posterior import make_posterior, mixed_frame
from sklearn.datasets import load_iris
from sklearn.inspection import (
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from thoroughness import examples

from dtgfn import DTGFNClassifier, infer
from dtgfn.cli.summary import summarise, summary_text
from dtgfn.data.binning import Binner, ColumnSpec, encode
from dtgfn.data.tables import as_table
from dtgfn.explain import consensus_tree, distinct_rules, leaf_rules
from dtgfn.explain.column_importance import (
    co_occurrence,
    column_gains,
    effective_trees,
    importances,
)
from dtgfn.explain.rules import (
    PathStep,
    condition_text,
    gather_conditions,
    met_text,
    paths_to_leaves,
)
from dtgfn.explain.text import decision_path, tree_text
from dtgfn.explain.tree_set import take_trees
from dtgfn.inference.bagging import Bags
from dtgfn.posterior.prediction import leaf_probabilities
from dtgfn.trees.batch import canonical_keys, route
from dtgfn.trees.custom_leaf import CustomLeaf
from dtgfn.trees.score import leaf_log_marginal, log_likelihood

few = examples(20)
seeds = st.integers(0, 2**32 - 1)


def mixed(seed: int, n_rows: int = 60, **options):
    """A random posterior over columns of every kind, and its frame."""
    rng = np.random.default_rng(seed)
    frame = mixed_frame(n_rows, rng)
    return make_posterior(frame, rng.choice(["a", "b", "c"], n_rows), seed=seed, **options), frame


# Importances.


def slow_gains(posterior, b: int) -> np.ndarray:
    """Gain of each column in one tree, split by split, from row sets."""
    trees, rows = posterior.trees, posterior.rows
    column = posterior.binner.feature_column
    gains = np.zeros(len(posterior.binner.columns))

    def log_m(chosen: np.ndarray) -> float:
        counts = np.bincount(
            rows.target[chosen], rows.weight[chosen], minlength=len(posterior.classes)
        )
        return float(leaf_log_marginal(counts, posterior.score))

    def visit(node: int, chosen: np.ndarray) -> None:
        feature = trees.feature[b, node]
        if feature < 0:
            return
        right = rows.codes[chosen, feature] > trees.cut[b, node]
        sides = chosen[~right], chosen[right]
        gains[column[feature]] += log_m(sides[0]) + log_m(sides[1]) - log_m(chosen)
        for turn, side in enumerate(sides):
            visit(trees.left[b, node] + turn, side)

    visit(0, np.arange(len(rows.codes)))
    return gains


@few
@given(seeds)
def test_importances_equal_their_slow_twin(seed):
    posterior, _ = mixed(seed, n_trees=8)
    weight = posterior.weights
    gains = np.array([slow_gains(posterior, b) for b in range(len(posterior.trees))])
    size = np.abs(gains).sum(axis=1, keepdims=True)
    shares = np.divide(gains, size, out=np.zeros_like(gains), where=size > 0)
    frame = importances(posterior, level=0.5).loc[list(posterior.binner.column_names)]
    assert np.allclose(frame["gain"], weight @ gains)
    assert np.allclose(frame["share"], weight @ shares)
    for name, tail in (("gain_low", 0.25), ("gain_high", 0.75)):
        for column in range(gains.shape[1]):
            order = np.argsort(gains[:, column])
            place = np.searchsorted(np.cumsum(weight[order]), tail)
            assert frame[name].iloc[column] == pytest.approx(gains[order[place], column])


def test_gains_of_a_tree_add_up_to_its_likelihood():
    posterior, _ = mixed(0)
    trees = posterior.trees
    gains = column_gains(posterior, trees, posterior.binner.feature_column, 6)
    everything = np.bincount(posterior.rows.target, posterior.rows.weight)
    single = leaf_log_marginal(everything, posterior.score)
    total = log_likelihood(trees, posterior.rows, posterior.score) - single
    assert np.allclose(gains.sum(axis=1), total)


def test_exact_inclusion_has_no_width_and_is_that_of_all_trees():
    rng = np.random.default_rng(1)
    case = Case(rng.integers(0, 3, (14, 3)), rng.integers(0, 2, 14), 2, split_penalty=0.5)
    posterior = infer_exact(
        case.rows, case.score, column=case.columns, n_columns=3, n_trees=50, random_state=0
    )
    everything = Enumeration(case)
    used = np.array([[f in str_features(t) for f in range(3)] for t in everything.trees])
    frame = importances(posterior).sort_index()
    assert np.allclose(frame["inclusion"], everything.probability @ used)
    assert (frame["inclusion_low"] == frame["inclusion_high"]).all()


def str_features(tree) -> set[int]:
    """Features that a tree of the enumeration splits on."""
    return set() if not tree else {tree[0]} | str_features(tree[2]) | str_features(tree[3])


def test_inclusion_intervals_hold_the_value_and_widen_with_fewer_effective_trees():
    posterior, _ = mixed(2, n_trees=40)
    frame = importances(posterior)
    assert (frame["inclusion_low"] <= frame["inclusion"]).all()
    assert (frame["inclusion"] <= frame["inclusion_high"]).all()
    assert 1 < effective_trees(posterior) < len(posterior.trees)
    stuck = replace(posterior, diagnostics={"ess_log_reward": 3.0})
    assert effective_trees(stuck) == 3
    wider = importances(stuck)
    assert (
        (wider.inclusion_high - wider.inclusion_low) > (frame.inclusion_high - frame.inclusion_low)
    ).all()


def test_never_used_and_always_used_columns_keep_an_interval_with_one_open_side():
    posterior = replace(mixed(2)[0], column_inclusion=np.array([0.0, 1.0, 0.5, 0.5, 0.5, 0.5]))
    frame = importances(posterior)
    assert frame.loc["length", ["inclusion_low", "inclusion"]].tolist() == [0, 0]
    assert 0 < frame.loc["length", "inclusion_high"] < 0.5
    assert frame.loc["width", ["inclusion", "inclusion_high"]].tolist() == [1, 1]
    assert 0.5 < frame.loc["width", "inclusion_low"] < 1


def test_a_loss_at_the_root_is_a_negative_gain():
    X = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (10, 1))
    y = (X[:, 0] != X[:, 1]).astype(int)
    posterior = infer(
        X, y, engine="exact", max_depth=2, n_thresholds=1, n_trees=200, random_state=0
    )
    frame = importances(posterior)
    assert frame["gain_low"].min() < 0 < frame["gain_high"].max()
    assert frame["share"].abs().max() <= 1


def test_importances_are_sorted_and_refuse_other_levels():
    posterior, _ = mixed(3)
    assert importances(posterior)["share"].is_monotonic_decreasing
    for level in (0, 1, 5, "x"):
        with pytest.raises(ValueError, match=r"level=.* is not usable; give a probability"):
            importances(posterior, level)


def test_co_occurrence_counts_trees_that_use_both():
    posterior, _ = mixed(4)
    column = posterior.binner.feature_column
    both = np.zeros((6, 6))
    for b, weight in enumerate(posterior.weights):
        used = {int(column[f]) for f in posterior.trees.feature[b] if f >= 0}
        for i in used:
            for j in used:
                both[i, j] += weight
    found = co_occurrence(posterior)
    assert np.allclose(found, both)
    assert np.allclose(np.diag(found), posterior.column_inclusion)
    lift = co_occurrence(posterior, "lift")
    assert np.allclose(lift, both / np.outer(np.diag(both), np.diag(both)))
    with pytest.raises(ValueError, match="measure='x' is not known"):
        co_occurrence(posterior, "x")


def test_lift_of_a_column_that_is_never_used_is_unknown():
    X = np.column_stack([np.arange(40) % 2, np.zeros(40)])
    posterior = infer(X, np.arange(40) % 2, engine="exact", max_depth=1, n_trees=20)
    lift = co_occurrence(posterior, "lift")
    assert lift.loc["x0", "x0"] == pytest.approx(1)
    assert lift["x1"].isna().all()


# Consensus.


@few
@given(seeds)
def test_consensus_has_the_least_expected_distance_to_a_sampled_tree(seed):
    posterior, _ = mixed(seed, n_trees=12, depth=3)
    trees, rows = posterior.trees, posterior.rows
    leaf, value = route(trees, rows.codes), leaf_probabilities(trees, rows, posterior.score)
    says = np.array([value[b][leaf[b]] for b in range(len(trees))])
    pairs = ((says[:, None] - says[None]) ** 2).sum(axis=3)
    expected = (pairs @ rows.weight / rows.weight.sum()) @ posterior.weights
    found = consensus_tree(posterior)
    place = canonical_keys(trees).index(canonical_keys(found.tree)[0])
    assert expected[place] == pytest.approx(expected.min())
    spread = posterior.weights @ expected / 2
    assert found.distance == pytest.approx(expected[place] - spread)


def test_consensus_of_equal_trees_is_that_tree():
    posterior, _ = mixed(1, n_trees=4)
    alone = replace(
        posterior,
        trees=posterior.trees[[2]],
        log_reward=posterior.log_reward[[2]],
        log_weight=np.zeros(1),
        best_tree=posterior.trees[[2]],
    )
    assert consensus_tree(alone).distance == pytest.approx(0, abs=1e-15)
    assert tree_text(alone, "consensus") == tree_text(alone)


def test_consensus_of_numbers_is_nearest_to_their_average():
    rng = np.random.default_rng(3)
    posterior = make_posterior(mixed_frame(60, rng), rng.normal(size=60), n_trees=12)
    codes, weight = posterior.rows.codes, posterior.rows.weight
    everything = take_trees(posterior, "all")
    leaf = route(everything.trees, codes)
    says = np.array([v[k, 0] for v, k in zip(everything.value, leaf, strict=True)])
    far = ((says - everything.weight @ says) ** 2) @ weight / weight.sum()
    assert consensus_tree(posterior).distance == pytest.approx(far.min())


def test_consensus_of_bags_is_nearest_to_the_plain_average_of_their_trees():
    posterior, _ = mixed(5, n_trees=12, depth=3)
    n_trees = len(posterior.trees)
    posterior = replace(posterior, log_weight=np.zeros(n_trees))
    bags = Bags(
        posterior.trees,
        posterior.rows,
        posterior.score,
        bag=np.zeros(n_trees, dtype=np.int32),
        copies=np.ones((1, len(posterior.rows.target)), dtype=np.int16),
        sharpness=4.0,
    )
    found, plain = consensus_tree(replace(posterior, solution=bags)), consensus_tree(posterior)
    assert found.distance == pytest.approx(plain.distance)
    assert canonical_keys(found.tree) == canonical_keys(plain.tree)


# Nodes.


def add_count(sums, target, weight, numbers):
    sums[0] += weight
    sums[1] += weight * target


def count_marginal(sums, numbers):
    shape, rate = 1.0 + sums[1], 1.0 + sums[0]
    return math.lgamma(shape) - shape * math.log(rate)


def write_rate(sums, numbers, out):
    out[0] = (1.0 + sums[1]) / (1.0 + sums[0])


def count_mass(sums, numbers):
    return sums[0]


def test_rows_of_a_leaf_of_ones_own_are_their_weight():
    rng = np.random.default_rng(6)
    posterior = make_posterior(mixed_frame(60, rng), rng.poisson(3.0, 60).astype(float))
    leaf = CustomLeaf(2, 1, add_count, count_marginal, write_rate, count_mass)
    own = replace(posterior, score=replace(posterior.score, leaf=leaf))
    chosen, rows = take_trees(own), own.rows
    reached = route(chosen.trees, rows.codes)[0]
    assert chosen.rows[0, 0] == pytest.approx(rows.weight.sum())
    for node in np.unique(reached):
        weight, target = rows.weight[reached == node], rows.target[reached == node]
        assert chosen.rows[0, node] == pytest.approx(weight.sum())
        assert chosen.value[0, node, 0] == pytest.approx((1 + weight @ target) / (1 + weight.sum()))
    assert f"({weight.sum():g} rows)" in tree_text(own)


# Conditions.


def region_holds(binner, condition, codes: np.ndarray) -> np.ndarray:
    """Rows of codes that meet a condition, from what it says of categories and codes."""
    own = {
        f.category if f.kind == "category" else f.kind: k
        for k, f in enumerate(binner.features)
        if f.column == condition.column
    }
    if hasattr(condition, "lowest"):
        code = codes[:, next(iter(own.values()))]
        return (code >= condition.lowest) & (code <= condition.highest)
    holds = np.ones(len(codes), dtype=bool)
    if condition.only is not None:
        holds &= codes[:, own[condition.only]] == 1
    for category in condition.excluded:
        holds &= codes[:, own[category]] == 0
    if condition.missing is not None:
        holds &= (codes[:, own["missing"]] == 1) == condition.missing
    return holds


@few
@given(seeds)
def test_merged_conditions_hold_for_the_leafs_rows_and_no_others(seed):
    posterior, _ = mixed(seed, n_trees=5)
    binner = posterior.binner
    codes = encode(binner, as_table(mixed_frame(100, np.random.default_rng(seed + 1))))
    trees = posterior.trees
    reached = route(trees, codes)
    for b in range(len(trees)):
        leaves = paths_to_leaves(trees, b)
        assert sorted(node for node, _ in leaves) == sorted(
            np.flatnonzero(trees.feature[b, : trees.n_nodes[b]] < 0)
        )
        for node, turns in leaves:
            holds = np.ones(len(codes), dtype=bool)
            for condition in gather_conditions(binner, turns):
                holds &= region_holds(binner, condition, codes)
            assert (holds == (reached[b] == node)).all()


def words(turns, cell=None, known=True):
    """What is said of a path, in general and of a cell."""
    three = np.array([-0.5, 0.25, 1.5])
    colours, shapes = ("blue", "green", "red"), ("long", "round")
    specs = (
        ColumnSpec("length", "number", three, (), False),
        ColumnSpec("width", "number", three, (), True),
        ColumnSpec("maybe", "boolean", np.array([0.5]), (), True),
        ColumnSpec("colour", "category", np.empty(0), colours, False),
        ColumnSpec("shape", "category", np.empty(0), shapes, True),
    )
    binner = Binner(specs, True, "quantile", 3)
    places = {(f.name, f.category): k for k, f in enumerate(binner.features)}
    path = [PathStep(places[name, category], cut, right) for name, category, cut, right in turns]
    (condition,) = gather_conditions(binner, path)
    return condition_text(binner, condition), met_text(binner, condition, cell, known)


LENGTH, WIDTH, MAYBE = ("length", None), ("width", None), ("maybe", None)
RED, BLUE, LONG = ("colour", "red"), ("colour", "blue"), ("shape", "long")
NO_SHAPE = ("shape", None)


@pytest.mark.parametrize(
    ("turns", "cell", "general", "met"),
    [
        ([(*LENGTH, 1, False)], "-1", "length <= 0.25", "length = -1 is at most 0.25"),
        ([(*LENGTH, 1, True)], "1", "length > 0.25", "length = 1 is above 0.25"),
        (
            [(*LENGTH, 2, False), (*LENGTH, 0, True), (*LENGTH, 1, True)],
            "0.1",
            "0.25 < length <= 1.5",
            "length = 0.1 is above 0.25 and at most 1.5",
        ),
        ([(*WIDTH, 0, True)], "3", "width > -0.5 or missing", "width = 3 is above -0.5"),
        ([(*WIDTH, 0, True)], None, "width > -0.5 or missing",
         "width is missing, as good as above -0.5"),
        ([(*WIDTH, 0, True), (*WIDTH, 3, False)], "3", "width > -0.5", "width = 3 is above -0.5"),
        ([(*WIDTH, 3, False)], "3", "width is present", "width = 3 is present"),
        ([(*WIDTH, 0, True), (*WIDTH, 3, True)], None, "width is missing", "width is missing"),
        ([(*MAYBE, 0, False)], "false", "maybe is false", "maybe is false"),
        ([(*MAYBE, 0, True)], "true", "maybe is true or missing", "maybe is true"),
        ([(*MAYBE, 0, True)], None, "maybe is true or missing",
         "maybe is missing, as good as true"),
        ([(*MAYBE, 0, True), (*MAYBE, 1, False)], "true", "maybe is true", "maybe is true"),
        ([(*MAYBE, 1, False)], "true", "maybe is present", "maybe = true is present"),
        ([(*MAYBE, 1, True)], None, "maybe is missing", "maybe is missing"),
        ([(*RED, 0, True)], "red", "colour is red", "colour = red"),
        ([(*BLUE, 0, False), (*RED, 0, True)], "red", "colour is red", "colour = red"),
        ([(*RED, 0, False)], "blue", "colour is not red", "colour = blue is not red"),
        (
            [(*RED, 0, False), (*BLUE, 0, False)],
            "green",
            "colour is none of blue, red",
            "colour = green is none of blue, red",
        ),
        ([(*LONG, 0, False)], None, "shape is not long", "shape is missing, so not long"),
        ([(*NO_SHAPE, 0, True)], None, "shape is missing", "shape is missing"),
        ([(*LONG, 0, False), (*NO_SHAPE, 0, True)], None, "shape is missing", "shape is missing"),
        (
            [(*NO_SHAPE, 0, False), (*LONG, 0, False)],
            "round",
            "shape is present and not long",
            "shape = round is present and not long",
        ),
    ],
)  # fmt: skip
def test_conditions_in_words(turns, cell, general, met):
    assert words(turns, cell) == (general, met)


def test_an_unknown_category_is_told():
    _, met = words([(*RED, 0, False)], "purple", known=False)
    assert met == "colour = purple (not known from training) is not red"


# One row.


@few
@given(seeds)
def test_the_path_of_a_row_ends_in_its_leaf_and_names_each_column_once(seed):
    posterior, _ = mixed(seed, n_trees=3)
    new = mixed_frame(3, np.random.default_rng(seed))
    codes = encode(posterior.binner, as_table(new))
    for b in range(3):
        for i in range(len(new)):
            path = decision_path(posterior, new.iloc[[i]], b)
            leaf = int(route(posterior.trees[[b]], codes[[i]])[0, 0])
            assert path.nodes[-1] == leaf
            assert all(low < high for low, high in pairwise(path.nodes))
            said = [text.split(" ")[0] for text in path.conditions]
            assert len(said) == len(set(said))
            expected = take_trees(posterior, b).value[0, leaf]
            assert (path.value == expected).all()
            assert path.vote == posterior.classes[expected.argmax()]


def test_a_row_may_come_in_any_form():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    posterior = infer(X, names[y], engine="exact", max_depth=2, n_thresholds=9, n_trees=10)
    row = X.iloc[70]
    text = str(decision_path(posterior, row))
    assert text == (
        "The tree says virginica (probability 0.974), because\n"
        "- petal length (cm) = 4.8 is above 2.18\n"
        "- petal width (cm) = 1.8 is above 1.78\n"
        "Its leaf holds 46 rows of training: 1 versicolor, 45 virginica."
    )
    forms = [row.tolist(), row.to_numpy(), row.to_dict(), X.iloc[[70]], [row.tolist()]]
    forms += [polars.from_pandas(X)[70], dict(reversed(row.to_dict().items()))]
    assert {str(decision_path(posterior, form)) for form in forms} == {text}
    with pytest.raises(ValueError, match="row has 2 rows; give one, such as"):
        decision_path(posterior, X.iloc[:2])


def test_a_row_that_nearly_equals_a_threshold_is_shown_with_enough_digits():
    X = np.array([[0.0], [1.0]] * 10)
    posterior = infer(X, [0, 1] * 10, engine="exact", max_depth=1, n_thresholds=1, n_trees=5)
    (said,) = decision_path(posterior, [0.500000001]).conditions
    assert said == "x0 = 0.500000001 is above 0.5"
    (said,) = decision_path(posterior, [0.5]).conditions
    assert said == "x0 = 0.5 is at most 0.5"


def test_a_tree_without_splits_says_so():
    posterior = infer([[1.0], [2.0]] * 4, [0, 0, 1, 0] * 2, engine="exact", max_depth=0, n_trees=5)
    assert str(decision_path(posterior, [1.0])) == (
        "The tree says 0 (P(1) 0.256) of every row: it has no splits.\n"
        "Its leaf holds 8 rows of training: 6 0, 2 1."
    )


def test_a_regression_says_a_number():
    X = np.repeat([[1.0], [2.0]], 8, axis=0)
    y = np.repeat([10.0, 20.0], 8) + np.tile([-0.5, 0.5], 8)
    posterior = make_posterior(X, y, n_trees=1, depth=1, n_thresholds=1)
    path = decision_path(posterior, [1.0])
    lines = str(path).splitlines()
    assert lines[:2] == [f"The tree says {path.said}, because", "- x0 = 1 is at most 1.5"]
    assert lines[2].endswith(" rows of training.")
    assert path.vote == pytest.approx(10, abs=0.3)
    assert leaf_rules(posterior)["value"].tolist()[0] == path.vote
    assert f"    {path.said}  (" in tree_text(posterior)
    assert path.said.startswith(f"{path.vote:.6g} +- ")


# Rules.


def test_rules_of_one_tree_are_its_leaves():
    posterior, _ = mixed(6)
    frame = leaf_rules(posterior)
    assert len(frame) == posterior.best_tree.n_splits[0] + 1
    assert np.allclose(frame[["P(a)", "P(b)", "P(c)"]].sum(axis=1), 1)
    assert frame["rows"].sum() == pytest.approx(posterior.rows.weight.sum())
    assert (frame["weight"] == 1).all()


@few
@given(seeds)
def test_probability_of_a_rule_is_the_weight_of_the_trees_that_have_it(seed):
    posterior, _ = mixed(seed, n_trees=15, depth=2, n_thresholds=2)
    everything = leaf_rules(posterior, "all")
    expected = everything.groupby("rule")["weight"].sum()
    frame = distinct_rules(posterior)
    assert frame["rule"].is_unique
    assert np.allclose(frame.set_index("rule")["probability"], expected[frame["rule"]])
    assert frame["probability"].is_monotonic_decreasing
    per_tree = everything.groupby("tree")["weight"].first()
    assert per_tree.sum() == pytest.approx(1)


def test_rules_are_weighted_as_the_model_is():
    posterior, _ = mixed(3, n_trees=15, depth=2)
    model = DTGFNClassifier(weighting="uniform")
    model._keep(posterior)
    everything = leaf_rules(model, "all").groupby("tree")["weight"].first()
    copies = everything * len(posterior.trees)
    assert np.allclose(copies, copies.round())
    assert not np.allclose(
        everything, leaf_rules(posterior, "all").groupby("tree")["weight"].first()
    )


def test_a_leaf_for_all_rows_has_a_rule():
    posterior = infer([[1.0], [2.0]] * 4, [0, 0, 1, 0] * 2, engine="exact", max_depth=0, n_trees=5)
    assert leaf_rules(posterior)["rule"].tolist() == ["always"]


# scikit-learn's inspection.


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9, n_trees=10)
    return model.fit(X, y), X, y


def test_partial_dependence_is_the_mean_prediction_with_a_column_set(iris):
    model, X, y = iris
    found = partial_dependence(model, X, ["petal length (cm)"], grid_resolution=5)
    for value, average in zip(found["grid_values"][0], found["average"].T, strict=True):
        changed = X.assign(**{"petal length (cm)": value})
        assert np.allclose(model.predict_proba(changed).mean(axis=0), average)
    array = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9, n_trees=10)
    array.fit(X.to_numpy(), y)
    plain = partial_dependence(array, X.to_numpy(), [2], grid_resolution=5)
    assert np.allclose(plain["average"], found["average"])


def test_partial_dependence_of_columns_with_text_and_holes():
    rng = np.random.default_rng(0)
    frame = mixed_frame(80, rng)
    frame["shape"] = frame["shape"].fillna("none")  # scikit-learn sorts the values of a text column
    model = DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3, n_trees=10)
    model.fit(frame, frame["colour"] == "red")
    found = partial_dependence(
        model, frame, ["colour"], categorical_features=["flag", "colour", "shape"]
    )
    average = dict(zip(found["grid_values"][0], found["average"][0], strict=True))
    assert average["red"] > 0.9 > 0.1 > average["blue"]


def test_permutation_importance_finds_the_column_in_use(iris):
    model, X, y = iris
    array = DTGFNClassifier(inference="exact", max_depth=2, n_thresholds=9, n_trees=10)
    for fitted, table in ((model, X), (array.fit(X.to_numpy(), y), X.to_numpy())):
        result = permutation_importance(fitted, table, y, n_repeats=2, random_state=0)
        assert result["importances_mean"].argmax() >= 2
        assert result["importances_mean"][:2].max() < 0.05


def test_partial_dependence_can_be_plotted(iris):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    model, X, _ = iris
    shown = PartialDependenceDisplay.from_estimator(
        model, X, ["petal length (cm)", (2, 3)], target=0, grid_resolution=5
    )
    one, two = shown.pd_results
    assert one["average"].shape == (3, 5)
    assert two["average"].shape == (3, 5, 5)
    assert one["average"][0, 0] > one["average"][0, -1]  # short petals are of the first class
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")


def test_a_summary_calls_exact_only_what_was_summed():
    X, y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0, 0, 1, 1] * 5
    said = {}
    for engine in ("exact", "gfn"):
        model = DTGFNClassifier(inference=engine, max_depth=1, random_state=0).fit(X, y)
        said[engine] = summary_text(summarise(model)).splitlines()[1]
    assert said["exact"].endswith("(exact)")
    assert said["gfn"].endswith("(sampled, no gap left)")
