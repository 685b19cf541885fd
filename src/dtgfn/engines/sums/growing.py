"""Warm-up of chains on a growing part of a long table's rows, before they see all of them.

A sweep over a million rows takes as long as a hundred over ten thousand, and chains that start from
nothing need dozens to get anywhere. So they make them on few rows, go on with four times as many,
and so on; only what they draw on all rows is kept. A chain that time allows few sweeps on all rows
is worth more than several with hardly any: then fewer chains go on. Where there is no time for two
sweeps over all rows, draws are those of the largest part that there is time for: a posterior given
fewer rows, and said so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dtgfn._support.arrays import Int64s
from dtgfn._support.parallel import Deadline
from dtgfn.engines.sums.chain import Setup, SumChain, put_on

FEWEST_ROWS = 10_000  # of a part
MANY_SUMS, FEWEST_OF_MANY = 20, 1000  # classes whose sweeps take long on few rows already
GROWTH = 4
TRIAL_SWEEPS, PART_SWEEPS = 5, 30
PART_OF_TIME = 0.6  # that all parts together may take
LEAST_SWEEPS = 2  # of a chain on more rows that make it worth to take them
WANTED_SWEEPS = 12  # of a chain on all rows; where time is short fewer chains get them

RunTo = Callable[[list[SumChain], int | None, Deadline], None]


class Part(NamedTuple):
    """What chains did on some of the rows."""

    n_rows: int
    sweeps: list[int]  # of each chain


def part_sizes(n_rows: int, n_sums: int = 1) -> list[int]:
    """Rows of each part, ascending; none for a table that is not long, for so many sums.

    >>> part_sizes(30_000), part_sizes(1_000_000), part_sizes(20_000, 300)
    ([], [15625, 62500, 250000], [1250, 5000])
    """
    fewest = FEWEST_OF_MANY if n_sums >= MANY_SUMS else FEWEST_ROWS
    sizes: list[int] = []
    size = n_rows // GROWTH
    while size >= fewest:
        sizes.insert(0, size)
        size //= GROWTH
    return sizes


def warm_up(
    chains: list[SumChain],
    order: Int64s,
    deadline: Deadline,
    n_threads: int,
    run_to: RunTo,
) -> tuple[list[SumChain], list[Part]]:
    """Let chains run on the first rows of ``order``, more and more; return those that go on.

    They end on all rows, or on the last part if there is no time for more.
    """
    whole = chains[0].setup
    sizes, parts, cost = part_sizes(whole.n_rows, whole.n_sums), list[Part](), 0.0
    for k, size in enumerate(sizes):
        begun = deadline.used
        some = take_rows(whole, np.sort(order[:size]))
        for chain in chains:
            put_on(chain, some)
        seconds = None
        if deadline.seconds is not None:
            share = PART_OF_TIME * (1 - 0.5 ** (k + 1))  # the smallest has most to find
            seconds = max(deadline.seconds * share - begun, 0.0)
        limit = Deadline(seconds, deadline.now)
        for goal in (TRIAL_SWEEPS, PART_SWEEPS):  # a few tell how many chains there is time for
            looked, done = deadline.used, sum(chain.sweeps for chain in chains)
            run_to(chains, goal, limit)
            made = sum(chain.sweeps for chain in chains) - done
            if made > 0 or goal == TRIAL_SWEEPS:
                cost = n_threads * (deadline.used - looked) / max(made, 1) / size
            chains = chains[: affordable(deadline, n_threads, cost * whole.n_rows, len(chains))]
        parts.append(Part(size, [chain.sweeps for chain in chains]))
        larger = [*sizes[k + 1 :], whole.n_rows][0]
        made_none = not any(chain.sweeps for chain in chains)  # nobody knows what one costs
        if made_none or not is_worth(deadline, n_threads, cost * larger, len(chains)):
            return chains, parts
    for chain in chains:
        put_on(chain, whole)
    return chains, parts


def is_worth(deadline: Deadline, n_threads: int, cost: float, n_chains: int) -> bool:
    """Whether there is time for ``LEAST_SWEEPS`` of ``cost`` seconds of each chain."""
    if deadline.seconds is None:
        return True
    left = (deadline.seconds - deadline.used) * min(n_threads, n_chains)
    return left >= LEAST_SWEEPS * n_chains * cost


def affordable(deadline: Deadline, n_threads: int, cost: float, n_chains: int) -> int:
    """How many chains can make ``WANTED_SWEEPS`` of ``cost`` seconds; no thread is left idle."""
    if deadline.seconds is None:
        return n_chains
    left = max(deadline.seconds - deadline.used, 0.0)
    possible = int(n_threads * left / max(WANTED_SWEEPS * cost, 1e-9))
    return min(n_chains, max(possible, n_threads, 1))


def take_rows(setup: Setup, index: Int64s) -> Setup:
    """The same problem with some of the rows; priors are those of all."""
    target = setup.target
    return replace(
        setup,
        table=setup.table._replace(codes=setup.table.codes[index]),
        target=target._replace(
            number=target.number[index], label=target.label[index], weight=target.weight[index]
        ),
    )
