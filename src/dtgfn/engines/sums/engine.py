"""The engine of sums of trees: chains that draw every tree from its conditional posterior.

f(x) = sum of M small trees, and of a straight line for each feature (``lines.py``); a leaf's value
is Normal(0, scale^2), and scale is drawn too. The
target is normal given one precision per row (``sweep.py``), so that, given all others, a tree sees
residuals, and what it would be worth is known in closed form (``node_choice.py``). A whole tree, or
a whole subtree, is proposed by look-ahead and accepted so that the chain is exact
(``tree_draw.py``): most proposals are, where BART grows and prunes one split at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from dtgfn._support import clock
from dtgfn._support.arrays import Bools
from dtgfn._support.backends import advance_elsewhere
from dtgfn._support.memory import available_memory, gigabytes
from dtgfn._support.parallel import Deadline, count_threads, run_round_robin
from dtgfn.engines.contract import PREPARING, BudgetExceeded, Run
from dtgfn.engines.sums.agreement import WARM_UP, diagnose, make_history, tell_agreement
from dtgfn.engines.sums.chain import (
    MOST_RECORDED,
    Draw,
    Setup,
    SumChain,
    bytes_of_draw,
    memory_of,
    put_on,
    stack,
    start_chain,
)
from dtgfn.engines.sums.checkpoint import ROUND, Saver
from dtgfn.engines.sums.growing import Part, part_sizes, warm_up
from dtgfn.engines.sums.settings import SumOptions, sums_to_keep
from dtgfn.engines.sums.setup import make_setup
from dtgfn.engines.sums.sweep import NOISE, VARIANCE
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.trees.leaf_models import DirichletLeaf, NormalLeaf
from dtgfn.trees.score import Rows

FEWEST_RECORDED = 30  # draws of a chain that there must be room for
REPORT_EVERY = 1.0  # seconds between looks at how chains agree


def infer_sums(
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    max_depth: int,
    run: Run,
    options: SumOptions | None = None,
    has_missing: Bools | None = None,
) -> SumPosterior:
    """Sample sums of trees from their posterior by chains.

    Parameters
    ----------
    rows : Rows
        Coded training rows; targets are classes 0..C-1, or numbers in units of ``leaf``.
    leaf : DirichletLeaf or NormalLeaf
        What is predicted: how many classes, or numbers of which location and scale.
    max_depth : int
        Edges on the longest path of a tree.
    run : Run
        Columns, seed, time, threads; ``n_trees`` is not used.
    options : SumOptions or None
        Number of trees, chains, sweeps and draws, and the prior.
    has_missing : bool [F] or None
        Features whose last code says that a number is missing; None for none.

    Returns
    -------
    SumPosterior
        ``diagnostics`` tells whether the chains agree.

    """
    options = SumOptions() if options is None else options
    if options.n_sweeps is None and run.time_budget is None:
        raise ValueError("n_sweeps=None runs until time_budget ends; give one of them.")
    run.progress(PREPARING, 0.0)
    compile_loops(rows, leaf, max_depth)
    run.progress(PREPARING, 1.0)
    # The clock starts here: compiling, on a first run, is not the problem's fault.
    deadline = Deadline(run.time_budget)
    setup = make_setup(rows, leaf, max_depth, run.column, options, has_missing)
    n_chains, most_recorded = plan_memory(setup, options)
    rng = np.random.default_rng(run.random_state)
    seeds = rng.integers(0, 2**63, size=options.n_chains)[:n_chains]
    chains = [start_chain(setup, int(seed), most_recorded) for seed in seeds]
    saver = None if options.checkpoint is None else Saver(options.checkpoint, chains, options)
    if saver is not None:
        saver.begin()
    chains, parts = start_on_parts(chains, deadline, run, rng, is_saved=saver is not None)
    stopped = run_chains(chains, options.n_sweeps, deadline, run, saver, on_parts=bool(parts))
    posterior = collect(chains, rows, leaf, run, options, deadline.used, stopped)
    posterior.diagnostics["rows_of_draws"] = chains[0].setup.n_rows
    posterior.diagnostics["sweeps_on_parts"] = [part._asdict() for part in parts]
    posterior.diagnostics["chains_left_out"] = options.n_chains - len(chains)
    return posterior


def plan_memory(setup: Setup, options: SumOptions) -> tuple[int, int]:
    """How many chains, and how many recorded draws of each, fit; refuse what does not.

    Draws get what chains leave, half of all at most.
    """
    free = options.memory_budget or available_memory() / 2
    needed = memory_of(setup, 1)
    draws = FEWEST_RECORDED * bytes_of_draw(setup)
    if needed + draws > free:
        raise BudgetExceeded(
            f"A chain over {setup.n_rows} rows needs about {gigabytes(needed + draws)}, "
            f"more than memory_budget allows ({gigabytes(free)}); use fewer n_summed or "
            "n_thresholds, or allow more."
        )
    n_chains = min(options.n_chains, int(free / (needed + draws)))
    room = min(free / n_chains - needed, free / (2 * n_chains))
    return n_chains, min(MOST_RECORDED, max(FEWEST_RECORDED, int(room / bytes_of_draw(setup))))


def start_on_parts(
    chains: list[SumChain],
    deadline: Deadline,
    run: Run,
    rng: np.random.Generator,
    is_saved: bool,
) -> tuple[list[SumChain], list[Part]]:
    """Warm chains up on parts of a long table; those of a checkpoint all go on, if they wait."""
    setup, n_threads = chains[0].setup, count_threads(run.n_jobs)
    if not part_sizes(setup.n_rows, setup.n_sums) or any(chain.sweeps for chain in chains):
        return chains, []

    def run_to(some: list[SumChain], sweeps: int | None, limit: Deadline) -> None:
        for chain in some:
            chain.recording = False
        run_round_robin(
            [chain.chunks(sweeps, limit.halted) for chain in some],
            n_jobs=n_threads,
            deadline=limit,
            enough=lambda: True,
            on_progress=lambda: run.progress("drawing sums", deadline.share, "on parts of rows"),
        )
        for chain in some:
            chain.recording = True

    order = rng.permutation(setup.n_rows)
    going_on, parts = warm_up(chains, order, deadline, n_threads, run_to)
    if is_saved:  # a file is of all chains and all rows
        for chain in chains:
            put_on(chain, setup)
        going_on = chains
    return going_on, parts


def compile_loops(rows: Rows, leaf: DirichletLeaf | NormalLeaf, max_depth: int) -> None:
    """Make a sweep on two rows, so that all loops are compiled."""
    codes = np.zeros((2, 1), dtype=np.uint16)
    codes[1] = min(int(rows.codes.max(initial=1)), 300)  # as wide as the table's
    few = Rows(codes, rows.target[[0, -1]], np.ones(2))
    small = SumOptions(n_summed=1, n_chains=1)
    setup = make_setup(few, leaf, max_depth, np.zeros(1, dtype=np.int32), small)
    chain = start_chain(setup, 0)
    for _ in chain.chunks(1, Deadline(None).halted):
        pass
    if part_sizes(len(rows.codes), setup.n_sums):
        put_on(chain, setup)


def run_chains(
    chains: list[SumChain],
    n_sweeps: int | None,
    deadline: Deadline,
    run: Run,
    saver: Saver | None = None,
    on_parts: bool = False,
) -> str:
    """Let all chains make their sweeps until the deadline is over; tell what ended them.

    With a ``saver`` they wait for each other now and then, and are saved while they stand still.
    Chains that were ``on_parts`` of the rows have something to show without a sweep.
    """
    looked = clock.monotonic()
    detail = ""

    def show_progress() -> None:
        nonlocal looked, detail
        by_sweeps = sum(chain.sweeps for chain in chains) / (len(chains) * (n_sweeps or math.inf))
        if clock.monotonic() - looked > REPORT_EVERY:
            looked, detail = clock.monotonic(), tell_agreement(chains)
        run.progress("drawing sums", min(max(deadline.share, by_sweeps), 1.0), detail)

    def run_to(sweeps: int | None) -> None:
        def chunks(chain: SumChain, until: Deadline) -> Iterator[bool]:
            return chain.chunks(sweeps, until.halted)

        if not advance_elsewhere(chains, chunks, deadline, run.n_jobs):
            run_round_robin(
                [chunks(chain, deadline) for chain in chains],
                n_jobs=count_threads(run.n_jobs),
                deadline=deadline,
                enough=lambda: all(chain.has_answer for chain in chains),
                on_progress=show_progress,
            )

    try:
        if saver is None:
            run_to(n_sweeps)
        else:
            run_in_rounds(chains, n_sweeps, deadline, run_to, saver)
    except KeyboardInterrupt:
        if not any(chain.draws for chain in chains):
            raise
        return "interrupted"
    if not any(chain.draws for chain in chains) and on_parts:
        for chain in chains:  # part of a sweep, after those on parts
            chain.record()
    if not any(chain.draws for chain in chains):
        raise BudgetExceeded(
            f"Sums of trees could not make a single sweep within time_budget={deadline.seconds:g} "
            "s; allow more, or use fewer n_summed, rows or columns."
        )
    finished = n_sweeps is not None and all(chain.sweeps >= n_sweeps for chain in chains)
    return "all sweeps were made" if finished else "time_budget"


def run_in_rounds(
    chains: list[SumChain],
    n_sweeps: int | None,
    deadline: Deadline,
    run_to: Callable[[int], None],
    saver: Saver,
) -> None:
    """Go on from round to round, and save all chains after each."""
    done = min(chain.sweeps for chain in chains)
    while (n_sweeps is None or done < n_sweeps) and not deadline.is_over:
        goal = (done // ROUND + 1) * ROUND
        run_to(goal if n_sweeps is None else min(goal, n_sweeps))
        reached = min(chain.sweeps for chain in chains)
        if reached < goal and reached != n_sweeps:
            return  # time ended the round: the file keeps the last one
        done = reached
        saver.save()


def collect(
    chains: list[SumChain],
    rows: Rows,
    leaf: DirichletLeaf | NormalLeaf,
    run: Run,
    options: SumOptions,
    seconds: float,
    stopped: str,
) -> SumPosterior:
    """Take draws evenly from all chains and tell how the chains went."""
    chains = [chain for chain in chains if chain.draws]
    quota = -(-sums_to_keep(options, chains[0].setup.n_summed) // len(chains))
    picked: list[Draw] = []
    member: list[int] = []
    for number, chain in enumerate(chains):
        kept = chain.kept(WARM_UP)
        index = np.unique(np.linspace(0, len(kept) - 1, quota).round().astype(int))
        picked += [kept[k] for k in index]
        member += [number] * len(index)
    numbers = np.stack([draw.numbers for draw in picked])
    return SumPosterior(
        summed=stack(picked, chains[0].setup.lines),
        chain=np.array(member, dtype=np.int32),
        noise=numbers[:, NOISE] if isinstance(leaf, NormalLeaf) else np.empty(0),
        leaf_scale=np.sqrt(numbers[:, VARIANCE]),
        offset=chains[0].setup.target.offset,
        leaf=leaf,
        rows=rows,
        column=run.column,
        n_columns=run.n_columns,
        diagnostics=diagnose(chains, seconds, stopped),
        history=make_history(chains),
    )
