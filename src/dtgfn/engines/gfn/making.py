"""Samplers made for rows and settings, and what they run compiled before a clock starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dtgfn._support.parallel import Threads
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.fixed.fixed_sampler import FixedSampler
from dtgfn.engines.gfn.fixed.looks import ROUNDS
from dtgfn.engines.gfn.fixed.policies import Policy
from dtgfn.engines.gfn.free.free_sampler import FreeSampler
from dtgfn.engines.gfn.hooks import PathNetwork
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import Settings
from dtgfn.engines.gfn.state import make_optimizer
from dtgfn.engines.rowsets.partial.graph import Limits, PartialGraph, limits_for
from dtgfn.engines.rowsets.problem import Problem, make_problem, rank_type
from dtgfn.engines.warm_up import few_cells
from dtgfn.trees.node_terms import two_rows
from dtgfn.trees.score import Rows, Score

FEW_CUTS = 2


@dataclass(frozen=True)
class Maker:
    """Makes untrained samplers as settings describe them, within ``memory`` bytes."""

    score: Score
    run: Run
    settings: Settings
    n_jobs: int
    memory: float
    policy: PathNetwork | None = None  # of one's own
    shared: Policy | None = None  # for all tables, that networks of the fixed order begin from

    def problem(self, rows: Rows, ranked: np.dtype[Any] | None = None) -> Problem | None:
        """Rows as the fixed order wants them; the free order takes them as they are.

        ``ranked`` is the type of ranks, where another table's is to be taken.
        """
        if self.settings.leaf_order == "free":
            return None
        ranked = rank_type(rows.codes) if ranked is None else ranked
        run = self.run
        return make_problem(rows, self.score, run.column, run.n_columns, ranked=ranked)

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
                policy=self.policy,
                exploration=settings.exploration,
                allowed=settings.allowed,
                column=self.run.column,
                row_batch=settings.row_batch,
                device=device,
                seed=seed,
            )
        return FixedSampler(
            problem,
            rows,
            policy=self.shared,
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
        few, run = few_cells(two_rows(rows), self.run)
        replace(self, run=run).problem(few)

    def compile_steps(self, rows: Rows, problem: Problem | None) -> None:
        """Run everything once on a few rows: compiling is not the time budget's fault.

        Nor is what torch imports with the first optimizer, which takes seconds.
        """
        few, run = few_cells(rows, self.run)
        limits, levels, ranked = None, 1, None
        if problem is not None:
            ranked = problem.loops.ranks.dtype
            # Loops are compiled for as many levels, and for few cuts where few are kept.
            limits = limits_for(problem)
            levels = max(PartialGraph.levels_summed(problem, self.settings.exact_tails), 1)
            if limits.kept_cuts is not None:
                limits = replace(limits, kept_cuts=FEW_CUTS)
        settings = replace(self.settings, exact_tails=levels)
        alike = replace(self, run=run, settings=settings, n_jobs=1)
        small = alike.sampler(few, alike.problem(few, ranked), 0, limits)
        small.look_first(ROUNDS)
        optimizer, rng = make_optimizer(small, settings), np.random.default_rng(0)
        paths = small.rollout(2, self.settings.epsilon, rng)
        loss = small.residuals([small.retrace(paths.trees, rng)], True).delta.square().mean()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
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
