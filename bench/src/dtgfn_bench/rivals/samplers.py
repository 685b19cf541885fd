"""The field's samplers with their authors' priors: SMC and MCMC of 2013, BCART of 1998."""

from __future__ import annotations

from typing import Any

from dtgfn.estimators import DTGFNClassifier
from dtgfn_bench.contract import Method, TrainingRows
from dtgfn_bench.ours.classifiers import FittedEstimator, fit_estimator


def fit(
    rows: TrainingRows,
    seed: int,
    *,
    engine: str,
    tree: str | None,
    base: float,
    decay: float,
    concentration: float | None,
    mass: float | None,
    max_depth: int,
    n_thresholds: int,
    n_trees: int,
    time_budget: float | None,
    **options: Any,
) -> FittedEstimator:
    """Run an engine on the prior of Chipman et al.

    A leaf's Dirichlet has ``concentration`` per class, or ``mass`` shared by all classes.
    """
    if concentration is None:
        assert mass is not None, "a leaf needs one of the two"
        concentration = mass / rows.n_classes
    model = DTGFNClassifier(
        inference=engine,
        binning="uniform",
        n_thresholds=n_thresholds,
        max_depth=max_depth,
        leaf_concentration=concentration,
        split_penalty=("bcart", base, decay),
        n_trees=n_trees,
        time_budget=time_budget,
        n_jobs=1,
        random_state=seed,
        options=options,
    )
    return fit_estimator(model, rows, None if tree is None else "paper")


SHARED = {
    "base": 0.95,
    "decay": 0.5,
    "max_depth": 5,
    "n_thresholds": 99,
    "n_trees": 1000,
    "time_budget": None,
}
OF_2013 = {**SHARED, "mass": 5.0, "concentration": None}
OF_1998 = {**SHARED, "mass": None, "concentration": 1.0}
PARTICLES = {**OF_2013, "engine": "smc", "n_particles": 1000, "n_sweeps": 1}
CHAIN = {**OF_2013, "engine": "mcmc", "n_chains": 1, "n_steps": 100_000}
RESTARTS = {**OF_1998, "engine": "mcmc", "n_chains": 10, "n_steps": 5000}

PRIOR = "prior .95 (1 + depth)^-.5, {leaf}, on our 99 thresholds and at most depth 5"
OUR_MOVES = (
    "chains start from a few random splits; grow, prune, change and swap at .25, .25, .4, .1"
)
SMC_NOTE = (
    "Lakshminarayanan, Roy, Teh 2013 on our engine: 1000 particles, "
    + PRIOR.format(leaf="Dirichlet mass 5")
    + "; their one-step proposal with 5 % even choices, resampled at half (not a tenth) of the "
    "effective number, systematically; {reading}."
)
MCMC_NOTE = (
    "The chain of Lakshminarayanan, Roy, Teh 2013 on our engine: 100,000 steps, "
    + PRIOR.format(leaf="Dirichlet mass 5")
    + f"; {OUR_MOVES} where theirs are even; {{reading}}."
)
BCART_NOTE = (
    "Chipman, George, McCulloch 1998 on our engine: 10 restarts of 5000 steps, "
    + PRIOR.format(leaf="Dirichlet(1)")
    + f"; {OUR_MOVES}; {{reading}}."
)
BEST = "the tree of highest posterior that was met"


def _method(name: str, label: str, note: str, tree: str | None, run: dict[str, Any]) -> Method:
    few = {"n_particles": 50} if run["engine"] == "smc" else {"n_chains": 1, "n_steps": 5000}
    return Method(
        name=name,
        label=label,
        fit=fit,
        note=note,
        settings={**run, "tree": tree},
        quick={**few, "n_trees": 100},
    )


METHODS: tuple[Method, ...] = (
    _method("smc", "SMC", SMC_NOTE.format(reading=BEST), "best", PARTICLES),
    _method("mcmc", "MCMC", MCMC_NOTE.format(reading=BEST), "best", CHAIN),
    _method("bcart", "BCART", BCART_NOTE.format(reading=BEST), "best", RESTARTS),
    _method(
        "smc-ensemble",
        "SMC, average",
        SMC_NOTE.format(reading="the average of 1000 trees drawn from the particles by weight"),
        None,
        PARTICLES,
    ),
    _method(
        "mcmc-ensemble",
        "MCMC, average",
        MCMC_NOTE.format(reading="the average of 1000 trees of the chain's second half"),
        None,
        CHAIN,
    ),
    _method(
        "bcart-ensemble",
        "BCART, average",
        BCART_NOTE.format(reading="the average of 1000 trees of the chains' second halves"),
        None,
        RESTARTS,
    ),
)
