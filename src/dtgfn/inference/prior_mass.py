"""The prior's own mass M, without which log Z of a penalty is no evidence.

The weights e^(-penalty splits) do not add up to one over the trees that are valid on the rows.
Their sum M does not depend on y, so log Z - log M is the log evidence under a proper prior given X.
M is Z of the same rows with one class for all, for then every leaf's m is one: each engine's own
sums (or particles) yield it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dtgfn.engines.contract import Run
from dtgfn.engines.exact.engine import infer_exact
from dtgfn.engines.smc.engine import SmcOptions, infer_smc
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.leaf_models import DirichletLeaf
from dtgfn.trees.score import BranchingPrior, Rows, Score

LARGEST_ERROR = 1.0  # nats; an evidence less certain than this is not compared
FIT_SHARE = 0.6  # of a setting's time is for its posterior, the rest for the prior's mass
MASS_PARTICLES, MASS_SWEEPS = 1000, 8


def evidence_error(posterior: TreePosterior) -> float:
    """Error of log Z in nats: its standard error, or what it is proven to lack if that is more.

    Sweeps that all miss the same trees agree with each other; the referee may know better.
    """
    floor = posterior.diagnostics.get("referee_floor")
    lacking = 0.0 if floor is None else max(floor - posterior.log_evidence, 0.0)
    return max(posterior.log_evidence_error, lacking)  # nan stays nan


def log_prior_mass(
    rows: Rows,
    score: Score,
    *,
    exact: bool = False,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    """Return log M, the log of the prior's sum over the trees valid on the rows, and its error.

    Summed over all trees, or by particles (seeded, so that equal calls agree).

    Parameters
    ----------
    rows : Rows
        Coded training rows, their targets and weights.
    score : Score
        Prior and leaf model.
    exact : bool
        Whether to sum over all trees, not by particles.
    time_budget : float or None
        Seconds; None for no limit.
    n_jobs : int or None
        Threads, all cores if None or -1.

    Returns
    -------
    tuple of float
        log M and its standard error.

    Examples
    --------
    >>> from dtgfn.trees.score import make_score
    >>> rows = Rows(np.array([[0], [1], [2]], np.uint16), np.array([0, 1, 1], np.int32), np.ones(3))
    >>> given = dict(n_features=1, n_thresholds=2, split_penalty=0.0)
    >>> score = make_score(DirichletLeaf(2), max_depth=1, **given)
    >>> log_mass, _ = log_prior_mass(rows, score, exact=True)
    >>> print(round(np.exp(log_mass), 6))  # a leaf, and two stumps
    3.0

    """
    if isinstance(score.prior, BranchingPrior):
        return 0.0, 0.0  # "bcart" sums to one over the valid trees
    alike, one_class = with_one_class(rows, score)
    n_features = rows.codes.shape[1]
    column = np.arange(n_features, dtype=np.int32)
    run = Run(
        column=column,
        n_columns=n_features,
        n_trees=1,
        random_state=0,
        time_budget=time_budget,
        n_jobs=n_jobs,
    )
    if exact:
        return infer_exact(alike, one_class, run).log_evidence, 0.0
    found = infer_smc(alike, one_class, run, SmcOptions(MASS_PARTICLES, MASS_SWEEPS))
    return found.log_evidence, found.log_evidence_error


def with_one_class(rows: Rows, score: Score) -> tuple[Rows, Score]:
    """The same rows with one class for all, on which Z is the prior's mass."""
    n = len(rows.weight)
    alike = Rows(rows.codes, np.zeros(n, dtype=np.int32), np.ones(n))
    return alike, replace(score, leaf=DirichletLeaf(1), temperature=1.0)
