"""Partial dependence of sums of trees: what each draw predicts at each bin of a column.

A class probability is no sum of what trees say, so every row has to be asked at every bin. What
the trees and lines that do not use the column say is added up once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dtgfn._support.arrays import Bools, Codes, Floats
from dtgfn.posterior.sum_prediction import SumPredictor
from dtgfn.trees.batch import TreeBatch, trim
from dtgfn.trees.summed_trees import SummedTrees, make_fast, sum_draws

MOST_ROWS = 1000  # that are asked, at even steps
MOST_NUMBERS = 1 << 23  # held at once


def draw_dependence(
    predictor: SumPredictor, features: list[int], bins: Codes, codes: Codes, weight: Floats
) -> Floats:
    """Averaged prediction of each draw at each bin [K, G, C] over rows [n, d] with weights [n].

    ``bins`` [G, F] is what the column's features are in each bin.
    """
    summed = predictor.posterior.summed
    uses = np.asarray(np.isin(summed.batch.feature, features).any(axis=1))
    fixed, moving = keep_trees(summed, np.logical_not(uses)), keep_trees(summed, uses)
    if summed.lines is not None:
        fixed = replace(fixed, lines=summed.lines.only(features, others=True))
        moving = replace(moving, lines=summed.lines.only(features))
    fixed_fast, moving_fast = make_fast(fixed), make_fast(moving)
    n_outputs = predictor.posterior.leaf.n_outputs if predictor.posterior.is_of_classes else 1
    out = np.zeros((summed.n_draws, len(bins), n_outputs))
    share = weight / weight.sum()
    step = max(MOST_NUMBERS // (summed.n_draws * n_outputs), 1)
    for first in range(0, len(codes), step):
        rows = slice(first, first + step)
        still = sum_draws(fixed_fast, fixed, codes[rows], predictor.n_jobs)
        changed = codes[rows].copy()
        for at, values in enumerate(bins):
            changed[:, features] = values
            sums = still + sum_draws(moving_fast, moving, changed, predictor.n_jobs)
            said = predictor.outputs(sums).reshape(len(sums), summed.n_draws, n_outputs)
            out[:, at] += np.einsum("n,nkc->kc", share[rows], said)
    return out


def keep_trees(summed: SummedTrees, kept: Bools) -> SummedTrees:
    """The same sums where only some trees [B] say anything: the others are a leaf of 0."""
    batch, stays = summed.batch, kept[:, None]
    small = trim(
        TreeBatch(
            feature=np.where(stays, batch.feature, -1).astype(np.int32),
            cut=np.where(stays, batch.cut, 0).astype(np.int32),
            left=np.where(stays, batch.left, -1).astype(np.int32),
            n_nodes=np.where(kept, batch.n_nodes, 1).astype(np.int32),
        )
    )
    value = np.where(stays, summed.value, 0.0)[:, : small.feature.shape[1]]
    return replace(summed, batch=small, value=value)
