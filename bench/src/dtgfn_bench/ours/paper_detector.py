"""The paper's detector: a GFlowNet trained on normal rows alone, and what its trees say of others.

Leaves have two classes, normal and anomalous, although no training row is anomalous: a leaf with n
training rows has P(normal) = (n + a) / (n + 2a) on average, so what sets rows apart is how few
training rows share their leaf.  The text leaves open what `READINGS` lists.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn.data.tables import as_table
from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.engine import ENGINE
from dtgfn.inference.training_data import TrainingData, make_training_data
from dtgfn.posterior.prediction import Predictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import Rows, make_score
from dtgfn_bench.contract import Method, TrainingRows

NORMAL, ANOMALOUS = 0, 1
CONCENTRATION = 0.1
N_PROBES, PROBE_WEIGHT = 1000, 1e-9
N_KEPT = 256  # policies: those of an experiment's readings, tables and splits


@dataclass(frozen=True)
class FittedPolicy:
    """The trees of a trained policy, or the best of them, with the normal rows in their leaves.

    Leaves say a draw of their probabilities, by ``leaf_seed``, or without one their mean.
    ``shared_cpu_seconds`` are those of a training that an earlier fit has paid for.
    """

    predictor: Predictor
    rows: Floats
    leaf_seed: int | None
    shared_cpu_seconds: float

    def score(self, X: Floats) -> Floats:
        """P(anomalous) of rows [n]."""
        codes = self.predictor.posterior.encode(X)
        if self.leaf_seed is None:
            return self.predictor.average(codes)[:, ANOMALOUS]
        return self.predictor.average_draws(codes, self.leaf_seed)[:, ANOMALOUS]

    def training_scores(self) -> Floats:
        """The training rows through the same trees, which have counted them."""
        return self.score(self.rows)

    def size(self) -> float:
        """Nodes of the one tree, or the mean over all that were drawn."""
        found = self.predictor.posterior
        trees = found.trees if self.predictor.tree is None else found.best_tree
        return float(trees.n_nodes.mean())


def fit(
    rows: TrainingRows,
    seed: int,
    *,
    tree: str | None,
    leaf_draws: bool,
    empty_leaves: bool,
    reward_classes: int,
    **settings: Any,
) -> FittedPolicy:
    """Train the policy; read it as Algorithm 1, or as the best tree of those drawn ("best").

    ``empty_leaves`` lets splits part what no training row is in, ``reward_classes`` is 1 where the
    reward knows only the class it has seen, so that it is the prior.
    """
    begun = time.process_time()
    training = (empty_leaves, reward_classes, tuple(settings.items()))
    posterior, seconds = _trained(rows.X.tobytes(), rows.X.shape[1], seed, *training)
    shared = max(seconds - (time.process_time() - begun), 0.0)
    predictor = Predictor(posterior, "posterior", tree, n_jobs=1)
    return FittedPolicy(predictor, rows.X, seed if leaf_draws else None, shared)


@lru_cache(maxsize=N_KEPT)
def _trained(
    values: bytes,
    n_columns: int,
    seed: int,
    empty_leaves: bool,
    reward_classes: int,
    settings: tuple[tuple[str, Any], ...],
) -> tuple[TreePosterior, float]:
    """A policy's trees, and the CPU seconds of its training; one training serves four readings."""
    begun, own = time.process_time(), dict(settings)
    X = np.frombuffer(values).reshape(-1, n_columns)
    data = make_training_data(
        as_table(X),
        np.full(len(X), NORMAL),
        DirichletLeaf(1, CONCENTRATION),
        n_thresholds=own["n_thresholds"],
        classes=(NORMAL, ANOMALOUS),
    )
    seen = with_probes(data.rows, data.binner.n_cuts, seed) if empty_leaves else data.rows
    leaf = DirichletLeaf(reward_classes, CONCENTRATION)
    posterior = with_training_rows(train_policy(seen, data, leaf, seed, **own), data)
    return posterior, time.process_time() - begun


def train_policy(
    seen: Rows,
    data: TrainingData,
    leaf: DirichletLeaf,
    seed: int,
    *,
    max_depth: int,
    n_thresholds: int,
    split_penalty: str,
    n_trees: int,
    n_steps: int,
) -> TreePosterior:
    """Draw trees from a policy trained with the paper's preset on rows ``seen``."""
    n_columns = len(data.binner.columns)
    score = make_score(
        leaf,
        n_features=n_columns,
        n_thresholds=n_thresholds,
        max_depth=max_depth,
        split_penalty=split_penalty,
    )
    run = Run(
        column=data.binner.feature_column.astype(np.int32),
        n_columns=n_columns,
        n_trees=n_trees,
        random_state=seed,
        n_jobs=1,
        judged=False,
    )
    options = ENGINE.read_options({"preset": "paper", "n_steps": n_steps})
    return ENGINE.infer(seen, score, run, options)


def with_probes(rows: Rows, n_cuts: Int64s, seed: int) -> Rows:
    """Add rows that weigh next to nothing, spread evenly over the codes of each feature.

    The engine splits what rows it sees; with these it also splits where no training row is, as the
    released code does, whose mask never looks at rows.
    """
    rng, even = np.random.default_rng(seed), np.arange(N_PROBES)
    codes = [rng.permutation(even * (int(cuts) + 1) // N_PROBES) for cuts in n_cuts]
    return Rows(
        np.vstack([rows.codes, np.stack(codes, axis=1).astype(rows.codes.dtype)]),
        np.concatenate([rows.target, np.full(N_PROBES, NORMAL, dtype=rows.target.dtype)]),
        np.concatenate([rows.weight, np.full(N_PROBES, PROBE_WEIGHT)]),
    )


def with_training_rows(posterior: TreePosterior, data: TrainingData) -> TreePosterior:
    """The trees that were drawn, the best of them, and only training rows in their leaves."""
    top = int(posterior.log_reward.argmax())
    return replace(
        posterior,
        rows=data.rows,
        score=replace(posterior.score, leaf=data.leaf),
        binner=data.binner,
        classes=data.classes,
        best_tree=posterior.trees[[top]],
        best_log_reward=float(posterior.log_reward[top]),
    )


PAPER: dict[str, Any] = {
    "max_depth": 5,
    "n_thresholds": 99,
    "split_penalty": "paper",
    "n_trees": 1000,
    "n_steps": 100,
    "leaf_draws": True,
    "empty_leaves": False,
    "reward_classes": 2,
}
# Name, label, what it is, and what differs from the paper's table of hyper-parameters.
READINGS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "paper",
        "as the paper",
        "Penalty log 4 + log d, depth 5, splits that part training rows, two classes in the "
        "reward, leaf probabilities drawn.",
        {},
    ),
    (
        "paper-means",
        "as the paper, leaf means",
        "The same with the mean of each leaf instead of a draw.",
        {"leaf_draws": False},
    ),
    (
        "paper-text",
        "as the paper's text",
        "The same, leaf probabilities drawn, with the penalty of the text, log 4 + log d + log t.",
        {"split_penalty": "mdl"},
    ),
    (
        "paper-release",
        "as its release",
        "As the released code would: four levels, splits wherever the path allows, leaves without "
        "training rows too, and one class in the reward, which so is the prior; but leaves "
        "count training rows, not test rows by their labels.",
        {"max_depth": 4, "empty_leaves": True, "reward_classes": 1},
    ),
)


def _method(name: str, label: str, note: str, changes: dict[str, Any]) -> Method:
    return Method(
        name=name,
        label=label,
        fit=fit,
        detects=True,
        note=note,
        settings={**PAPER, **changes},
        quick={"n_steps": 4, "n_trees": 100},
        ours=True,
    )


METHODS: tuple[Method, ...] = (
    *(
        _method(
            f"dtgfn-detector-tree-{name}",
            f"dtgfn detector, one tree, {label}",
            "A GFlowNet trained on normal rows; of 1000 sampled trees the one with the highest "
            f"posterior. {note}",
            {**changes, "tree": "best"},
        )
        for name, label, note, changes in READINGS
    ),
    *(
        _method(
            f"dtgfn-detector-{name}",
            f"dtgfn detector, {label}",
            "A GFlowNet trained on normal rows; Algorithm 1 on 1000 sampled trees, which comes "
            f"close to the best of them alone. {note}",
            {**changes, "tree": None},
        )
        for name, label, note, changes in READINGS
    ),
)
