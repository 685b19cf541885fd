"""The four moves of a chain, each with its Hastings ratio: grow, prune, change and swap.

A move from T to T' is accepted with probability (Chipman, George, McCulloch 1998)::

    min(1, [R(T') / R(T)]^(1/temperature) * q(T' -> T) / q(T -> T'))

The kind of move is drawn first, whatever the tree, and what cannot be done is a rejection. With
G growable leaves, W prunable nodes (both children are leaves), v(x) varying features at node x
and c(x, f) valid cuts of feature f there::

    grow at leaf x      q = p_grow / G(T) / (v(x) c(x, f))
    prune node x        q = p_prune / W(T)
    change at split x   q = p_change / splits / (v(x) c(x, f'))      splits and v(x) stay the same
    swap at split x     q is symmetric: the tree keeps its shape, and swapping again undoes it
"""

from __future__ import annotations

import math

import numpy as np

from dtgfn._support.compiled import INNER, njit
from dtgfn._support.splitmix import draw_below, draw_uniform
from dtgfn.engines.mcmc.tree_state import (
    GROWABLE,
    NOW,
    PRUNABLE,
    SPLIT,
    TRIAL,
    Chain,
    draw_rule,
    learn_ranges,
    list_subtree,
    n_cuts,
    put,
    stop_value,
)
from dtgfn.trees.node_terms import (
    NodeTable,
    code_ranges,
    partition_rows,
    segment_log_marginal,
    split_term,
    stop_term,
    varies,
)

MOVES = ("grow", "prune", "change", "swap")
GROW_SHARE, PRUNE_SHARE, CHANGE_SHARE = 0.25, 0.25, 0.4  # the rest is for swap


@njit(**INNER)
def accepts(chain: Chain, gain: float, log_q_ratio: float, table: NodeTable) -> bool:
    """Decide on a move that adds ``gain`` to log R."""
    log_ratio = gain / table.temperature + log_q_ratio
    return log_ratio >= 0.0 or draw_uniform(chain.random) < math.exp(log_ratio)


@njit(**INNER)
def make_move(chain: Chain, table: NodeTable, starting: bool) -> tuple[int, bool]:
    """Propose one move (grow, while ``starting``); return its number and if it was accepted."""
    u = 0.0 if starting else draw_uniform(chain.random)
    if u < GROW_SHARE:
        return 0, grow(chain, table, starting)
    if u < GROW_SHARE + PRUNE_SHARE:
        return 1, prune(chain, table)
    if u < GROW_SHARE + PRUNE_SHARE + CHANGE_SHARE:
        return 2, change(chain, table)
    return 3, swap(chain, table)


@njit(**INNER)
def is_prunable(chain: Chain, node: int) -> bool:
    """Whether both children of a split are leaves."""
    left = chain.nodes[node].left
    return chain.nodes[left].feature < 0 and chain.nodes[left + 1].feature < 0


@njit(**INNER)
def grow(chain: Chain, table: NodeTable, always: bool) -> bool:
    """Split a leaf; ``always`` accepts (to start a chain). Needs a free pair of slots."""
    n_growable = chain.size[GROWABLE]
    if n_growable == 0:
        return False
    node = chain.members[GROWABLE, draw_below(chain.random, n_growable)]
    learn_ranges(chain, node, table)
    here = chain.nodes[node]
    feature, cut = draw_rule(chain, node)
    cuts = n_cuts(chain, node, feature)
    order = chain.order[NOW]
    # The order of rows within a leaf means nothing, so this needs no undoing.
    middle = partition_rows(order, here.begin, here.end, table.codes[feature], cut)
    depth = here.depth + 1
    grows_left = depth < table.max_depth and varies(order, here.begin, middle, table)
    grows_right = depth < table.max_depth and varies(order, middle, here.end, table)
    log_m = segment_log_marginal(order, here.begin, middle, table, chain.scratch)
    left_value = stop_term(log_m, depth, grows_left, table)
    log_m = segment_log_marginal(order, middle, here.end, table, chain.scratch)
    right_value = stop_term(log_m, depth, grows_right, table)
    value = split_term(here.depth, here.n_varying, cuts, table)
    parent_prunable = here.parent >= 0 and chain.position[PRUNABLE, here.parent] >= 0
    n_prunable_after = chain.size[PRUNABLE] + 1 - int(parent_prunable)
    log_q_ratio = math.log(PRUNE_SHARE / n_prunable_after)
    log_q_ratio -= math.log(GROW_SHARE / (n_growable * here.n_varying * cuts))
    gain = value + left_value + right_value - here.value
    if not (always or accepts(chain, gain, log_q_ratio, table)):
        return False
    chain.n_free[0] -= 1
    left = chain.free[chain.n_free[0]]
    here.feature, here.cut, here.left, here.value = feature, cut, left, value
    add_leaf(chain, left, node, here.begin, middle, left_value, grows_left)
    add_leaf(chain, left + 1, node, middle, here.end, right_value, grows_right)
    put(chain, GROWABLE, node, False)
    put(chain, SPLIT, node, True)
    put(chain, PRUNABLE, node, True)
    if here.parent >= 0:
        put(chain, PRUNABLE, here.parent, False)
    chain.log_reward[0] += gain
    return True


@njit(**INNER)
def add_leaf(
    chain: Chain, node: int, parent: int, begin: int, end: int, value: float, grows: bool
) -> None:
    """Fill a slot with a new leaf."""
    here = chain.nodes[node]
    here.feature = -1
    here.parent = parent
    here.depth = chain.nodes[parent].depth + 1
    here.begin, here.end = begin, end
    here.n_varying = 0
    here.value = here.stop_value = value
    put(chain, GROWABLE, node, grows)


@njit(**INNER)
def prune(chain: Chain, table: NodeTable) -> bool:
    """Make a leaf of a split whose children are leaves."""
    n_prunable = chain.size[PRUNABLE]
    if n_prunable == 0:
        return False
    node = chain.members[PRUNABLE, draw_below(chain.random, n_prunable)]
    learn_ranges(chain, node, table)
    here = chain.nodes[node]
    left, right = here.left, here.left + 1
    n_growable_after = chain.size[GROWABLE] + 1
    n_growable_after -= int(chain.position[GROWABLE, left] >= 0)
    n_growable_after -= int(chain.position[GROWABLE, right] >= 0)
    n_rules = here.n_varying * n_cuts(chain, node, here.feature)
    log_q_ratio = math.log(GROW_SHARE / (n_growable_after * n_rules))
    log_q_ratio -= math.log(PRUNE_SHARE / n_prunable)
    value = stop_value(chain, node, table)
    gain = value - here.value - chain.nodes[left].value - chain.nodes[right].value
    if not accepts(chain, gain, log_q_ratio, table):
        return False
    here.feature = -1
    here.value = value
    put(chain, GROWABLE, left, False)
    put(chain, GROWABLE, right, False)
    put(chain, GROWABLE, node, True)
    put(chain, SPLIT, node, False)
    put(chain, PRUNABLE, node, False)
    if here.parent >= 0:
        put(chain, PRUNABLE, here.parent, is_prunable(chain, here.parent))
    chain.free[chain.n_free[0]] = left
    chain.n_free[0] += 1
    chain.log_reward[0] += gain
    return True


@njit(**INNER)
def change(chain: Chain, table: NodeTable) -> bool:
    """Give a split a new rule; what is below keeps its rules and gets other rows."""
    n_splits = chain.size[SPLIT]
    if n_splits == 0:
        return False
    node = chain.members[SPLIT, draw_below(chain.random, n_splits)]
    learn_ranges(chain, node, table)
    here = chain.nodes[node]
    old_feature, old_cut = here.feature, here.cut
    here.feature, here.cut = draw_rule(chain, node)
    cuts, old_cuts = n_cuts(chain, node, here.feature), n_cuts(chain, node, old_feature)
    gain = try_rules(chain, node, table)
    if gain > -np.inf and accepts(chain, gain, math.log(cuts / old_cuts), table):
        adopt_trial(chain, node, gain, table)
        return True
    here.feature, here.cut = old_feature, old_cut
    return False


@njit(**INNER)
def swap(chain: Chain, table: NodeTable) -> bool:
    """Exchange the rules of a split and its parent, of both children if their rules are equal."""
    n_splits = chain.size[SPLIT]
    if n_splits < 2:
        return False
    node = chain.members[SPLIT, draw_below(chain.random, n_splits)]
    parent = chain.nodes[node].parent
    if parent < 0:
        return False
    left = chain.nodes[parent].left
    other = left + 1 if node == left else left
    one, two = chain.nodes[node], chain.nodes[other]
    both = one.feature == two.feature and one.cut == two.cut
    exchange_rules(chain, parent, node, other, both)
    gain = try_rules(chain, parent, table)
    if gain > -np.inf and accepts(chain, gain, 0.0, table):
        adopt_trial(chain, parent, gain, table)
        return True
    exchange_rules(chain, parent, node, other, both)
    return False


@njit(**INNER)
def exchange_rules(chain: Chain, parent: int, node: int, other: int, both: bool) -> None:
    """Exchange the rules of parent and node; ``other`` follows ``node`` if ``both``."""
    above, here = chain.nodes[parent], chain.nodes[node]
    feature, cut = here.feature, here.cut
    here.feature, here.cut = above.feature, above.cut
    above.feature, above.cut = feature, cut
    if both:
        chain.nodes[other].feature, chain.nodes[other].cut = here.feature, here.cut


@njit(**INNER)
def try_rules(chain: Chain, top: int, table: NodeTable) -> float:
    """Route the rows of ``top`` through its new rules; return the gain, -inf if a side is empty."""
    here, order = chain.nodes[top], chain.order[TRIAL]
    for r in range(here.begin, here.end):
        order[r] = chain.order[NOW, r]
    here.trial_begin, here.trial_end = here.begin, here.end
    n = list_subtree(chain, top)
    for i in range(n):
        here = chain.nodes[chain.queue[i]]
        if here.feature < 0:
            continue
        begin, end = here.trial_begin, here.trial_end
        middle = partition_rows(order, begin, end, table.codes[here.feature], here.cut)
        if middle in (begin, end):
            return -np.inf
        left, right = chain.nodes[here.left], chain.nodes[here.left + 1]
        left.trial_begin, left.trial_end = begin, middle
        right.trial_begin, right.trial_end = middle, end
    gain = 0.0
    for i in range(n):
        value_trial(chain, chain.queue[i], table)
        here = chain.nodes[chain.queue[i]]
        gain += here.trial_value - here.value
    return gain


@njit(**INNER)
def value_trial(chain: Chain, node: int, table: NodeTable) -> None:
    """Compute what a node adds to log R with its rows on trial."""
    here, order = chain.nodes[node], chain.order[TRIAL]
    begin, end = here.trial_begin, here.trial_end
    if here.feature < 0:
        here.trial_grows = here.depth < table.max_depth and varies(order, begin, end, table)
        log_m = segment_log_marginal(order, begin, end, table, chain.scratch)
        here.trial_value = stop_term(log_m, here.depth, here.trial_grows != 0, table)
    elif table.uniform_rules:
        n_varying = code_ranges(order, begin, end, table, chain.trial_ranges)
        cuts = chain.trial_ranges[1, here.feature] - chain.trial_ranges[0, here.feature]
        here.trial_value = split_term(here.depth, n_varying, cuts, table)
    else:
        here.trial_value = split_term(here.depth, 1, 1, table)


@njit(**INNER)
def adopt_trial(chain: Chain, top: int, gain: float, table: NodeTable) -> None:
    """Make the rows and values on trial those of the tree."""
    for r in range(chain.nodes[top].begin, chain.nodes[top].end):
        chain.order[NOW, r] = chain.order[TRIAL, r]
    for i in range(list_subtree(chain, top)):
        node = chain.queue[i]
        here = chain.nodes[node]
        here.begin, here.end = here.trial_begin, here.trial_end
        here.value = here.trial_value
        if node == top:
            continue  # its rows are the same as before
        here.n_varying = 0
        here.stop_value = here.value if here.feature < 0 else np.nan
        if here.feature < 0:
            put(chain, GROWABLE, node, here.trial_grows != 0)
    chain.log_reward[0] += gain
