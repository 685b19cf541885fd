"""What models call their columns and target: by a data dictionary (with_labels), or by name."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from dtgfn.data.dictionary import with_meanings
from dtgfn.data.hints import DataHint
from dtgfn.data.meanings import NOTHING
from dtgfn.data.tables import listing
from dtgfn.posterior.of_model import posterior_of
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior

AnyPosterior = TypeVar("AnyPosterior", TreePosterior, SumPosterior)


def target_name(y: Any) -> str | None:
    """What a target calls itself: the name of a column, or of a Series; None if nothing.

    >>> import pandas
    >>> target_name(pandas.Series([1.0, 2.0], name="price")), target_name([1.0, 2.0])
    ('price', None)
    """
    name = y if isinstance(y, str) else getattr(y, "name", None)
    return name if isinstance(name, str) and name.strip() else None


def with_target(posterior: AnyPosterior, name: str | None) -> AnyPosterior:
    """Return a posterior that knows what is predicted, if it has a name."""
    if name is None or posterior.binner is None:
        return posterior
    meaning = replace(posterior.binner.target or NOTHING, label=name)
    return replace(posterior, binner=replace(posterior.binner, target=meaning))


def with_labels(source: Any, labels: Any, target: str | None = None) -> Any:
    """Return the same model, which calls columns by their meanings wherever it is read.

    Tables are matched by the columns' own names as before. What is read are trees as text, as
    drawings and rules, plots, the report and the command line; frames and exports for programs keep
    the names.

    Parameters
    ----------
    source : fitted model, TreePosterior or SumPosterior
        It is not changed.
    labels : dict, table or path
        A data dictionary. Of a dict each value is the meaning of the column, or a dict with any of
        "meaning", "unit" and "categories" (a dict of category and what it is called). Of a table or
        a CSV file each row is a column, with these parts as columns beside "column".
    target : str or None
        What the dictionary calls the target, whose categories are the classes.

    Returns
    -------
    model or posterior
        A copy; ``dtgfn.save`` keeps the meanings.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5,
    ...                   engine="exact", max_depth=1, n_thresholds=3)
    >>> from dtgfn import tree_text
    >>> told = {"x0": {"meaning": "dose", "unit": "mg"}, "y": {"categories": {"yes": "healed"}}}
    >>> print(tree_text(with_labels(posterior, told, target="y")))
    if dose (mg) <= 5  [3 to 7]
        no  0.990  (10 rows)
    else (dose (mg) > 5)
        healed  0.990  (10 rows)

    """
    if hasattr(source, "get_params"):
        check_is_fitted(source)
    binner = source.binner_ if hasattr(source, "binner_") else posterior_of(source).binner
    if binner is None:
        raise ValueError("This posterior was inferred from codes, so it has no columns to label.")
    meant, unknown = with_meanings(binner, labels, target)
    if unknown:
        told = f"labels name {listing(unknown)}, which the model has no column for; left out."
        warnings.warn(told, DataHint, stacklevel=2)
    if not hasattr(source, "get_params"):
        return replace(source, binner=meant)
    if hasattr(source, "posterior_"):
        return _speaking(source, replace(source.posterior_, binner=meant))
    model = copy.copy(source)
    model.background_ = replace(source.background_, binner=meant)
    return model


def predicting(model: Any, target: str | None) -> Any:
    """Return a fitted model that knows the name of what it predicts; a detector as it is."""
    if target is None or not hasattr(model, "posterior_"):
        return model
    return _speaking(model, with_target(model.posterior_, target))


def _speaking(source: Any, posterior: Any) -> Any:
    """Copy a model, with a posterior that differs in words alone."""
    model = copy.copy(source)
    model._keep(posterior)
    if hasattr(source, "held_out_"):
        model.held_out_ = source.held_out_
    return model
