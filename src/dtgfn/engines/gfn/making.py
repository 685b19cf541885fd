"""Samplers made for rows and settings, and what they run compiled before a clock starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from dtgfn._support.parallel import Threads
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import Settings
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph, limits_for
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.trees.node_terms import two_rows
from dtgfn.trees.score import Rows, Score

FEW_ROWS = 20
FEW_CUTS = 2


@dataclass(frozen=True)
class Maker:
    """Makes untrained samplers as settings describe them, within ``memory`` bytes."""

    score: Score
    run: Run
    settings: Settings
    n_jobs: int
    memory: float

    def problem(self, rows: Rows) -> Problem | None:
        """Rows as the fixed order wants them; the free order takes them as they are."""
        if self.settings.leaf_order == "free":
            return None
        return make_problem(rows, self.score, self.run.column, self.run.n_columns)

    def sampler(
        self, rows: Rows, problem: Problem | None, seed: int, limits: Limits | None = None
    ) -> Sampler:
        """Build the sampler; ``rows`` are merged, but for mini-batches of them."""
        settings, device = self.settings, find_device(self.settings.device)
        if problem is None:
            return FreeSampler(
                rows,
                self.score,
                hidden=settings.hidden,
                architecture=settings.architecture,
                row_batch=settings.row_batch,
                device=device,
                seed=seed,
            )
        return FixedSampler(
            problem,
            rows,
            hidden=settings.hidden,
            exact_tails=settings.exact_tails,
            n_scouts=settings.n_scouts,
            remember=settings.remembers,
            device=device,
            seed=seed,
            run=Threads(self.n_jobs),
            limits=limits_for(problem, self.memory, self.n_jobs) if limits is None else limits,
        )

    def compile_problem(self, rows: Rows) -> None:
        """Prepare two rows, so that what prepares them is compiled."""
        self.problem(two_rows(rows))

    def compile_steps(self, rows: Rows, problem: Problem | None) -> None:
        """Run everything once on a few rows: compiling is not the time budget's fault."""
        few = Rows(rows.codes[:FEW_ROWS], rows.target[:FEW_ROWS], rows.weight[:FEW_ROWS])
        limits, levels = None, 1
        if problem is not None:
            # Loops are compiled for as many levels, and for few cuts where few are kept.
            limits = limits_for(problem)
            levels = max(PartialGraph.levels_summed(problem, self.settings.exact_tails), 1)
            if limits.kept_cuts is not None:
                limits = replace(limits, kept_cuts=FEW_CUTS)
        alike = replace(self, settings=replace(self.settings, exact_tails=levels), n_jobs=1)
        small = alike.sampler(few, alike.problem(few), 0, limits)
        rng = np.random.default_rng(0)
        paths = small.rollout(2, self.settings.epsilon, rng)
        small.residuals([small.retrace(paths.trees, rng)], True)
        small.draw(2, rng)


def find_device(name: str) -> str:
    """Return a device that exists here: what "auto" stands for, or the one that was asked for."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind == "cuda" and not int(number or 0) < torch.cuda.device_count():
        raise ValueError(
            f"device={name!r} is not here; give 'cpu', or 'auto' to use what there is."
        )
    return name
