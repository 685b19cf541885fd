"""BART: the posterior over a sum of trees under a probit link, by stochtree."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtgfn._support.arrays import Floats, Int64s
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.seen_classes import OverAllClasses, fit_seen


def fit_bart(
    rows: TrainingRows, seed: int, *, n_trees: int, n_warm_starts: int, n_draws: int
) -> OverAllClasses:
    """One chain per class against the rest; a single one for two classes."""

    def fit(X: Floats, codes: Int64s) -> OneVersusRest:
        n_classes = int(codes.max()) + 1
        targets = [1] if n_classes == 2 else range(n_classes)
        seeds = np.random.SeedSequence(seed).generate_state(n_classes) % 2**31
        chains = [
            sample_chain(X, codes == target, int(seeds[target]), n_trees, n_warm_starts, n_draws)
            for target in targets
        ]
        return OneVersusRest(chains, n_trees)

    return fit_seen(rows, fit, OneVersusRest.nodes_per_tree)


def sample_chain(
    X: Floats, is_target: Any, seed: int, n_trees: int, n_warm_starts: int, n_draws: int
) -> Any:
    """Draws of the sum of trees behind P(target): trees grown from the root, then MCMC."""
    from stochtree import BARTModel, OutcomeModel

    chain = BARTModel()
    chain.sample(
        X_train=X,
        y_train=is_target.astype(np.float64),
        num_gfr=n_warm_starts,
        num_mcmc=n_draws,
        general_params={
            "random_seed": seed,
            "num_threads": 1,
            "outcome_model": OutcomeModel(outcome="binary", link="probit"),
            "sample_sigma2_global": False,  # a probit's noise has variance one by definition
        },
        mean_forest_params={"num_trees": n_trees},
    )
    return chain


class OneVersusRest:
    """One chain per class, or one for the second of two classes."""

    def __init__(self, chains: list[Any], n_trees: int) -> None:
        self.chains = chains
        self.n_trees = n_trees

    def predict_proba(self, X: Floats) -> Floats:
        """Posterior mean of each chain's probability, scaled to sum to one over the classes."""
        columns = np.column_stack([self._target_probability(chain, X) for chain in self.chains])
        if len(self.chains) == 1:
            return np.hstack([1 - columns, columns])
        return columns / columns.sum(axis=1, keepdims=True)

    @staticmethod
    def _target_probability(chain: Any, X: Floats) -> Floats:
        drawn = chain.predict(X, type="mean", terms="y_hat", scale="probability")
        # All chains may be sure that a far-off row is of the rest; the division needs a sum.
        return np.clip(np.asarray(drawn, dtype=np.float64).reshape(len(X)), 1e-12, 1 - 1e-12)

    def nodes_per_tree(self) -> float:
        """Mean nodes over chains, draws and trees."""
        means = []
        for chain in self.chains:
            draws = chain.forest_container_mean
            leaves = [draws.num_forest_leaves(draw) for draw in range(draws.num_samples())]
            means.append(2 * np.mean(leaves) / self.n_trees - 1)
        return float(np.mean(means))


METHODS: tuple[Method, ...] = (
    Method(
        name="bart",
        label="BART",
        fit=fit_bart,
        note="stochtree's probit BART: 200 trees, 10 warm starts grown from the root and 100 draws "
        "of one chain, one class against the rest for more than two; not in the paper.",
        settings={"n_trees": 200, "n_warm_starts": 10, "n_draws": 100},
        quick={"n_trees": 50, "n_warm_starts": 5, "n_draws": 20},
        needs=("stochtree",),
        install="dtgfn-bench[more]",
    ),
)
