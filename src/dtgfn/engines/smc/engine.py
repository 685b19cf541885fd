"""The SMC engine: sweeps of particles that grow trees from the root, pooled by their evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtgfn._support.backends import advance_elsewhere
from dtgfn._support.budgets import Allowance
from dtgfn._support.checks import check_count, check_flag, check_integer
from dtgfn._support.memory import read_memory_budget
from dtgfn._support.parallel import Deadline, Flag, count_threads, run_round_robin
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run, check_table_memory
from dtgfn.engines.referee import judge_draws
from dtgfn.engines.smc.particles import Nodes
from dtgfn.engines.smc.row_nodes import RowNodes, make_workspace
from dtgfn.engines.smc.streams import Stream, collect_draws
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.node_terms import make_node_table, two_rows
from dtgfn.trees.score import Rows, Score

# Sweeps are dealt to so many streams, each with its own seed, whatever the number of threads.
N_STREAMS = 4
COPIES = 3  # of the codes, while equal rows are merged
PARTICLE_BYTES = 2000  # of a tree of some nodes
MOST_PARTICLES = 10_000_000


@dataclass(frozen=True)
class SmcOptions:
    """What only the particles are told.

    Attributes
    ----------
    n_particles : int
        Trees that grow side by side in a sweep.
    n_sweeps : int or None
        Independent sweeps; None is until the time is over.
    by_level : bool
        Whether particles wait for each other at the end of each level of their trees and are drawn
        anew there, as those of ``dtgfn.dask`` always do.
    memory_budget : int, str or None
        Bytes that it may take, or a text such as "2GB"; None for half of what is free.

    """

    n_particles: int = 1000
    n_sweeps: int | None = 20
    by_level: bool = False
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_budget", read_memory_budget(self.memory_budget))
        n_particles = check_integer("n_particles", self.n_particles, 1, MOST_PARTICLES)
        object.__setattr__(self, "n_particles", n_particles)
        if self.n_sweeps is not None:
            object.__setattr__(self, "n_sweeps", check_count("n_sweeps", self.n_sweeps))
        check_flag("by_level", self.by_level)


@dataclass(frozen=True)
class SmcEngine:
    """Sequential Monte Carlo: sweeps of top-down particles."""

    name: str = "smc"
    option_names: tuple[str, ...] = ("n_particles", "n_sweeps", "by_level", "memory_budget")
    side_by_side: bool = True
    fills_time: bool = False

    def read_options(self, given: Mapping[str, Any]) -> SmcOptions:
        """Make options of keywords."""
        return SmcOptions(**given)

    def infer(self, rows: Rows, score: Score, run: Run, options: SmcOptions) -> TreePosterior:
        """Infer the posterior over trees."""
        return infer_smc(rows, score, run, options)


ENGINE = SmcEngine()


def infer_smc(
    rows: Rows, score: Score, run: Run, options: SmcOptions | None = None
) -> TreePosterior:
    """Sample trees from R^(1/temperature) by independent sweeps of top-down particles.

    Where the time is too short for one sweep, its particles are thinned out on the way
    (``diagnostics["thinned_to"]`` tells how many were left), and where not even one particle
    finishes its tree, there is no answer but ``BudgetExceeded``. Each sweep estimates the evidence
    without bias; ``log_evidence`` is the log of their mean, its error comes from their spread (nan
    for one sweep). All particles, weighted by the evidence of their sweep, are resampled.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : SmcOptions or None
        Number and size of the sweeps; with the time, whichever ends first.

    Returns
    -------
    TreePosterior
        Trees of equal weight.

    """
    options = SmcOptions() if options is None else options
    n_trees = check_count("n_trees", run.n_trees)
    if options.n_sweeps is None and run.time_budget is None:
        raise ValueError("n_sweeps=None runs until time_budget ends; give one of them.")
    run.progress(PREPARING, 0.0)
    compile_loops(rows, score)
    run.progress(PREPARING, 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    allowance, deadline = Allowance(run.time_budget), Deadline(run.time_budget)
    # The rows in several orders while they are merged, each stream's, and the particles.
    needed = COPIES * rows.codes.nbytes + 8.0 * len(rows.target) * (N_STREAMS + COPIES)
    needed += PARTICLE_BYTES * N_STREAMS * options.n_particles
    check_table_memory("SMC", needed, options.memory_budget)
    table = make_node_table(rows, score)
    rng = np.random.default_rng(run.random_state)
    streams = make_streams(
        lambda halted: RowNodes(table, make_workspace(table, halted)), rng, options, n_trees
    )
    run_streams(streams, options.n_sweeps, deadline, run)
    draws = collect_draws(streams, n_trees, rng, table.feature, deadline.used)
    given = (draws.trees, draws.log_reward, rows, score, run, draws.n_effective)
    ruling = judge_draws(*given, seconds=allowance.last_word())
    return draws.as_posterior(rows, score, run, ruling)


def make_streams(
    make_nodes: Callable[[Flag], Nodes],
    rng: np.random.Generator,
    options: SmcOptions,
    n_trees: int,
) -> list[Stream]:
    """Return streams before their first sweep, each with its own seed.

    By level, every sweep is a stream, so that all of them can be asked for at once.
    """
    alone = options.n_sweeps if options.by_level else None
    most = max(2 * options.n_particles, n_trees)
    return [
        Stream(make_nodes, np.random.default_rng(seed), options.n_particles, most, options.by_level)
        for seed in rng.integers(0, 2**63, size=alone or N_STREAMS)
    ]


def compile_loops(rows: Rows, score: Score) -> None:
    """Run a sweep on two rows, so that all loops are compiled."""
    table = make_node_table(two_rows(rows), score)
    nodes = RowNodes(table, make_workspace(table, Deadline(None).halted))
    stream = Stream(lambda _: nodes, np.random.default_rng(0), 1, 1)
    for _ in stream.chunks(1, Deadline(None)):
        pass


def run_streams(streams: list[Stream], n_sweeps: int | None, deadline: Deadline, run: Run) -> None:
    """Let all streams make their sweeps, until the deadline is over."""

    def show_progress() -> None:
        by_sweeps = sum(len(stream.log_z) for stream in streams) / (n_sweeps or math.inf)
        run.progress("sweeping", min(max(deadline.share, by_sweeps), 1.0))

    def enough() -> bool:
        return any(stream.has_answer for stream in streams)

    shares: list[int | None] = [None] * len(streams)
    if n_sweeps is not None:
        shares = [len(part) for part in np.array_split(np.arange(n_sweeps), len(streams))]
    for stream, share in zip(streams, shares, strict=True):
        stream.share = share
    if not advance_elsewhere(streams, to_the_end, deadline, run.n_jobs):
        run_round_robin(
            [stream.chunks(stream.share, deadline, lambda: not enough()) for stream in streams],
            n_jobs=count_threads(run.n_jobs),
            deadline=deadline,
            enough=enough,
            on_progress=show_progress,
        )
    if not enough():
        raise BudgetExceeded(
            f"SMC could not finish a single tree within time_budget={deadline.seconds:g} s; allow "
            "more, or use fewer n_thresholds, a smaller max_depth, fewer rows or fewer columns."
        )


def to_the_end(stream: Stream, deadline: Deadline) -> Iterator[bool]:
    """All sweeps of a stream that nobody else has anything to show for."""
    return stream.chunks(stream.share, deadline, lambda: not stream.has_answer)
