"""The exact engine against the enumeration of all trees, and against plain recursions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from enumeration import Case, Enumeration, from_batch, n_splits, to_batch
from keyword_engines import infer_exact
from scipy.special import gammaln, logsumexp
from scipy.stats import chi2
from sklearn import datasets
from sklearn.model_selection import train_test_split
from thoroughness import diagonal

import dtgfn
from dtgfn.engines.rowsets import cut_bits, problem
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import canonical_keys, check_trees
from dtgfn.trees.score import log_reward

PRIORS = (0.0, 1.3, "mdl", "paper", "bcart", ("bcart", 0.4, 2.0))
WEIGHTS = ("ones", "whole", "fractional", "per class")
TEMPERATURES = (0.5, 1.0, 4.0)
CODES = ((0, 1), (0, 1, 2, 3), (0, 3, 7), (2, 5))


def infer(case: Case, n_trees: int = 20, random_state: int = 0, **options) -> TreePosterior:
    return infer_exact(
        case.rows,
        case.score,
        column=case.columns,
        n_columns=case.n_columns,
        n_trees=n_trees,
        random_state=random_state,
        **options,
    )


def random_case(rng: np.random.Generator, prior, weights, temperature, most_trees: int) -> Case:
    """Return a small table with whatever may go wrong, its depth cut to have few enough trees."""
    n_rows, n_features = int(rng.integers(1, 15)), int(rng.integers(1, 4))
    n_classes = int(rng.integers(1, 4))
    codes = rng.choice(CODES[rng.integers(len(CODES))], size=(n_rows, n_features))
    if rng.random() < 0.2:
        codes[:, rng.integers(n_features)] = 4
    if rng.random() < 0.4:  # equal rows, whatever their labels
        codes[rng.integers(n_rows, size=n_rows // 2)] = codes[0]
    labels = rng.integers(n_classes, size=n_rows)
    weight = {
        "ones": np.ones(n_rows),
        "whole": rng.integers(1, 4, size=n_rows).astype(float),
        "fractional": rng.uniform(0.1, 3.0, size=n_rows),
        "per class": rng.uniform(0.1, 3.0, size=n_classes)[labels],
    }[weights]
    column = ()
    if rng.random() < 0.4:
        column = tuple(int(c) for c in rng.integers(0, 2, size=n_features))
    case = Case(
        codes,
        labels,
        n_classes,
        weight,
        max_depth=int(rng.integers(0, 5)),
        leaf_concentration=float(rng.choice([0.1, 0.5, 2.0])),
        split_penalty=prior,
        temperature=temperature,
        column=column,
        n_columns=3 if column else 0,
    )
    while Enumeration(case).n_trees() > most_trees:
        case = case.but(max_depth=case.max_depth - 1)
    return case


def new_rows(rng: np.random.Generator, case: Case) -> np.ndarray:
    """Codes at, between and beyond those of training."""
    anywhere = rng.integers(0, 11, size=(12, case.codes.shape[1]))
    far = np.full((1, case.codes.shape[1]), 65_535)
    return np.concatenate([case.codes, anywhere, far]).astype(np.uint16)


def check_against(truth: Enumeration, posterior: TreePosterior, queries: np.ndarray) -> None:
    """Compare everything an exact posterior promises with the enumeration."""
    case = truth.case
    close = {"rtol": 1e-9, "atol": 1e-9}
    assert posterior.log_evidence == pytest.approx(truth.log_z, rel=1e-9, abs=1e-9)
    assert posterior.log_evidence_error == 0
    trees = to_batch(truth.trees)
    reward = log_reward(trees, case.rows, case.score)
    np.testing.assert_allclose(reward, truth.log_rewards, **close)
    probability = np.exp(reward / case.temperature - posterior.log_evidence)
    np.testing.assert_allclose(probability, truth.probability, **close)
    assert posterior.best_log_mass == pytest.approx(truth.best_log_mass, rel=1e-9, abs=1e-9)
    best = log_reward(posterior.best_tree, case.rows, case.score)
    assert best == pytest.approx([posterior.best_log_reward], rel=1e-12)
    size = np.zeros(max(len(truth.size_probability), len(posterior.size_probability)))
    size[: len(truth.size_probability)] = truth.size_probability
    size[: len(posterior.size_probability)] -= posterior.size_probability
    np.testing.assert_allclose(size, 0, atol=1e-9)
    assert posterior.mean_splits == pytest.approx(
        sum(p * n_splits(t) for p, t in zip(truth.probability, truth.trees, strict=True))
    )
    np.testing.assert_allclose(posterior.column_inclusion, truth.column_inclusion, **close)
    np.testing.assert_allclose(posterior.solution.average(queries), truth.average(queries), **close)
    check_trees(posterior.trees, case.codes.max(axis=0))
    known = set(truth.trees)
    assert all(from_batch(posterior.trees, b) in known for b in range(len(posterior.trees)))
    log_prob = posterior.log_reward / case.temperature - truth.log_z
    np.testing.assert_allclose(posterior.log_prob, log_prob, **close)


@pytest.mark.parametrize(
    ("prior", "weights", "temperature"), diagonal([(p,) for p in PRIORS], WEIGHTS, TEMPERATURES)
)
def test_exact_equals_the_sum_over_all_trees(prior, weights, temperature):
    seed = [PRIORS.index(prior), WEIGHTS.index(weights), TEMPERATURES.index(temperature)]
    rng = np.random.default_rng(seed)
    for _ in range(4):
        case = random_case(rng, prior, weights, temperature, most_trees=1200)
        check_against(Enumeration(case), infer(case), new_rows(rng, case))


# Depth 4 with a table has two levels above the two-level sum; without it, three.
LARGE = {
    "deep": {"codes": (0, 1, 2, 3), "n_rows": 9, "n_features": 2, "max_depth": 4},
    "three features": {"codes": (0, 1, 2), "n_rows": 10, "n_features": 3, "max_depth": 3},
    "gaps": {"codes": (0, 3, 7), "n_rows": 8, "n_features": 2, "max_depth": 3},
    "wide": {"codes": (0, 1, 2, 3), "n_rows": 14, "n_features": 3, "max_depth": 2},
}


def large_case(shape: str, prior=0.7, weights: str = "ones", seed: int = 3) -> Case:
    rng = np.random.default_rng(seed)
    spec = LARGE[shape]
    n_rows = spec["n_rows"]
    codes = rng.choice(spec["codes"], size=(n_rows, spec["n_features"]))
    weight = np.ones(n_rows) if weights == "ones" else rng.uniform(0.2, 2.0, size=n_rows)
    labels = rng.integers(0, 2, size=n_rows)
    depth = spec["max_depth"]
    return Case(codes, labels, 2, weight, max_depth=depth, split_penalty=prior)


@pytest.mark.parametrize(
    ("shape", "prior", "weights", "by_table"),
    diagonal(LARGE, [(0.7, "ones", True), (0.7, "fractional", False), ("bcart", "ones", False)]),
)
def test_exact_equals_the_sum_over_all_trees_on_larger_tables(shape, prior, weights, by_table):
    case = large_case(shape, prior, weights)
    truth = Enumeration(case)
    assert 500 < truth.n_trees() < 20_000
    posterior = infer(case)
    assert posterior.solution.problem.two_levels_at_once == by_table
    check_against(truth, posterior, new_rows(np.random.default_rng(0), case))


def test_a_depth_that_the_rows_cannot_reach_changes_nothing():
    case = Case(np.array([[0, 1], [1, 0], [3, 0], [3, 3]]), np.array([0, 1, 0, 1]), 2, max_depth=30)
    truth = Enumeration(case)
    check_against(truth, infer(case), new_rows(np.random.default_rng(0), case))
    check_against(truth, infer(case.but(max_depth=3)), new_rows(np.random.default_rng(0), case))


@pytest.mark.parametrize("largest_table", [problem.MAX_TABLE, 0])  # 0: two levels by logs
@pytest.mark.parametrize("max_depth", [2, 3])
def test_rows_that_cannot_be_told_apart_have_one_tree(max_depth, largest_table, monkeypatch):
    monkeypatch.setattr(problem, "MAX_TABLE", largest_table)
    case = Case(np.full((5, 2), 3), np.array([0, 1, 1, 2, 1]), 3, max_depth=max_depth)
    posterior = infer(case)
    assert posterior.solution.problem.two_levels_by_logs == (largest_table == 0)
    check_against(Enumeration(case), posterior, new_rows(np.random.default_rng(0), case))
    assert posterior.size_probability.tolist() == [1.0]
    assert posterior.best_tree.n_splits.tolist() == [0]


@pytest.mark.parametrize("max_depth", [0, 1, 2, 3, 4])
def test_table_and_formula_give_the_same_posterior(max_depth, monkeypatch):
    rng = np.random.default_rng(max_depth)
    codes = rng.choice([0, 1, 4, 5], size=(40, 3))
    labels = np.where(rng.random(40) < 0.2, rng.integers(0, 3, 40), codes[:, 0] > 1)
    case = Case(codes, labels.astype(int), 3, max_depth=max_depth, column=(0, 1, 1))
    by_table = infer(case, n_trees=200)
    monkeypatch.setattr(problem, "MAX_TABLE", 0)
    by_formula = infer(case, n_trees=200)
    assert by_table.solution.problem.two_levels_at_once
    assert not by_formula.solution.problem.two_levels_at_once
    close = {"rtol": 1e-10, "atol": 1e-10}
    assert by_table.log_evidence == pytest.approx(by_formula.log_evidence, rel=1e-12)
    assert by_table.best_log_mass == pytest.approx(by_formula.best_log_mass, rel=1e-12)
    np.testing.assert_allclose(by_table.size_probability, by_formula.size_probability, **close)
    np.testing.assert_allclose(by_table.column_inclusion, by_formula.column_inclusion, **close)
    queries = new_rows(rng, case)
    np.testing.assert_allclose(
        by_table.solution.average(queries), by_formula.solution.average(queries), **close
    )


@pytest.mark.parametrize("seed", range(4))
def test_cuts_counted_by_bits_and_by_rows_give_the_same_posterior(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n_rows, n_classes = [(150, 2), (40, 4), (300, 3), (40, 1)][seed]
    width = [3, 12, 2, 40][seed]  # from few cuts, where bits are quicker, to many
    codes = rng.integers(0, width, size=(n_rows, 6))
    codes[:, 5] = codes[:, 4]
    weight = rng.choice([1.0, 3.0], size=n_rows) if seed % 2 else np.ones(n_rows)
    labels = rng.integers(0, n_classes, size=n_rows)
    case = Case(codes, labels, n_classes, weight, max_depth=3, column=(0, 1, 1, 2, 3, 3))
    by_bits = infer(case)
    monkeypatch.setattr(cut_bits, "MOST_BYTES", 0)
    by_rows = infer(case)
    assert by_bits.solution.problem.loops.bits.place.size == len(np.unique(codes, axis=0))
    assert not by_rows.solution.problem.loops.bits.place.size
    close = {"rtol": 1e-11, "atol": 1e-11}
    assert by_bits.log_evidence == pytest.approx(by_rows.log_evidence, rel=1e-12)
    assert by_bits.best_log_mass == pytest.approx(by_rows.best_log_mass, rel=1e-12)
    np.testing.assert_allclose(by_bits.size_probability, by_rows.size_probability, **close)
    np.testing.assert_allclose(by_bits.column_inclusion, by_rows.column_inclusion, **close)
    queries = new_rows(rng, case)
    averages = (each.solution.average(queries) for each in (by_bits, by_rows))
    np.testing.assert_allclose(*averages, **close)


def pool_rare(expected: np.ndarray) -> list[list[int]]:
    """Gather trees, rarest first, into pools that each expect at least five draws."""
    pools: list[list[int]] = [[]]
    for i in np.argsort(expected):
        if expected[pools[-1]].sum() >= 5:
            pools.append([])
        pools[-1].append(int(i))
    return pools


@pytest.mark.parametrize(
    ("shape", "prior", "weights", "most_table"),
    diagonal(
        LARGE,
        [(0.7, "ones", 1 << 21), (0.7, "ones", 0), (0.7, "fractional", 0), ("bcart", "ones", 0)],
    ),
)
def test_ten_thousand_samples_follow_the_enumerated_posterior(
    shape, prior, weights, most_table, monkeypatch
):
    monkeypatch.setattr(problem, "MAX_TABLE", most_table)
    case = large_case(shape, prior, weights)
    truth = Enumeration(case)
    posterior = infer(case, n_trees=10_000, random_state=7)
    by_logs = posterior.solution.problem.two_levels_by_logs
    assert by_logs == (most_table == 0 and prior == 0.7 and weights == "ones")
    if by_logs:
        check_against(truth, posterior, new_rows(np.random.default_rng(0), case))
    place = {key: i for i, key in enumerate(canonical_keys(to_batch(truth.trees)))}
    drawn = np.bincount(
        [place[key] for key in canonical_keys(posterior.trees)], minlength=len(place)
    )
    expected = 10_000 * truth.probability
    pools = pool_rare(expected)
    assert len(pools) > 10
    seen = np.array([drawn[pool].sum() for pool in pools])
    wanted = np.array([expected[pool].sum() for pool in pools])
    assert chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(pools) - 1) > 1e-3


@pytest.mark.parametrize("prior", [0.7, "bcart"])
@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_weighted_rows_equal_repeated_rows(prior, max_depth):
    rng = np.random.default_rng(max_depth)
    codes, labels = rng.integers(0, 5, size=(30, 3)), rng.integers(0, 3, size=30)
    times = rng.integers(1, 5, size=30)
    weighted = Case(codes, labels, 3, times.astype(float), max_depth=max_depth, split_penalty=prior)
    repeated = weighted.but(
        codes=codes.repeat(times, axis=0), labels=labels.repeat(times), weight=np.ones(times.sum())
    )
    a, b = infer(weighted), infer(repeated)
    queries = new_rows(rng, weighted)
    assert a.log_evidence == pytest.approx(b.log_evidence, rel=1e-12)
    assert a.best_log_mass == pytest.approx(b.best_log_mass, rel=1e-12)
    np.testing.assert_allclose(a.solution.average(queries), b.solution.average(queries), atol=1e-10)


@pytest.mark.parametrize("prior", ["mdl", "bcart"])
def test_the_order_of_rows_features_and_classes_does_not_matter(prior):
    rng = np.random.default_rng(1)
    codes, labels = rng.integers(0, 6, size=(50, 3)), rng.integers(0, 3, size=50)
    case = Case(codes, labels, 3, max_depth=3, split_penalty=prior)
    queries = new_rows(rng, case)
    plain = infer(case)
    average = plain.solution.average(queries)
    shuffled = rng.permutation(50)
    by_rows = infer(case.but(codes=codes[shuffled], labels=labels[shuffled]))
    assert by_rows.log_evidence == pytest.approx(plain.log_evidence, rel=1e-12)
    assert canonical_keys(by_rows.trees) == canonical_keys(plain.trees)
    order = np.array([2, 0, 1])
    by_features = infer(case.but(codes=codes[:, order]))
    assert by_features.log_evidence == pytest.approx(plain.log_evidence, rel=1e-12)
    np.testing.assert_allclose(
        by_features.column_inclusion, plain.column_inclusion[order], atol=1e-10
    )
    np.testing.assert_allclose(by_features.solution.average(queries[:, order]), average, atol=1e-10)
    by_classes = infer(case.but(labels=order[labels]))
    assert by_classes.log_evidence == pytest.approx(plain.log_evidence, rel=1e-12)
    np.testing.assert_allclose(by_classes.solution.average(queries)[:, order], average, atol=1e-10)


def test_the_same_random_state_gives_the_same_trees_on_any_number_of_threads():
    rng = np.random.default_rng(5)
    codes, labels = rng.integers(0, 6, size=(60, 3)), rng.integers(0, 2, size=60)
    case = Case(codes, labels, 2, max_depth=3)
    one = infer(case, n_trees=100, n_jobs=1)
    two = infer(case, n_trees=100, n_jobs=2)
    other = infer(case, n_trees=100, random_state=1)
    generator = infer(case, n_trees=100, random_state=np.random.default_rng(0))
    assert canonical_keys(one.trees) == canonical_keys(two.trees) == canonical_keys(generator.trees)
    assert canonical_keys(one.trees) != canonical_keys(other.trees)
    assert one.log_evidence == two.log_evidence
    np.testing.assert_allclose(
        one.solution.average(case.rows.codes), two.solution.average(case.rows.codes), atol=1e-12
    )


# Figures of an independent compiled recursion (80 % split, random_state 1, penalty "paper").
PUBLISHED = [
    ("iris", 9, 3, -28.6934),
    ("iris", 9, 5, -26.6958),
    ("iris", 99, 3, -11.4443),
    ("iris", 99, 5, 9.1308),
    ("wine", 9, 3, -41.1880),
    ("wine", 99, 3, -18.0263),
    ("breast_cancer", 9, 3, -77.9200),
    ("breast_cancer", 99, 2, -80.2119),
]


@pytest.mark.parametrize(("name", "n_thresholds", "max_depth", "log_z"), PUBLISHED)
def test_log_evidence_of_real_tables_is_the_published_one(name, n_thresholds, max_depth, log_z):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=1)
    settings = {"n_thresholds": n_thresholds, "max_depth": max_depth, "split_penalty": "paper"}
    posterior = dtgfn.infer(X, y, engine="exact", n_trees=50, **settings)
    assert posterior.log_evidence == pytest.approx(log_z, abs=1e-4)
    assert posterior.size_probability.sum() == pytest.approx(1)


@pytest.mark.parametrize("max_depth", range(5))
@pytest.mark.parametrize("prior", ["bcart", ("bcart", 0.4, 2.0), ("bcart", 0.99, 0.0)])
def test_the_branching_prior_sums_to_one(prior, max_depth):
    rng = np.random.default_rng(max_depth)
    shapes = rng.integers(0, 4, (9, 2)), rng.choice([0, 5, 6], (20, 3)), np.zeros((3, 1), int)
    for codes in shapes:
        one_class = Case(
            codes, np.zeros(len(codes), int), 1, max_depth=max_depth, split_penalty=prior
        )
        assert infer(one_class).log_evidence == pytest.approx(0, abs=1e-10)


def by_recursion(case: Case, queries: np.ndarray) -> tuple[float, np.ndarray]:
    """Return log Z and the average prediction, by the plain recursion in the log domain."""
    codes, a, T = case.codes, case.leaf_concentration, case.temperature
    weight = np.zeros((len(codes), case.n_classes))
    weight[np.arange(len(codes)), case.labels] = case.weight
    known: dict[tuple[bytes, int], tuple[float, np.ndarray]] = {}
    twin, branching = Enumeration(case), case.split_penalty == "bcart"

    def solve(inside: np.ndarray, depth: int) -> tuple[float, np.ndarray]:
        key = inside.tobytes(), depth
        if key in known:
            return known[key]
        counts = weight[inside].sum(axis=0) + a
        log_m = gammaln(counts).sum() - gammaln(counts.sum())
        log_m -= case.n_classes * gammaln(a) - gammaln(case.n_classes * a)
        span = codes[inside].min(axis=0), codes[inside].max(axis=0)
        can_split = depth < case.max_depth and (span[0] < span[1]).any()
        free = not branching or not can_split
        log_stop = 0.0 if free else math.log(1 - twin.split_probability(depth))
        terms = [(log_m + log_stop) / T]
        predictions = [np.broadcast_to(counts / counts.sum(), (len(queries), case.n_classes))]
        cuts = [range(low, high) if can_split else () for low, high in zip(*span, strict=True)]
        for f, cut in ((f, cut) for f, some in enumerate(cuts) for cut in some):
            below = codes[:, f] <= cut
            z_left, left = solve(inside & below, depth + 1)
            z_right, right = solve(inside & ~below, depth + 1)
            if branching:
                rules = sum(map(bool, cuts)) * len(cuts[f])
                log_split = math.log(twin.split_probability(depth) / rules)
            else:
                log_split = twin.log_split((), f, depth)
            terms.append(log_split / T + z_left + z_right)
            predictions.append(np.where(queries[:, [f]] <= cut, left, right))
        log_z = float(logsumexp(terms))
        share = np.exp(np.array(terms) - log_z)
        known[key] = log_z, sum(p * s for p, s in zip(predictions, share, strict=True))
        return known[key]

    return solve(np.ones(len(codes), dtype=bool), 0)


# More than 64 distinct rows, so that a row set takes more than one word.
@pytest.mark.parametrize(
    ("prior", "weights", "temperature"),
    [(1.0, "ones", 1.0), (1.0, "fractional", 2.0), ("bcart", "ones", 1.0), ("bcart", "ones", 3.0)],
)
@pytest.mark.parametrize("max_depth", [2, 3])
def test_exact_equals_a_plain_recursion_on_many_rows(prior, weights, temperature, max_depth):
    rng = np.random.default_rng(8)
    codes = rng.choice([0, 1, 3, 4, 9], size=(200, 3))
    labels = (codes.sum(axis=1) + rng.integers(0, 4, 200) > 9).astype(int)
    weight = np.ones(200) if weights == "ones" else rng.uniform(0.2, 2.0, 200)
    case = Case(
        codes,
        labels,
        2,
        weight,
        max_depth=max_depth,
        split_penalty=prior,
        temperature=temperature,
    )
    assert len(np.unique(codes, axis=0)) > 64
    queries = new_rows(rng, case)[-13:]
    log_z, average = by_recursion(case, queries)
    posterior = infer(case)
    assert posterior.log_evidence == pytest.approx(log_z, rel=1e-10)
    np.testing.assert_allclose(posterior.solution.average(queries), average, atol=1e-9)


@pytest.mark.parametrize("labels", ["noise", "signal"])
@pytest.mark.parametrize("max_depth", [0, 1, 2])
def test_thousands_of_rows_stay_exact_where_weights_leave_the_range_of_a_double(labels, max_depth):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, size=(3000, 2))
    y = rng.integers(0, 2, size=3000) if labels == "noise" else (codes[:, 0] > 9).astype(int)
    case = Case(codes, y, 2, max_depth=max_depth)
    queries = new_rows(rng, case)[-30:]
    log_z, average = by_recursion(case, queries)
    posterior = infer(case)
    assert not posterior.solution.problem.two_levels_at_once
    assert posterior.log_evidence == pytest.approx(log_z, rel=1e-10)
    np.testing.assert_allclose(posterior.solution.average(queries), average, atol=1e-9)


def test_sets_with_next_to_no_mass_do_not_spoil_the_average():
    """Found by search: all that follows a set of tiny mass may be negligible, and its stop too."""
    rng = np.random.default_rng(1466)
    n_rows, n_features = int(rng.integers(30, 200)), int(rng.integers(2, 4))
    codes = rng.integers(0, rng.integers(3, 8), (n_rows, n_features))
    f = rng.integers(0, n_features, 3)
    y = np.where(codes[:, f[0]] > 1, codes[:, f[1]] > 2, codes[:, f[2]] > 1).astype(int)
    y ^= rng.random(n_rows) < 0.05
    temperature = float(rng.choice([0.01, 0.03, 0.1, 0.3]))
    max_depth, penalty = int(rng.integers(3, 5)), float(rng.uniform(0.2, 4))
    case = Case(codes, y, 2, max_depth=max_depth, temperature=temperature, split_penalty=penalty)
    queries = case.rows.codes[:20]
    _, average = by_recursion(case, queries)
    np.testing.assert_allclose(infer(case).solution.average(queries), average, atol=1e-9)


def test_no_rows_to_predict_give_no_predictions():
    case = large_case("three features")
    assert infer(case).solution.average(case.rows.codes[:0]).shape == (0, 2)


def test_no_trees_to_draw_is_a_posterior_without_samples():
    case = large_case("three features")
    posterior, sampled = infer(case, n_trees=0), infer(case)
    assert len(posterior.trees) == 0
    assert posterior.log_evidence == pytest.approx(sampled.log_evidence, rel=1e-12)
    assert posterior.best_log_reward == sampled.best_log_reward


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("prior", ["paper", "bcart"])
def test_samples_know_their_probability_and_have_the_promised_size(prior, temperature):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 8, size=(60, 3))
    labels = (codes[:, 0] + rng.integers(0, 4, 60) > 5).astype(int)
    case = Case(codes, labels, 2, max_depth=4, split_penalty=prior, temperature=temperature)
    posterior = infer(case, n_trees=5000)
    reward = log_reward(posterior.trees, case.rows, case.score)
    np.testing.assert_array_equal(posterior.log_reward, reward)
    np.testing.assert_array_equal(posterior.log_prob, reward / temperature - posterior.log_evidence)
    np.testing.assert_allclose(posterior.weights, 1 / 5000)
    size = posterior.size_probability
    mean = size @ np.arange(size.size)
    deviation = math.sqrt(size @ (np.arange(size.size) - mean) ** 2)
    assert size.sum() == pytest.approx(1)
    assert abs(posterior.trees.n_splits.mean() - mean) < 5 * deviation / math.sqrt(5000)
    used = np.array(
        [[(tree == f).any() for f in range(3)] for tree in posterior.trees.feature]
    ).mean(axis=0)
    np.testing.assert_allclose(used, posterior.column_inclusion, atol=5 * 0.5 / math.sqrt(5000))
