"""Defaults of the bagged posterior, on tables that benchmarks/ensembles.py does not use.

Run: python benchmarks/ensembles_development.py [--out FILE]
Three generated tables, Breast cancer (original), Vertebral and scikit-learn's diabetes cut at its
median, three quarters for training, two splits each, 250 trees. Means over all of them. It repeats,
tidied up, the comparisons that the defaults were chosen by.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import sklearn.datasets
from ensembles import Outcome, bagged, lightgbm, posterior, xgboost
from problems import Report, _read
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.model_selection import train_test_split

TABLES = ("generated 8", "generated 12", "generated 30", "breast_cancer_original")
TABLES += ("odds_vertebral", "diabetes")
FEW = {"n_bags": 50, "n_trees": 250, "n_particles": 50, "n_sweeps": 1}
MANY = {**FEW, "n_bags": 125, "n_particles": 500}


def load(table: str) -> tuple[np.ndarray, np.ndarray]:
    if table.startswith("generated"):
        n_columns = int(table.split()[1])
        return sklearn.datasets.make_classification(
            400,
            n_features=n_columns,
            n_informative=n_columns // 4 + 1,
            n_classes=3 if n_columns == 12 else 2,
            n_clusters_per_class=1 if n_columns == 8 else 2,
            class_sep=1.2,
            random_state=n_columns,
        )
    if table == "diabetes":
        X, y = sklearn.datasets.load_diabetes(return_X_y=True)
        return X, (y > np.median(y)).astype(int)
    X, y = _read(table)
    return np.nan_to_num(X), y


def forest(kind: type) -> object:
    def run(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
        model = kind(250, random_state=0).fit(X, y)
        nodes = np.mean([tree.tree_.node_count for tree in model.estimators_])
        return model.predict_proba(new), nodes, np.nan

    return run


METHODS = {
    "random forest": forest(RandomForestClassifier),
    "extra trees": forest(ExtraTreesClassifier),
    "lightgbm 100": lightgbm(100),
    "xgboost 100": xgboost(100),
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
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("method", "accuracy", "log loss", "score of training rows", "nodes")
    for method in arguments.methods:
        run, figures = METHODS[method], []
        for table in TABLES:
            for seed in range(2):
                X, new, y, truth = train_test_split(*load(table), test_size=0.25, random_state=seed)
                probability, nodes, score = run(X, y, new)
                told = np.clip(probability[np.arange(len(truth)), truth], 1e-15, 1)
                right = (probability.argmax(axis=1) == truth).mean()
                figures.append((right, -np.log(told).mean(), score, nodes))
        accuracy, loss, score, nodes = np.mean(figures, axis=0)
        report.row(method, f"{accuracy:.4f}", f"{loss:.4f}", f"{score:.4f}", f"{nodes:.1f}")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
