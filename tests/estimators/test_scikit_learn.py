"""The estimators inside scikit-learn's own machinery."""

import io

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metadata_routing import get_routing_for_object

from dtgfn import DTGFNClassifier, DTGFNRegressor

SMALL = {"inference": "exact", "max_depth": 1, "n_thresholds": 7, "n_trees": 30, "random_state": 0}


def small(**changes):
    return DTGFNClassifier(**{**SMALL, **changes})


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


def test_pipelines_keep_names_when_they_are_asked_to(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), small(max_depth=2)).set_output(transform="pandas")
    pipeline.fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == list(X.columns)
    assert "petal" in pipeline[-1].describe()
    assert pipeline.score(X, y) > 0.9


def test_columns_can_be_transformed_first(iris):
    X, y = iris
    scaled = ColumnTransformer([("scaled", StandardScaler(), ["petal width (cm)"])])
    assert make_pipeline(scaled, small(max_depth=2)).fit(X, y).score(X, y) > 0.9


def test_grid_search_finds_a_depth_and_a_nested_parameter(iris):
    X, y = iris
    search = GridSearchCV(small(), {"max_depth": [0, 1, 2]}, scoring="neg_log_loss", cv=3)
    assert search.fit(X, y).best_params_ == {"max_depth": 2}
    nested = GridSearchCV(
        make_pipeline(StandardScaler(), small()), {"dtgfnclassifier__max_depth": [0, 1]}, cv=3
    )
    assert nested.fit(X, y).best_params_ == {"dtgfnclassifier__max_depth": 1}


def test_work_may_be_shared_by_processes(iris):
    X, y = iris
    alone = cross_val_score(small(n_jobs=1), X, y, cv=3)
    np.testing.assert_array_equal(cross_val_score(small(n_jobs=1), X, y, cv=3, n_jobs=2), alone)


def test_it_can_be_calibrated_bagged_and_vote(iris):
    X, y = iris
    calibrated = CalibratedClassifierCV(small(max_depth=2), cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)
    assert calibrated.score(X, y) > 0.6
    bagged = BaggingClassifier(small(), n_estimators=3, random_state=0).fit(X, y)
    assert bagged.score(X, y) > 0.6
    voters = [("tree", small()), ("line", LogisticRegression(max_iter=1000))]
    assert VotingClassifier(voters, voting="soft").fit(X, y).score(X, y) > 0.8


def test_weights_are_routed_to_fit(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = small().set_fit_request(sample_weight=True)
        assert get_routing_for_object(model).fit.requests == {"sample_weight": True}
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)
        assert pipeline[-1].classes_.tolist() == [0, 1]
        told = cross_validate(
            small().set_fit_request(sample_weight=True).set_score_request(sample_weight=False),
            X,
            y,
            cv=3,
            params={"sample_weight": weight},
            return_estimator=True,
        )
        assert all(2 not in fitted.classes_ for fitted in told["estimator"])


def test_class_weight_counts_as_rows(iris):
    X, y = iris
    weighted = small(class_weight={0: 1, 1: 3, 2: 2}).fit(X, y)
    times = np.array([1, 3, 2])[y]
    by_rows = small().fit(X, y, sample_weight=times)
    assert weighted.log_evidence_ == pytest.approx(by_rows.log_evidence_)
    both = small(class_weight={1: 3}).fit(X, y, sample_weight=np.full(150, 2.0))
    again = small().fit(X, y, sample_weight=2.0 * np.where(y == 1, 3, 1))
    np.testing.assert_allclose(both.predict_proba(X), again.predict_proba(X))


def test_balanced_classes_weigh_the_same():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), np.repeat(["rare", "common"], [10, 90])
    model = small(max_depth=0, class_weight="balanced", leaf_concentration=1.0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1]), 0.5)


def test_bad_class_weights_are_refused(iris):
    X, y = iris
    with pytest.raises(ValueError, match="class_weight"):
        small(class_weight="even").fit(X, y)


@pytest.mark.parametrize("kind", [DTGFNClassifier, DTGFNRegressor])
def test_models_go_through_joblib_and_show_themselves(kind, iris, tmp_path):
    X, y = iris
    model = kind(**SMALL).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    back = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert kind.__name__ in model._repr_html_()
    assert repr(clone(model)).startswith(f"{kind.__name__}(")


def test_polars_goes_in_and_names_come_out(iris):
    polars = pytest.importorskip("polars")
    X, y = iris
    frame = polars.from_pandas(X)
    model = small().fit(frame, polars.Series(y.to_numpy()))
    assert model.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename({X.columns[0]: "other"}))


def test_columns_in_another_order_are_refused(iris):
    X, y = iris
    model = small().fit(X, y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(X[X.columns[::-1]])


def test_permutation_importance_works(iris):
    X, y = iris
    told = permutation_importance(small(max_depth=2).fit(X, y), X, y, n_repeats=2, random_state=0)
    assert told.importances_mean[2:].max() > told.importances_mean[:2].max()


def test_frames_from_csv_text_work():
    text = "age,colour,ill\n" + "30,red,yes\n40,,no\n,blue,yes\n50,red,no\n" * 5
    frame = pd.read_csv(io.StringIO(text))
    model = small(max_depth=2).fit(frame[["age", "colour"]], frame["ill"])
    assert set(model.predict(frame[["age", "colour"]])) <= {"yes", "no"}


@pytest.mark.parametrize("kind", [DTGFNClassifier, DTGFNRegressor])
def test_estimators_explain_and_export_themselves(kind, iris):
    X, y = iris
    model = kind(**{**SMALL, "max_depth": 2}).fit(X, y)
    assert "petal" in str(model.decision_path(X.iloc[70]))
    assert model.describe("consensus").startswith("if petal")
    assert model.importances().index[0].startswith("petal")
    together = model.co_occurrence()
    assert together.index.tolist() == together.columns.tolist() == X.columns.tolist()
    np.testing.assert_allclose(together, together.T)
    assert len(model.rules()) == int(model.best_tree_.n_splits[0]) + 1
    assert model.rules("all").shape[0] >= len(model.rules())
    assert len(model.consensus_tree_) == 1
    assert "digraph" in model.export("dot")
    best = model.export("sklearn", trees="best", dtype="float32")
    rows = X.astype(np.float32)
    np.testing.assert_allclose(best.predict(rows), model.predict(rows, tree="best"), rtol=1e-6)
    with pytest.raises(ValueError, match="format='pdf' is not known"):
        model.export("pdf")


def test_unfitted_estimators_say_so():
    for ask in (small().describe, small().importances, small().rules):
        with pytest.raises(sklearn.exceptions.NotFittedError, match="not fitted yet"):
            ask()
