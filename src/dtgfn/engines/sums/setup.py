"""From rows and options to what all chains share: table, target, priors, moves."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi2

from dtgfn._support.arrays import Bools, Codes, Int32s
from dtgfn.engines.sums.chain import Setup, likely_sum
from dtgfn.engines.sums.lines import LineTable, make_lines, no_lines
from dtgfn.engines.sums.node_choice import SumTable
from dtgfn.engines.sums.scales import CLASSES, NUMBERS, Prior, Target
from dtgfn.engines.sums.settings import SumOptions, trees_in_a_sum
from dtgfn.engines.sums.sweep import Moves
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import BranchingPrior, PenaltyPrior, Rows

TWIGS = 0.5  # of the proposals that are of a subtree
FEW_COLUMNS = 8  # that a proposal looks at, at least
MOST_COLUMNS = 48  # and, on average, at most
NOISE_SHAPE, NOISE_LEVEL = 3.0, 0.9  # BART's: so firm, P(noise < that of a linear fit)
SPREAD = {NUMBERS: 1.0, CLASSES: 2.5}  # prior scale of all leaves of a row together
SCALE_FREEDOM = 3.0  # of the half-t prior of the leaf scale
LONGEST = 1000  # rows per column that a linear fit looks at


def make_setup(
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    max_depth: int,
    column: Int32s,
    options: SumOptions,
    has_missing: Bools | None = None,
) -> Setup:
    """Lay out what all chains share; features that do not vary are left out of no tree's reach."""
    table = make_table(rows.codes, column, max_depth, BranchingPrior(*options.tree_prior))
    target, n_sums = make_target(rows, leaf)
    n_summed = trees_in_a_sum(options, target.kind == CLASSES, n_sums)
    prior = make_prior(rows, target, n_summed, options.leaf_scale)
    lines = no_lines()
    if options.lines:
        lines = make_lines(rows, column, has_missing, SPREAD[target.kind])
    return make_moves(table, target, prior, lines, n_sums, n_summed)


def make_table(
    codes: Codes, column: Int32s, max_depth: int, prior: BranchingPrior | PenaltyPrior
) -> SumTable:
    """Lay out rows of codes [n, F] for the loops; of a penalty all splits pay the same."""
    n_codes = codes.max(axis=0, initial=0).astype(np.int32) + 1
    narrow = np.uint8 if n_codes.max(initial=1) <= 256 else np.uint16
    varying = codes.min(axis=0, initial=np.iinfo(codes.dtype).max) < n_codes - 1
    by_column = np.argsort(column, kind="stable").astype(np.int32)
    by_column = by_column[varying[by_column]]
    n_columns = int(column.max(initial=0)) + 1
    per_column = np.bincount(column[by_column], minlength=n_columns)
    log_stop, log_split = prior.node_terms(max_depth)
    # A column is as probable as any other, and so is each of its features.
    log_feature = np.zeros(len(column))
    branching = isinstance(prior, BranchingPrior)
    if branching:
        width = np.maximum(per_column, 1)[column]
        log_feature = -np.log(width) - math.log(max(int(np.count_nonzero(per_column)), 1))
    return SumTable(
        codes=np.ascontiguousarray(codes, dtype=narrow),
        n_codes=n_codes,
        column=column.astype(np.int32),
        by_column=by_column,
        begin=np.concatenate([[0], np.cumsum(per_column)]).astype(np.int32),
        first_cell=np.concatenate([[0], np.cumsum(n_codes)]).astype(np.uint32),
        log_feature=log_feature,
        log_stop=log_stop,
        log_split=log_split,
        uniform_cuts=branching,
        max_depth=max_depth,
    )


def make_moves(
    table: SumTable,
    target: Target,
    prior: Prior,
    lines: LineTable,
    n_sums: int,
    n_summed: int,
    moves: Moves | None = None,
) -> Setup:
    """Choose how trees are proposed, and see how much memory that takes."""
    per_column = np.diff(table.begin).astype(np.int64)
    if moves is None:
        moves = Moves(TWIGS, column_share(int(np.count_nonzero(per_column))))
    codes = np.zeros(len(per_column), dtype=np.int64)
    np.add.at(codes, table.column[table.by_column], table.n_codes[table.by_column])
    return Setup(
        table=table,
        target=target,
        prior=prior,
        lines=lines,
        moves=moves,
        n_sums=n_sums,
        n_summed=n_summed,
        most_active=max(likely_sum(per_column, moves.columns), 1),
        most_cells=max(likely_sum(codes, moves.columns), 1),
    )


def column_share(n_columns: int) -> float:
    """Share of the columns that a proposal looks at: half of few, a fixed number of many."""
    wanted = min(max(0.5 * n_columns, FEW_COLUMNS), MOST_COLUMNS)
    return min(wanted / max(n_columns, 1), 1.0)


def make_target(rows: Rows, leaf: DirichletLeaf | NormalLeaf) -> tuple[Target, int]:
    """What the sums add up to, and how many sums there are."""
    n = len(rows.weight)
    if isinstance(leaf, NormalLeaf):
        number, label = np.asarray(rows.target, dtype=np.float64), np.zeros(n, dtype=np.int32)
        return Target(NUMBERS, number, label, rows.weight, np.zeros(1)), 1
    label = np.asarray(rows.target, dtype=np.int32)
    counts = np.bincount(label, weights=rows.weight, minlength=leaf.n_classes) + 0.5
    log_share = np.log(counts / counts.sum())
    if leaf.n_classes <= 2:
        offset = np.array([log_share[-1] - log_share[0]])
        return Target(CLASSES, np.zeros(n), label, rows.weight, offset), 1
    return Target(CLASSES, np.zeros(n), label, rows.weight, log_share), leaf.n_classes


def make_prior(rows: Rows, target: Target, n_summed: int, leaf_scale: float | None) -> Prior:
    """Priors of noise and leaf scale, set from the data as BART sets them.

    The noise variance is inverse gamma of 3 degrees of freedom, below that of a linear fit with
    probability 0.9.
    """
    scale = SPREAD[target.kind] / math.sqrt(n_summed)
    rate = 1.0
    if target.kind == NUMBERS:
        rate = linear_noise(rows) * chi2.ppf(1 - NOISE_LEVEL, NOISE_SHAPE) / 2
    return Prior(
        noise_shape=NOISE_SHAPE / 2,
        noise_rate=rate,
        scale=scale if leaf_scale is None else leaf_scale,
        freedom=SCALE_FREEDOM,
        fixed_scale=leaf_scale is not None,
        fixed_noise=False,
    )


def linear_noise(rows: Rows) -> float:
    """Residual variance of a ridge regression of the target on codes; 1 where rows are too few."""
    d = rows.codes.shape[1]
    if rows.weight.sum() < 2 * d + 10:
        return 1.0
    every = -(-len(rows.codes) // (LONGEST * max(d, 1)))  # equal rows are merged, so sorted
    some = slice(0, None, max(every, 1))
    codes = rows.codes[some].astype(np.float64)
    root = np.sqrt(rows.weight[some])[:, None]
    codes = (codes - codes.mean(axis=0)) / np.maximum(codes.std(axis=0), 1e-9)
    design = np.hstack([np.ones((len(codes), 1)), codes]) * root
    wanted = rows.target[some] * root[:, 0]
    gram = design.T @ design + 1e-3 * np.eye(d + 1)
    residual = wanted - design @ np.linalg.solve(gram, design.T @ wanted)
    freedom = rows.weight[some].sum() - d - 1
    return float(np.clip(residual @ residual / max(freedom, 1.0), 1e-6, 1.0))
