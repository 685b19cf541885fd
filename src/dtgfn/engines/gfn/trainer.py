"""Training: one loop for every sampler and objective, that can be watched, ended and taken up.

A step: draw trajectories (``rollout``), follow replayed trees backwards (``retrace``), get their
``residuals``, descend the objective's loss, let the sampler ``learn`` what needs no gradient, and
offer the new trees to the replay buffer. Now and then trees are drawn to see how good the policy
is; they cannot show a mode that it never draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

from dtgfn._support import clock
from dtgfn._support.progress import Progress, silent
from dtgfn.engines.gfn.callbacks import AnyCallback, CallbackList
from dtgfn.engines.gfn.checkpoint import Saver
from dtgfn.engines.gfn.hooks import Residuals
from dtgfn.engines.gfn.objectives import check_own_loss, chosen_objective, chosen_shape
from dtgfn.engines.gfn.sampler import Sampler
from dtgfn.engines.gfn.settings import Checkpoint, Settings, settings_values
from dtgfn.engines.gfn.state import (
    ReplayBuffer,
    TrainState,
    first_difference,
    network_parameters,
    start_state,
)
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.score import Rows, Score

EVALUATION_SHARE = 0.1  # of the time, for one evaluation
LARGE_SHORTER = 5  # times that large tables are looked at as often, by steps
NEGLIGIBLE = 1e-3  # nats: less is no improvement, however precisely it is known
REASONS = ("steps", "time", "memory", "plateau", "finished", "callback", "interrupted")


@dataclass(frozen=True)
class Training:
    """What training has led to; the sampler itself was changed in place.

    Attributes
    ----------
    history : list of dict
        One entry per evaluation, from the untrained policy on: step, seconds, loss (mean since the
        entry before), epsilon, log_z, elbo and elbo_error, log_evidence, ess (share of n_evaluate),
        best_log_reward, n_skipped, and the numbers of ``sampler.learn``.
    replay : ReplayBuffer
        The best trees that trajectories have ended in.
    best_tree, best_log_reward
        The best tree seen, a batch of one, and its log R; None if there was none.
    n_steps, seconds
        Over all runs.
    stopped_because : str
        One of ``REASONS``.
    state : TrainState
        Give it to ``train`` again to go on.

    """

    history: list[dict[str, Any]]
    replay: ReplayBuffer
    best_tree: TreeBatch | None
    best_log_reward: float | None
    n_steps: int
    seconds: float
    stopped_because: str
    state: TrainState


def train(
    sampler: Sampler,
    rows: Rows,
    score: Score,
    settings: Settings,
    *,
    time_budget: float | None = None,
    random_state: int | np.random.Generator | None = None,
    progress: Progress = silent,
    callbacks: Iterable[AnyCallback] = (),
    checkpoint: str | Path | Checkpoint | None = None,
    state: TrainState | None = None,
) -> Training:
    """Train a sampler in place until steps, time, patience, a callback or Ctrl-C end it.

    Parameters
    ----------
    sampler, rows, score, settings
        What is trained, on which rows (a checkpoint remembers them), for which target, and how.
    time_budget : float or None
        Seconds; of a checkpoint that is taken up, the seconds before count too.
    random_state : int, Generator or None
        Seed of the trajectories; a checkpoint or a state goes on with its own.
    progress : function
        Told after each step how far training is and how it goes.
    callbacks : functions or Callbacks
        Called with the state after each step; one that returns False ends training.
    checkpoint : path, Checkpoint or None
        File that training is saved to, and taken up from if it exists: a run that was killed ends
        exactly like one that was not.
    state : TrainState or None
        ``Training.state`` of an earlier run with this sampler: train on. With a larger ``n_steps``
        (and a fixed ``epsilon_steps``), this ends exactly like one long run.

    """
    _check_end(settings, time_budget)
    check_own_loss(settings.objective, settings.loss, with_ends=settings.leaf_order == "fixed")
    watchers = CallbackList(callbacks)
    warm = state is not None
    state = start_state(sampler, score, settings, random_state) if state is None else state
    _check_state(state, sampler, settings)
    state.settings = settings
    saver = None if checkpoint is None else Saver(checkpoint, rows, score)
    resumed = saver is not None and saver.begin(state, resume=not warm)
    clock = _Clock(state, time_budget, used=state.seconds if resumed else 0.0)
    try:
        because = _run(state, clock, progress, watchers, saver)
    finally:
        watchers.call("on_end", state)  # trackers close their files, whatever happened
    tree, log_reward = state.best.best or (None, None)
    return Training(
        history=state.history,
        replay=state.replay,
        best_tree=tree,
        best_log_reward=log_reward,
        n_steps=state.step,
        seconds=state.seconds,
        stopped_because=because,
        state=state,
    )


def _check_end(settings: Settings, time_budget: float | None) -> None:
    if time_budget is None and settings.n_steps is None and settings.patience is None:
        raise ValueError("Training would never end; give n_steps, patience or a time_budget.")
    if time_budget is not None and not time_budget >= 0:
        raise ValueError(f"time_budget={time_budget!r} is not usable; give seconds, or None.")


def _check_state(state: TrainState, sampler: Sampler, settings: Settings) -> None:
    if state.sampler is not sampler:
        raise ValueError("The state belongs to another sampler; give that one, or no state.")
    difference = first_difference(settings_values(state.settings), settings_values(settings))
    if difference is not None:
        raise ValueError(
            f"Training went on so far with {difference}; set it back, or start anew "
            "(warm_start=False)."
        )


class _Clock:
    """How much of the steps and of the time is gone."""

    def __init__(self, state: TrainState, budget: float | None, used: float) -> None:
        self.state = state
        self.budget = budget
        self._origin = clock.monotonic() - used
        self._earlier = state.seconds - used  # by runs that this budget is not for

    @property
    def deadline(self) -> float:
        """When the time is up."""
        return math.inf if self.budget is None else self._origin + self.budget

    @property
    def evaluation_deadline(self) -> float:
        """When an evaluation that begins now has taken its share of the time."""
        share = math.inf if self.budget is None else EVALUATION_SHARE * self.budget
        return clock.monotonic() + share

    def tick(self) -> None:
        self.state.seconds = self._earlier + clock.monotonic() - self._origin

    @property
    def time_share(self) -> float:
        elapsed = clock.monotonic() - self._origin
        return 0.0 if self.budget is None else _share(elapsed, self.budget)

    @property
    def share(self) -> float:
        n_steps = self.state.settings.n_steps
        step_share = 0.0 if n_steps is None else _share(self.state.step, n_steps)
        return max(self.time_share, step_share)


def _share(done: float, of: float) -> float:
    return min(done / of, 1.0) if of > 0 else 1.0


def _run(
    state: TrainState,
    clock: _Clock,
    progress: Progress,
    watchers: CallbackList,
    saver: Saver | None,
) -> str:
    """Step until there is a reason not to; return it."""
    try:
        because = None if watchers.call("on_start", state) else "callback"
        state.sampler.deadline = clock.deadline
        if because is None and state.step == 0 and not (state.evaluated or state.warm_started):
            _begin(state, clock)
        while because is None and (because := _reason_to_stop(state, clock)) is None:
            state.epsilon = epsilon_at(state.settings, state.step, clock.time_share)
            state.between_steps = False
            step(state)
            clock.tick()
            if state.step % evaluation_interval(state) == 0:
                evaluate(state, clock.evaluation_deadline)
            state.between_steps = True
            progress("training", clock.share, progress_line(state))
            if saver is not None:
                saver.after_step(state)
            because = None if watchers.call("on_step", state) else "callback"
        if because == "finished" and not state.evaluated:
            # not at other ends: a longer run would not have it
            evaluate(state, clock.evaluation_deadline)
    except KeyboardInterrupt:
        because = "interrupted"
    except MemoryError:
        because = "memory"
        state.sampler.stop_growing()
    finally:
        state.sampler.deadline = math.inf
    clock.tick()
    if saver is not None:
        saver.save(state)
    progress("training", 1.0, progress_line(state))
    return because


def evaluation_interval(state: TrainState) -> int:
    """Steps from one look at the policy to the next: fewer where each takes seconds."""
    every = state.settings.evaluate_every
    return max(every // LARGE_SHORTER, 1) if state.sampler.large else every


def _begin(state: TrainState, clock: _Clock) -> None:
    """Look at the table and the untrained policy, and start log Z from there."""
    state.sampler.look_first()
    evaluate(state, clock.evaluation_deadline)
    start = state.settings.log_z_start
    start = state.history[-1]["log_evidence"] if start is None else start
    if start is not None:
        with torch.no_grad():
            state.sampler.log_z.fill_(start)


def _reason_to_stop(state: TrainState, clock: _Clock) -> str | None:
    if state.sampler.finished:
        return "finished"
    if state.settings.n_steps is not None and state.step >= state.settings.n_steps:
        return "steps"
    if state.evaluated and plateaued(state.history, state.settings):
        return "plateau"
    if clock.time_share >= 1:
        return "time"
    return "memory" if state.sampler.full else None


def epsilon_at(settings: Settings, n_done: int, time_share: float) -> float:
    """Share of uniform actions after ``n_done`` steps: a straight line, then constant."""
    n_steps = settings.n_steps if settings.epsilon_steps is None else settings.epsilon_steps
    # The last step of the line already has epsilon_end.
    share = time_share if n_steps is None else min(n_done / max(n_steps - 1, 1), 1.0)
    return settings.epsilon + share * (settings.epsilon_end - settings.epsilon)


def step(state: TrainState) -> None:
    """Do one step: trajectories, loss, gradient, and what the sampler learns without one."""
    sampler, settings = state.sampler, state.settings
    trajectories = [sampler.rollout(settings.n_forward, state.epsilon, state.rng)]
    replayed = state.replay.sample(settings.n_replay, state.rng)
    if len(replayed):
        trajectories.append(sampler.retrace(replayed, state.rng))
    objective, shape = chosen_objective(settings.objective), chosen_shape(settings.loss)
    n_updates = settings.updates_per_step
    for update in range(1, n_updates + 1):
        n_update = state.step * n_updates + update
        residuals = sampler.residuals(trajectories, objective.with_flows, n_update)
        if residuals.mask.any():  # or nothing was left to decide
            _descend(state, objective.loss(residuals, shape))
            if not objective.learns_log_z:
                _guess_log_z(sampler, residuals)
    state.learned = sampler.learn(trajectories)
    state.replay.add(trajectories[0].trees, trajectories[0].log_reward)
    if sampler.complete_trees:
        state.best.add(trajectories[0].trees, trajectories[0].log_reward)
    state.step += 1


def _guess_log_z(sampler: Sampler, residuals: Residuals) -> None:
    """Put log Z where this objective takes it to be, the batch's mean; the loss does not see it."""
    with torch.no_grad():
        sampler.log_z.sub_(residuals.delta.sum(dim=1).mean())


def _descend(state: TrainState, loss: torch.Tensor) -> None:
    """Follow the gradient, if there is one and it is finite."""
    value = float(loss.detach())
    if not np.isfinite(value):
        state.n_skipped += 1
        return
    state.losses.append(value)
    if not loss.requires_grad:
        return  # everything on these trajectories is exact
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    log_z = state.sampler.log_z
    if not chosen_objective(state.settings.objective).learns_log_z:
        log_z.grad = None  # rounding errors, which Adam would blow up to full steps
    clip = state.settings.grad_clip
    limit = float("inf") if clip is None else clip
    norm = torch.nn.utils.clip_grad_norm_(network_parameters(state.sampler), limit)
    if torch.isfinite(norm) and (log_z.grad is None or torch.isfinite(log_z.grad).all()):
        state.optimizer.step()
    else:
        state.n_skipped += 1


def evaluate(state: TrainState, deadline: float = math.inf) -> None:
    """Draw trees, as long as the clock allows, and append what they tell to the history."""
    settings, training_deadline = state.settings, state.sampler.deadline
    # By step, so that a run that is taken up draws the same ones.
    rng = np.random.default_rng([state.evaluation_seed, state.step])
    state.sampler.deadline = min(deadline, training_deadline)
    try:
        with torch.no_grad():
            draws = state.sampler.draw(settings.n_evaluate, rng)
    finally:
        state.sampler.deadline = training_deadline
    log_weight = draws.log_weight(state.score.temperature)
    state.best.add(draws.trees, draws.log_reward)
    entry = {
        **state.learned,
        "step": state.step,
        "seconds": state.seconds,
        "loss": float(np.mean(state.losses)) if state.losses else math.nan,
        "epsilon": state.epsilon,
        "log_z": float(state.sampler.log_z.detach()),
        **weight_summary(log_weight),
        "best_log_reward": _best_drawn(state),
        "n_skipped": state.n_skipped,
    }
    state.losses = []
    state.history.append({name: _plain(value) for name, value in entry.items()})


def _best_drawn(state: TrainState) -> float:
    return state.best.best[1] if state.best.best else -math.inf


def weight_summary(log_weight: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    """ELBO and its standard error, log evidence and the share of effective samples."""
    n_draws = log_weight.size
    with np.errstate(invalid="ignore"):  # a tree without reward makes them infinite or nan
        return {
            "elbo": float(log_weight.mean()),
            "elbo_error": float(log_weight.std(ddof=1) / math.sqrt(n_draws)),
            "log_evidence": float(logsumexp(log_weight) - math.log(n_draws)),
            "ess": float(np.exp(2 * logsumexp(log_weight) - logsumexp(2 * log_weight)) / n_draws),
        }


def _plain(value: Any) -> Any:
    """Return a JSON value."""
    if isinstance(value, bool | int | str | None):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def plateaued(history: list[dict[str, Any]], settings: Settings) -> bool:
    """Tell whether the averaged ELBO has not improved for ``patience`` evaluations.

    It is compared with the last average that was a clear improvement, so that many small ones add
    up and are seen.
    """
    window, patience = settings.plateau_window, settings.patience
    known = [(e["elbo"], e["elbo_error"]) for e in history if e["elbo"] is not None]
    if patience is None or len(known) < window + patience:
        return False
    elbo, error = np.array(known, dtype=np.float64).T
    kernel = np.full(window, 1 / window)
    average = np.convolve(elbo, kernel, "valid")
    average_error = np.sqrt(np.convolve(error**2, kernel / window, "valid"))
    least = np.maximum(settings.plateau_tolerance * average_error, NEGLIGIBLE)
    best, waited = average[0], 0
    for value, wanted in zip(average[1:], least[1:], strict=True):
        improved = value > best + wanted
        best, waited = (value, 0) if improved else (best, waited + 1)
    return bool(waited >= patience)


def progress_line(state: TrainState) -> str:
    """Say in a line how training goes."""
    entry = state.history[-1] if state.history else {}
    loss = state.loss if state.losses else entry.get("loss")
    words = [
        f"{name} {value:.4g}"
        for name, value in (
            ("loss", loss),
            ("log Z", float(state.sampler.log_z.detach())),
            ("ELBO", entry.get("elbo")),
        )
        if value is not None
    ]
    if entry.get("ess") is not None:
        words.append(f"ESS {entry['ess']:.0%}")
    if entry.get("best_log_reward") is not None:
        words.append(f"best log R {entry['best_log_reward']:.4g}")
    return ", ".join(words)
