"""Predictions where the classes are as frequent as one says, not as in training (label shift).

A class that was rare among the training rows is rarely predicted, also where it no longer is rare.
If rows of a class look the same in both places, the trees and their weights stay what the training
rows make them, and only what a leaf says changes: a row of class c counts as often as ::

    r_c = prior_c / (share of c among the training rows)
    P'(c | x, T) = (r_c n_c + a) / sum over k of (r_k n_k + a)      in the leaf of T that x reaches

and the average over trees is taken after that. ``class_weight`` instead counts rows r_c times in
the likelihood too, as if so many had been seen: the posterior is then surer than the rows allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Codes, Floats
from dtgfn._support.checks import check_range
from dtgfn.data.tables import listing
from dtgfn.posterior.prediction import CountedTrees, Predictor
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.flat_trees import average
from dtgfn.trees.score import Rows

ClassPrior = str | Mapping[Any, float]


def average_shifted(predictor: Predictor, codes: Codes, class_prior: ClassPrior) -> Floats:
    """Average the trees for rows of codes [n, d] where classes are as frequent as one says [n, C].

    ``class_prior`` is "uniform" or a mapping of every class to its share (or anything proportional
    to it). The sampled trees are averaged, unsharpened.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0]] * 12, ["no"] * 9 + ["yes"] * 3, engine="exact", max_depth=1)
    >>> average_shifted(Predictor(posterior), posterior.rows.codes[:1], "uniform")
    array([[0.5, 0.5]])

    """
    shifted = shift_labels(predictor.posterior, predictor.counted, class_prior)
    weighted = replace(predictor.weighted_trees, values=shifted.outputs)
    return average(weighted, codes, predictor.n_jobs)


def shift_labels(
    posterior: TreePosterior, counted: CountedTrees, class_prior: ClassPrior
) -> CountedTrees:
    """Count the training rows again as if classes were as frequent as ``class_prior`` says.

    A class without training rows has nothing to count.
    """
    parameters = counted.parameters  # refuses leaves that hold no classes
    n_classes = parameters.shape[1]
    classes = np.arange(n_classes) if posterior.classes is None else posterior.classes
    times = prior_ratios(class_prior, posterior.rows, classes)
    return replace(counted, sums=counted.sums * times)


def prior_ratios(class_prior: ClassPrior, rows: Rows, classes: npt.NDArray[Any]) -> Floats:
    """How many times as frequent as in training each class [C] is said to be; 0 without a row."""
    wanted = _shares(class_prior, classes)
    seen = np.bincount(rows.target.astype(np.int64), weights=rows.weight, minlength=len(classes))
    return np.divide(wanted * seen.sum(), seen, out=np.zeros(len(classes)), where=seen > 0)


def _shares(class_prior: ClassPrior, classes: npt.NDArray[Any]) -> Floats:
    """Share of each class [C], which sum to one; refuse what names no shares."""
    if isinstance(class_prior, str) and class_prior == "uniform":
        return np.full(len(classes), 1 / len(classes))
    if not isinstance(class_prior, Mapping):
        raise ValueError(
            f"class_prior={class_prior!r} is not known; give 'uniform', a dict of class and share, "
            "or None."
        )
    names = classes.tolist()
    if set(class_prior) != set(names):
        raise ValueError(
            f"class_prior names {listing(map(str, class_prior))}, not the classes "
            f"{listing(map(str, names))}; give each of them a share."
        )
    for name, share in class_prior.items():
        check_range(f"class_prior[{name!r}]", share, 0.0, 1e9)
    shares = np.array([float(class_prior[name]) for name in names])
    if shares.sum() == 0:
        raise ValueError("class_prior is 0 for every class; give one of them a share.")
    return np.asarray(shares / shares.sum())
