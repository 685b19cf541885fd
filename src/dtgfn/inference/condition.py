"""``condition``: a posterior under demands on its trees, and what they cost in evidence.

With M the prior's mass and Z its sum with the likelihood, over all trees or over those that keep
the demands, P(demands | D) = Z(given) / Z, and the data are (Z(given) / M(given)) / (Z / M) times
as probable under a prior that keeps the demands as without them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dtgfn._support import clock
from dtgfn._support.budgets import remaining_budget
from dtgfn._support.checks import check_run, check_seed
from dtgfn._support.json_values import none_if_nan
from dtgfn._support.progress import progress_bar
from dtgfn.data.demands import read_demands
from dtgfn.engines.contract import Run
from dtgfn.inference.given import infer_given
from dtgfn.inference.method import Method, read_method
from dtgfn.inference.prior_mass import log_prior_mass, with_one_class
from dtgfn.posterior.of_model import as_posterior
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior

MASS_SHARE = 0.3  # of the time, for the prior's mass with and without the demands


@dataclass(frozen=True)
class GivenEffect:
    """What demands on trees do to a posterior.

    Attributes
    ----------
    words : tuple of str
        The demands, as they were understood.
    probability : float
        P(a tree of the posterior keeps them).
    log_evidence_change : float
        Log of how many times as probable the data are where all trees must keep them; nan for what
        depends on predictions ("monotone"), of which no prior over trees knows.
    error : float
        Standard error of that, 0 if all sums are exact.

    """

    words: tuple[str, ...]
    probability: float
    log_evidence_change: float
    error: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON, with None for what is not known."""
        return {**asdict(self), "log_evidence_change": none_if_nan(self.log_evidence_change)}

    def __str__(self) -> str:
        so = f"{self.probability:.3g} of the posterior's trees are so"
        given = f"Given {'; '.join(self.words)}"
        if math.isnan(self.log_evidence_change):
            return f"{given}: {so}."
        about = f" (give or take {self.error:.1f} nats)" if self.error > 0.05 else ""
        times = f"the data are e^{self.log_evidence_change:.1f} times as probable as without"
        return f"{given}: {times}{about}; {so}."


def condition(
    posterior: TreePosterior,
    given: str | Mapping[str, Any],
    *,
    engine: str | None = None,
    n_trees: int | None = None,
    time_budget: float | None = 60.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: bool = False,
    **options: Any,
) -> TreePosterior:
    """Infer the posterior over the trees that keep some demands, on the same rows and score.

    Parameters
    ----------
    posterior : TreePosterior
        What ``infer`` returned, of single trees.
    given : str or dict
        Demands by place, such as ``{"root": "age <= 50", "root.right": "sex is male"}``; a column
        alone ("age") leaves its cut open, "stop" makes a leaf, ``"never": ["income"]`` leaves
        columns out, ``"never below age": ["sex"]`` only below splits on another, and ``"monotone":
        {"age": "up"}`` wants predictions that never fall with it. A text is a demand at the root.
    engine : str or None
        How to infer; None is as before.
    n_trees : int or None
        Trees to draw; None is as many as there are.
    time_budget : float or None
        Seconds; None for no limit.
    n_jobs, random_state, verbose, **options
        As in ``infer``.

    Returns
    -------
    TreePosterior
        ``dtgfn.given_effect`` of it tells what the demands cost.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dtgfn import infer
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> every = infer(X, y, engine="exact", max_depth=2, n_thresholds=9)
    >>> forced = condition(every, "sepal length (cm)", random_state=0)
    >>> print(given_effect(forced))
    Given root: sepal length (cm), at any cut: the data are e^-14.7 times as probable as ...

    """
    if isinstance(posterior, SumPosterior) or posterior.is_bagged:
        raise TypeError("given is for the posterior over single trees; fit with ensemble=None.")
    if posterior.demands:
        raise ValueError(
            f"This posterior is under demands already ({'; '.join(posterior.demands)}); give all "
            "demands at once to the one without."
        )
    if posterior.binner is None:
        raise ValueError("This posterior was inferred from codes, so it knows no columns.")
    wanted = len(posterior.trees) if n_trees is None else n_trees
    n_trees, time_budget, n_jobs = check_run(wanted, time_budget, n_jobs)
    check_seed(random_state)
    method = read_method(posterior.engine if engine is None else engine, options)
    started = clock.monotonic()
    with progress_bar(verbose) as progress:
        run = Run(
            column=posterior.binner.feature_column.astype(np.int32),
            n_columns=len(posterior.binner.columns),
            n_trees=n_trees,
            random_state=random_state,
            time_budget=None if time_budget is None else (1 - MASS_SHARE) * time_budget,
            n_jobs=n_jobs,
            progress=progress,
        )
        found = infer_given(method, posterior.rows, posterior.score, run, posterior.binner, given)
        left = remaining_budget(time_budget, clock.monotonic() - started)
        effect = measure_effect(posterior, found, given, replace(run, time_budget=left))
    diagnostics = {**found.diagnostics, "given_effect": effect.to_dict()}
    return replace(
        found, binner=posterior.binner, classes=posterior.classes, diagnostics=diagnostics
    )


def given_effect(source: Any) -> GivenEffect:
    """Tell what demands do to a posterior that ``condition`` or ``model.given`` returned.

    Parameters
    ----------
    source : TreePosterior or fitted model
        Under demands.

    Returns
    -------
    GivenEffect
        Printed, it is a sentence.

    """
    told = as_posterior(source).diagnostics.get("given_effect")
    if told is None:
        raise ValueError("There are no demands on these trees; make some with condition or given.")
    change = told["log_evidence_change"]
    return GivenEffect(
        tuple(told["words"]),
        told["probability"],
        math.nan if change is None else change,
        told["error"],
    )


def measure_effect(
    posterior: TreePosterior, found: TreePosterior, given: str | Mapping[str, Any], run: Run
) -> GivenEffect:
    """Compare the evidence under demands with the one before, each under its own prior."""
    assert posterior.binner is not None, "who asks has columns"
    demands = read_demands(given, posterior.binner)
    gain = found.log_evidence - posterior.log_evidence
    exact = posterior.is_exact and found.engine == "exact"
    change, error = math.nan, math.hypot(posterior.log_evidence_error, found.log_evidence_error)
    if not demands.monotone:
        log_share, share_error = prior_share(posterior, given, run, exact)
        change, error = gain - log_share, math.hypot(error, share_error)
    return GivenEffect(tuple(demands.words), math.exp(min(gain, 0.0)), change, error)


def prior_share(
    posterior: TreePosterior, given: str | Mapping[str, Any], run: Run, exact: bool
) -> tuple[float, float]:
    """Log of the prior probability that a tree keeps the demands, and its error."""
    assert posterior.binner is not None, "who asks has columns"
    half = None if run.time_budget is None else run.time_budget / 2
    mass, mass_error = log_prior_mass(
        posterior.rows, posterior.score, exact=exact, time_budget=half, n_jobs=run.n_jobs
    )
    rows, score = with_one_class(posterior.rows, posterior.score)
    method: Method = read_method("exact" if exact else "smc", {})
    brief = replace(run, random_state=0, time_budget=half)
    within = infer_given(method, rows, score, brief, posterior.binner, given)
    return within.log_evidence - mass, math.hypot(mass_error, within.log_evidence_error)
