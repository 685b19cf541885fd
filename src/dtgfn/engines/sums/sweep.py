"""One sweep of a chain over sums of trees: every tree anew, given the others; then noise and scale.

Three kinds of target, each normal given one precision per row:

- numbers: y_i ~ Normal(f(x_i), noise), weight_i rows of it;
- two classes: P(1 | x) = 1 / (1 + exp(-offset - f(x))), with Polya-gamma precisions;
- C classes: softmax of offset_c + f_c(x), a sum for each class, drawn in turn: given the others,
  f_c is a logistic regression against log sum_{j != c} exp(offset_j + f_j) (Holmes, Held 2006).

The leaf scale has a half-t prior and is drawn given the leaves. Where classes are nearly apart, it
and all leaves grow or shrink together slowly that way; so they are also stretched at once, which
is accepted by the likelihood itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Floats, Int32s, Int64s
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.sums.node_choice import PRECISION, PULL, SumTable
from dtgfn.engines.sums.polya_gamma import draw_polya_gamma
from dtgfn.engines.sums.tree_draw import LEAF, GrownTree, Scratch, locate_rows, redraw_tree

NUMBERS, CLASSES = 0, 1
SMALL_STRETCH, LARGE_STRETCH = 0.05, 0.3  # of the logarithm
SCALE_STEPS = 10
NOISE, VARIANCE = 0, 1  # noise variance, leaf scale^2


class Target(NamedTuple):
    """What is summed up to: numbers, standardised, or classes."""

    kind: int
    number: Floats  # [n] of numbers
    label: Int32s  # [n] of classes
    weight: Floats  # [n]
    offset: Floats  # [S] log odds without any tree


class Prior(NamedTuple):
    """Of the noise, InverseGamma(shape, rate), and of the leaf scale, half-t(freedom, scale)."""

    noise_shape: float
    noise_rate: float
    scale: float
    freedom: float
    fixed_scale: bool
    fixed_noise: bool


class Forest(NamedTuple):
    """S sums of M trees of at most N nodes, and what goes with them; the state of a chain."""

    size: Int32s  # [S, M]
    feature: Int32s  # [S, M, N]
    cut: Int32s  # [S, M, N]
    left: Int32s  # [S, M, N]
    value: Floats  # [S, M, N]
    fit: Floats  # [S, n]
    numbers: Floats  # [2] NOISE, VARIANCE
    counts: Int64s  # [2, 2] proposals and acceptances of trees and twigs


class RowState(NamedTuple):
    """Per row: precision, precision x what a sum should be, and x what one tree should be.

    ``others`` is what the sum's other trees say; ``total`` what those drawn so far say, added up.
    """

    precision: Floats
    linear: Floats
    pull: Floats
    others: Floats
    total: Floats


@njit(**INNER)
def set_numbers(forest: Forest, target: Target, rows: RowState) -> None:
    """Precisions of numbers."""
    noise = forest.numbers[NOISE]
    for i in range(target.weight.shape[0]):
        rows.precision[i] = target.weight[i] / noise
        rows.linear[i] = rows.precision[i] * target.number[i]


@njit(**INNER)
def set_class(
    forest: Forest, target: Target, s: int, rows: RowState, rng: np.random.Generator
) -> None:
    """Polya-gamma precisions of class s against all others."""
    n_sums = forest.fit.shape[0]
    yes = 1 if n_sums == 1 else s
    for i in range(target.weight.shape[0]):
        # what f_s + offset_s is compared with
        others = 0.0
        if n_sums > 1:
            top = -np.inf
            for c in range(n_sums):
                if c != s:
                    top = max(top, target.offset[c] + forest.fit[c, i])
            for c in range(n_sums):
                if c != s:
                    others += math.exp(target.offset[c] + forest.fit[c, i] - top)
            others = math.log(others) + top
        base = target.offset[s] - others
        weight = target.weight[i]
        precision = draw_polya_gamma(weight, base + forest.fit[s, i], rng)
        side = 0.5 if target.label[i] == yes else -0.5
        rows.precision[i] = precision
        rows.linear[i] = weight * side - precision * base


@njit(**INNER)
def load_tree(forest: Forest, s: int, m: int, tree: GrownTree) -> None:
    """Copy a tree into the working memory."""
    size = forest.size[s, m]
    tree.size[0] = size
    for node in range(size):
        tree.feature[node] = forest.feature[s, m, node]
        tree.cut[node] = forest.cut[s, m, node]
        tree.left[node] = forest.left[s, m, node]


@njit(**INNER)
def store_tree(
    tree: GrownTree, forest: Forest, s: int, m: int, rows: RowState, rng: np.random.Generator
) -> None:
    """Copy a tree back, draw the values of its leaves and add them to the fit.

    The last tree makes the fit the sum of all leaves: what rounding left behind would stay for
    ever, and stretching the leaves would let it grow.
    """
    variance = forest.numbers[VARIANCE]
    forest.size[s, m] = tree.size[0]
    for node in range(tree.size[0]):
        forest.feature[s, m, node] = tree.feature[node]
        forest.cut[s, m, node] = tree.cut[node]
        forest.left[s, m, node] = tree.left[node]
        forest.value[s, m, node] = 0.0
        if tree.feature[node] != LEAF:
            continue
        spread = 1.0 + variance * tree.sums[node, PRECISION]
        mean = variance * tree.sums[node, PULL] / spread
        value = mean + math.sqrt(variance / spread) * rng.standard_normal()
        forest.value[s, m, node] = value
        for r in range(tree.begin[node], tree.end[node]):
            row = tree.order[r]
            forest.fit[s, row] = rows.others[row] + value
            rows.total[row] = value if m == 0 else rows.total[row] + value
    if m == forest.size.shape[1] - 1:
        for i in range(rows.total.shape[0]):
            forest.fit[s, i] = rows.total[i]


class Moves(NamedTuple):
    """How trees are proposed: share of twigs, and of the columns that a proposal looks at."""

    twigs: float
    columns: float


class Workspace(NamedTuple):
    """Memory that a chain works in; nothing in it outlasts the drawing of one sum."""

    rows: RowState
    tree: GrownTree
    fresh: GrownTree
    scratch: Scratch


@njit(**INNER)
def update_tree(
    forest: Forest,
    s: int,
    m: int,
    moves: Moves,
    table: SumTable,
    work: Workspace,
    rng: np.random.Generator,
) -> None:
    """Draw tree m of sum s anew, given all others."""
    rows, tree = work.rows, work.tree
    load_tree(forest, s, m, tree)
    locate_rows(tree, table)
    fit = forest.fit[s]
    for node in range(tree.size[0]):
        if tree.feature[node] == LEAF:
            value = forest.value[s, m, node]
            for r in range(tree.begin[node], tree.end[node]):
                row = tree.order[r]
                rows.others[row] = fit[row] - value
    for i in range(fit.shape[0]):
        rows.pull[i] = rows.linear[i] - rows.precision[i] * rows.others[i]
    twig = rng.random() < moves.twigs
    taken = redraw_tree(
        tree, work.fresh, twig, moves.columns, forest.numbers[VARIANCE],
        rows.precision, rows.pull, table, work.scratch, rng,
    )  # fmt: skip
    forest.counts[int(twig), 0] += 1
    forest.counts[int(twig), 1] += int(taken)
    store_tree(work.fresh if taken else tree, forest, s, m, rows, rng)


@njit(cache=True, nogil=True)
def log_likelihood(forest: Forest, target: Target, stretch: float) -> float:
    """Log likelihood of all rows if every leaf were ``stretch`` times as large."""
    n_sums, n = forest.fit.shape
    value = 0.0
    if target.kind == NUMBERS:
        for i in range(n):
            value += target.weight[i] * (target.number[i] - stretch * forest.fit[0, i]) ** 2
        return -0.5 * value / forest.numbers[NOISE]
    for i in range(n):
        if n_sums == 1:
            margin = target.offset[0] + stretch * forest.fit[0, i]
            margin = margin if target.label[i] == 1 else -margin
            loss = math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)
        else:
            top, total = -np.inf, 0.0
            for s in range(n_sums):
                top = max(top, target.offset[s] + stretch * forest.fit[s, i])
            for s in range(n_sums):
                total += math.exp(target.offset[s] + stretch * forest.fit[s, i] - top)
            own = target.label[i]
            loss = math.log(total) + top - target.offset[own] - stretch * forest.fit[own, i]
        value -= target.weight[i] * loss
    return value


@njit(**INNER)
def log_scale_prior(variance: float, prior: Prior) -> float:
    """Log density of the leaf scale's logarithm, up to a constant: half-t, and its volume."""
    freedom = prior.freedom
    ratio = variance / (freedom * prior.scale**2)
    return 0.5 * math.log(variance) - 0.5 * (freedom + 1.0) * math.log1p(ratio)


@njit(**INNER)
def stretch_leaves(
    forest: Forest, target: Target, prior: Prior, step: float, rng: np.random.Generator
) -> None:
    """Propose to multiply the leaf scale and every leaf by one factor, exp(Normal(0, step^2)).

    The leaves' prior and the change of their volume cancel.
    """
    if prior.fixed_scale:
        return
    factor = math.exp(step * rng.standard_normal())
    numbers = forest.numbers
    gain = log_likelihood(forest, target, factor) - log_likelihood(forest, target, 1.0)
    gain += log_scale_prior(numbers[VARIANCE] * factor * factor, prior)
    gain -= log_scale_prior(numbers[VARIANCE], prior)
    if math.log(max(rng.random(), 1e-300)) < gain:
        numbers[VARIANCE] *= factor * factor
        # loops: whole arrays take seconds to compile
        for s in range(forest.fit.shape[0]):
            for i in range(forest.fit.shape[1]):
                forest.fit[s, i] *= factor
            for m in range(forest.size.shape[1]):
                for node in range(forest.value.shape[2]):
                    forest.value[s, m, node] *= factor


@njit(**INNER)
def draw_scale(forest: Forest, prior: Prior, rng: np.random.Generator) -> None:
    """Move the leaf scale given all leaves, by a random walk of its logarithm."""
    if prior.fixed_scale:
        return
    squares, count = 0.0, 0
    for s in range(forest.size.shape[0]):
        for m in range(forest.size.shape[1]):
            for node in range(forest.size[s, m]):
                if forest.feature[s, m, node] == LEAF:
                    squares += forest.value[s, m, node] ** 2
                    count += 1
    variance = forest.numbers[VARIANCE]
    step = 2.4 / math.sqrt(2.0 * count)  # given the leaves, the deviation is 1 / sqrt(2 count)
    for _ in range(SCALE_STEPS):
        proposed = variance * math.exp(2.0 * step * rng.standard_normal())
        gain = -0.5 * count * math.log(proposed / variance)
        gain -= 0.5 * squares * (1.0 / proposed - 1.0 / variance)
        gain += log_scale_prior(proposed, prior) - log_scale_prior(variance, prior)
        if math.log(max(rng.random(), 1e-300)) < gain:
            variance = proposed
    forest.numbers[VARIANCE] = variance


@njit(**INNER)
def draw_noise(forest: Forest, target: Target, prior: Prior, rng: np.random.Generator) -> None:
    """Draw the noise variance given the fit."""
    if prior.fixed_noise:
        return
    squares = mass = 0.0
    for i in range(target.number.shape[0]):
        squares += target.weight[i] * (target.number[i] - forest.fit[0, i]) ** 2
        mass += target.weight[i]
    rate = prior.noise_rate + 0.5 * squares
    forest.numbers[NOISE] = rate / rng.standard_gamma(prior.noise_shape + 0.5 * mass)


@njit(cache=True, nogil=True)
def advance(
    forest: Forest,
    position: Int64s,
    n_trees: int,
    target: Target,
    prior: Prior,
    moves: Moves,
    table: SumTable,
    work: Workspace,
    rng: np.random.Generator,
) -> None:
    """Draw the next ``n_trees`` trees, fewer if a sweep ends before.

    ``position`` [3] is the sum and the tree that come next, and the number of sweeps done.
    """
    n_sums, n_summed = forest.size.shape
    for _ in range(n_trees):
        s, m = position[0], position[1]
        if m == 0:
            if target.kind == NUMBERS:
                set_numbers(forest, target, work.rows)
            else:
                set_class(forest, target, s, work.rows, rng)
        update_tree(forest, s, m, moves, table, work, rng)
        position[1] += 1
        if position[1] < n_summed:
            continue
        position[0], position[1] = s + 1, 0
        if position[0] < n_sums:
            continue
        position[0] = 0
        position[2] += 1
        if target.kind == NUMBERS:
            draw_noise(forest, target, prior, rng)
        stretch_leaves(forest, target, prior, SMALL_STRETCH, rng)
        stretch_leaves(forest, target, prior, LARGE_STRETCH, rng)
        draw_scale(forest, prior, rng)
        return
