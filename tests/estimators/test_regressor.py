"""Regression: normal leaves on every engine against all trees one by one, and the estimator."""

import math
import pickle

import numpy as np
import pytest
from enumeration import LEAF, Case, Enumeration
from keyword_engines import infer_exact, infer_gfn, infer_mcmc, infer_smc
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtgfn import DTGFNRegressor, infer, load, save
from dtgfn.posterior.moments import Students, mixture_quantile
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn.trees.score import Rows, make_score

LEAF_MODEL = NormalLeaf(location=2.0, scale=3.0, strength=0.5, shape=2.0, spread=0.3)


class NormalEnumeration(Enumeration):
    """Every tree of a case whose leaves hold the numbers ``z``."""

    def __init__(self, case, z):
        super().__init__(case)
        self.z = z

    def predictive(self, rows):
        n, z = len(rows), [self.z[i] for i in rows]
        mean = sum(z) / (LEAF_MODEL.strength + n)
        squares = sum(value**2 for value in z) - (LEAF_MODEL.strength + n) * mean**2
        shape = LEAF_MODEL.shape + n / 2
        spread = LEAF_MODEL.spread + squares / 2
        width = spread * (LEAF_MODEL.strength + n + 1) / (shape * (LEAF_MODEL.strength + n))
        return stats.t(2 * shape, mean, math.sqrt(width)), spread / (shape - 1)

    def log_marginal(self, rows):
        """Chain rule over the rows, in the target's units."""
        total = 0.0
        for i, row in enumerate(rows):
            total += self.predictive(rows[:i])[0].logpdf(self.z[row]) - math.log(LEAF_MODEL.scale)
        return total

    def predict(self, tree, codes):
        out = np.empty((len(codes), 4))

        def walk(tree, rows, queries):
            if tree == LEAF:
                student, noise = self.predictive(rows)
                second = student.var() + student.mean() ** 2
                out[queries] = [1.0, student.mean(), noise, second]
                return
            feature, cut, left_tree, right_tree = tree
            left, right = self.sides(rows, feature, cut)
            goes_left = codes[queries, feature] <= cut
            walk(left_tree, left, queries[goes_left])
            walk(right_tree, right, queries[~goes_left])

        walk(tree, self.everything, np.arange(len(codes)))
        return out

    def average(self, codes):
        return sum(
            p * self.predict(t, codes) for p, t in zip(self.probability, self.trees, strict=True)
        )


def small_case(**changes):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, size=(9, 2))
    z = np.where(codes[:, 0] > 0, 1.0, -1.0) + 0.3 * rng.normal(size=9)
    case = Case(codes, np.zeros(9, int), 1, split_penalty=1.0).but(**changes)
    rows = Rows(case.rows.codes, z, np.ones(9))
    score = make_score(
        LEAF_MODEL,
        n_features=2,
        n_thresholds=9,
        max_depth=case.max_depth,
        split_penalty=case.split_penalty,
        temperature=case.temperature,
    )
    return NormalEnumeration(case, z), rows, score


COLUMNS = {"column": np.arange(2, dtype=np.int32), "n_columns": 2}


@pytest.mark.parametrize(
    "changes",
    [{}, {"temperature": 3.0}, {"split_penalty": "bcart"}, {"max_depth": 1}, {"max_depth": 3}],
)
def test_the_exact_engine_sums_over_all_trees(changes):
    truth, rows, score = small_case(**changes)
    posterior = infer_exact(rows, score, **COLUMNS, random_state=0)
    assert posterior.log_evidence == pytest.approx(truth.log_z, abs=1e-9)
    assert posterior.best_log_mass == pytest.approx(truth.best_log_mass, abs=1e-9)
    size = truth.size_probability
    np.testing.assert_allclose(posterior.size_probability, size[: np.flatnonzero(size)[-1] + 1])
    np.testing.assert_allclose(posterior.column_inclusion, truth.column_inclusion, atol=1e-12)
    queries = np.array([[0, 0], [1, 2], [2, 1], [5, 5]], dtype=np.uint16)
    average = posterior.solution.average(queries)
    np.testing.assert_allclose(average, truth.average(queries), atol=1e-9)


def test_the_gflownet_reaches_the_sum_over_all_trees():
    truth, rows, score = small_case(max_depth=3)
    posterior = infer_gfn(rows, score, **COLUMNS, n_steps=30, random_state=0)
    assert posterior.log_evidence == pytest.approx(truth.log_z, abs=1e-6)


def test_mcmc_and_smc_agree_with_all_trees():
    truth, rows, score = small_case()
    mean = float(truth.size_probability @ np.arange(truth.size_probability.size))
    for infer_by, options in ((infer_mcmc, {"n_steps": 20_000}), (infer_smc, {})):
        settings = {**COLUMNS, "random_state": 0, "time_budget": None, "n_trees": 4000}
        posterior = infer_by(rows, score, **settings, **options)
        assert posterior.mean_splits == pytest.approx(mean, abs=0.1)


def test_free_order_scores_numbers_too():
    truth, rows, score = small_case()
    settings = {"leaf_order": "free", "objective": "tb", "n_steps": 3, "hidden": (8,)}
    posterior = infer_gfn(rows, score, **COLUMNS, n_trees=50, random_state=0, **settings)
    assert posterior.best_log_mass <= truth.best_log_mass + 1e-9
    assert posterior.log_evidence == pytest.approx(truth.log_z, abs=1.0)


def small(**changes):
    settings = {"max_depth": 2, "n_thresholds": 7, "n_trees": 50, "random_state": 0}
    return DTGFNRegressor(**{"inference": "exact", **settings, **changes})


@parametrize_with_checks([small()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::dtgfn.diagnostics.UntrustworthyFit")
@parametrize_with_checks(
    [
        small(inference="gfn", max_depth=3),
        small(inference="mcmc", options={"n_steps": 5000}),
        small(inference="smc", options={"n_particles": 200}),
    ]
)
def test_scikit_learn_checks_of_every_engine(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return train_test_split(X, y, test_size=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(diabetes):
    X, _, y, _ = diabetes
    return DTGFNRegressor(
        max_depth=3, n_thresholds=15, random_state=0, options={"n_steps": 100}
    ).fit(X, y)


def test_it_predicts_better_than_the_mean(fitted, diabetes):
    _, X, _, y = diabetes
    assert fitted.score(X, y) > 0.3
    mean, std = fitted.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, fitted.predict(X))
    assert std.shape == mean.shape
    assert (std > 0).all()


def test_intervals_hold_what_they_promise(fitted, diabetes):
    _, X, _, y = diabetes
    for level in (0.5, 0.9):
        interval = fitted.predict_interval(X, level=level)
        inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
        assert abs(inside.mean() - level) < 0.12
    mean = fitted.predict(X)
    assert ((interval[:, 0] < mean) & (mean < interval[:, 1])).all()


def test_noise_and_model_add_up(fitted, diabetes):
    _, X, _, _ = diabetes
    parts = fitted.predict_uncertainty(X)
    np.testing.assert_allclose(parts.noise + parts.model, parts.total)
    assert (parts.model >= 0).all()
    np.testing.assert_allclose(np.sqrt(parts.total), fitted.predict(X, return_std=True)[1])


def test_the_mixture_of_trees_has_the_quantiles_of_its_draws():
    rng = np.random.default_rng(0)
    students = Students(
        rng.uniform(3, 30, (4, 6)), rng.normal(0, 2, (4, 6)), rng.uniform(0.1, 2, (4, 6))
    )
    weight = rng.dirichlet(np.ones(6))
    for level in (0.01, 0.3, 0.5, 0.975):
        value = mixture_quantile(students, weight, level)
        reached = stats.t(*students).cdf(value[:, None]) @ weight
        np.testing.assert_allclose(reached, level, atol=1e-8)


def test_units_do_not_matter(diabetes):
    X, queries, y, _ = diabetes
    plain, scaled = small().fit(X, y), small().fit(X, 1000 * y - 7)
    np.testing.assert_allclose(scaled.predict(queries), 1000 * plain.predict(queries) - 7)
    lost = plain.log_evidence_ - scaled.log_evidence_
    assert lost == pytest.approx(len(y) * math.log(1000), rel=1e-9)


def test_whole_weights_equal_repeated_rows(diabetes):
    X, queries, y, _ = diabetes
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = small().fit(X, y, sample_weight=weight)
    repeated = small().fit(X.loc[X.index.repeat(weight)], y.repeat(weight))
    assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(weighted.predict(queries), repeated.predict(queries))


def test_models_are_saved_and_pickled(tmp_path, diabetes):
    X, queries, y, _ = diabetes
    model = small().fit(X, y)
    save(model, tmp_path / "model.dtgfn")
    for back in (load(tmp_path / "model.dtgfn"), pickle.loads(pickle.dumps(model))):
        assert isinstance(back, DTGFNRegressor)
        np.testing.assert_allclose(back.predict(queries), model.predict(queries), rtol=1e-12)
        few = queries[:5]  # rows are stored in another order, so sums may differ by rounding
        np.testing.assert_allclose(
            back.predict_interval(few), model.predict_interval(few), rtol=1e-10
        )


def test_constant_and_tiny_targets_work():
    X = np.arange(6.0)[:, None]
    for y in (np.full(6, 3.0), np.array([1e-30, 2e-30] * 3), np.array([1e9, 1e9 + 1] * 3)):
        model = small().fit(X, y)
        np.testing.assert_allclose(model.predict(X).mean(), y.mean(), rtol=1e-6)
    assert small().fit([[1.0]], [5.0]).predict([[9.0]]) == pytest.approx(5.0)


def test_describe_says_what_leaves_predict(diabetes):
    X, _, y, _ = diabetes
    text = small(max_depth=1).fit(X, y).describe()
    assert "bmi" in text or "s5" in text
    assert "+-" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mean_strength": 0.0}, "mean_strength=0.0"),
        ({"noise_shape": 1.0}, "noise_shape=1.0"),
        ({"noise_share": -1.0}, "noise_share=-1.0"),
    ],
)
def test_priors_out_of_range_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        small(**changes).fit([[1.0], [2.0]], [1.0, 2.0])


def test_labels_are_refused():
    with pytest.raises(ValueError, match="'red', which is not a number; use DTGFNClassifier"):
        small().fit([[1.0], [2.0]], ["red", "blue"])


def test_infer_takes_a_leaf_model(diabetes):
    X, _, y, _ = diabetes
    posterior = infer(X, y, engine="exact", leaf=NormalLeaf(), max_depth=1, n_thresholds=7)
    assert posterior.classes is None
    assert posterior.score.leaf.location == pytest.approx(y.mean())


def test_it_can_be_cross_validated(diabetes):
    X, _, y, _ = diabetes
    assert cross_val_score(small(), X, y, cv=3).mean() > 0.2
