"""The engine of sums of trees: chains that draw every tree from its conditional posterior.

f(x) = sum of M small trees; a leaf's value is Normal(0, scale^2), and scale is drawn too. The
target is normal given one precision per row (``sweep.py``), so that, given all others, a tree sees
residuals, and what it would be worth is known in closed form (``node_choice.py``). A whole tree, or
a whole subtree, is proposed by look-ahead and accepted so that the chain is exact
(``tree_draw.py``): most proposals are, where BART grows and prunes one split at a time.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy.special import softmax
from scipy.stats import chi2

from dtgfn._support.arrays import Floats, Int32s
from dtgfn._support.json_values import none_if_nan
from dtgfn._support.memory import available_memory, gigabytes
from dtgfn._support.parallel import Deadline, count_threads, run_round_robin
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run
from dtgfn.engines.convergence import effective_draws, split_r_hat
from dtgfn.engines.sums.chain import (
    Draw,
    Setup,
    SumChain,
    likely_active,
    memory_of,
    start_chain,
)
from dtgfn.engines.sums.node_choice import SumTable
from dtgfn.engines.sums.settings import SumOptions
from dtgfn.engines.sums.sweep import CLASSES, NOISE, NUMBERS, VARIANCE, Moves, Prior, Target
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import BranchingPrior, Rows
from dtgfn.trees.summed_trees import SummedTrees, stack_draws

WARM_UP = 1 / 3  # of a chain that is not kept
TWIGS = 0.5  # of the proposals that are of a subtree
FEW_COLUMNS = 8  # that a proposal looks at, at least
MOST_COLUMNS = 48  # and, on average, at most
NOISE_SHAPE, NOISE_LEVEL = 3.0, 0.9  # BART's: so firm, P(noise < that of a linear fit)
SPREAD = {NUMBERS: 1.0, CLASSES: 2.5}  # prior scale of all leaves of a row together
SCALE_FREEDOM = 3.0  # of the half-t prior of the leaf scale
LONGEST = 1e3  # rows per column where a linear fit says nothing
HISTORY = 40
REPORT_EVERY = 1.0  # seconds between looks at how chains agree


def infer_sums(
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    max_depth: int,
    run: Run,
    options: SumOptions | None = None,
) -> SumPosterior:
    """Sample sums of trees from their posterior by chains.

    Parameters
    ----------
    rows : Rows
        Coded training rows; targets are classes 0..C-1, or numbers in units of ``leaf``.
    leaf : DirichletLeaf or NormalLeaf
        What is predicted: how many classes, or numbers of which location and scale.
    max_depth : int
        Edges on the longest path of a tree.
    run : Run
        Columns, seed, time, threads; ``n_trees`` is not used.
    options : SumOptions or None
        Number of trees, chains, sweeps and draws, and the prior.

    Returns
    -------
    SumPosterior
        ``diagnostics`` tells whether the chains agree.

    """
    options = SumOptions() if options is None else options
    if options.n_sweeps is None and run.time_budget is None:
        raise ValueError("n_sweeps=None runs until time_budget ends; give one of them.")
    run.progress(PREPARING, 0.0)
    compile_loops(rows, leaf, max_depth, options)
    run.progress(PREPARING, 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    deadline = Deadline(run.time_budget)
    setup = make_setup(rows, leaf, max_depth, run.column, options)
    check_memory(setup, options)
    rng = np.random.default_rng(run.random_state)
    seeds = rng.integers(0, 2**63, size=options.n_chains)
    chains = [start_chain(setup, int(seed)) for seed in seeds]
    stopped = run_chains(chains, options.n_sweeps, deadline, run)
    return collect(chains, rows, leaf, run, options, deadline.used, stopped)


def make_setup(
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    max_depth: int,
    column: Int32s,
    options: SumOptions,
) -> Setup:
    """Lay out what all chains share; features that do not vary are left out of no tree's reach."""
    n_codes = rows.codes.max(axis=0, initial=0).astype(np.int32) + 1
    narrow = np.uint8 if n_codes.max(initial=1) <= 256 else np.uint16
    varying = (rows.codes != rows.codes[:1]).any(axis=0)
    present, per_column = np.unique(column[varying], return_counts=True)
    log_stop, log_split = BranchingPrior(*options.tree_prior).node_terms(max_depth)
    # A column is as probable as any other, and so is each of its features.
    width = np.ones(int(column.max(initial=0)) + 1)
    width[present] = per_column
    log_feature = np.where(
        varying, -math.log(max(len(present), 1)) - np.log(width[column]), -np.inf
    )
    table = SumTable(
        codes=np.ascontiguousarray(rows.codes.astype(narrow)),
        n_codes=n_codes,
        column=column.astype(np.int32),
        log_feature=log_feature,
        log_stop=log_stop,
        log_split=log_split,
        uniform_cuts=True,
        max_depth=max_depth,
    )
    target, n_sums = make_target(rows, leaf)
    share = column_share(len(present))
    return Setup(
        table=table,
        target=target,
        prior=make_prior(rows, target, options),
        moves=Moves(TWIGS, share),
        n_sums=n_sums,
        n_summed=options.n_summed,
        most_active=max(likely_active(np.bincount(column), share), 1),
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


def make_prior(rows: Rows, target: Target, options: SumOptions) -> Prior:
    """Priors of noise and leaf scale, set from the data as BART sets them.

    The noise variance is inverse gamma of 3 degrees of freedom, below that of a linear fit with
    probability 0.9.
    """
    scale = SPREAD[target.kind] / math.sqrt(options.n_summed)
    rate = 1.0
    if target.kind == NUMBERS:
        rate = linear_noise(rows) * chi2.ppf(1 - NOISE_LEVEL, NOISE_SHAPE) / 2
    return Prior(
        noise_shape=NOISE_SHAPE / 2,
        noise_rate=rate,
        scale=scale if options.leaf_scale is None else options.leaf_scale,
        freedom=SCALE_FREEDOM,
        fixed_scale=options.leaf_scale is not None,
        fixed_noise=False,
    )


def linear_noise(rows: Rows) -> float:
    """Residual variance of a ridge regression of the target on codes; 1 where rows are too few."""
    d = rows.codes.shape[1]
    if rows.weight.sum() < 2 * d + 10:
        return 1.0
    codes = rows.codes[: int(LONGEST) * d].astype(np.float64)
    some = slice(0, len(codes))
    root = np.sqrt(rows.weight[some])[:, None]
    codes = (codes - codes.mean(axis=0)) / np.maximum(codes.std(axis=0), 1e-9)
    design = np.hstack([np.ones((len(codes), 1)), codes]) * root
    wanted = rows.target[some] * root[:, 0]
    gram = design.T @ design + 1e-3 * np.eye(d + 1)
    residual = wanted - design @ np.linalg.solve(gram, design.T @ wanted)
    freedom = rows.weight[some].sum() - d - 1
    return float(np.clip(residual @ residual / max(freedom, 1.0), 1e-6, 1.0))


def check_memory(setup: Setup, options: SumOptions) -> None:
    """Refuse what does not fit."""
    free = options.memory_budget or available_memory() / 2
    needed = memory_of(setup, options.n_chains)
    if needed > free:
        raise BudgetExceeded(
            f"{options.n_chains} chains over {setup.n_rows} rows need about {gigabytes(needed)}, "
            f"more than memory_budget allows ({gigabytes(free)}); use fewer n_chains, n_summed or "
            "n_thresholds, or allow more."
        )


def compile_loops(
    rows: Rows, leaf: DirichletLeaf | NormalLeaf, max_depth: int, options: SumOptions
) -> None:
    """Make a sweep on two rows, so that all loops are compiled."""
    codes = np.zeros((2, 1), dtype=np.uint16)
    codes[1] = min(int(rows.codes.max(initial=1)), 300)  # as wide as the table's
    few = Rows(codes, rows.target[[0, -1]], np.ones(2))
    small = SumOptions(n_summed=1, n_chains=1)
    setup = make_setup(few, leaf, max_depth, np.zeros(1, dtype=np.int32), small)
    for _ in start_chain(setup, 0).chunks(1, Deadline(None).halted):
        pass


def run_chains(chains: list[SumChain], n_sweeps: int | None, deadline: Deadline, run: Run) -> str:
    """Let all chains make their sweeps until the deadline is over; tell what ended them."""
    looked = time.monotonic()
    detail = ""

    def show_progress() -> None:
        nonlocal looked, detail
        by_sweeps = sum(chain.sweeps for chain in chains) / (len(chains) * (n_sweeps or math.inf))
        if time.monotonic() - looked > REPORT_EVERY:
            looked, detail = time.monotonic(), tell_agreement(chains)
        run.progress("drawing sums", min(max(deadline.share, by_sweeps), 1.0), detail)

    try:
        run_round_robin(
            [chain.chunks(n_sweeps, deadline.halted) for chain in chains],
            n_jobs=count_threads(run.n_jobs),
            deadline=deadline,
            enough=lambda: all(chain.draws for chain in chains),
            on_progress=show_progress,
        )
    except KeyboardInterrupt:
        if not any(chain.draws for chain in chains):
            raise
        return "interrupted"
    if not any(chain.draws for chain in chains):
        raise BudgetExceeded(
            f"Sums of trees could not make a single sweep within time_budget={deadline.seconds:g} "
            "s; allow more, or use fewer n_summed, rows or columns."
        )
    finished = n_sweeps is not None and all(chain.sweeps >= n_sweeps for chain in chains)
    return "all sweeps were made" if finished else "time_budget"


def tell_agreement(chains: list[SumChain]) -> str:
    """How the chains are doing, in a few words."""
    counts = np.sum([chain.forest.counts for chain in chains], axis=0)
    text = f"acceptance {counts[:, 1].sum() / max(counts[:, 0].sum(), 1):.2f}"
    trace = watched_trace(chains)
    if trace.shape[1] >= 8:
        text += f", R-hat {np.nanmax([split_r_hat(t) for t in np.moveaxis(trace, 2, 0)]):.2f}"
    return text


def watched_trace(chains: list[SumChain]) -> Floats:
    """What is said of the watched rows [chains, draws, S x W], where all chains have draws."""
    kept = [list(chain.kept(WARM_UP)) for chain in chains if chain.draws]
    n_draws = min(len(draws) for draws in kept) if kept else 0
    if not n_draws:
        return np.zeros((len(chains), 0, 1))
    trace = np.array([[draw.watched for draw in draws[-n_draws:]] for draws in kept])
    if trace.shape[2] > 1:  # of many classes only what they say together is known
        trace = softmax(trace + chains[0].setup.target.offset[:, None], axis=2)
    return trace.reshape(*trace.shape[:2], -1)


def collect(
    chains: list[SumChain],
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    run: Run,
    options: SumOptions,
    seconds: float,
    stopped: str,
) -> SumPosterior:
    """Take draws evenly from all chains and tell how the chains went."""
    chains = [chain for chain in chains if chain.draws]
    quota = -(-options.n_draws // len(chains))
    picked: list[Draw] = []
    member: list[int] = []
    for number, chain in enumerate(chains):
        kept = chain.kept(WARM_UP)
        index = np.unique(np.linspace(0, len(kept) - 1, quota).round().astype(int))
        picked += [kept[k] for k in index]
        member += [number] * len(index)
    numbers = np.stack([draw.numbers for draw in picked])
    return SumPosterior(
        summed=stack(picked),
        chain=np.array(member, dtype=np.int32),
        noise=numbers[:, NOISE] if isinstance(leaf, NormalLeaf) else np.empty(0),
        leaf_scale=np.sqrt(numbers[:, VARIANCE]),
        offset=chains[0].setup.target.offset,
        leaf=leaf,
        rows=rows,
        column=run.column,
        n_columns=run.n_columns,
        diagnostics=diagnose(chains, seconds, stopped),
        history=make_history(chains),
    )


def stack(draws: list[Draw]) -> SummedTrees:
    """Put draws of trees of different sizes together."""
    width = max(draw.feature.shape[2] for draw in draws)

    def padded(name: str, fill: float) -> Any:
        arrays = [getattr(draw, name) for draw in draws]
        room = [(0, 0), (0, 0)]
        return np.stack(
            [
                np.pad(array, [*room, (0, width - array.shape[2])], constant_values=fill)
                for array in arrays
            ]
        )

    size = np.stack([draw.size for draw in draws])
    return stack_draws(
        size, padded("feature", -1), padded("cut", 0), padded("left", -1), padded("value", 0.0)
    )


def diagnose(chains: list[SumChain], seconds: float, stopped: str) -> dict[str, Any]:
    """Acceptance, and whether the chains agree on what they say of the watched rows."""
    counts = np.sum([chain.forest.counts for chain in chains], axis=0)
    trace = watched_trace(chains)
    each = np.moveaxis(trace, 2, 0)
    enough = trace.shape[1] >= 4
    r_hat = np.array([split_r_hat(t) for t in each]) if enough else np.array([math.nan])
    ess = np.array([effective_draws(t) for t in each]) if enough else np.array([math.nan])
    return {
        "acceptance": {
            name: float(taken / proposed) if proposed else 0.0
            for name, (proposed, taken) in zip(("tree", "twig"), counts, strict=True)
        },
        "sweeps_per_chain": [chain.sweeps for chain in chains],
        "r_hat_mean": _known(np.nanmean, r_hat),
        "r_hat_largest": _known(np.nanmax, r_hat),
        "ess_mean": _known(np.nanmean, ess),
        "ess_smallest": _known(np.nanmin, ess),
        "recorded_draws": int(trace.shape[0] * trace.shape[1]),
        "stopped_because": stopped,
        "seconds": seconds,
    }


def _known(summary: Any, values: Floats) -> float | None:
    return None if np.isnan(values).all() else none_if_nan(float(summary(values)))


def make_history(chains: list[SumChain]) -> list[dict[str, Any]]:
    """Noise, leaf scale and size of the trees in each part of the run, over all chains."""
    shortest = min(len(chain.draws) for chain in chains)
    interval = chains[0].interval
    history = []
    for k in np.unique(np.linspace(0, shortest - 1, HISTORY).round().astype(int)):
        draws = [chain.draws[k] for chain in chains]
        history.append(
            {
                "sweep": int((k + 1) * interval),
                "noise": float(np.mean([math.sqrt(draw.numbers[NOISE]) for draw in draws])),
                "leaf_scale": float(np.mean([math.sqrt(draw.numbers[VARIANCE]) for draw in draws])),
                "mean_splits": float(np.mean([(draw.size.mean() - 1) / 2 for draw in draws])),
            }
        )
    return history
