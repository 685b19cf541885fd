"""Posteriors of random valid trees on tables of every kind, made without an engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from dtgfn.data.binning import Binner, encode, fit_binner
from dtgfn.data.tables import as_table
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, from_splits
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf
from dtgfn.trees.score import Rows, log_reward, make_score

Splits = dict[tuple[int, ...], tuple[int, int]]


def mixed_frame(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers, truths and texts, with missing cells in some of the columns."""

    def holes(values: np.ndarray, share: float = 0.2) -> np.ndarray:
        values = values.astype(object)
        values[rng.random(n_rows) < share] = None
        return values

    return pd.DataFrame(
        {
            "length": rng.normal(size=n_rows).round(1),
            "width": pd.Series(holes(rng.normal(size=n_rows).round(1)), dtype="float64"),
            "flag": rng.random(n_rows) < 0.5,
            "maybe": pd.Series(holes(rng.random(n_rows) < 0.5), dtype="boolean"),
            "colour": rng.choice(["red", "green", "blue", "grey"], n_rows),
            "shape": holes(rng.choice(["round", "square", "long"], n_rows)),
        }
    )


def numeric_frame(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """The columns that are numbers or truths."""
    return mixed_frame(n_rows, rng)[["length", "width", "flag", "maybe"]]


def random_splits(codes: np.ndarray, depth: int, rng: np.random.Generator) -> Splits:
    """Grow a random tree whose every leaf holds a row."""
    splits: Splits = {}
    pending: list[tuple[tuple[int, ...], np.ndarray]] = [((), np.arange(len(codes)))]
    while pending:
        path, rows = pending.pop()
        feature = int(rng.integers(codes.shape[1]))
        low, high = int(codes[rows, feature].min()), int(codes[rows, feature].max())
        if len(path) == depth or low == high or (path and rng.random() < 0.25):
            continue
        cut = int(rng.integers(low, high))
        splits[path] = feature, cut
        right = codes[rows, feature] > cut
        pending += [((*path, 0), rows[~right]), ((*path, 1), rows[right])]
    return splits


def make_posterior(
    X: object,
    labels: np.ndarray,
    *,
    n_trees: int = 20,
    depth: int = 4,
    n_thresholds: int = 7,
    binning: str = "quantile",
    seed: int = 0,
) -> TreePosterior:
    """Weight random trees at random, some of them more than once; of floats make a regression."""
    rng = np.random.default_rng(seed)
    table = as_table(X)
    binner: Binner = fit_binner(table, binning=binning, n_thresholds=n_thresholds)
    labels = np.asarray(labels)
    leaf: LeafModel
    if labels.dtype.kind == "f":
        classes, leaf = None, NormalLeaf(location=float(labels.mean()), scale=float(labels.std()))
        target = (labels - leaf.location) / leaf.scale
    else:
        classes, place = np.unique(labels, return_inverse=True)
        leaf, target = DirichletLeaf(len(classes)), place.astype(np.int32)
    rows = Rows(encode(binner, table), target, rng.uniform(0.5, 2.0, len(labels)))
    score = make_score(leaf, n_features=table.n_columns, n_thresholds=n_thresholds, max_depth=depth)
    grown = [random_splits(rows.codes, depth, rng) for _ in range(n_trees)]
    trees: TreeBatch = from_splits(grown + grown[: n_trees // 4])
    reward = log_reward(trees, rows, score)
    unknown = np.full(len(trees), np.nan)
    posterior = sampled_posterior(
        trees,
        log_reward=reward,
        log_prob=unknown,
        log_weight=rng.normal(size=len(trees)),
        log_evidence=np.nan,
        log_evidence_error=np.nan,
        rows=rows,
        score=score,
        column=np.asarray(binner.feature_column, dtype=np.int32),
        n_columns=table.n_columns,
        engine="random",
    )
    return replace(posterior, binner=binner, classes=classes)
