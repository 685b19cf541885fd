"""Defaults of the bagged posterior, on tables that `dtgfn bench run ensembles` does not use.

Three generated tables, Breast cancer (original), Vertebral and scikit-learn's diabetes cut at its
median, three quarters for training, two splits each, 250 trees. Means over all of them. It repeats,
tidied up, the comparisons that the defaults were chosen by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.model_selection import train_test_split

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.evaluation import class_scores
from dtgfn_bench.names import find
from dtgfn_bench.problems import all_rows
from dtgfn_bench.studies.reporting import Report

TABLES = (
    "generated 8",
    "generated 12",
    "generated 30",
    "breast-cancer-original",
    "vertebral",
    "diabetes",
)
GRID: dict[str, Any] = {"n_thresholds": 99, "binning": "quantile", "max_depth": 5}
PARTICLES: dict[str, Any] = {"engine": "smc", "n_particles": 500, "n_sweeps": 4}
BAGS: dict[str, Any] = {"n_bags": 200, "n_trees": 1000, "n_particles": 50, "n_sweeps": 1}
FEW: dict[str, Any] = {"n_bags": 50, "n_trees": 250, "n_particles": 50, "n_sweeps": 1}
MANY: dict[str, Any] = {**FEW, "n_bags": 125, "n_particles": 500}
OF_BAGS: dict[str, Any] = {**FEW, "ensemble": "bags"}
DEEP = ("split_penalty", "max_depth")

# Probabilities [n, C], nodes per tree and, of ours, the log score of the training rows.
Outcome = tuple[Floats, float, float]


def load(table: str) -> tuple[Floats, Int64s]:
    """Columns and classes of a table."""
    if table.startswith("generated"):
        n_columns = int(table.split()[1])
        X, y = sklearn.datasets.make_classification(
            400,
            n_features=n_columns,
            n_informative=n_columns // 4 + 1,
            n_classes=3 if n_columns == 12 else 2,
            n_clusters_per_class=1 if n_columns == 8 else 2,
            class_sep=1.2,
            random_state=n_columns,
        )
        return X, y
    if table == "diabetes":
        X, y = sklearn.datasets.load_diabetes(return_X_y=True)
        return X, (y > np.median(y)).astype(np.int64)
    X, y = all_rows(table)
    return np.nan_to_num(X), y


def rival(name: str, **changes: Any) -> Callable[..., Outcome]:
    """A method of `dtgfn bench`."""

    def fit_and_predict(X: Floats, y: Int64s, new: Floats) -> Outcome:
        from dtgfn_bench.contract import TrainingRows
        from dtgfn_bench.method_lookup import find_method

        codes = np.unique(y, return_inverse=True)[1]
        rows = TrainingRows(X, codes, int(codes.max()) + 1, "development")
        method = find_method(name).with_settings(**changes)
        fitted = method.fit(rows, 0, **method.settings)
        return fitted.predict_proba(new), fitted.size(), np.nan

    return fit_and_predict


def posterior(split_penalty: str, temperature: float | None) -> Callable[..., Outcome]:
    """The posterior at a temperature, or (None) at the one that leaving rows out prefers."""

    def fit_and_predict(X: Floats, y: Int64s, new: Floats) -> Outcome:
        from dtgfn.inference.infer import infer
        from dtgfn.inference.temperature import choose_temperature, leave_one_out

        def infer_at(temperature: float, seconds: float | None) -> Any:
            given = {**GRID, **PARTICLES, "split_penalty": split_penalty}
            return infer(X, y, **given, temperature=temperature, random_state=0, n_jobs=1)

        if temperature is None:
            found = choose_temperature(infer_at).posterior
        else:
            found = infer_at(temperature, None)
        return predict(found, new), 2 * found.mean_splits + 1, leave_one_out(found).score

    return fit_and_predict


def bagged(split_penalty: str, **changes: Any) -> Callable[..., Outcome]:
    """The bagged posterior; ``changes`` are of ``BAGS``, of the grid or of the score."""
    prior = {"max_depth": GRID["max_depth"], "temperature": 1.0}
    concentration = changes.pop("leaf_concentration", 0.1)
    prior |= {name: changes.pop(name) for name in list(changes) if name in prior}
    options = {**BAGS, **changes}

    def fit_and_predict(X: Floats, y: Int64s, new: Floats) -> Outcome:
        from dtgfn.data.tables import as_table
        from dtgfn.engines import Run, find_engine
        from dtgfn.inference.bagging import infer_bagged
        from dtgfn.inference.resampling import BagOptions
        from dtgfn.inference.training_data import make_training_data
        from dtgfn.trees.leaf_models import DirichletLeaf
        from dtgfn.trees.score import make_score

        table = as_table(X)
        grid = {"binning": GRID["binning"], "n_thresholds": GRID["n_thresholds"]}
        data = make_training_data(table, y, DirichletLeaf(1, concentration), **grid)
        score = make_score(
            data.leaf,
            n_features=table.n_columns,
            n_thresholds=GRID["n_thresholds"],
            split_penalty=split_penalty,
            **prior,
        )
        column = np.asarray(data.binner.feature_column, dtype=np.int32)
        smc = find_engine("smc")
        of_run = {"n_trees": options["n_trees"]} if "n_trees" in options else {}
        of_bags = {name: options[name] for name in ("n_bags", "column_share") if name in options}
        own = {name: value for name, value in options.items() if name in smc.option_names}
        run = Run(column=column, n_columns=table.n_columns, random_state=0, n_jobs=1, **of_run)
        found = infer_bagged(
            smc, data.rows, score, run, smc.read_options(own), BagOptions(**of_bags)
        )
        found = replace(found, binner=data.binner, classes=data.classes)
        outside = found.diagnostics["out_of_bag_log_score"]
        return predict(found, new), 2 * found.mean_splits + 1, outside

    return fit_and_predict


def chosen(**settings: Any) -> Callable[..., Outcome]:
    """What `infer` gives where some of its settings are "auto"; bags if there are as many."""

    def fit_and_predict(X: Floats, y: Int64s, new: Floats) -> Outcome:
        from dtgfn.inference.infer import infer
        from dtgfn.inference.temperature import leave_one_out

        given = {**GRID, "engine": "smc", "time_budget": None, **settings}
        found = infer(X, y, **given, random_state=0, n_jobs=1)
        bagged = found.diagnostics.get("out_of_bag_log_score")
        score = leave_one_out(found).score if bagged is None else bagged
        return predict(found, new), 2 * found.mean_splits + 1, score

    return fit_and_predict


def predict(found: Any, new: Floats) -> Floats:
    """Class probabilities of new rows."""
    from dtgfn.data.binning import encode
    from dtgfn.data.tables import as_table
    from dtgfn.posterior.prediction import average_outputs

    return average_outputs(found, encode(found.binner, as_table(new)))


METHODS = {
    "random forest": rival("forest", n_trees=250),
    "extra trees": rival("extra-trees", n_trees=250),
    "lightgbm 100": rival("lightgbm-100"),
    "xgboost 100": rival("xgboost-100"),
    "posterior, mdl": posterior("mdl", 1.0),
    "posterior, paper": posterior("paper", 1.0),
    "bagged, mdl": bagged("mdl", **FEW),
    "bagged, mdl, all columns": bagged("mdl", **FEW, column_share=1.0),
    "bagged, mdl, half of the columns": bagged("mdl", **FEW, column_share=0.5),
    "bagged, mdl, 125 bags": bagged("mdl", **{**FEW, "n_bags": 125}),
    "bagged, mdl, 10 bags": bagged("mdl", **{**FEW, "n_bags": 10}),
    "bagged, mdl, depth 3": bagged("mdl", max_depth=3, **FEW),
    "bagged, mdl, depth 8": bagged("mdl", max_depth=8, **FEW),
    "bagged, mdl, concentration 1": bagged("mdl", leaf_concentration=1.0, **FEW),
    "bagged, mdl, temperature 2": bagged("mdl", temperature=2.0, **FEW),
    "bagged, mdl, 500 particles": bagged("mdl", **{**FEW, "n_particles": 500}),
    "bagged, paper": bagged("paper", **FEW),
    "bagged, mdl, depth 8, 125 bags, 500 particles": bagged("mdl", max_depth=8, **MANY),
    "posterior, mdl, auto": posterior("mdl", None),
    "posterior, penalty chosen": chosen(**PARTICLES, split_penalty="auto"),
    "bagged, penalty chosen": chosen(**OF_BAGS, split_penalty="auto"),
    "bagged, penalty and depth chosen": chosen(**OF_BAGS, **dict.fromkeys(DEEP, "auto")),
    "bagged, all three chosen": chosen(**OF_BAGS, **dict.fromkeys((*DEEP, "temperature"), "auto")),
}


def run(report: Report, *, methods: str = ";".join(METHODS)) -> None:
    """Fit methods, named with semicolons between them, to every split of every table."""
    report.head("method", "accuracy", "log loss", "score of training rows", "nodes")
    for method in methods.split(";"):
        fit_and_predict, figures = find(METHODS, method, "method"), []
        for table in TABLES:
            for seed in range(2):
                X, new, y, truth = train_test_split(*load(table), test_size=0.25, random_state=seed)
                probability, nodes, score = fit_and_predict(X, y, new)
                scores = class_scores(probability, truth)
                figures.append((scores["accuracy"], scores["log_loss"], score, nodes))
        accuracy, loss, score, nodes = np.mean(figures, axis=0)
        report.row(method, f"{accuracy:.4f}", f"{loss:.4f}", f"{score:.4f}", f"{nodes:.1f}")
