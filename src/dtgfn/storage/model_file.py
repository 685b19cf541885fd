"""Model files: a fitted estimator as an archive of JSON and arrays, and back, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.archive import Contents, StorageError, read_archive
from dtgfn._support.archive_writing import write_archive
from dtgfn._support.checks import check_choice, check_flag, check_integer
from dtgfn._version import __version__
from dtgfn.data.tables import label, listing
from dtgfn.engines.gfn.hooks import Objective
from dtgfn.engines.registry import ENGINES
from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn.estimators.base import OPTIONS_OF_ONE_RUN, PosteriorEstimator
from dtgfn.inference.method import ENSEMBLES
from dtgfn.posterior.prediction import WEIGHTINGS
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.storage.archived_parts import Arrays, prior_from_dict
from dtgfn.storage.detector_archive import detector_to_arrays, detector_to_meta, restore_detector
from dtgfn.storage.held_out import held_out_from, held_out_to_meta
from dtgfn.storage.limits import check_draws
from dtgfn.storage.posterior_archive import posterior_from, posterior_to_arrays, posterior_to_meta
from dtgfn.storage.sum_archive import SUMS, sums_from, sums_to_arrays, sums_to_meta
from dtgfn.trees.score import StructurePrior, read_prior

Estimator = PosteriorEstimator | DTGFNAnomalyDetector

KIND = "dtgfn-model"
# 1 knew leaves of classes only; 2 had one best tree, and the training rows in every file.
VERSION = 4
OLDEST = 2  # from this one on, every format stays readable: tests/storage/formats has one of each
ESTIMATORS: dict[str, type[Estimator]] = {
    kind.__name__: kind for kind in (DTGFNClassifier, DTGFNRegressor, DTGFNAnomalyDetector)
}
# What belongs to one run of training is no part of the model: neither written nor, from the file of
# a stranger, taken over, lest a later fit writes to a path of theirs or starts threads.
PARAMETERS_OF_ONE_RUN = {"verbose": False, "warm_start": False, "n_jobs": None}
LONGEST_REASON = 200
# Options that were parameters, and what they were if nobody set them.
MOVED = {
    "leaf_draws": False,
    "preset": "default",
    "leaf_order": None,
    "objective": None,
    "loss": None,
    "n_steps": None,
    "device": "cpu",
    "callbacks": None,
    "checkpoint": None,
}


def save(model: Estimator, path: str | Path, rows: bool = True) -> None:
    """Write a fitted estimator to one file, complete or not at all.

    The file is read back before it takes the place of an older one.

    The file holds the coded training rows (never raw values) and the sampled trees; a GFlowNet's
    policy is not kept (see its ``checkpoint``). Without the rows a model predicts as before, but
    that the exact engine's average over all trees becomes that over the sampled ones; what needs
    rows (dependence, Shapley values, a report, a class prior, ``given``, more rows, the baseline of
    scores) refuses. A detector's file holds no rows anyway.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.
    path : str or path
        File to write, or to replace.
    rows : bool
        False leaves the coded training rows out.

    Examples
    --------
    >>> import tempfile
    >>> from dtgfn import DTGFNClassifier, load, save
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.dtgfn")
    ...     load(f"{folder}/model.dtgfn").predict([[1.0]]).tolist()
    [0]

    """
    check_is_fitted(model)
    check_flag("rows", rows)
    kind = type(model).__name__
    if ESTIMATORS.get(kind) is not type(model):
        raise StorageError(f"A {kind} cannot be saved; only {listing(ESTIMATORS)} can.")
    names = getattr(model, "feature_names_in_", None)
    meta = {
        "dtgfn": __version__,
        "estimator": kind,
        "params": _params_to_json(model.get_params(deep=False)),
        "feature_names": None if names is None else [str(name) for name in names],
        "held_out": held_out_to_meta(getattr(model, "held_out_", None)),
    }
    if isinstance(model, DTGFNAnomalyDetector):
        meta, arrays = meta | detector_to_meta(model), detector_to_arrays(model)
    elif isinstance(model.posterior_, SumPosterior):
        meta, arrays = meta | sums_to_meta(model.posterior_), sums_to_arrays(model.posterior_)
    else:
        meta |= posterior_to_meta(model.posterior_, rows)
        arrays = posterior_to_arrays(model.posterior_, rows)
    if not rows:
        arrays = {name: array for name, array in arrays.items() if not name.startswith("rows.")}
    write_archive(path, KIND, VERSION, meta, arrays, check=_model_of)


def _params_to_json(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them."""
    changed = _without_run(params)
    seed = params["random_state"]
    # A generator's state is no part of the model.
    changed["random_state"] = int(seed) if isinstance(seed, Integral) else None
    if params["time_budget"] == math.inf:
        changed["time_budget"] = None  # the same, and JSON has no infinity
    if isinstance(params["split_penalty"], StructurePrior):
        own = read_prior(params["split_penalty"], params["max_depth"])
        changed["split_penalty"] = asdict(own)
    if params.get("positive") is not None:  # a label is the same, whatever spells it
        changed["positive"] = label(params["positive"])
    weights = params.get("class_weight")
    if isinstance(weights, dict):  # JSON's names are text, classes may be numbers
        changed["class_weight"] = [
            [getattr(label, "item", lambda label=label: label)(), float(weight)]
            for label, weight in weights.items()
        ]
    return params | changed


def _without_run(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that a run of training leaves behind, as they are before it."""
    changed: dict[str, Any] = {
        name: value for name, value in PARAMETERS_OF_ONE_RUN.items() if name in params
    }
    options = params["options"]
    if isinstance(options, dict):
        kept = {
            name: value
            for name, value in options.items()
            if name not in OPTIONS_OF_ONE_RUN and not isinstance(value, Objective | Callable)
        }
        changed["options"] = kept
    return changed


def _params_from_json(params: dict[str, Any], kind: type[Estimator]) -> dict[str, Any]:
    known = kind().get_params()
    params = _with_moved(params)
    unknown = sorted(params.keys() - known.keys())
    if unknown:
        raise ValueError(f"it has an unknown parameter, {unknown[0]!r}")
    params = known | params  # an older file may lack some
    _check_params(params)
    params |= _without_run(params)
    if isinstance(params["split_penalty"], dict):
        params = params | {"split_penalty": prior_from_dict(params["split_penalty"])}
    if isinstance(params["split_penalty"], list):
        params = params | {"split_penalty": tuple(params["split_penalty"])}
    if isinstance(params.get("class_weight"), list):
        params = params | {"class_weight": dict(params["class_weight"])}
    return params


def _with_moved(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with those that older files have by themselves among the options.

    Bags were a number, None for no bags.
    """
    if "n_bags" in params:
        n_bags = params["n_bags"]
        params = {name: value for name, value in params.items() if name != "n_bags"}
        params |= {"ensemble": None}  # there was no other
        if n_bags is not None:
            options = {**(params["options"] or {}), "n_bags": n_bags}
            params |= {"ensemble": "bags", "options": options}
    kept = {name: value for name, value in params.items() if name not in MOVED}
    chosen = {name: params[name] for name in MOVED if params.get(name, MOVED[name]) != MOVED[name]}
    return {**kept, "options": {**chosen, **(params["options"] or {})}} if chosen else kept


def _check_params(params: dict[str, Any]) -> None:
    """Refuse what predictions could not use; a later fit checks the others."""
    check_choice("inference", params["inference"], (None, *ENGINES))
    if not isinstance(params["options"], dict | None):
        raise ValueError("it has options that are none")
    if "ensemble" in params:
        check_choice("ensemble", params["ensemble"], ("auto", None, *ENSEMBLES))
    if not isinstance(params.get("positive"), str | None):
        raise ValueError("its event is not the name of a class")
    if "weighting" in params:
        check_choice("weighting", params["weighting"], WEIGHTINGS)
    check_flag("leaf_draws", (params["options"] or {}).get("leaf_draws", False))
    if params["random_state"] is not None:
        check_integer("random_state", params["random_state"], 0, 2**32 - 1)


def check_replaceable(path: str | Path) -> None:
    """Refuse to let a model replace a file that is not one."""
    if Path(path).exists():
        try:
            read_archive(path, KIND, VERSION)
        except StorageError:
            raise StorageError(
                f"{str(path)!r} exists and is not a dtgfn model; choose another name."
            ) from None


def load(path: str | Path) -> Any:
    """Read an estimator back; nothing in the file is executed, and whatever is odd is refused.

    What belongs to the machine it was fitted on (``n_jobs``, ``checkpoint``) is not taken over.

    Parameters
    ----------
    path : str or path
        A model file.

    Returns
    -------
    DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        The fitted estimator.

    """
    contents = read_archive(path, KIND, VERSION)
    try:
        return _model_of(contents)
    except StorageError as error:
        raise StorageError(f"{str(path)!r} {error}.") from None


def _model_of(contents: Contents) -> Estimator:
    """Return the model, or say what is wrong with the file in words that follow its name."""
    try:
        with np.errstate(all="ignore"):  # hostile numbers overflow before they are refused
            return _model_from(contents)
    except MemoryError:
        raise StorageError("needs more memory than there is") from None
    except Exception as error:  # a lie can make nearly anything raise
        lacks = isinstance(error, KeyError)
        reason = f"it lacks {error}" if lacks else str(error) or type(error).__name__
        one = " ".join(reason.split()).rstrip(".")
        raise StorageError(f"is not a usable model: {one[:LONGEST_REASON]}") from error


def _model_from(contents: Contents) -> Estimator:
    meta, arrays = contents.meta, contents.arrays
    if contents.version < OLDEST:
        raise ValueError(
            f"it is of format {contents.version}, which no release wrote; fit the model again"
        )
    check_choice("its estimator", meta["estimator"], tuple(ESTIMATORS))
    kind = ESTIMATORS[meta["estimator"]]
    model = kind(**_params_from_json(dict(meta["params"]), kind))
    if isinstance(model, DTGFNAnomalyDetector):
        restore_detector(model, meta, arrays)
        model.n_features_in_ = len(model.background_.binner.columns)
    else:
        _restore_posterior(model, meta, arrays)
    if meta.get("held_out") is not None:
        model.held_out_ = held_out_from(meta["held_out"])
    if meta["feature_names"] is not None:
        names = meta["feature_names"]
        if names != list(model.binner_.column_names):
            raise ValueError("it has other column names than columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _restore_posterior(model: PosteriorEstimator, meta: dict[str, Any], arrays: Arrays) -> None:
    """Give an unfitted classifier or regressor what a file holds."""
    read = sums_from if meta["engine"] == SUMS else posterior_from
    posterior = read(meta, arrays)
    if isinstance(model, DTGFNClassifier) != (posterior.classes is not None):
        raise ValueError("its leaves do not fit its kind of estimator")
    if isinstance(model, DTGFNClassifier):
        if model._leaf_draws and isinstance(posterior, TreePosterior):
            check_draws(posterior.trees, posterior.score.leaf)
        model.classes_ = np.asarray(posterior.classes)
    model._keep(posterior)
    model.n_features_in_ = len(model.binner_.columns)
