"""A whole sweep against the joint distribution of parameters and target (Geweke, 2004).

Parameters are drawn from the prior, and a target given them; sweeps given that target must leave
the distribution of all together as it is. Every error of a conditional shows as a drift.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit, softmax
from sum_twins import (
    Measure,
    Stepped,
    leaf_nodes,
    leaves,
    make_stepped,
    make_table,
    n_splits,
    write_tree,
)
from thoroughness import long_but

from dtgfn.engines.convergence import effective_draws
from dtgfn.engines.sums.lines import FREEDOM, make_lines
from dtgfn.engines.sums.scales import CLASSES, NUMBERS, Prior, Target
from dtgfn.engines.sums.sweep import NOISE, VARIANCE, Moves
from dtgfn.trees.score import BranchingPrior, Rows

CODES = np.array(
    [[0, 0, 1], [1, 0, 0], [2, 1, 0], [2, 1, 0], [0, 0, 1], [1, 1, 0], [3, 0, 1], [3, 0, 0]]
)
TABLE = make_table(CODES, [0, 1, 1], prior=BranchingPrior(0.8, 0.7), max_depth=2)
LINES = make_lines(
    Rows(CODES, np.zeros(len(CODES)), np.ones(len(CODES))), np.arange(3),
    np.array([True, False, False]), spread=4.0,
)  # fmt: skip
FAR = 4.5  # standard errors
KINDS = ("numbers", "two classes", "three classes")
OFFSET = {"numbers": [0.0], "two classes": [0.4], "three classes": [0.3, -0.4, 0.1]}


def inverse_gamma(shape: float, rate: float, rng: np.random.Generator) -> float:
    return float(rate / rng.gamma(shape))


class Drawn:
    """The joint distribution of forest, noise, scale and target, to draw from."""

    def __init__(self, kind: str, *, fixed: bool, n_summed: int, columns: float, seed: int) -> None:
        self.kind, self.fixed = kind, fixed
        n, offset = len(CODES), np.array(OFFSET[kind])
        target = Target(
            NUMBERS if kind == "numbers" else CLASSES,
            np.zeros(n),
            np.zeros(n, dtype=np.int32),
            np.ones(n),
            offset,
        )
        self.prior = Prior(
            noise_shape=4.0,
            noise_rate=3.0,
            scale=0.8,
            freedom=3.0,
            fixed_scale=fixed,
            fixed_noise=False,
        )
        self.chain: Stepped = make_stepped(
            TABLE,
            target,
            self.prior,
            moves=Moves(0.5, columns),
            n_sums=len(offset),
            n_summed=n_summed,
            seed=seed,
            lines=None if fixed else LINES,
        )
        self.rng = np.random.default_rng([seed, 1])
        measure = Measure(TABLE)
        self.trees, self.probability = measure.prior()
        width = self.chain.forest.feature.shape[2]
        self.shapes = [PlacedTree.of(measure, tree, width) for tree in self.trees]

    @property
    def target(self) -> Target:
        return self.chain.chain.setup.target

    def draw_parameters(self) -> None:
        """Forest, noise and scale from the prior."""
        forest, prior, rng = self.chain.forest, self.prior, self.rng
        variance = prior.scale**2
        if not self.fixed:  # a half-Cauchy scale, by its mixture
            variance = (prior.scale * rng.standard_t(prior.freedom)) ** 2
        forest.numbers[VARIANCE] = variance
        forest.numbers[NOISE] = 1.0
        if self.kind == "numbers":
            forest.numbers[NOISE] = inverse_gamma(prior.noise_shape, prior.noise_rate, rng)
        forest.fit[:] = 0.0
        forest.value[:] = 0.0
        chosen = rng.choice(len(self.shapes), size=forest.size.shape, p=self.probability)
        for (s, m), k in np.ndenumerate(chosen):
            shape = self.shapes[k]
            forest.size[s, m] = shape.size
            forest.feature[s, m], forest.cut[s, m] = shape.feature, shape.cut
            forest.left[s, m] = shape.left
            value = math.sqrt(variance) * rng.normal(size=len(shape.nodes))
            forest.value[s, m, shape.nodes] = value
            forest.fit[s] += value[shape.leaf]
        if not self.fixed:
            self.draw_slopes()

    def draw_slopes(self) -> None:
        """Lines from the horseshoe prior."""
        forest, rng = self.chain.forest, self.rng
        slope, scales, said = forest.lines
        scales[:, :-1] = rng.standard_cauchy(size=slope.shape) ** 2
        scales[:, -1] = (LINES.scale * rng.standard_t(FREEDOM, size=len(slope))) ** 2
        slope[:] = np.sqrt(scales[:, :-1] * scales[:, -1:]) * rng.normal(size=slope.shape)
        for s, of_feature in enumerate(slope):
            parts = zip(of_feature, LINES.score, LINES.feature, strict=True)
            said[s] = sum(value * score[CODES[:, f]] for value, score, f in parts)
        forest.fit[:] += said

    def draw_target(self) -> None:
        """A target given the parameters."""
        fit, target, rng = self.chain.forest.fit, self.target, self.rng
        if self.kind == "numbers":
            noise = self.chain.forest.numbers[NOISE]
            target.number[:] = fit[0] + math.sqrt(noise) * rng.normal(size=fit.shape[1])
        elif self.kind == "two classes":
            target.label[:] = rng.random(fit.shape[1]) < expit(target.offset[0] + fit[0])
        else:
            share = softmax(fit + target.offset[:, None], axis=0)
            target.label[:] = (rng.random(fit.shape[1]) > share.cumsum(axis=0)[:-1]).sum(axis=0)

    def look(self) -> np.ndarray:
        """Numbers that describe parameters and target, bounded where their means do not exist."""
        forest, target = self.chain.forest, self.target
        bounded: Callable[[np.ndarray], np.ndarray] = np.asarray if self.fixed else np.arcsinh
        fit = bounded(forest.fit[0])
        said = bounded(target.number) if self.kind == "numbers" else (target.label == 1) - 0.5
        splits = (forest.size[0] - 1) / 2
        root = forest.feature[0, :, 0]
        seen = [
            fit.mean(),
            (fit**2).mean(),
            fit[0] * fit[-1],
            fit[1] * fit[2],
            (fit * said).mean(),
            (fit**2 * said).mean(),
            splits.mean(),
            (splits**2).mean(),
            splits[0] * splits[-1],
            (splits == 0).mean(),
            (root == 0).mean(),
            (root == 1).mean(),
            splits.mean() * (fit**2).mean(),
        ]
        if self.kind == "numbers":
            log_noise = math.log(forest.numbers[NOISE])
            seen += [log_noise, log_noise**2, log_noise * (fit**2).mean()]
        if self.kind == "three classes":
            other = bounded(forest.fit[2])
            seen += [other.mean(), (other**2).mean(), (fit * other).mean(), (other * said).mean()]
        if not self.fixed:
            log_scale = 0.5 * math.log(forest.numbers[VARIANCE])
            seen += [log_scale, math.tanh(log_scale), abs(log_scale), log_scale * splits.mean()]
            slope, logs = np.arcsinh(forest.lines.slope[0]), np.log(forest.lines.scales[0])
            seen += [*slope**2, slope[0] * slope[1], *logs, *np.tanh(logs), logs[0] * logs[-1]]
            seen += [
                (slope[0] * said * LINES.score[0][CODES[:, 0]]).mean(),
                logs[0] * slope[0] ** 2,
            ]
        return np.array(seen)


@dataclass(frozen=True)
class PlacedTree:
    """A tree as a chain holds it, and the leaf that each row is in."""

    size: int
    feature: np.ndarray
    cut: np.ndarray
    left: np.ndarray
    nodes: list[int]
    leaf: np.ndarray

    @staticmethod
    def of(measure: Measure, tree: tuple, width: int) -> PlacedTree:
        feature, cut, left = (np.zeros(width, dtype=np.int32) for _ in range(3))
        size = write_tree(tree, feature, cut, left)
        leaf = np.zeros(len(measure.table.codes), dtype=int)
        for k, rows in enumerate(leaves(measure, tree)):
            leaf[list(rows)] = k
        assert size == 2 * n_splits(tree) + 1
        return PlacedTree(size, feature, cut, left, leaf_nodes(tree, left), leaf)


def drift(drawn: Drawn, n_starts: int, n_sweeps: int = 2) -> np.ndarray:
    """How far sweeps move each number on average, in standard errors."""
    change = []
    for _ in range(n_starts):
        drawn.draw_parameters()
        drawn.draw_target()
        before = drawn.look()
        for _ in range(n_sweeps):
            drawn.chain.sweep()
        change.append(drawn.look() - before)
    moved = np.array(change)
    assert (np.count_nonzero(moved, axis=0) > 0.05 * n_starts).all(), "something stands still"
    return np.asarray(moved.mean(axis=0) / (moved.std(axis=0) / math.sqrt(n_starts)))


@pytest.mark.parametrize("n_starts", long_but([1500], [1500, 60_000]))
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed scale", "drawn scale"])
@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_leave_the_joint_distribution_as_it_is(kind, fixed, n_starts):
    drawn = Drawn(kind, fixed=fixed, n_summed=2, columns=0.6, seed=n_starts)
    assert abs(drift(drawn, n_starts)).max() < FAR


@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_is_the_sum_of_the_leaves_again_after_each_sweep(kind):
    """What rounding leaves behind must not stay: stretched with the leaves, it would grow."""
    drawn = Drawn(kind, fixed=False, n_summed=3, columns=1.0, seed=3)
    drawn.draw_parameters()
    drawn.draw_target()
    forest = drawn.chain.forest
    for _ in range(50):
        forest.fit[:] += 1e-6
        drawn.chain.sweep()
        for s, fit in enumerate(forest.fit):
            total = sum(said_by(drawn.chain, s, m) for m in range(3)) + forest.lines.said[s]
            np.testing.assert_allclose(fit, total, rtol=1e-12, atol=1e-12)


def said_by(chain: Stepped, s: int, m: int) -> np.ndarray:
    """The value of each row's leaf [n] in one tree."""
    tree, said = chain.tree(s, m), np.empty(len(CODES))
    nodes = leaf_nodes(tree, chain.forest.left[s, m])
    for node, rows in zip(nodes, leaves(Measure(TABLE), tree), strict=True):
        said[list(rows)] = chain.forest.value[s, m, node]
    return said


@pytest.mark.long
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed scale", "drawn scale"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_long_chain_visits_the_prior(kind, fixed):
    """Sweeps with a new target between them: the chain's averages are those of the prior."""
    drawn = Drawn(kind, fixed=fixed, n_summed=3, columns=0.6, seed=7)
    wanted = []
    for _ in range(20_000):
        drawn.draw_parameters()
        drawn.draw_target()
        wanted.append(drawn.look())
    drawn.draw_parameters()
    visited = []
    for _ in range(100_000):
        drawn.draw_target()
        drawn.chain.sweep()
        visited.append(drawn.look())
    truth, trace = np.array(wanted), np.array(visited)
    size = np.array([effective_draws(column[None]) for column in trace.T])
    error = np.sqrt(truth.var(axis=0) * (1 / size + 1 / len(truth)))
    assert (abs(trace.mean(axis=0) - truth.mean(axis=0)) < FAR * error).all()
