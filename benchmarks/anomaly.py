"""Anomaly detection by the protocol of Shenkar & Wolf: ours, isolation forest, KNN and COPOD.

Run: python benchmarks/anomaly.py [--splits 20] [--jobs 2] [--out benchmarks/results/anomaly.md]
The first half (and one) of the shuffled normal rows is for training, the others and all anomalies
are for testing. "two-std" flags scores more than two standard deviations below the mean of the
training scores, "known" flags as many test rows as there are anomalies (of equal scores, normal
rows first). Everything is mean and standard deviation over splits; all methods see the same ones.
Those of ODDS are read from DTGFN_DATA_DIR, or fetched.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import skew
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from dtgfn.datasets import load_dataset

ODDS = ("thyroid", "ecoli", "vertebral", "glass")
# Normal classes, anomalous class, how many of those: tasks made of scikit-learn's tables.
MADE = {
    "iris": (load_iris, (0, 1), 2, 10),
    "wine": (load_wine, (1, 2), 0, 10),
    "breast cancer": (load_breast_cancer, (1,), 0, 20),
}
PAPER = {  # F1; DT-GFN by the two-std rule, the others told the number of anomalies
    "DT-GFN": (0.794, 0.812, 0.404, 0.315),
    "isolation forest": (0.789, 0.589, 0.13, 0.11),
    "KNN": (0.573, 0.778, 0.1, 0.11),
    "COPOD": (0.308, 0.256, 0.017, 0.11),
    "ICL": (0.768, 0.7, 0.26, 0.272),
    "DROCC": (0.727, np.nan, 0.27, 0.222),
}


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows and anomalies."""
    if name in ODDS:
        data = load_dataset(name)
        return data.X[data.y == 0], data.X[data.y == 1]
    source, normal, odd, count = MADE[name]
    values, classes = source(return_X_y=True)
    rare = np.random.default_rng(seed).choice(np.flatnonzero(classes == odd), count, replace=False)
    return values[np.isin(classes, normal)], values[rare]


def trees(n_trees: int):
    def scores(train, test, seed):
        from dtgfn import DTGFNAnomalyDetector

        model = DTGFNAnomalyDetector(n_trees=n_trees, n_jobs=1, random_state=seed).fit(train)
        return model.offset_, model.score_samples(test)

    return scores


def two_std(scores: np.ndarray) -> float:
    return float(scores.mean() - 2 * scores.std())


def isolation_forest(train, test, seed):
    model = IsolationForest(random_state=seed).fit(train)
    return two_std(model.score_samples(train)), model.score_samples(test)


def knn(train, test, seed):
    """Distance to the fifth neighbour on standardised columns; a training row is not its own."""
    scaler = StandardScaler().fit(train)
    search = NearestNeighbors(n_neighbors=5).fit(scaler.transform(train))
    distance, _ = search.kneighbors(scaler.transform(test))
    return two_std(-search.kneighbors()[0][:, -1]), -distance[:, -1]


def copod(train, test, seed):
    """As its library has it, with tails counted on training and test rows together."""

    def tails(rows):
        n, ordered = len(rows), np.sort(rows, axis=0)
        low = [np.searchsorted(c, x, "right") for c, x in zip(ordered.T, rows.T, strict=True)]
        high = [n - np.searchsorted(c, x, "left") for c, x in zip(ordered.T, rows.T, strict=True)]
        left, right = (-np.log(np.array(part).T / n) for part in (low, high))
        chosen = np.where(np.sign(skew(rows, axis=0)) < 0, left, right)
        return -np.maximum(chosen, (left + right) / 2).sum(axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a constant column has no skewness
        both = tails(np.vstack([train, test]))
    return two_std(both[: len(train)]), both[len(train) :]


METHODS = {
    "ours, 300 trees": trees(300),
    "ours, one tree": trees(1),
    "isolation forest": isolation_forest,
    "KNN": knn,
    "COPOD": copod,
}


def measure(name: str, seed: int) -> dict[str, list[float]]:
    normal, anomalies = load(name, seed)
    order = np.random.default_rng(seed).permutation(len(normal))
    n_train = len(normal) // 2 + 1
    train = normal[order[:n_train]]
    test = np.vstack([normal[order[n_train:]], anomalies])
    truth = np.repeat([0, 1], [len(test) - len(anomalies), len(anomalies)])
    found = {}
    for method, scores in METHODS.items():
        started = time.perf_counter()
        offset, score = scores(train, test, seed)
        seconds = time.perf_counter() - started
        flagged = score < offset
        known = np.zeros(len(test), dtype=int)
        known[np.argsort(score, kind="stable")[: len(anomalies)]] = 1
        found[method] = [
            f1_score(truth, flagged, zero_division=0),
            f1_score(truth, known),
            roc_auc_score(truth, -score),
            average_precision_score(truth, -score),
            flagged[truth == 0].mean(),
            seconds,
        ]
    return found


def section(name: str, runs: list[dict[str, list[float]]]) -> list[str]:
    lines = [f"\n## {name}, {len(runs)} splits\n"]
    head = ("", "F1 two-std", "F1 known", "AUROC", "average precision", "normal rows flagged", "s")
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for method in METHODS:
        values = np.array([run[method] for run in runs])
        mean, spread = values.mean(axis=0), values.std(axis=0)
        cells = [f"{m:.3f} ± {s:.3f}" for m, s in zip(mean[:5], spread[:5], strict=True)]
        lines.append("| " + " | ".join([method, *cells, f"{mean[5]:.1f}"]) + " |")
    if name in ODDS:
        place = ODDS.index(name)
        for method, figures in PAPER.items():
            cells = ["", "" if np.isnan(figures[place]) else f"{figures[place]:.3f}"]
            if method == "DT-GFN":
                cells.reverse()
            lines.append("| " + " | ".join([f"paper: {method}", *cells, "", "", "", ""]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", nargs="+", default=[*ODDS, *MADE])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    cells = [(name, seed) for name in arguments.tables for seed in range(arguments.splits)]
    runs = Parallel(n_jobs=arguments.jobs, verbose=1)(delayed(measure)(*cell) for cell in cells)
    tables = " ".join(f"'{name}'" if " " in name else name for name in arguments.tables)
    command = f"python benchmarks/anomaly.py --splits {arguments.splits} --tables {tables}"
    lines = ["# Anomaly detection", "", f"`{command}`; what the columns mean is said there."]
    for name in arguments.tables:
        lines += section(name, [r for r, (own, _) in zip(runs, cells, strict=True) if own == name])
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
