"""Ensembles on the paper's four tables: ours, the forests and boosters, and the paper's figures.

Run: python benchmarks/ensembles.py [--out benchmarks/results/ensembles.md]
Seeds 1-5 of train_test_split(test_size=0.2, random_state=seed), not stratified. Our settings are
the constants below, the same for all tables, fixed before any of these test rows was looked at;
temperature, sharpness and, in "bagged, chosen", the penalty ("mdl" or "paper", by the log score of
rows out of bag) are chosen on training rows, anew for each split. "deeper bags" came second, from
the development tables alone. Rivals have their libraries'
defaults with 100 and 1000 trees (CatBoost and forest 1000). "nodes" is the mean per tree. Cells
are kept in --cells (JSON lines), so that a run that was cut short goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from problems import Report, _load, _read
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

TABLES = ("iris", "wine", "breast_cancer", "raisin")
SEEDS = (1, 2, 3, 4, 5)
GRID = {"n_thresholds": 99, "binning": "quantile", "max_depth": 5}
PARTICLES = {"engine": "smc", "n_particles": 500, "n_sweeps": 4}
BAGS = {"n_bags": 200, "n_trees": 1000, "n_particles": 50, "n_sweeps": 1}
# Accuracy and nodes per tree of the paper's table.
PAPER = {
    "forest 1000": (("0.960", 14.7), ("0.983", 18.9), ("0.947", 33.7), ("0.869", 151.1)),
    "xgboost 100": (("0.953", 4.6), ("0.956", 3.5), ("0.958", 6.9), ("0.861", 28.3)),
    "catboost 1000": (("0.960", 379.8), ("0.978", 380.5), ("0.954", 126.7), ("0.880", 126.7)),
    "lightgbm 100": (("0.953", 9.4), ("0.989", 12.3), ("0.958", 47.0), ("0.862", 59.6)),
    "DT-GFN": (("0.973", 11.1), ("0.983", 8.0), ("0.954", 5.7), ("0.883", 26.3)),
}

# Probabilities [n, C], nodes per tree and, of ours, the log score of the training rows.
Outcome = tuple[np.ndarray, float, float]


def load(table: str, seed: int) -> list[np.ndarray]:
    if table == "iris":  # the UCI file, which differs from scikit-learn's copy in two rows
        X, y = _read("iris_uci")
    else:
        X, y = _load(table)
    y = np.unique(y, return_inverse=True)[1]
    return train_test_split(X, y, test_size=0.2, random_state=seed)


def forest(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
    model = RandomForestClassifier(1000, random_state=0, n_jobs=1).fit(X, y)
    nodes = np.mean([tree.tree_.node_count for tree in model.estimators_])
    return model.predict_proba(new), nodes, np.nan


def xgboost(n_trees: int) -> Callable[..., Outcome]:
    def run(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
        from xgboost import XGBClassifier

        model = XGBClassifier(n_estimators=n_trees, n_jobs=1).fit(X, y)
        frame = model.get_booster().trees_to_dataframe()
        return model.predict_proba(new), len(frame) / frame["Tree"].nunique(), np.nan

    return run


def lightgbm(n_trees: int) -> Callable[..., Outcome]:
    def run(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_estimators=n_trees, n_jobs=1, verbose=-1).fit(X, y)
        trees = model.booster_.dump_model()["tree_info"]
        nodes = np.mean([2 * tree["num_leaves"] - 1 for tree in trees])
        return model.predict_proba(new), nodes, np.nan

    return run


def catboost(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        iterations=1000, verbose=0, thread_count=1, allow_writing_files=False, random_seed=0
    ).fit(X, y)
    nodes = np.mean(2 * model.get_tree_leaf_counts() - 1)
    return model.predict_proba(new), nodes, np.nan


def posterior(split_penalty: str, temperature: float | None) -> Callable[..., Outcome]:
    """The posterior at a temperature, or (None) at the one that leaving rows out prefers."""

    def run(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
        import dtgfn
        from dtgfn.temperature import choose_temperature, leave_one_out

        def infer_at(temperature: float, seconds: float | None) -> dtgfn.TreePosterior:
            given = {**GRID, **PARTICLES, "split_penalty": split_penalty}
            return dtgfn.infer(X, y, **given, temperature=temperature, random_state=0, n_jobs=1)

        if temperature is None:
            found = choose_temperature(infer_at).posterior
        else:
            found = infer_at(temperature, None)
        return predict(found, new), 2 * found.mean_splits + 1, leave_one_out(found).score

    return run


def bagged(split_penalty: str, **changes: object) -> Callable[..., Outcome]:
    """The bagged posterior; ``changes`` are of ``BAGS``, of the grid or of the score."""
    prior = {"max_depth": GRID["max_depth"], "temperature": 1.0}
    concentration = changes.pop("leaf_concentration", 0.1)
    prior |= {name: changes.pop(name) for name in list(changes) if name in prior}
    options = {**BAGS, **changes}

    def run(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Outcome:
        from dtgfn.bagging import infer_bagged
        from dtgfn.engines.smc import infer_smc
        from dtgfn.leaves import DirichletLeaf
        from dtgfn.score import make_score
        from dtgfn.tables import as_table
        from dtgfn.training import make_training_data

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
        given = {"column": column, "n_columns": table.n_columns, "random_state": 0, "n_jobs": 1}
        found = infer_bagged(infer_smc, data.rows, score, **given, **options)
        found = replace(found, binner=data.binner, classes=data.classes)
        outside = found.diagnostics["out_of_bag_log_score"]
        return predict(found, new), 2 * found.mean_splits + 1, outside

    return run


def predict(found: object, new: np.ndarray) -> np.ndarray:
    from dtgfn.binning import encode
    from dtgfn.predict import average_outputs
    from dtgfn.tables import as_table

    return average_outputs(found, encode(found.binner, as_table(new)))


RIVALS: dict[str, Callable[..., Outcome]] = {
    "forest 1000": forest,
    "xgboost 100": xgboost(100),
    "xgboost 1000": xgboost(1000),
    "catboost 1000": catboost,
    "lightgbm 100": lightgbm(100),
    "lightgbm 1000": lightgbm(1000),
}
OURS: dict[str, Callable[..., Outcome]] = {
    "posterior": posterior("mdl", 1.0),
    "posterior, auto": posterior("mdl", None),
    "bagged, mdl": bagged("mdl"),
    "bagged, paper": bagged("paper"),
    "deeper bags, mdl": bagged("mdl", max_depth=8, n_bags=125, n_particles=500),
}
CHOSEN = "bagged, chosen"


def measure(method: str, table: str, seed: int) -> dict[str, object]:
    X, new, y, truth = load(table, seed)
    begun = time.perf_counter()
    probability, nodes, training_score = {**RIVALS, **OURS}[method](X, y, new)
    seconds = time.perf_counter() - begun
    floor = np.clip(probability[np.arange(len(truth)), truth], 1e-15, 1)
    return {
        "method": method,
        "table": table,
        "seed": seed,
        "accuracy": float((probability.argmax(axis=1) == truth).mean()),
        "log_loss": float(-np.log(floor).mean()),
        "nodes": float(nodes),
        "training_score": float(training_score),
        "seconds": seconds,
    }


def gather(methods: list[str], tables: list[str], cells: Path) -> list[dict[str, object]]:
    """Measure what is not in the file of cells yet."""
    done = [json.loads(line) for line in cells.read_text().splitlines()] if cells.exists() else []
    known = {(cell["method"], cell["table"], cell["seed"]) for cell in done}
    for table in tables:
        for seed in SEEDS:
            for method in methods:
                if (method, table, seed) in known:
                    continue
                done.append(measure(method, table, seed))
                with cells.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    return done


def choose(done: list[dict[str, object]]) -> list[dict[str, object]]:
    """Of the bagged posteriors of each split, the one with the best score of rows out of bag."""
    best: dict[tuple[object, object], dict[str, object]] = {}
    seconds: dict[tuple[object, object], float] = {}
    for cell in done:
        place = cell["table"], cell["seed"]
        if cell["method"].startswith("bagged"):
            seconds[place] = seconds.get(place, 0.0) + cell["seconds"]
            if place not in best or cell["training_score"] > best[place]["training_score"]:
                best[place] = cell
    return [{**cell, "method": CHOSEN, "seconds": seconds[at]} for at, cell in best.items()]


def tell(done: list[dict[str, object]], methods: list[str], out: Path | None) -> None:
    report = Report("accuracy ± spread, log loss, nodes, seconds", *TABLES)
    accuracy: dict[tuple[str, str], float] = {}
    for method in methods:
        texts = []
        for table in TABLES:
            mine = [c for c in done if c["method"] == method and c["table"] == table]
            mean = {name: np.mean([c[name] for c in mine]) for name in FIGURES if mine}
            if len(mine) < len(SEEDS):
                texts.append("-")
                continue
            accuracy[method, table] = mean["accuracy"]
            spread = np.std([c["accuracy"] for c in mine])
            rest = f"{mean['log_loss']:.3f}, {mean['nodes']:.1f}, {mean['seconds']:.1f} s"
            texts.append(f"{mean['accuracy']:.4f} ± {spread:.3f}, {rest}")
        report.row(method, *texts)
    for method, figures in PAPER.items():
        report.row(f"{method} (printed in the paper)", *(f"{a}, {n} nodes" for a, n in figures))
    for table in TABLES:
        rivals = {m: accuracy[m, table] for m in methods if m in RIVALS and (m, table) in accuracy}
        ours = {m: accuracy[m, table] for m in [*OURS, CHOSEN] if (m, table) in accuracy}
        if rivals and ours:
            top = max(rivals, key=rivals.__getitem__)
            told = "; ".join(f"{m} {value - rivals[top]:+.4f}" for m, value in ours.items())
            report.say(f"{table}: best rival {top} at {rivals[top]:.4f}. {told}.")
    report.write(out)


FIGURES = ("accuracy", "log_loss", "nodes", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=[*RIVALS, *OURS])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--cells", type=Path, default=Path("ensembles_cells.jsonl"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    done = gather(arguments.methods, arguments.tables, arguments.cells)
    tell(done + choose(done), [*arguments.methods, CHOSEN], arguments.out)


if __name__ == "__main__":
    main()
