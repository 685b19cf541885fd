"""The no-U-turn sampler (Hoffman, Gelman 2014; multinomial, Betancourt 2017) for soft trees.

The step size follows dual averaging, the diagonal mass the variances of the adaptation's draws;
the splits' width ``h`` goes linearly from a first to a last value during adaptation.
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.arrays import Floats, UInt64s
from dtgfn._support.splitmix import draw_uniform
from dtgfn_bench.rivals.soft_tree import SoftTree, compiled, log_density, walk_features

TARGET = 0.8  # mean acceptance that the step size aims at
TOO_FAR = 1000.0  # energy lost on the way, beyond which a trajectory has diverged


@compiled  # type: ignore[untyped-decorator]
def draw_momentum(momentum: Floats, variance: Floats, state: UInt64s) -> None:
    """Normal momenta, each with the inverse of its parameter's variance."""
    for i in range(momentum.shape[0]):
        radius = math.sqrt(-2.0 * math.log(1.0 - draw_uniform(state)) / variance[i])
        momentum[i] = radius * math.cos(2.0 * math.pi * draw_uniform(state))


@compiled  # type: ignore[untyped-decorator]
def copy(source: Floats, target: Floats) -> None:
    """Copy; a loop, as here and below array expressions take long to compile."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@compiled  # type: ignore[untyped-decorator]
def add(total: Floats, more: Floats) -> None:
    """Add in place."""
    for i in range(total.shape[0]):
        total[i] += more[i]


@compiled  # type: ignore[untyped-decorator]
def kinetic(variance: Floats, p: Floats) -> float:
    """Kinetic energy of a momentum."""
    total = 0.0
    for i in range(p.shape[0]):
        total += variance[i] * p[i] * p[i]
    return 0.5 * total


@compiled  # type: ignore[untyped-decorator]
def log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), b finite."""
    larger = max(a, b)
    return larger + math.log(math.exp(a - larger) + math.exp(b - larger))


@compiled  # type: ignore[untyped-decorator]
def leap(
    tree: SoftTree, h: float, step: float, variance: Floats, q: Floats, p: Floats, gradient: Floats
) -> tuple[float, float]:
    """One leapfrog step in place; the log density there, and minus the energy."""
    for i in range(q.shape[0]):
        p[i] += 0.5 * step * gradient[i]
        q[i] += step * variance[i] * p[i]
    value = log_density(tree, q, h, gradient)
    for i in range(q.shape[0]):
        p[i] += 0.5 * step * gradient[i]
    joint = value - kinetic(variance, p)
    if not math.isfinite(joint):
        joint = -np.inf
    return value, joint


@compiled  # type: ignore[untyped-decorator]
def turns(
    variance: Floats, first: Floats, last: Floats, total: Floats, before: Floats, use: bool
) -> bool:
    """Whether a stretch's end momenta point against its way.

    ``total`` sums the momenta up to its end; with ``use``, ``before`` sums them up to and with
    its first, else the stretch begins where ``total`` does.
    """
    with_first = with_last = 0.0
    for i in range(variance.shape[0]):
        way = total[i] - 0.5 * (first[i] + last[i])
        if use:
            way += first[i] - before[i]
        with_first += variance[i] * way * first[i]
        with_last += variance[i] * way * last[i]
    return with_first <= 0.0 or with_last <= 0.0


@compiled  # type: ignore[untyped-decorator]
def stretch_turns(
    index: int, variance: Floats, p: Floats, total: Floats, starts: Floats, sums: Floats
) -> bool:
    """Note an even step's momentum; at an odd one, check every balanced stretch that ends there."""
    last = 0
    rest = index >> 1
    while rest:
        last += rest & 1
        rest >>= 1
    if index % 2 == 0:
        copy(p, starts[last])
        copy(total, sums[last])
        return False
    while index & 1:
        if turns(variance, starts[last], p, total, sums[last], True):
            return True
        last -= 1
        index >>= 1
    return False


@compiled  # type: ignore[untyped-decorator]
def nuts_step(
    tree: SoftTree,
    q: Floats,
    value: float,
    gradient: Floats,
    h: float,
    step: float,
    variance: Floats,
    max_depth: int,
    state: UInt64s,
) -> tuple[float, float]:
    """Move q and its gradient to the next draw; its log density, and the mean acceptance."""
    size = q.shape[0]
    ends_q, ends_p, ends_g = np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    draw_momentum(ends_p[0], variance, state)
    copy(ends_p[0], ends_p[1])
    for side in range(2):
        copy(q, ends_q[side])
        copy(gradient, ends_g[side])
    start = value - kinetic(variance, ends_p[0])
    total = np.zeros(size)
    add(total, ends_p[0])
    starts, sums = np.empty((max_depth + 1, size)), np.empty((max_depth + 1, size))
    candidate, candidate_gradient = np.empty(size), np.empty(size)
    candidate_value = value
    log_weight = 0.0
    accepted, n_leaps = 0.0, 0
    for depth in range(max_depth):
        side = 1 if draw_uniform(state) < 0.5 else 0
        direction = 2.0 * side - 1.0
        new_total = np.zeros(size)
        new_weight = -np.inf
        bad = False
        for index in range(1 << depth):
            here, joint = leap(
                tree, h, direction * step, variance, ends_q[side], ends_p[side], ends_g[side]
            )
            n_leaps += 1
            gain = joint - start
            accepted += math.exp(min(0.0, gain))
            if gain < -TOO_FAR:
                bad = True
                break
            new_weight = log_sum(new_weight, gain)
            if math.log(1.0 - draw_uniform(state)) < gain - new_weight:
                copy(ends_q[side], candidate)
                copy(ends_g[side], candidate_gradient)
                candidate_value = here
            add(new_total, ends_p[side])
            if stretch_turns(index, variance, ends_p[side], new_total, starts, sums):
                bad = True
                break
        if bad:
            break
        if math.log(1.0 - draw_uniform(state)) < new_weight - log_weight:
            copy(candidate, q)
            copy(candidate_gradient, gradient)
            value = candidate_value
        log_weight = log_sum(new_weight, log_weight)
        add(total, new_total)
        if turns(variance, ends_p[0], ends_p[1], total, total, False):
            break
    return value, accepted / max(n_leaps, 1)


@compiled  # type: ignore[untyped-decorator]
def first_step_size(
    tree: SoftTree,
    q: Floats,
    value: float,
    gradient: Floats,
    h: float,
    variance: Floats,
    state: UInt64s,
) -> float:
    """A step size whose single leap is accepted about as often as not."""
    q_new, g_new, p = np.empty(q.shape[0]), np.empty(q.shape[0]), np.empty(q.shape[0])
    step = 0.1
    way = 0.0
    for _ in range(30):
        copy(q, q_new)
        copy(gradient, g_new)
        draw_momentum(p, variance, state)
        start = value - kinetic(variance, p)
        _, joint = leap(tree, h, step, variance, q_new, p, g_new)
        wanted = 1.0 if joint - start > math.log(0.5) else -1.0
        if way == 0.0:
            way = wanted
        if wanted != way:
            break
        step *= 2.0**way
    return step


@compiled  # type: ignore[untyped-decorator]
def note(q: Floats, seen: int, mean: Floats, spread: Floats) -> None:
    """Take the ``seen``-th draw into the running mean and sum of squares about it."""
    for i in range(q.shape[0]):
        off = q[i] - mean[i]
        mean[i] += off / seen
        spread[i] += off * (q[i] - mean[i])


@compiled  # type: ignore[untyped-decorator]
def sample(
    tree: SoftTree,
    q: Floats,
    widths: tuple[float, float],
    adaptation: int,
    step: float,
    variance: Floats,
    max_depth: int,
    state: UInt64s,
    draws: Floats,
) -> float:
    """Adapt the step size (returned) and variances (in place), then fill draws [S, parameters].

    The step size given is used only without adaptation.  q and the tree's features end at the last.
    """
    size, h = q.shape[0], widths[0]
    gradient = np.empty(size)
    centre = error = averaged = 0.0  # of dual averaging, with the constants of Hoffman and Gelman
    mean, spread = np.zeros(size), np.zeros(size)
    age = seen = 0
    for turn in range(adaptation + draws.shape[0]):
        adapts = turn < adaptation
        h = widths[0] + (widths[1] - widths[0]) * min(1.0, (turn + 1) / max(adaptation, 1))
        value = log_density(tree, q, h, gradient)  # afresh: width or features may have changed
        if adapts and age == 0:
            step = first_step_size(tree, q, value, gradient, h, variance, state)
            centre, error, averaged = math.log(10.0 * step), 0.0, 0.0
        value, accepted = nuts_step(tree, q, value, gradient, h, step, variance, max_depth, state)
        if tree.feature[0] >= 0:
            walk_features(tree, q, value, h, state)
        if not adapts:
            copy(q, draws[turn - adaptation])
            continue
        age += 1
        error += (TARGET - accepted - error) / (age + 10.0)
        log_step = centre - error * math.sqrt(age) / 0.05
        averaged += (log_step - averaged) * age**-0.75
        step = math.exp(averaged if turn + 1 == adaptation else log_step)
        if turn >= 0.15 * adaptation:
            seen += 1
            note(q, seen, mean, spread)
        if seen >= 10 and (turn + 1 == adaptation // 2 or turn + 1 == 9 * adaptation // 10):
            for i in range(size):
                variance[i] = (spread[i] / (seen - 1) * seen + 5e-3) / (seen + 5.0)
                mean[i] = spread[i] = 0.0
            age = seen = 0
    return step
