"""The no-U-turn sampler (Hoffman, Gelman 2014; multinomial, Betancourt 2017) for soft trees.

The step size follows dual averaging, the diagonal mass the variances of the adaptation's draws;
the splits' width ``h`` goes linearly from a first to a last value during adaptation.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dtgfn.bench.contract import Codes, Floats
from dtgfn.bench.methods.soft_tree import SoftTree, log_density, walk_features
from dtgfn.engines.splitmix import Words, draw_uniform

TARGET = 0.8  # mean acceptance that the step size aims at
TOO_FAR = 1000.0  # energy lost on the way, beyond which a trajectory has diverged


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def draw_momentum(momentum: Floats, variance: Floats, state: Words) -> None:
    """Normal momenta, each with the inverse of its parameter's variance."""
    for i in range(momentum.shape[0]):
        radius = math.sqrt(-2.0 * math.log(1.0 - draw_uniform(state)) / variance[i])
        momentum[i] = radius * math.cos(2.0 * math.pi * draw_uniform(state))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def add(total: Floats, more: Floats) -> None:
    """Add in place."""
    for i in range(total.shape[0]):
        total[i] += more[i]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def kinetic(variance: Floats, p: Floats) -> float:
    """Kinetic energy of a momentum."""
    total = 0.0
    for i in range(p.shape[0]):
        total += variance[i] * p[i] * p[i]
    return 0.5 * total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b)), b finite."""
    larger = max(a, b)
    return larger + math.log(math.exp(a - larger) + math.exp(b - larger))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def leap(
    tree: SoftTree, h: float, step: float, variance: Floats, q: Floats, p: Floats, gradient: Floats
) -> tuple[float, float]:
    """One leapfrog step in place; the log density there, and minus the energy."""
    for i in range(q.shape[0]):  # loops here and below: array expressions take long to compile
        p[i] += 0.5 * step * gradient[i]
        q[i] += step * variance[i] * p[i]
    value = log_density(tree, q, h, gradient)
    for i in range(q.shape[0]):
        p[i] += 0.5 * step * gradient[i]
    joint = value - kinetic(variance, p)
    if not math.isfinite(joint):
        joint = -np.inf
    return value, joint


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
        starts[last] = p
        sums[last] = total
        return False
    while index & 1:
        if turns(variance, starts[last], p, total, sums[last], True):
            return True
        last -= 1
        index >>= 1
    return False


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def nuts_step(
    tree: SoftTree,
    q: Floats,
    value: float,
    gradient: Floats,
    h: float,
    step: float,
    variance: Floats,
    max_depth: int,
    state: Words,
) -> tuple[float, float]:
    """Move q and its gradient to the next draw; its log density, and the mean acceptance."""
    size = q.shape[0]
    ends_q, ends_p, ends_g = np.empty((2, size)), np.empty((2, size)), np.empty((2, size))
    draw_momentum(ends_p[0], variance, state)
    ends_p[1] = ends_p[0]
    for side in range(2):
        ends_q[side] = q
        ends_g[side] = gradient
    start = value - kinetic(variance, ends_p[0])
    total = ends_p[0].copy()
    starts, sums = np.empty((max_depth + 1, size)), np.empty((max_depth + 1, size))
    candidate, candidate_gradient = q.copy(), gradient.copy()
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
                candidate[:] = ends_q[side]
                candidate_gradient[:] = ends_g[side]
                candidate_value = here
            add(new_total, ends_p[side])
            if stretch_turns(index, variance, ends_p[side], new_total, starts, sums):
                bad = True
                break
        if bad:
            break
        if math.log(1.0 - draw_uniform(state)) < new_weight - log_weight:
            q[:] = candidate
            gradient[:] = candidate_gradient
            value = candidate_value
        log_weight = log_sum(new_weight, log_weight)
        add(total, new_total)
        if turns(variance, ends_p[0], ends_p[1], total, total, False):
            break
    return value, accepted / max(n_leaps, 1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def first_step_size(
    tree: SoftTree, q: Floats, value: float, gradient: Floats, h: float, variance: Floats,
    state: Words,
) -> float:
    """A step size whose single leap is accepted about as often as not."""
    step = 0.1
    way = 0.0
    for _ in range(30):
        q_new, g_new, p = q.copy(), gradient.copy(), np.empty(q.shape[0])
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def adapt(
    tree: SoftTree,
    q: Floats,
    h_first: float,
    h_last: float,
    n_steps: int,
    variance: Floats,
    max_depth: int,
    state: Words,
) -> float:
    """Move q through ``n_steps`` while learning the step size (returned) and variances (in place)."""
    gradient = np.empty(q.shape[0])
    value = log_density(tree, q, h_first, gradient)
    step = first_step_size(tree, q, value, gradient, h_first, variance, state)
    centre, error, averaged, age = math.log(10.0 * step), 0.0, 0.0, 0
    mean, spread, seen = np.zeros(q.shape[0]), np.zeros(q.shape[0]), 0
    for t in range(n_steps):
        h = h_first + (h_last - h_first) * (t + 1) / n_steps
        if h_first != h_last or tree.feature[0] >= 0:
            value = log_density(tree, q, h, gradient)
        value, accepted = nuts_step(tree, q, value, gradient, h, step, variance, max_depth, state)
        if tree.feature[0] >= 0:
            value = walk_features(tree, q, value, h, state)
        age += 1  # dual averaging with the constants of Hoffman and Gelman
        error += (TARGET - accepted - error) / (age + 10.0)
        log_step = centre - error * math.sqrt(age) / 0.05
        averaged += (log_step - averaged) * age**-0.75
        step = math.exp(log_step)
        if t >= 0.15 * n_steps:
            seen += 1
            for i in range(q.shape[0]):
                off = q[i] - mean[i]
                mean[i] += off / seen
                spread[i] += off * (q[i] - mean[i])
        if seen >= 10 and (t + 1 == n_steps // 2 or t + 1 == 9 * n_steps // 10):
            for i in range(q.shape[0]):
                variance[i] = (spread[i] / (seen - 1) * seen + 5e-3) / (seen + 5.0)
            mean[:] = 0.0
            spread[:] = 0.0
            seen = 0
            value = log_density(tree, q, h, gradient)
            step = first_step_size(tree, q, value, gradient, h, variance, state)
            centre, error, averaged, age = math.log(10.0 * step), 0.0, 0.0, 0
    return math.exp(averaged) if age > 0 else step


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sample(
    tree: SoftTree,
    q: Floats,
    h: float,
    step: float,
    variance: Floats,
    max_depth: int,
    state: Words,
    draws: Floats,
    features: Codes,
) -> None:
    """Fill draws [S, parameters] and features [S, m]; q and the tree's features end at the last."""
    gradient = np.empty(q.shape[0])
    value = log_density(tree, q, h, gradient)
    for s in range(draws.shape[0]):
        if tree.feature[0] >= 0:
            value = log_density(tree, q, h, gradient)
        value, _ = nuts_step(tree, q, value, gradient, h, step, variance, max_depth, state)
        if tree.feature[0] >= 0:
            value = walk_features(tree, q, value, h, state)
        draws[s] = q
        features[s] = tree.feature
