"""Sweeps side by side, a level of all their trees at a time, over rows that are elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dtgfn._support.parallel import ChunkSize, Deadline
from dtgfn.engines.contract import Run
from dtgfn.engines.smc.engine import SmcOptions, make_streams
from dtgfn.engines.smc.histogram_nodes import HistogramNodes
from dtgfn.engines.smc.histograms import HistogramSource
from dtgfn.engines.smc.streams import Draws, collect_draws
from dtgfn.engines.smc.sweep import start_sweep
from dtgfn.trees.score import Score


def infer_levels(
    source: HistogramSource, score: Score, run: Run, options: SmcOptions, deadline: Deadline
) -> tuple[Draws, int]:
    """Sample trees as ``infer_smc`` does by level, asking for histograms once for each level.

    The same seed gives the same trees. When the deadline is over between two levels, trees end
    there: then they are draws of the posterior with that ``max_depth``. Return them, and the depth.
    """
    if options.n_sweeps is None:
        raise ValueError("n_sweeps=None runs until time_budget ends; give a number of sweeps here.")
    rng = np.random.default_rng(run.random_state)
    nodes = HistogramNodes(source, score)
    streams = make_streams(lambda _: nodes, rng, options, run.n_trees)
    sweeps = [
        start_sweep(nodes, options.n_particles, each.rng, ChunkSize(), deadline, never, True)
        for each in streams
    ]
    under_way = [sweep.chunks() for sweep in sweeps]
    for each in under_way:
        to_next_level(each)
    level = 0
    while level < score.max_depth and any((s.particles.depth == level).any() for s in sweeps):
        if level and deadline.is_over:
            for sweep in sweeps:
                if (sweep.particles.depth == level).any():  # others have finished
                    sweep.finish()
            break
        run.progress("sweeping", level / score.max_depth)
        nodes.fetch(level, [sweep.particles for sweep in sweeps])
        for each in under_way:
            to_next_level(each)
        level += 1
    else:
        level = score.max_depth
    for stream, sweep in zip(streams, sweeps, strict=True):
        stream.keep(sweep)
    draws = collect_draws(streams, run.n_trees, rng, nodes.table.feature, deadline.used)
    draws.diagnostics["nodes_counted"] = nodes.asked
    return draws, level


def never() -> bool:
    """Particles are not thinned out: a level costs what its rows cost."""
    return False


def to_next_level(chunks: Iterator[bool]) -> None:
    """Go on until a level begins, or all trees are finished."""
    for level_begins in chunks:
        if level_begins:
            return
