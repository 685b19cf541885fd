"""torchgfn's objectives on the fidelity suite, held against the sum over all trees.

Every row trains for so many CPU seconds on one thread and is judged by exact answers: ELBO gap
over 1000 trajectories of its own, EUBO gap over exact trees retraced by the uniform P_B (both are
divergences of trajectories, in nats), error of the log evidence by importance weights.
torchgfn has its perceptron (2 x 256) on the states of ``dtgfn.torchgfn.TreeEnvironment``, Adam, a
batch of 64, a twentieth of the actions uniform, log Z from the tree without splits and at 100 times
the rate of the network. The last two rows of a problem are this package's: the paper's policy, in
the same order of splits, and the default, which decides leaf by leaf and sums the last levels.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn.posterior.importance_weights import effective_sample_size, evidence_estimate
from dtgfn_bench.problems import FIDELITY, Problem, infer_problem, training_rows
from dtgfn_bench.studies.isolated import run_isolated
from dtgfn_bench.studies.reporting import Report

PENALTY = "mdl"
THEIRS = ("tb", "vargrad", "db", "subtb")
OURS: dict[str, dict[str, Any]] = {
    "dtgfn, the paper's policy": {"preset": "paper", "n_steps": None},
    "dtgfn, default": {},
}
BATCH, EPSILON, RATE, LOG_Z_RATE = 64, 0.05, 1e-3, 1e-1
N_JUDGED = 1000
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure_theirs(problem: Problem, objective: str, seconds: float) -> dict[str, float]:
    """Train one of torchgfn's objectives, and hold it against the exact posterior."""
    warnings.simplefilter("ignore")
    import torch
    from gfn.samplers import Sampler

    from dtgfn.torchgfn import TreeEnvironment

    torch.manual_seed(0)
    X, y = training_rows(problem.table)
    env = TreeEnvironment(
        X,
        y,
        max_depth=problem.max_depth,
        n_thresholds=problem.n_thresholds,
        split_penalty=PENALTY,
    )
    env.log_partition()
    gflownet = make_gflownet(env, objective)
    steps = train(env, gflownet, seconds)
    with torch.no_grad():
        own = Sampler(gflownet.pf).sample_trajectories(env, n=N_JUDGED)
        exact = env.states_of(env.exact_trees(N_JUDGED, np.random.default_rng(0)))
        back = Sampler(gflownet.pb).sample_trajectories(env, states=exact)
        forward = log_weights(gflownet, own)
        backward = log_weights(gflownet, back.reverse_backward_trajectories())
    log_z = env.log_partition()
    return {
        "steps": steps,
        "log_z": log_z,
        "log_z_error": evidence_estimate(forward)[0] - log_z,
        "elbo_gap": log_z - float(forward.mean()),
        "eubo_gap": float(backward.mean()) - log_z,
        "ess": effective_sample_size(forward),
    }


def make_gflownet(env: Any, objective: str) -> Any:
    """A GFlowNet of torchgfn with a perceptron for P_F, and for flows where it has them."""
    from gfn import gflownet as nets
    from gfn.estimators import DiscretePolicyEstimator, ScalarEstimator
    from gfn.utils.modules import MLP, DiscreteUniform

    described = env.preprocessor()
    width = described.output_dim
    forward = DiscretePolicyEstimator(
        MLP(width, env.n_actions, hidden_dim=256), env.n_actions, preprocessor=described
    )
    backward = DiscretePolicyEstimator(
        DiscreteUniform(env.n_actions - 1), env.n_actions, is_backward=True, preprocessor=described
    )
    flow = ScalarEstimator(MLP(width, 1, hidden_dim=256), preprocessor=described)
    no_split = float(env.log_reward(env.reset(batch_shape=1))[0])
    make: dict[str, Callable[[], Any]] = {
        "tb": lambda: nets.TBGFlowNet(forward, backward, init_logZ=no_split),
        "vargrad": lambda: nets.LogPartitionVarianceGFlowNet(forward, backward),
        "db": lambda: nets.DBGFlowNet(forward, backward, flow),
        "subtb": lambda: nets.SubTBGFlowNet(forward, backward, flow),
    }
    return make[objective]()


def train(env: Any, gflownet: Any, seconds: float) -> int:
    """Train for so many CPU seconds; return the number of steps."""
    import torch
    from gfn.samplers import Sampler

    log_z = [each for name, each in gflownet.named_parameters() if name == "logZ"]
    other = [each for name, each in gflownet.named_parameters() if name != "logZ"]
    rates = [{"params": other, "lr": RATE}, {"params": log_z, "lr": LOG_Z_RATE}]
    optimiser = torch.optim.Adam(rates)
    steps, ends = 0, time.process_time() + seconds
    while time.process_time() < ends:
        drawn = Sampler(gflownet.pf).sample_trajectories(env, n=BATCH, epsilon=EPSILON)
        loss = gflownet.loss_from_trajectories(env, drawn, recalculate_all_logprobs=True)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        steps += 1
    return steps


def log_weights(gflownet: Any, trajectories: Any) -> Floats:
    """Log R + log P_B - log P_F [B] of forward trajectories."""
    from gfn.utils.prob_calculations import get_trajectory_pfs_and_pbs

    log_pf, log_pb = get_trajectory_pfs_and_pbs(gflownet.pf, gflownet.pb, trajectories)
    reward = trajectories.env.log_reward(trajectories.terminating_states)
    return (reward.double() + (log_pb - log_pf).double().sum(dim=0)).numpy()


def measure_ours(problem: Problem, options: dict[str, Any], seconds: float) -> dict[str, float]:
    """Train a GFlowNet of this package, and hold it against the exact posterior."""
    from dtgfn.diagnostics import compare

    warnings.simplefilter("ignore")
    exact = infer_problem(problem, PENALTY, "exact", n_trees=10, time_budget=None)
    given = {"random_state": 0, "n_trees": N_JUDGED, "n_jobs": 1, **options}
    found = infer_problem(problem, PENALTY, "gfn", time_budget=seconds, **given)
    c = compare(found, exact, n_exact=N_JUDGED)
    # Over trajectories where many lead to a tree, as of torchgfn's.
    elbo_gap = exact.log_evidence - found.diagnostics["elbo"]
    gaps = {"log_z_error": c.log_z_error, "elbo_gap": elbo_gap, "eubo_gap": c.eubo_gap}
    known = {name: float("nan") if gap is None else gap for name, gap in gaps.items()}
    steps = found.diagnostics["n_steps"]
    return {"steps": steps, "log_z": exact.log_evidence, **known, "ess": found.diagnostics["ess"]}


def run(report: Report, *, seconds: float = 20.0, problems: int = len(FIDELITY)) -> None:
    """Measure every objective on the first problems of the fidelity suite."""
    report.head(
        "problem", "sampler", "steps", "log Z", "error", "ELBO gap", "EUBO gap", "ESS, share"
    )
    for problem in FIDELITY[:problems]:
        rows: list[tuple[str, Callable[..., dict[str, float]], Any]]
        rows = [(f"torchgfn, {each}", measure_theirs, each) for each in THEIRS]
        rows += [(name, measure_ours, options) for name, options in OURS.items()]
        for name, measure, given in rows:
            found = run_isolated(measure, problem, given, seconds, environment=ONE_THREAD)
            report.row(
                problem,
                name,
                int(found["steps"]),
                f"{found['log_z']:.3f}",
                f"{found['log_z_error']:+.3f}",
                f"{found['elbo_gap']:.3f}",
                "-" if math.isnan(found["eubo_gap"]) else f"{found['eubo_gap']:.3f}",
                f"{found['ess']:.3f}",
            )
