"""The GFlowNet engine: from rows and a score to a trained sampler and its posterior.

Torch takes a while to import, so it is imported when the engine runs, not with this file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dtgfn._support import clock
from dtgfn._support.budgets import Allowance
from dtgfn._support.memory import allowed_memory, read_memory_budget
from dtgfn._support.parallel import count_threads
from dtgfn.engines.contract import PREPARING, Run
from dtgfn.engines.gfn.callbacks import AnyCallback, CallbackList
from dtgfn.engines.gfn.drawn_posterior import draw_posterior
from dtgfn.engines.gfn.hooks import PathNetwork, hook_name
from dtgfn.engines.gfn.settings import (
    SETTING_NAMES,
    Checkpoint,
    Settings,
    check_checkpoint,
    make_settings,
)
from dtgfn.engines.gfn.shared_policy import check_shared, find_shared
from dtgfn.engines.gfn.trained_policy import TrainedPolicy, torch_threads
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score, merge_rows

if TYPE_CHECKING:
    from dtgfn.engines.gfn.fixed.policies import Policy
    from dtgfn.engines.gfn.sampler import Sampler
    from dtgfn.engines.gfn.state import TrainState

TRAINED, DRAWN = 0.75, 0.95  # shares of the time after which training and drawing are to be done
LEAST_DRAWING = 0.3  # seconds for drawing trees, whatever came before took
INTERRUPTED = 0.5  # seconds for drawing trees once the user wants it to end


@dataclass(frozen=True, kw_only=True)
class GfnOptions:
    """What only this engine is told.

    Attributes
    ----------
    settings : Settings
        How to train.
    callbacks : tuple of functions or Callbacks
        Called with the state after each step; one that returns False ends training.
    checkpoint : path, Checkpoint or None
        File that training is saved to, and taken up from if it exists.
    policy : TrainedPolicy, PathNetwork, Policy, "shipped", "fresh" or None
        The ``solution`` of an earlier posterior: if it is of the same table and score, it is
        trained on; of other rows only with ``warm_start``. Or a network of one's own for the free
        order, of which a copy is trained. Or, in fixed order, what guesses flows on any table: the
        policy that comes with the package, or one of one's own. "fresh", like None, begins from
        nothing.
    warm_start : TreePosterior or None
        Trees of an earlier posterior weighed for these rows (``extend.reweigh``): training begins
        with what they, and the ``policy`` of the earlier rows, have learned, on the time budget.
    memory_budget : int, str or None
        Bytes for the row sets that are remembered, or a text such as "2GB"; None for half of what
        is free.

    """

    settings: Settings = field(default_factory=Settings)
    callbacks: tuple[AnyCallback, ...] = ()
    checkpoint: str | Path | Checkpoint | None = None
    policy: TrainedPolicy | PathNetwork | Policy | str | None = None
    warm_start: TreePosterior | None = None
    memory_budget: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_budget", read_memory_budget(self.memory_budget))


class GfnEngine:
    """The GFlowNet as an engine (see ``engines/contract.py``)."""

    name = "gfn"
    option_names = ("preset", "callbacks", "checkpoint", "policy", "memory_budget", *SETTING_NAMES)
    side_by_side = False  # torch's number of threads is that of the process
    fills_time = True

    def read_options(self, given: Mapping[str, Any]) -> GfnOptions:
        """Make options of keywords; what is no keyword of ``GfnOptions`` is a setting.

        >>> ENGINE.read_options({"preset": "paper", "n_steps": 20}).settings.hidden
        (256, 256, 256)
        """
        other = ("callbacks", "checkpoint", "policy", "warm_start", "memory_budget")
        settings = make_settings(**{k: value for k, value in given.items() if k not in other})
        callbacks = given.get("callbacks", ())
        callbacks = tuple(callbacks) if isinstance(callbacks, Iterable) else callbacks
        CallbackList(callbacks)
        check_checkpoint(given.get("checkpoint"))
        check_policy(given.get("policy"), settings)
        chosen = {name: given[name] for name in other if name in given}
        return GfnOptions(settings=settings, **{**chosen, "callbacks": callbacks})

    def infer(self, rows: Rows, score: Score, run: Run, options: GfnOptions) -> TreePosterior:
        """Train a GFlowNet, and draw trees from it."""
        if zero_shot_policy(options) is None:
            check_torch()
        return infer_gfn(rows, score, run, options)


ENGINE = GfnEngine()


def check_torch() -> None:
    """Refuse to go on without PyTorch, before anything is compiled or read."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "The GFlowNet needs PyTorch: pip install 'dtgfn[gfn]' (for the small CPU build, "
            "install torch first as PyTorch's 'Get "
            "started' page says for CPU); inference='exact', 'smc' and 'mcmc' and sums of trees "
            "need none."
        ) from error


def check_policy(policy: object, settings: Settings) -> None:
    """Refuse a policy that could not be used, whatever the table."""
    if policy is None or isinstance(policy, TrainedPolicy):
        return
    if isinstance(policy, str) or hasattr(policy, "guess"):
        check_shared(policy, settings)
        return
    missing = [name for name in ("embed", "view", "rule") if not hasattr(policy, name)]
    if missing:
        raise ValueError(
            f"policy={hook_name(policy)} is not usable: it lacks {' and '.join(missing)}; give the "
            "solution of an earlier posterior, or a network (dtgfn.engines.PathNetwork)."
        )
    if settings.leaf_order != "free":
        raise ValueError(
            f"policy={hook_name(policy)} looks at paths, so it needs leaf_order='free'."
        )


def infer_gfn(
    rows: Rows, score: Score, run: Run, options: GfnOptions | None = None
) -> TreePosterior:
    """Train a GFlowNet to draw trees in proportion to R^(1/temperature), and draw ``n_trees``.

    Training ends after ``n_steps``, ``time_budget`` seconds, at a plateau, when nothing is left to
    learn, when a callback returns False, or by Ctrl-C, which keeps what was learned.

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    run : Run
        Columns, trees to draw, seed, time, threads.
    options : GfnOptions or None
        How to train, what watches, and what training goes on from.

    Returns
    -------
    TreePosterior
        Its ``solution`` is the ``TrainedPolicy``.

    """
    options = GfnOptions() if options is None else options
    if (shared := zero_shot_policy(options)) is not None:
        return infer_zero_shot(rows, score, run, options, shared)
    import torch  # noqa: F401 (a long import, before the clock starts)

    from dtgfn.engines.gfn.state import name_target
    from dtgfn.engines.gfn.trainer import train

    allowance = Allowance(run.time_budget)
    settings, rng = options.settings, np.random.default_rng(run.random_state)
    seeds = draw_seeds(rng)
    threads = count_threads(run.n_jobs)
    # The fixed order's network is small: more threads would wait for each other.
    torch_jobs = threads if settings.leaf_order == "free" or settings.device != "cpu" else 1
    merged = merge_rows(rows, ordered=False)
    fingerprint = name_target(merged, score)
    with torch_threads(torch_jobs):
        given = (score, run, options, fingerprint, seeds, threads, allowance)
        sampler, state = begin(rows, merged, *given)
        training = train(
            sampler,
            rows,
            score,
            settings,
            time_budget=seconds_until(allowance.deadline(TRAINED)),
            random_state=seeds[1],
            progress=run.progress,
            callbacks=options.callbacks,
            checkpoint=options.checkpoint,
            state=state,
        )
        sampler.finish()
        run.progress("drawing trees", 0.0)
        sampler.deadline = drawing_deadline(training.stopped_because, allowance)
        trained = TrainedPolicy(sampler, training.state, fingerprint, torch_jobs)
        return draw_posterior(trained, training, rows, score, run, rng, allowance)


def draw_seeds(rng: np.random.Generator) -> tuple[int, int]:
    """Draw the seeds of the network, which are those of looks too, and of training."""
    network, training = rng.integers(0, 2**31, size=2)
    return int(network), int(training)


def zero_shot_policy(options: GfnOptions) -> Policy | None:
    """Return the policy for all tables that draws without any training; None if training is."""
    alone = options.warm_start is None and options.checkpoint is None and not options.callbacks
    if options.settings.n_steps != 0 or not alone or isinstance(options.policy, TrainedPolicy):
        return None
    return find_shared(options.policy, options.settings)


def infer_zero_shot(
    rows: Rows, score: Score, run: Run, options: GfnOptions, shared: Policy
) -> TreePosterior:
    """Draw trees from a policy for all tables, after some looks at this one."""
    from dtgfn.engines.gfn.fixed.looks import affordable_looks, look_around
    from dtgfn.engines.gfn.zero_shot import (
        Looked,
        compile_zero_shot,
        make_zero_shot,
    )

    allowance, rng = Allowance(run.time_budget), np.random.default_rng(run.random_state)
    seed = draw_seeds(rng)[0]
    merged = merge_rows(rows, ordered=False)
    run.progress(PREPARING, 0.0)
    memory = allowed_memory(options.memory_budget)
    given = (score, run, shared, options.settings.exact_tails, memory)
    drawn = make_zero_shot(merged, *given, seed)
    with allowance.paused():
        compile_zero_shot(drawn, *given)
    run.progress(PREPARING, 1.0)
    drawn.deadline = allowance.deadline(TRAINED)
    look_around(drawn, affordable_looks(drawn.graph))
    drawn.deadline = drawing_deadline("steps", allowance)
    policy = TrainedPolicy(drawn, None, "", 1)
    return draw_posterior(policy, Looked(allowance.used), rows, score, run, rng, allowance)


def begin(
    rows: Rows,
    merged: Rows,
    score: Score,
    run: Run,
    options: GfnOptions,
    fingerprint: str,
    seeds: tuple[int, int],
    n_jobs: int,
    allowance: Allowance,
) -> tuple[Sampler, TrainState | None]:
    """Return the sampler, and the state that training goes on from; ``merged`` has no equal rows.

    Compiling does not count.
    """
    from dtgfn.engines.gfn.making import Maker
    from dtgfn.engines.gfn.state import start_state, warm_start

    given, settings = options.policy, options.settings
    policy = given if isinstance(given, TrainedPolicy) and given.state is not None else None
    run.progress(PREPARING, 0.0)
    if policy is not None and policy.fingerprint == fingerprint:
        run.progress(PREPARING, 1.0)
        return cast("Sampler", policy.sampler), policy.state
    if settings.row_batch is None:
        rows = merged
    before = policy.state if policy is not None and options.warm_start is not None else None
    memory = allowed_memory(options.memory_budget)
    shared = find_shared(given, settings)
    own = given if hasattr(given, "embed") else None
    maker = Maker(score, run, settings, n_jobs, memory, cast("PathNetwork | None", own), shared)
    if before is None:
        with allowance.paused():
            maker.compile_problem(rows)
    problem = maker.problem(rows)
    if before is None:
        with allowance.paused():
            maker.compile_steps(rows, problem)
    sampler = maker.sampler(rows, problem, seeds[0])
    run.progress(PREPARING, 1.0)
    state = None
    if options.warm_start is not None:
        state = start_state(sampler, score, settings, seeds[1])
        warm_start(state, before, options.warm_start, run.time_budget)
    return sampler, state


def seconds_until(deadline: float) -> float | None:
    """Seconds until the clock shows this; None if it never will."""
    return None if deadline == math.inf else max(deadline - clock.monotonic(), 0.0)


def drawing_deadline(stopped_because: str, allowance: Allowance) -> float:
    """When drawing has to be done: shortly before the time is over, or after a moment."""
    if stopped_because == "interrupted":
        return clock.monotonic() + INTERRUPTED
    return allowance.deadline(DRAWN, at_least=LEAST_DRAWING)
