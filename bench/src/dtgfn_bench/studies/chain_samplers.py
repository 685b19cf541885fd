"""Chains over sums of trees, ours and others', with the CPU seconds at which each draw was made.

What they say of held-out rows is P(class) or a number's mean. Compiling is over before the clock
starts; predicting is not on it. Others that know two classes only get one run for each class
against the rest, and the clock runs for all of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, softmax

from dtgfn._support.arrays import Floats
from dtgfn.data.binning import encode
from dtgfn.data.tables import as_table
from dtgfn.data.thresholds import Binning
from dtgfn.engines.sums.chain import Draw, SumChain, make_workspace, stack, start_chain
from dtgfn.engines.sums.engine import compile_loops
from dtgfn.engines.sums.lines import LineTable
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.engines.sums.setup import make_setup
from dtgfn.engines.sums.sweep import NOISE
from dtgfn.inference.training_data import make_training_data
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.summed_trees import make_fast, sum_draws
from dtgfn_bench.studies.mixing_tables import ChainTable

CHAINS = 4
MOST_DRAWS = 500  # of a chain; more are thinned
DEPTH, THRESHOLDS = 5, 99


@dataclass(frozen=True)
class Traces:
    """What chains say.

    Attributes
    ----------
    said : float64 [chains, draws, m, K]
        Of m rows: P(class), or a number's mean (K = 1).
    clock : float64 [draws]
        CPU seconds of all chains together when each draw was made.
    noise : float64 [chains, draws]
        Standard deviation of the noise of numbers; empty for classes.
    splits : float64 [chains, draws]
        Splits of a tree on average; empty where nobody asks.

    """

    said: Floats
    clock: Floats
    noise: Floats
    splits: Floats = field(default_factory=lambda: np.empty(0))


Sampler = Callable[[ChainTable, float, int], Traces]


def sample_ours(
    table: ChainTable,
    seconds: float,
    seed: int,
    options: SumOptions | None = None,
    *,
    binning: Binning = "quantile",
    n_thresholds: int = THRESHOLDS,
    max_depth: int = DEPTH,
) -> Traces:
    """Run our chains in turn, a sweep each, until the time is over."""
    options = SumOptions(n_chains=CHAINS) if options is None else options
    leaf = DirichletLeaf(table.n_classes) if table.is_of_classes else NormalLeaf()
    data = make_training_data(
        as_table(table.X), table.y, leaf, binning=binning, n_thresholds=n_thresholds
    )
    assert isinstance(data.leaf, DirichletLeaf | NormalLeaf)
    compile_loops(data.rows, data.leaf, max_depth)
    column = data.binner.feature_column.astype(np.int32)
    begun = time.process_time()
    setup = make_setup(data.rows, data.leaf, max_depth, column, options)
    seeds = np.random.SeedSequence(seed).generate_state(options.n_chains)
    chains = [start_chain(setup, int(each)) for each in seeds]
    clock = run_ours(chains, seconds - (time.process_time() - begun))
    codes = encode(data.binner, as_table(table.X_new))
    noise = [[np.sqrt(draw.numbers[NOISE]) for draw in chain.draws] for chain in chains]
    sums = (
        np.stack([sums_of(chain.draws, setup.lines, codes) for chain in chains])
        + setup.target.offset
    )
    if isinstance(data.leaf, NormalLeaf):
        said = data.leaf.location + data.leaf.scale * sums
        splits = [[(draw.size.mean() - 1) / 2 for draw in chain.draws] for chain in chains]
        return Traces(said, clock, data.leaf.scale * np.array(noise), np.array(splits))
    if table.n_classes > 2:
        return Traces(softmax(sums, axis=3), clock, np.empty(0))
    return Traces(np.concatenate([expit(-sums), expit(sums)], axis=3), clock, np.empty(0))


def run_ours(chains: list[SumChain], seconds: float) -> Floats:
    """Sweep until the time is over; keep draws evenly, and return when each was made."""
    workspaces = [make_workspace(chain.setup) for chain in chains]
    clock: list[float] = []
    begun, interval, sweep = time.process_time(), 1, 0
    while (used := time.process_time() - begun) < seconds or not clock:
        sweep += 1
        for chain, work in zip(chains, workspaces, strict=True):
            chain.sweep(work)
        if sweep % interval:
            continue
        for chain in chains:
            chain.record()
        clock.append(used)
        if len(clock) == MOST_DRAWS:
            interval, clock = 2 * interval, clock[1::2]
            for chain in chains:
                chain.draws = chain.draws[1::2]
    return np.array(clock)


def sums_of(draws: list[Draw], lines: LineTable, codes: Any) -> Floats:
    """Sums [draws, m, S] of a chain's draws at rows of codes."""
    summed = stack(draws, lines)
    return np.swapaxes(sum_draws(make_fast(summed), summed, codes, 1), 0, 1)


# One run of one chain of somebody else: (target, sweeps, keep every, seed) -> what it says.
# Those that predict numbers, or the probability of one class.


def sample_stochtree(table: ChainTable, seconds: float, seed: int, **params: Any) -> Traces:
    """Run stochtree's chains one after the other; ``num_gfr`` sweeps that grow trees come first."""
    targets = targets_of(table)
    share = seconds / (CHAINS * len(targets))

    def fit(target: Floats, n_draws: int, every: int, seed: int) -> tuple[Any, float]:
        begun = time.process_time()
        model = fit_stochtree(table, target, n_draws, every, seed, **params)
        return model, time.process_time() - begun

    fit(targets[0], 1, 1, 0)
    start = fit(targets[0], 1, 1, 0)[1]
    cost = max(fit(targets[0], 41, 1, 0)[1] - start, 1e-4) / 40
    every = max(int(np.ceil((share - start) / cost / MOST_DRAWS)), 1)
    n_draws = max(int((share - start) / (cost * every)), 4)
    seeds = np.random.SeedSequence(seed).generate_state(CHAINS * len(targets)) % 2**31
    said, noise, splits, used = [], [], [], 0.0
    for k, each in enumerate(seeds):
        model, spent = fit(targets[k % len(targets)], n_draws, every, int(each))
        used += spent
        said.append(stochtree_says(model, table))
        if not table.is_of_classes:
            noise.append(np.sqrt(model.global_var_samples))
            splits.append(stochtree_splits(model))
    begun = start * len(seeds)
    clock = begun + (used - begun) * np.arange(1, n_draws + 1) / n_draws
    shape = CHAINS, len(targets), *said[0].shape
    said_of_all = join(np.array(said).reshape(shape), table)
    return Traces(said_of_all, clock, np.array(noise), np.array(splits))


def fit_stochtree(
    table: ChainTable,
    target: Floats,
    n_draws: int,
    every: int,
    seed: int,
    *,
    num_gfr: int,
    general: dict[str, Any] | None = None,
    trees: dict[str, Any] | None = None,
) -> Any:
    """One chain with its defaults."""
    from stochtree import BARTModel, OutcomeModel

    settings: dict[str, Any] = {"random_seed": seed, "num_threads": 1, "keep_every": every}
    if table.is_of_classes:
        settings["outcome_model"] = OutcomeModel(outcome="binary", link="probit")
        settings["sample_sigma2_global"] = False  # a probit's noise has variance one
    model = BARTModel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.sample(
            X_train=table.X,
            y_train=target,
            num_gfr=num_gfr,
            num_mcmc=n_draws,
            general_params={**settings, **(general or {})},
            mean_forest_params=trees or {},
        )
    return model


def stochtree_says(model: Any, table: ChainTable) -> Floats:
    """What a chain's draws say of the held-out rows [draws, m]."""
    scale = "probability" if table.is_of_classes else "linear"
    said = model.predict(table.X_new, type="posterior", terms="y_hat", scale=scale)
    return np.asarray(said, dtype=np.float64).reshape(len(table.X_new), -1).T


def stochtree_splits(model: Any) -> Floats:
    """Splits of a tree on average, in each draw."""
    draws = model.forest_container_mean
    leaves = [draws.num_forest_leaves(k) for k in range(draws.num_samples())]
    return np.array(leaves) / draws.num_trees - 1.0


def sample_bartz(table: ChainTable, seconds: float, seed: int) -> Traces:
    """Run bartz's chains, all at once."""
    mc_gbart = import_module("bartz.BART").mc_gbart

    targets = targets_of(table)
    X, X_new = table.X.astype(np.float32), table.X_new.astype(np.float32)

    def fit(target: Floats, every: int, seed: int) -> tuple[Any, float]:
        begun = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = mc_gbart(
                X,
                target.astype(np.float32),
                x_test=X_new,
                type="pbart" if table.is_of_classes else "wbart",
                ndpost=CHAINS * MOST_DRAWS,
                nskip=0,
                keepevery=every,
                mc_cores=CHAINS,
                printevery=None,
                seed=seed,
            )
            said = np.asarray(model.yhat_test, dtype=np.float64)
        return said, time.process_time() - begun

    fit(targets[0], 1, 0)
    cost = fit(targets[0], 1, 1)[1] * len(targets)
    every = max(int(seconds / cost), 1)
    runs = [fit(target, every, seed + 1000 * k) for k, target in enumerate(targets)]
    used = sum(spent for _, spent in runs)
    said = np.stack([each.reshape(CHAINS, MOST_DRAWS, -1) for each, _ in runs], axis=1)
    said = ndtr(said) if table.is_of_classes else said
    return Traces(join(said, table), used * np.arange(1, MOST_DRAWS + 1) / MOST_DRAWS, np.empty(0))


def targets_of(table: ChainTable) -> list[Floats]:
    """Numbers; one class of two; or each of many against the rest."""
    if not table.is_of_classes:
        return [table.y]
    which = [1] if table.n_classes == 2 else range(table.n_classes)
    return [(table.y == c).astype(np.float64) for c in which]


def join(said: Floats, table: ChainTable) -> Floats:
    """Runs [chains, targets, draws, m] as numbers or probabilities [chains, draws, m, K]."""
    said = np.moveaxis(said, 1, 3)
    if table.n_classes == 2:
        return np.concatenate([1 - said, said], axis=3)
    if table.is_of_classes:
        said = np.clip(said, 1e-12, 1.0)
        return np.asarray(said / said.sum(axis=3, keepdims=True))
    return said


def with_gfr(table: ChainTable, seconds: float, seed: int) -> Traces:
    """As stochtree starts by default, from trees grown from the root."""
    return sample_stochtree(table, seconds, seed, num_gfr=5)


def without_gfr(table: ChainTable, seconds: float, seed: int) -> Traces:
    """From trees without splits."""
    return sample_stochtree(table, seconds, seed, num_gfr=0)


def ours_without_lines(table: ChainTable, seconds: float, seed: int) -> Traces:
    """Ours, with trees alone as others have."""
    return sample_ours(table, seconds, seed, SumOptions(n_chains=CHAINS, lines=False))


def ours_of_200(table: ChainTable, seconds: float, seed: int) -> Traces:
    """Ours, with as many trees as others have by default."""
    return sample_ours(table, seconds, seed, SumOptions(n_chains=CHAINS, n_summed=200))


def ours_of_one_scale(table: ChainTable, seconds: float, seed: int) -> Traces:
    """Ours, trees alone, with a leaf scale that is not drawn: that of the prior."""
    spread, n_summed = (2.5, 50) if table.is_of_classes else (1.0, 100)
    scale = spread / n_summed**0.5
    fixed = SumOptions(n_chains=CHAINS, n_summed=n_summed, leaf_scale=scale, lines=False)
    return sample_ours(table, seconds, seed, fixed)


SAMPLERS: dict[str, Sampler] = {
    "ours": sample_ours,
    "ours, no lines": ours_without_lines,
    "ours, 200 trees": ours_of_200,
    "ours, fixed scale": ours_of_one_scale,
    "stochtree": without_gfr,
    "stochtree, GFR start": with_gfr,
    "bartz": sample_bartz,
}
