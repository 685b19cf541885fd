"""The GFlowNet engine: from rows and a score to a trained sampler and its posterior.

Torch takes a while to import, so it is imported when the engine runs, not with this file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import softmax

from dtgfn._support import clock
from dtgfn._support.arrays import Floats
from dtgfn._support.budgets import Allowance
from dtgfn._support.forks import was_forked
from dtgfn._support.memory import allowed_memory, read_memory_budget
from dtgfn._support.parallel import count_threads
from dtgfn.engines.contract import PREPARING, Run
from dtgfn.engines.gfn.callbacks import AnyCallback, CallbackList
from dtgfn.engines.gfn.hooks import PathNetwork, hook_name
from dtgfn.engines.gfn.settings import (
    SETTING_NAMES,
    Checkpoint,
    Settings,
    check_checkpoint,
    make_settings,
)
from dtgfn.engines.gfn.shared_policy import check_shared, find_shared
from dtgfn.engines.referee import judge_draws
from dtgfn.posterior.importance_weights import effective_sample_size, evidence_estimate
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.posterior.weighted_trees import sampled_posterior
from dtgfn.trees.batch import TreeBatch, canonical_keys, stack_trees
from dtgfn.trees.score import Rows, Score, merge_rows

if TYPE_CHECKING:
    from dtgfn.engines.gfn.draws import Draws
    from dtgfn.engines.gfn.fixed.fixed_policy import FixedPolicy
    from dtgfn.engines.gfn.fixed.policies import Policy
    from dtgfn.engines.gfn.sampler import Sampler
    from dtgfn.engines.gfn.state import TrainState
    from dtgfn.engines.gfn.trainer import Training
    from dtgfn.engines.gfn.zero_shot import Looked

ENDS = ("finished", "plateau")  # of training that did not have to be broken off
TRAINED, DRAWN = 0.75, 0.95  # shares of the time after which training and drawing are to be done
LEAST_DRAWING = 0.3  # seconds for drawing trees, whatever came before took
INTERRUPTED = 0.5  # seconds for drawing trees once the user wants it to end
# Times that row sets nobody has looked at may turn out to be worth what a network took them for.
UNDERRATED, LEAST_UNSEEN = 10.0, 1e-300
SETTLED = 0.1  # nats


@dataclass(frozen=True)
class TrainedPolicy:
    """A trained sampler: draws more trees, weighs given ones, and trains on (``state``).

    One that was not trained (zero-shot) has no state; training begins anew after it.
    ``fingerprint`` names the table and the score it was trained for.
    """

    sampler: Sampler | FixedPolicy
    state: TrainState | None
    fingerprint: str
    n_jobs: int  # threads of torch

    @property
    def network(self) -> Any:
        """The trained torch module; of a zero-shot fit, what guesses flows without torch."""
        if self.state is None:
            return cast("FixedPolicy", self.sampler).flows.network
        return cast("Sampler", self.sampler).network

    def sample(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw trees from the policy; they are not weighted."""
        with torch_threads(self.n_jobs):
            return self.sampler.draw(n_trees, rng).trees

    def log_prob(self, trees: TreeBatch) -> Floats:
        """Log P_F [B] of given trees; -inf for one it can never draw, nan if it does not know."""
        with torch_threads(self.n_jobs):
            return self.sampler.log_prob(trees)

    def most_probable(self, n_trees: int) -> TreeBatch | None:
        """The most probable trees of those known in order, each for all that part the rows alike.

        None in free order, where nothing is known of trees that were not drawn.
        """
        return self.sampler.most_probable(n_trees)


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


def draw_posterior(
    policy: TrainedPolicy,
    training: Training | Looked,
    rows: Rows,
    score: Score,
    run: Run,
    rng: np.random.Generator,
    allowance: Allowance,
) -> TreePosterior:
    """Draw trees from the trained policy and weigh them."""
    sampler, begun = policy.sampler, clock.monotonic()
    draws = sampler.draw(run.n_trees, rng)
    n_drawn = len(draws.trees)
    seconds = {"training_seconds": training.seconds, "draw_seconds": clock.monotonic() - begun}
    log_weight = draws.log_weight(score.temperature)
    log_evidence, error = evidence_estimate(log_weight)
    floor, ceiling = sampler.bounds()
    log_evidence = min(log_evidence, ceiling)
    known = math.isfinite(floor)  # by the row sets it has met, which are more than a referee's
    trained = training_diagnostics(sampler, training, draws, rng)
    sampler.deadline = math.inf
    ruling = {}
    # A rule of one's own leaves out trees that the sums count.
    if not sampler.exact and (policy.state is None or policy.state.settings.allowed is None):
        given = (draws, log_weight, rows, score, run, known)
        ruling = hold_against_sums(*given, allowance.last_word())
    error = math.hypot(error, unseen_error(sampler, n_drawn, ceiling - log_evidence))
    diagnostics = {
        # Of few trees the mean may be above log Z by chance, and so above its ceiling.
        "elbo": min(float(log_weight.mean()), log_evidence),
        "ess": effective_sample_size(log_weight),
        **trained,
        "seconds": allowance.used,
        **seconds,
        "distinct": len(set(canonical_keys(draws.trees))) / n_drawn,
        "cut_short": float(draws.cut_short.mean()),
        "wanted_trees": run.n_trees,
        **sampler.diagnostics(),
        **proven_bounds(floor, ceiling),
        **ruling,
    }
    sampler.deadline = clock.monotonic() + allowance.last_word()
    known_trees = also_known(sampler, training)
    sampler.deadline = math.inf
    return sampled_posterior(
        draws.trees,
        log_reward=draws.log_reward,
        # Where many trajectories lead to a tree only their weights are known.
        log_prob=draws.log_pf if sampler.knows_tree_probability else np.full(n_drawn, np.nan),
        log_weight=log_weight,
        log_evidence=log_evidence,
        log_evidence_error=error,
        rows=rows,
        score=score,
        column=run.column,
        n_columns=run.n_columns,
        engine="gfn",
        also_known=known_trees,
        log_z_floor=floor,
        solution=policy,
        diagnostics=diagnostics,
        history=training.history,
    )


def unseen_error(sampler: Sampler | FixedPolicy, n_drawn: int, room: float) -> float:
    """Error of log Z that draws cannot show, as they are of what is known; 0 if all is summed.

    ``room`` are the nats that are left below a proven ceiling.
    """
    if sampler.exact:
        return 0.0
    # Where nothing is remembered, one draw more might have been of something new.
    known = sampler.diagnostics()
    unseen = max(known.get("open", 1.0 / n_drawn), LEAST_UNSEEN)
    nats = math.log(UNDERRATED)
    if known.get("early"):  # a network that is hardly trained says nothing
        nats = max(nats, cast("FixedPolicy", sampler).risen())
    return min(float(np.logaddexp(0.0, math.log(unseen) + nats)), max(room, 0.0))


def hold_against_sums(
    draws: Draws,
    log_weight: Floats,
    rows: Rows,
    score: Score,
    run: Run,
    has_bounds: bool,
    seconds: float,
) -> dict[str, float]:
    """What a little exact work says of the draws: the network's own hopes are no witness."""
    weight = softmax(log_weight)
    n_effective = effective_sample_size(log_weight) * len(weight)
    return judge_draws(
        draws.trees,
        draws.log_reward,
        rows,
        score,
        run,
        n_effective,
        weight=weight,
        partial_sums=not has_bounds,
        seconds=seconds,
    )


def training_diagnostics(
    sampler: Sampler | FixedPolicy,
    training: Training | Looked,
    draws: Draws,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """How training went, and why it ended."""
    complete = draws.trees[np.flatnonzero(~draws.cut_short)]
    because = training.stopped_because
    if training.state is None:
        losses = cast("FixedPolicy", sampler).errors()
    else:
        losses = loss_by_depth(cast("Sampler", sampler), complete[:100], rng)
    return {
        "log_z": float(sampler.log_z.item()),
        "n_steps": training.n_steps,
        "stopped_because": because,
        "settled": True if because in ENDS else settled(training.history),
        "loss_by_depth": losses,
        "exact": sampler.exact,
    }


def settled(history: list[dict[str, Any]]) -> bool | None:
    """Tell whether the ELBO hardly rose from the third quarter to the last; None: too early."""
    known = [entry["elbo"] for entry in history if entry["elbo"] is not None]
    quarter = len(known) // 4
    if quarter == 0:
        return None
    return bool(np.mean(known[-quarter:]) - np.mean(known[-2 * quarter : -quarter]) < SETTLED)


def loss_by_depth(sampler: Sampler, trees: TreeBatch, rng: np.random.Generator) -> list[float]:
    """Mean squared balance residual of trajectories to some trees, by depth of the decision."""
    import torch

    if len(trees) == 0:
        return []
    trajectories = sampler.retrace(trees, rng)
    with torch.no_grad():
        delta = sampler.residuals([trajectories], True).delta[: len(trees)].cpu().numpy()
    depth = sampler.depths(trajectories)
    width = min(depth.shape[1], delta.shape[1])
    square, depth = delta[:, :width] ** 2, depth[:, :width]
    return [float(square[depth == d].mean()) for d in range(int(depth.max(initial=-1)) + 1)]


def proven_bounds(floor: float, ceiling: float) -> dict[str, float]:
    """What is proven of log Z, and so of the share that trees nobody has seen can have."""
    bounds = {}
    if math.isfinite(floor):
        bounds["log_z_floor"] = floor
    if math.isfinite(ceiling):
        bounds["log_z_ceiling"] = ceiling
        bounds["open_most"] = -math.expm1(min(floor - ceiling, 0.0))
    return bounds


def also_known(sampler: Sampler | FixedPolicy, training: Training | Looked) -> TreeBatch | None:
    """Return the best trees that training has met."""
    found = (sampler.best_known(), sampler.most_probable(1), training.best_tree)
    met = [tree for tree in found if tree is not None]
    return stack_trees(met) if met else None


def drawing_deadline(stopped_because: str, allowance: Allowance) -> float:
    """When drawing has to be done: shortly before the time is over, or after a moment."""
    if stopped_because == "interrupted":
        return clock.monotonic() + INTERRUPTED
    return allowance.deadline(DRAWN, at_least=LEAST_DRAWING)


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Let torch use so many threads, one in a forked process, and give back what it had."""
    if "torch" not in sys.modules:  # nothing that runs needs it
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if was_forked() else n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
