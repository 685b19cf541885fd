"""A posterior over sums of trees as the JSON and arrays of an archive, and back, checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_integer
from dtgfn.data.binner_dict import binner_from_dict
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.storage.archived_parts import (
    Arrays,
    array_of,
    classes_from,
    dict_of,
    finite,
    leaf_from_dict,
    leaf_to_dict,
    rows_from,
    shared_arrays,
    shared_meta,
    trees_from,
    trees_to_arrays,
)
from dtgfn.storage.limits import check_bytes
from dtgfn.trees.batch import MAX_DEPTH
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.left_out_rows import LeftOutRows
from dtgfn.trees.summed_lines import SummedLines
from dtgfn.trees.summed_trees import ROWS_AT_ONCE, SummedTrees

SUMS = "sums"  # what the meta data name as the engine
LARGEST_SUM = 1e150  # of a draw's leaves, whose square must be a number


def sums_to_meta(posterior: SumPosterior) -> dict[str, Any]:
    """Return what JSON can hold of a posterior over sums."""
    summed = posterior.summed
    return {
        **shared_meta(posterior),
        "leaf": leaf_to_dict(posterior.leaf),
        "n_draws": summed.n_draws,
        "n_summed": summed.n_summed,
    }


def sums_to_arrays(posterior: SumPosterior) -> Arrays:
    """Return the arrays of a posterior over sums; equal rows are merged."""
    trees = trees_to_arrays("summed", posterior.summed.batch)
    return {
        **shared_arrays(posterior),
        **trees,
        "summed.value": posterior.summed.value[:, : trees["summed.feature"].shape[1]],
        **_lines_to_arrays(posterior.summed.lines),
        "chain": posterior.chain,
        "noise": posterior.noise,
        "leaf_scale": posterior.leaf_scale,
        "offset": posterior.offset,
    }


def _lines_to_arrays(lines: SummedLines | None) -> Arrays:
    if lines is None:
        return {}
    return {
        "lines.feature": lines.feature,
        "lines.score": lines.score,
        "lines.slope": lines.slope.reshape(-1, len(lines.feature)),
    }


def sums_from(meta: dict[str, Any], arrays: Arrays) -> SumPosterior:
    """Put a posterior over sums together again; a ValueError says what is wrong."""
    binner = binner_from_dict(meta["binner"])
    leaf = leaf_from_dict(meta["leaf"])
    summed = _summed_from(meta, arrays, binner.n_cuts, n_sums_of(leaf))
    offset = array_of(arrays, "offset", "f8", 1, summed.n_sums)
    if not np.isfinite(offset).all():
        raise ValueError("its array offset holds no usable numbers")
    chain = array_of(arrays, "chain", "i4", 1, summed.n_draws)
    if ((chain < 0) | (chain >= summed.n_draws)).any():
        raise ValueError("a draw is of a chain that does not exist")
    of_numbers = isinstance(leaf, NormalLeaf)
    noise = _variances_of(arrays, "noise", summed.n_draws if of_numbers else 0)
    _check_sums(summed, leaf, offset, noise)
    return SumPosterior(
        summed=summed,
        chain=chain,
        noise=noise,
        leaf_scale=_variances_of(arrays, "leaf_scale", summed.n_draws),
        offset=offset,
        leaf=leaf,
        rows=rows_from(arrays, binner, leaf) if "rows.codes" in arrays else LeftOutRows(),
        column=np.asarray(binner.feature_column, dtype=np.int32),
        n_columns=len(binner.columns),
        binner=binner,
        classes=classes_from(meta, leaf),
        diagnostics=_diagnostics_from(meta["diagnostics"]),
        history=[dict_of(entry) for entry in meta["history"]],
    )


def n_sums_of(leaf: DirichletLeaf | NormalLeaf) -> int:
    """How many sums a draw has: one for numbers and for two classes, else one for each class."""
    return leaf.n_classes if isinstance(leaf, DirichletLeaf) and leaf.n_classes > 2 else 1


def _summed_from(meta: dict[str, Any], arrays: Arrays, n_cuts: Any, n_sums: int) -> SummedTrees:
    trees = trees_from(arrays, "summed", n_cuts, MAX_DEPTH)
    value = array_of(arrays, "summed.value", "f8", 2, len(trees))
    width = trees.feature.shape[1]
    if value.shape[1] < width or not np.isfinite(value).all():
        raise ValueError("its leaves hold no usable numbers")
    for name in ("n_draws", "n_summed"):
        check_integer(name, meta[name], 1, len(trees))
    check_bytes(8.0 * ROWS_AT_ONCE * meta["n_draws"] * n_sums, f"{meta['n_draws']:,} draws")
    value = np.ascontiguousarray(value[:, :width])
    alone = SummedTrees(trees, value, meta["n_draws"], n_sums, meta["n_summed"])
    return replace(alone, lines=_lines_from(arrays, meta["n_draws"], n_sums, len(n_cuts)))


def _lines_from(arrays: Arrays, n_draws: int, n_sums: int, n_features: int) -> SummedLines | None:
    if "lines.feature" not in arrays:
        return None
    feature = array_of(arrays, "lines.feature", "i4", 1)
    score = array_of(arrays, "lines.score", "f8", 2, len(feature))
    slope = array_of(arrays, "lines.slope", "f8", 2, n_draws * n_sums)
    if slope.shape[1] != len(feature) or score.shape[1] < 1:
        raise ValueError("its lines do not go with their features")
    if len(feature) and (feature[0] < 0 or feature[-1] >= n_features):
        raise ValueError("a line is of a feature that does not exist")
    if (np.diff(feature) <= 0).any():
        raise ValueError("the features of its lines are out of order")
    if not (np.isfinite(score).all() and np.isfinite(slope).all()):
        raise ValueError("its lines hold no usable numbers")
    return SummedLines(feature, score, slope.reshape(n_draws, n_sums, -1))


def _variances_of(arrays: Arrays, name: str, length: int) -> Floats:
    numbers = array_of(arrays, name, "f8", 1, length)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(f"its array {name} holds no usable numbers")
    return numbers


def _check_sums(
    summed: SummedTrees, leaf: DirichletLeaf | NormalLeaf, offset: Floats, noise: Floats
) -> None:
    """Refuse leaves that add up, or are squared, to more than a number can be."""
    largest = np.abs(summed.value).max(axis=1).reshape(-1, summed.n_summed).sum(axis=1).max()
    if summed.lines is not None and len(summed.lines.feature):
        lines = summed.lines
        with np.errstate(over="ignore"):
            largest += (np.abs(lines.slope) @ np.abs(lines.score).max(axis=1)).max()
    top = float(largest + np.abs(offset).max())
    usable = top <= LARGEST_SUM
    if isinstance(leaf, NormalLeaf):
        ends = leaf.location + leaf.scale * top, leaf.location - leaf.scale * top
        spread = np.float64(leaf.scale) ** 2 * (noise.sum() + len(noise) * top * top)
        usable = usable and all(math.isfinite(number) for number in (*ends, spread))
    if not usable:
        raise ValueError("its leaves add up to more than a number can be")


def _diagnostics_from(value: Any) -> dict[str, Any]:
    """Return what the chains say of themselves; a verdict counts on all of it."""
    diagnostics = dict_of(value)
    of_chains = [diagnostics["acceptance"][move] for move in ("tree", "twig")]
    for pair in (("r_hat_mean", "r_hat_largest"), ("ess_mean", "ess_smallest")):
        agreement = [diagnostics[name] for name in pair]
        if agreement != [None, None]:  # too few draws to tell
            of_chains += agreement
    for number in (*of_chains, diagnostics["seconds"]):
        finite(number)
    sweeps = diagnostics["sweeps_per_chain"]
    if not isinstance(sweeps, list) or not sweeps:
        raise ValueError("its chains have made no sweeps")
    for count in sweeps:
        check_integer("sweeps_per_chain", count, 0, 2**53)
    return diagnostics
