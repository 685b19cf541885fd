"""The dict behind a report: its numbers are the model's, and it stays plain and small."""

import copy
import json
import math
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masses import single_trees
from random_posterior import make_posterior, mixed_frame
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from thoroughness import examples

import dtgfn
from dtgfn import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn._support.archive import StorageError
from dtgfn.data.binning import encode
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.diagnostics.judgement import trust_items
from dtgfn.explain.column_labels import code_value, split_unit, values_of_codes
from dtgfn.explain.tree_set import node_log_marginals
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.uncertainty import uncertainty
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.report.explorer import table_of
from dtgfn.report.posterior_facts import training_curves
from dtgfn.report.report import gather, n_bytes
from dtgfn.trees.batch import route
from dtgfn.trees.equivalent_cuts import equivalence_keys, equivalent_cuts, log_n_equivalent

MOST_BYTES = 2_500_000  # leaves half a megabyte for the page itself
QUICK = {"max_depth": 3, "n_thresholds": 9, "n_jobs": 1, "random_state": 0}


def model_of(posterior, **params):
    """An estimator around a posterior that no engine made."""
    kind = DTGFNRegressor if posterior.classes is None else DTGFNClassifier
    model = kind(n_jobs=1, **params)
    model._keep(posterior)
    if posterior.classes is not None:
        model.classes_ = posterior.classes
    model.n_features_in_ = len(posterior.binner.columns)
    if posterior.binner.named:
        model.feature_names_in_ = np.array(posterior.binner.column_names, dtype=object)
    return model


# A page's arithmetic, from the dict alone.


def holds(test, value):
    if "at_most" in test:
        return value is not None and value <= test["at_most"]
    if "is" in test:
        return value is not None and value is test["is"]
    if "is_not" in test:
        return value != test["is_not"]
    return value is not None


def leaves_reached(report, row):
    forest, columns = report["forest"], report["columns"]
    for reference, weight in forest["trees"]:
        while reference >= 0:
            test, then, other = forest["nodes"][reference]
            test = forest["tests"][test]
            value = row[columns[test["column"]]["name"]]
            reference = then if holds(test, value) else other
        yield weight, forest["leaves"][-1 - reference]


def entropy(p):
    return -sum(q * math.log(q) for q in p if q > 0)


def answer_classes(report, row):
    """Probabilities, then total, noise and model."""
    reached = [(weight, np.array(leaf)) for weight, leaf in leaves_reached(report, row)]
    averaged = sum(weight * leaf for weight, leaf in reached)
    p, noise = averaged[:-1], max(averaged[-1], 0.0)
    model = max(entropy(p) - noise, 0.0)
    sharp = p ** report["forest"]["sharpness"]
    sharp = sharp / sharp.sum()
    change = entropy(sharp) / (noise + model) if noise + model > 0 else 1.0
    if report["forest"]["sharpness"] == 1:
        change = 1.0
    return sharp, (change * (noise + model), change * noise, change * model)


def answer_numbers(report, row):
    """Mean, then variances: total, noise and model."""
    reached = list(leaves_reached(report, row))
    mean = sum(weight * leaf[0] for weight, leaf in reached)
    noise = sum(weight * leaf[1] for weight, leaf in reached)
    model = sum(weight * (leaf[2] + (leaf[0] - mean) ** 2) for weight, leaf in reached)
    sharpness = report["forest"]["sharpness"]
    return mean, tuple(part / sharpness for part in (noise + model, noise, model))


def plain_rows(frame):
    """Rows of a frame as a page would be given them: plain values, None for missing."""
    cells = frame.astype(object).where(frame.notna(), None)
    return [
        {name: value.item() if isinstance(value, np.generic) else value for name, value in row}
        for row in (zip(frame.columns, values, strict=True) for values in cells.to_numpy())
    ]


def assert_same_answers(model, X, report):
    report = json.loads(json.dumps(report, allow_nan=False))
    rows = plain_rows(X)
    parts = model.predict_uncertainty(X)
    parts = np.column_stack([parts.total, parts.noise, parts.model])
    if isinstance(model, DTGFNClassifier):
        for row, p, each in zip(rows, model.predict_proba(X), parts, strict=True):
            probability, split = answer_classes(report, row)
            np.testing.assert_allclose(probability, p, atol=1e-9)
            np.testing.assert_allclose(split, each, atol=1e-9)
    else:
        unit = model.posterior_.score.leaf.scale
        for row, wanted, each in zip(rows, model.predict(X), parts, strict=True):
            mean, split = answer_numbers(report, row)
            assert mean == pytest.approx(wanted, abs=1e-9 * unit)
            np.testing.assert_allclose(split, each, atol=1e-9 * unit**2)


def with_ties(frame, report):
    """Rows whose numbers lie on thresholds, and categories never seen."""
    tied = frame.copy()
    for column in report["columns"]:
        if column["thresholds"] and column["kind"] == "number":
            cycle = np.resize(column["thresholds"], len(tied))
            tied[column["name"]] = np.where(tied[column["name"]].isna(), np.nan, cycle)
    if "colour" in tied:
        tied["colour"] = np.where(np.arange(len(tied)) % 5 == 0, "never seen", tied["colour"])
    return tied


@examples(25)
@given(
    seed=st.integers(0, 2**20),
    n_classes=st.integers(0, 4),
    n_trees=st.integers(1, 30),
    weighting=st.sampled_from(["importance", "uniform", "posterior"]),
    binning=st.sampled_from(["uniform", "quantile", "midpoint"]),
)
def test_the_forest_answers_as_the_model_does(seed, n_classes, n_trees, weighting, binning):
    rng = np.random.default_rng(seed)
    X = mixed_frame(40, rng)
    y = rng.normal(1e4, 3.0, 40) if n_classes == 0 else rng.integers(0, n_classes, 40)
    posterior = make_posterior(X, y, n_trees=n_trees, seed=seed, binning=binning)
    model = model_of(posterior, weighting=weighting)
    report = gather(model)
    assert_same_answers(model, X, report)
    assert_same_answers(model, with_ties(X, report), report)


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, load_iris().target_names[y]


@pytest.fixture(scope="module")
def exact(flowers):
    return DTGFNClassifier(inference="exact", **QUICK).fit(*flowers)


@pytest.fixture(scope="module")
def swept(flowers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        model = DTGFNClassifier(inference="smc", options={"n_sweeps": 3}, **QUICK)
        return model.fit(*flowers)


@pytest.fixture(scope="module")
def bagged(flowers):
    model = DTGFNClassifier(
        inference="smc", ensemble="bags", options={"n_bags": 10}, n_trees=60, **QUICK
    )
    return model.fit(*flowers)


@pytest.fixture(scope="module")
def trained(flowers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        options = {"n_steps": 4}
        model = DTGFNClassifier(time_budget=None, n_trees=50, options=options, **QUICK)
        return model.fit(*flowers)


@pytest.fixture(scope="module")
def numbers(flowers):
    X = flowers[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        model = DTGFNRegressor(inference="smc", options={"n_sweeps": 3}, **QUICK)
        return model.fit(X.iloc[:, :3], X.iloc[:, 3])


@pytest.fixture(scope="module")
def detector():
    X = mixed_frame(150, np.random.default_rng(0))
    return DTGFNAnomalyDetector(n_trees=30, n_jobs=1, random_state=0).fit(X)


def test_bags_are_as_sharp_in_the_report(bagged, flowers):
    report = gather(bagged)
    assert report["forest"]["sharpness"] == bagged.posterior_.sharpness != 1
    assert_same_answers(bagged, flowers[0][::7], report)
    assert report["fit"]["engine"] == "bags of smc"
    assert report["trust"]["level"] == "unknown"


def test_bags_of_numbers_are_as_sharp_in_the_report(flowers):
    X = flowers[0]
    model = DTGFNRegressor(
        inference="smc", ensemble="bags", options={"n_bags": 10}, n_trees=60, **QUICK
    ).fit(X.iloc[:, :3], X.iloc[:, 3])
    report = gather(model)
    assert report["forest"]["sharpness"] == model.posterior_.sharpness != 1
    assert_same_answers(model, X.iloc[::7, :3], report)
    assert "density of each target" in json.dumps(report["trust"])


def test_weighted_classes_and_another_weighting(flowers):
    X, y = flowers
    model = DTGFNClassifier(
        inference="exact", weighting="posterior", class_weight={"setosa": 2.5}, **QUICK
    ).fit(X, y)
    report = gather(model)
    assert not report["forest"]["exact_average"]
    assert_same_answers(model, X[::7], report)
    assert report["fit"]["rows"] == 225.0


def test_trained_and_numeric_models_answer_the_same(trained, numbers, flowers):
    X = flowers[0][::7]
    assert_same_answers(trained, X, gather(trained))
    assert_same_answers(numbers, X.iloc[:, :3], gather(numbers))


def test_an_exact_average_is_said_to_be_one_and_rows_carry_it(exact, flowers):
    X, y = flowers
    report = gather(exact, X[::4], y[::4])
    forest = report["forest"]
    assert forest["exact_average"]
    assert "sum over all trees" in forest["note"]
    told = np.array([row["probability"] for row in report["rows"]])
    np.testing.assert_array_equal(told, exact.predict_proba(X[::4]))
    sampled = [answer_classes(report, row["values"])[0] for row in report["rows"]]
    assert forest["mean_difference"] == pytest.approx(np.abs(sampled - told).mean(), abs=1e-9)
    assert 0 < forest["mean_difference"] < 0.01
    # The split into noise and model is always that of the sample.
    codes = encode(exact.binner_, table_of_rows(exact, report))
    parts = uncertainty(Predictor(exact.posterior_), codes)
    assert [row["uncertainty"]["model"] for row in report["rows"]] == parts.model.tolist()


def table_of_rows(model, report):
    return table_of(model.binner_, [row["values"] for row in report["rows"]])


def test_held_out_rows_have_the_numbers_of_the_model(swept, numbers, flowers):
    X, y = flowers
    report = gather(swept, X, y)
    assert len(report["rows"]) == 40
    places = [int(row["name"].split()[1]) - 1 for row in report["rows"]]
    assert len(set(places)) == 40
    part = X.iloc[places]
    assert [row["probability"] for row in report["rows"]] == swept.predict_proba(part).tolist()
    assert [row["prediction"] for row in report["rows"]] == swept.predict(part).tolist()
    assert [row["truth"] for row in report["rows"]] == y[places].tolist()
    unsure = swept.predict_uncertainty(X).total
    worst = np.argsort(-unsure, kind="stable")[:12]
    assert set(worst.tolist()) <= set(places)
    report = gather(numbers, part.iloc[:, :3])
    assert report["held_out"] is None
    wanted = numbers.predict_interval(part.iloc[:, :3]).tolist()
    assert [row["interval"] for row in report["rows"]] == wanted
    assert {row["truth"] for row in report["rows"]} == {None}


def test_typical_rows_fall_into_the_bins_of_training_rows(exact, numbers, flowers):
    for model, n_rows in ((exact, 3), (numbers, 5)):
        report = gather(model)
        assert len(report["rows"]) == n_rows
        codes = encode(model.binner_, table_of_rows(model, report))
        known = {row.tobytes() for row in model.posterior_.rows.codes}
        assert {row.tobytes() for row in codes} <= known
    names = [row["name"] for row in gather(exact)["rows"]]
    assert names[0] == "a typical row of class setosa"
    assert [row["prediction"] for row in gather(exact)["rows"]] == sorted(set(flowers[1]))


def test_held_out_values_are_told_as_the_model_read_them():
    rng = np.random.default_rng(3)
    X = mixed_frame(60, rng)
    X["code"] = np.array(["1", "2.0", "x"])[np.arange(60) % 3]
    posterior = make_posterior(X, rng.integers(0, 3, 60), n_trees=40, depth=5)
    model = model_of(posterior)
    odd = X[:12].copy()
    odd["length"] = odd["length"].map(str)
    odd["flag"] = odd["flag"].astype(int)
    odd["maybe"] = odd["maybe"].map({True: "true", False: "0"})
    odd["code"] = [1, 2] * 6
    odd["colour"] = ["never seen", *odd["colour"][1:]]
    report = gather(model, odd)
    row = report["rows"][0]["values"]
    assert row["length"] == X["length"][0]
    assert row["flag"] is bool(X["flag"][0])
    assert row["code"] == "1"
    assert row["colour"] == "never seen"
    assert report["rows"][1]["values"]["code"] == "2.0"
    for row in report["rows"]:
        np.testing.assert_allclose(
            answer_classes(report, row["values"])[0], row["probability"], atol=1e-9
        )


def test_a_single_sweep_proves_nothing(flowers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        model = DTGFNClassifier(inference="smc", options={"n_sweeps": 1}, **QUICK).fit(*flowers)
    assert levels(model)["evidence"].level == "unknown"
    assert gather(model)["trust"]["level"] != "good"


@examples(30)
@given(seed=st.integers(0, 2**20), binning=st.sampled_from(["uniform", "quantile", "midpoint"]))
def test_values_made_from_codes_have_these_codes(seed, binning):
    rng = np.random.default_rng(seed)
    X = mixed_frame(30, rng)
    X["constant"], X["text"] = 3.0, "same"
    X["far"] = rng.normal(size=30) * 10.0 ** rng.integers(-12, 12)
    posterior = make_posterior(X, rng.integers(0, 2, 30), n_trees=1, binning=binning)
    values = values_of_codes(posterior.binner, posterior.rows.codes)
    codes = encode(posterior.binner, table_of(posterior.binner, values))
    np.testing.assert_array_equal(codes, posterior.rows.codes)


def test_between_neighbouring_doubles_there_is_still_a_value():
    low = 1.0
    thresholds = np.array([low, np.nextafter(low, 2)])
    assert np.searchsorted(thresholds, code_value(thresholds, 1)) == 1


def test_trees_are_the_most_probable_ones_node_by_node(exact):
    report = gather(exact, n_trees=10)
    posterior = exact.posterior_
    told = [tree["probability"] for tree in report["trees"]]
    assert told == sorted(told, reverse=True)
    (best,) = [tree for tree in report["trees"] if tree["best"]]
    assert best["text"] == exact.describe()
    for tree in report["trees"]:
        alone = math.exp(tree["log_reward"] - posterior.log_evidence)
        assert tree["probability"] == pytest.approx(alone * tree["variants"])
        assert tree["n_splits"] == sum(node["test"] is not None for node in tree["nodes"])
        for node in tree["nodes"]:
            assert node["rows"] == sum(node["counts"])
            if node["test"] is not None:
                then, other = tree["nodes"][node["then"]], tree["nodes"][node["else"]]
                assert then["parent"] == other["parent"] == node["id"]
                assert then["rows"] + other["rows"] == node["rows"]
        gains = sum(node["gain"] for node in tree["nodes"] if node["test"] is not None)
        likelihood = tree["log_reward"] + posterior.score.prior.penalty * tree["n_splits"]
        leaf = float(node_log_marginals(posterior, exact.best_tree_)[0, 0])
        assert gains == pytest.approx(likelihood - leaf, abs=1e-9)


def test_variants_are_all_the_trees_that_part_the_rows_alike(exact):
    """Every tree of the exact ranking belongs to one of the trees told, as often as it says."""
    posterior = exact.posterior_
    report = gather(exact, n_trees=3)
    ranked, _ = single_trees(posterior, 600)
    reached = route(ranked, posterior.rows.codes)
    for tree in report["trees"]:
        leaves = [node for node in tree["nodes"] if node["test"] is None]
        same = 0
        for b in np.flatnonzero(ranked.n_splits == tree["n_splits"]):
            columns = [posterior.binner.features[f].column for f in ranked.feature[b] if f >= 0]
            told = [node["test"]["column"] for node in tree["nodes"] if node["test"]]
            _, rows = np.unique(reached[b], return_counts=True)
            shape = sorted(columns) == sorted(told)
            same += shape and sorted(rows) == sorted(node["rows"] for node in leaves)
        assert same >= tree["variants"] > 1
    mass = math.fsum(tree["probability"] for tree in gather(exact, n_trees=100)["trees"])
    assert 0.5 < mass <= 1 + 1e-9  # no tree is counted twice


def test_variants_are_counted_right_with_categories_and_missing_values():
    """A brute-force twin: count the variants among all trees there are."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "dose (mg)": rng.choice([1.0, 1.2, 3.0, 9.0, np.nan], 40),
            "group": rng.choice(["a", "b", None], 40),
            "flag": rng.random(40) < 0.5,
        }
    ).astype({"group": object})
    y = np.where(X["dose (mg)"].fillna(9) > 2, "ill", "well")
    model = DTGFNClassifier(
        inference="exact", max_depth=2, n_thresholds=6, split_penalty=1.0, random_state=0
    ).fit(X, y)
    posterior = model.posterior_
    every, probability = single_trees(posterior, 100_000)
    assert probability.sum() == pytest.approx(1.0)  # all of them
    alike = equivalent_cuts(every, posterior.rows.codes)
    keys = equivalence_keys(every, alike)
    there = Counter(keys)
    assert max(there.values()) > 1
    np.testing.assert_allclose(np.exp(log_n_equivalent(alike)), [there[key] for key in keys])
    reached = [leaves.tobytes() for leaves in route(every, posterior.rows.codes)]
    assert len(set(keys)) == len(set(zip(keys, reached, strict=True)))  # the same rows, too
    told = gather(model, n_trees=100)["trees"]
    best = told[0]
    assert best["probability"] == pytest.approx(
        best["variants"] * math.exp(best["log_reward"] - posterior.log_evidence)
    )
    assert math.fsum(tree["probability"] for tree in told) <= 1 + 1e-9


def test_a_threshold_may_move_as_far_as_told(exact):
    rows = exact.posterior_.rows.codes
    for tree in gather(exact, n_trees=4)["trees"]:
        root = tree["nodes"][0]
        values = np.array(exact.binner_.columns[root["test"]["column"]].thresholds)
        low, high = root["alike"] or [root["test"]["at_most"]] * 2
        feature = [f.column for f in exact.binner_.features].index(root["test"]["column"])
        for threshold in values[(values >= low) & (values <= high)]:
            left = int((rows[:, feature] <= np.searchsorted(values, threshold)).sum())
            assert left == tree["nodes"][root["then"]]["rows"]


def test_the_best_tree_is_told_even_if_it_was_not_sampled(swept):
    report = gather(swept)
    posterior = swept.posterior_
    (best,) = [tree for tree in report["trees"] if tree["best"]]
    assert best["log_reward"] == pytest.approx(posterior.best_log_reward)
    mass = [tree["log_reward"] + math.log(tree["variants"]) for tree in report["trees"]]
    np.testing.assert_allclose(mass, sorted(mass, reverse=True))
    unsampled = sampled_posterior(
        posterior.trees[:1],
        log_reward=posterior.log_reward[:1],
        log_prob=posterior.log_prob[:1],
        log_weight=np.zeros(1),
        log_evidence=math.nan,
        log_evidence_error=math.nan,
        rows=posterior.rows,
        score=posterior.score,
        column=np.arange(4, dtype=np.int32),
        n_columns=4,
        engine="smc",
        also_known=posterior.best_tree,
    )
    model = model_of(replace(unsampled, binner=posterior.binner, classes=posterior.classes))
    trees = gather(model)["trees"]
    assert trees[0]["text"] == model.describe()
    assert sum(tree["share"] for tree in trees) == pytest.approx(1.0)


def test_rules_speak_in_units(exact):
    root = gather(exact)["trees"][0]["nodes"][0]
    assert root["rule"].startswith("petal ")
    assert " ≤ " in root["rule"]
    assert root["rule"].endswith(" cm")
    assert root["other"] == root["rule"].replace("≤", ">")


@pytest.mark.parametrize(
    ("name", "label", "unit"),
    [
        ("petal length (cm)", "petal length", "cm"),
        ("speed [m/s]", "speed", "m/s"),
        ("body mass index (kg/m²)", "body mass index", "kg/m²"),
        ("area (m^2)", "area", "m^2"),
        ("share (%)", "share", "%"),
        ("income (estimated)", "income (estimated)", None),
        ("vitamin (C)", "vitamin (C)", None),
        ("(cm)", "(cm)", None),
        ("plain", "plain", None),
    ],
)
def test_only_known_units_are_parted_from_names(name, label, unit):
    assert split_unit(name) == (label, unit)


def test_sizes_importances_and_pairs_are_those_of_the_model(exact):
    report = gather(exact)
    assert report["sizes"]["exact"]
    assert report["sizes"]["splits"] == exact.posterior_.size_probability.tolist()
    assert sum(report["sizes"]["depth"]) == pytest.approx(1.0)
    frame = exact.importances()
    assert [entry["name"] for entry in report["importances"]] == frame.index.tolist()
    assert report["importances"][0]["share_high"] == frame["share_high"].iloc[0]
    pairs, names = report["co_occurrence"], frame.index
    assert pairs["probability"] == exact.co_occurrence().loc[names, names].to_numpy().tolist()
    lift = exact.co_occurrence("lift").loc[names, names].to_numpy()
    np.testing.assert_array_equal(np.array(pairs["lift"], dtype=float), lift)


def levels(model, exact=None):
    return {item.key: item for item in trust_items(model.posterior_, exact)}


def test_an_exact_fit_is_trusted(exact):
    report = gather(exact)["trust"]
    assert report["level"] == "good"
    assert not report["doubts"]
    items = levels(exact)
    assert items["evidence"].value == exact.log_evidence_
    assert items["exact_gap"].value == 0


def test_effective_numbers_are_counts_of_particles_and_shares_of_trees(swept, trained):
    told, items = swept.posterior_.diagnostics, levels(swept)
    assert items["ess"].value == told["ess"] > 1
    assert items["ess"].text.endswith("of 1,000 in a sweep")
    told, items = trained.posterior_.diagnostics, levels(trained)
    assert items["ess"].value == pytest.approx(told["ess"])
    assert items["ess"].value <= 1
    assert items["elbo"].value == told["elbo"]
    assert "of 50 trees" in items["ess"].text


def test_a_gap_is_known_only_where_it_is(swept, trained, exact):
    assert levels(swept)["exact_gap"].level == "unknown"
    finished = trained.posterior_.diagnostics["exact"]
    assert levels(trained)["exact_gap"].value == (0.0 if finished else None)
    gap = levels(swept, exact.posterior_)["exact_gap"]
    wanted = swept.posterior_.log_evidence - exact.posterior_.log_evidence
    assert gap.value == pytest.approx(wanted)


def test_doubts_make_a_fit_poor(flowers):
    with pytest.warns(UntrustworthyFit):
        model = DTGFNClassifier(inference="mcmc", options={"n_steps": 300}, **QUICK).fit(*flowers)
    trust = gather(model)["trust"]
    assert trust["level"] == "poor"
    assert trust["doubts"]
    assert levels(model)["evidence"].value is None
    assert levels(model)["draws"].level == "poor"


def test_curves_are_kept_by_files_and_never_long(trained, swept, exact, tmp_path):
    assert gather(exact)["history"] is None
    assert gather(swept)["history"]["x_name"] == "sweep"
    history = gather(trained)["history"]
    assert history["x_name"] == "step"
    assert {"elbo", "ess", "loss"} <= {curve["key"] for curve in history["series"]}
    dtgfn.save(trained, tmp_path / "model.dtgfn")
    back = gather(dtgfn.load(tmp_path / "model.dtgfn"))
    assert back["history"] == history
    entries = [{"step": s, "elbo": -1.0 / (s + 1), "loss": math.nan} for s in range(5000)]
    curves = training_curves(replace(trained.posterior_, history=entries))
    assert len(curves["x"]) == len(curves["series"][0]["y"]) == 300
    assert (curves["x"][0], curves["x"][-1]) == (0, 4999)
    assert [curve["key"] for curve in curves["series"]] == ["elbo"]


def test_a_loaded_model_reports_as_the_fresh_one(exact, swept, bagged, numbers, flowers, tmp_path):
    for model in (exact, swept, bagged, numbers):
        dtgfn.save(model, tmp_path / "model.dtgfn")
        X = flowers[0].iloc[::9, : model.n_features_in_]
        fresh, back = gather(model, X), gather(dtgfn.load(tmp_path / "model.dtgfn"), X)
        for part in ("fit", "columns", "trust", "history", "sizes", "importances", "rows"):
            assert_close(back[part], fresh[part])
        assert_close(back["forest"]["leaves"], fresh["forest"]["leaves"])
        assert back["forest"]["trees"] == fresh["forest"]["trees"]


def assert_close(one, other):
    """Equal up to rounding: a file merges equal rows, so sums run in another order."""
    if isinstance(one, float) and isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_close(left, right)
    else:
        assert one == other


def test_a_report_is_plain_and_always_the_same(swept, flowers):
    first, again = gather(swept, *flowers), gather(swept, *flowers)
    assert json.dumps(first, allow_nan=False) == json.dumps(again, allow_nan=False)
    assert first == json.loads(json.dumps(first))


def test_only_settings_that_matter_are_told(swept):
    fit = gather(swept)["fit"]
    assert fit["changed"] == ["inference", "max_depth", "n_thresholds", "options", "random_state"]
    assert not {"verbose", "n_jobs", "callbacks", "loss"} & fit["settings"].keys()
    assert "at most 3 splits" in fit["prior_sentence"]


def test_a_large_forest_is_thinned_and_still_answers():
    X, y = load_digits(return_X_y=True)
    model = model_of(make_posterior(X, y, n_trees=1000, depth=7))
    report = gather(model, X[:300], y[:300])
    forest = report["forest"]
    assert 100 < forest["n_used"] < forest["n_trees"]
    assert f"{forest['n_used']:,} of" in forest["note"]
    assert n_bytes(report) < MOST_BYTES
    assert sum(weight for _, weight in forest["trees"]) == pytest.approx(1.0)
    assert forest["mean_difference"] < 0.01
    rows = report["rows"]
    said = [answer_classes(report, row["values"])[0] for row in rows]
    off = np.abs(np.array(said) - [row["probability"] for row in rows]).mean()
    assert forest["mean_difference"] == pytest.approx(off, abs=1e-9)


def test_wide_tables_and_many_classes_stay_small():
    rng = np.random.default_rng(0)
    names = [f"a rather long name of a column, number {i} (mg/dl)" for i in range(700)]
    wide = pd.DataFrame(rng.normal(size=(120, 700)), columns=names)
    model = model_of(make_posterior(wide, rng.integers(0, 2, 120), n_trees=300, n_thresholds=99))
    report = gather(model, wide)
    assert n_bytes(report) < MOST_BYTES
    assert len(report["importances"]) == 30
    assert report["n_importances"] == 700
    used = {names[test["column"]] for test in report["forest"]["tests"]}
    assert all(set(row["values"]) == used for row in report["rows"])
    X, y = rng.normal(size=(900, 3)), rng.integers(0, 300, 900)
    model = model_of(make_posterior(X, y, n_trees=40, depth=5))
    report = gather(model, X, y)
    assert n_bytes(report) < MOST_BYTES
    assert len(report["held_out"]["confusion"]["labels"]) == 40
    assert report["trees"]


def test_leaf_draws_are_told_apart_from_the_forest(flowers):
    X, y = flowers
    model = DTGFNClassifier(inference="exact", options={"leaf_draws": True}, **QUICK).fit(X, y)
    report = gather(model, X[::5])
    told = [row["probability"] for row in report["rows"]]
    assert told == model.predict_proba(X[::5]).tolist()
    assert "draws" in report["forest"]["note"]
    assert report["forest"]["mean_difference"] > 0


def test_a_detector_reports_what_it_has(detector, tmp_path):
    X = mixed_frame(60, np.random.default_rng(1))
    y = np.where(np.arange(60) < 6, -1, 1)
    report = gather(detector, X, y)
    json.dumps(report, allow_nan=False)
    assert report["fit"]["task"] == "anomalies"
    assert report["trust"] is report["history"] is report["forest"] is None
    assert report["held_out"]["anomalies"] == 6
    score = detector.score_samples(X)
    for row in report["rows"]:
        place = int(row["name"].split()[1]) - 1
        assert row["score"] == pytest.approx(score[place])
        assert (row["prediction"] == "anomaly") == (score[place] < detector.offset_)
    scores = report["anomaly"]["scores"]
    assert sum(scores["counts"]) == 150
    below = np.array(scores["edges"][1:]) < detector.offset_
    assert 0 < np.array(scores["counts"])[below].sum() < 15
    dtgfn.save(detector, tmp_path / "model.dtgfn")
    assert gather(dtgfn.load(tmp_path / "model.dtgfn"), X, y) == report


def test_files_without_scores_or_with_odd_ones(detector, tmp_path):
    path = tmp_path / "model.dtgfn"
    older = copy.copy(detector)
    del older.score_histogram_
    dtgfn.save(older, path)
    assert gather(dtgfn.load(path))["anomaly"]["scores"] is None
    edges, weight = detector.score_histogram_
    for odd in ((edges[::-1], weight), (edges, -weight), (edges[1:], weight)):
        older.score_histogram_ = tuple(np.ascontiguousarray(part) for part in odd)
        with pytest.raises(StorageError, match="is not a usable model"):
            dtgfn.save(older, path)


def test_rows_that_score_alike_share_a_bin():
    model = DTGFNAnomalyDetector(n_trees=2, n_jobs=1, random_state=0).fit(np.ones((20, 2)))
    edges, weight = model.score_histogram_
    assert weight.sum() == weight.max() == 20
    assert (np.diff(edges) > 0).all()


def test_a_detectors_trees_count_the_rows_on_their_way(detector):
    report = gather(detector)
    assert report["rows"] == []
    X = mixed_frame(150, np.random.default_rng(0))  # those it was fitted to
    rows = plain_rows(X)
    for tree in report["trees"]:
        at = {0: list(range(len(rows)))}
        for node in tree["nodes"]:
            assert node["rows"] == len(at[node["id"]])
            if node["test"] is None:
                continue
            name = report["columns"][node["test"]["column"]]["name"]
            goes = [_detector_holds(node["test"], rows[i][name]) for i in at[node["id"]]]
            at[node["then"]] = [i for i, yes in zip(at[node["id"]], goes, strict=True) if yes]
            at[node["else"]] = [i for i, yes in zip(at[node["id"]], goes, strict=True) if not yes]


def _detector_holds(test, value):
    if "among" in test:
        return ("missing" if value is None else value) in test["among"]
    return holds(test, value)


def test_what_cannot_be_reported_is_told_in_a_sentence(exact, flowers):
    X, y = flowers
    with pytest.raises(NotFittedError):
        DTGFNClassifier().report()
    with pytest.raises(NotFittedError):
        gather(DTGFNRegressor())
    with pytest.raises(NotFittedError):
        gather(DTGFNAnomalyDetector())
    with pytest.raises(TypeError, match="A dict has no report"):
        gather({})
    with pytest.raises(ValueError, match="y is given without X"):
        gather(exact, None, y)
    with pytest.raises(ValueError, match="feature names"):
        gather(exact, X.iloc[:, :3])
    with pytest.raises(ValueError, match="150 rows and y has 149"):
        gather(exact, X, y[1:])
    with pytest.raises(ValueError, match="'tulip', no class"):
        gather(exact, X, np.where(y == "setosa", "tulip", y))
    with pytest.raises(ValueError, match="n_trees=0"):
        gather(exact, n_trees=0)


def test_the_report_object_gives_dict_and_json(exact, flowers):
    report = exact.report(*flowers, title="Flowers")
    assert report.to_dict()["title"] == "Flowers"
    assert json.loads(report.to_json()) == report.to_dict()
    assert (
        report.to_dict()["held_out"]["accuracy"] == (exact.predict(flowers[0]) == flowers[1]).mean()
    )
