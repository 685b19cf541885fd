"""How well a fitted model does on rows that it has not seen, as a plain dict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, f1_score, r2_score, roc_auc_score
from sklearn.utils.validation import check_is_fitted

from dtgfn._support.arrays import Floats, Int64s
from dtgfn._support.checks import check_integer
from dtgfn.data.dated_tables import as_new_table
from dtgfn.data.tables import Table, label, listing, take
from dtgfn.data.targets import as_target, check_labels, check_numbers
from dtgfn.estimators import DTGFNAnomalyDetector, DTGFNClassifier, DTGFNRegressor
from dtgfn.explain.event import named_event
from dtgfn.posterior.of_model import leaf_of
from dtgfn.trees.left_out_rows import LeftOutRows

FLOOR = 1e-15  # a probability of zero for what happened would make every mean infinite
LEVEL = 0.9
FEW = 10  # rows that may be like others by chance
MOST_POINTS = 300
MOST_INTERVALS = 500  # each is a quantile of a mixture over all trees, which takes a while

Truth = npt.NDArray[Any]


def evaluate(model: Any, X: Any, y: Any, n_bins: int = 10, positive: Any = None) -> dict[str, Any]:
    """Score a model on held-out rows X [n, columns] with targets y [n]; all values are plain JSON.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.
    X : table
        Rows that the model was not fitted to.
    y : array [n]
        Their classes or numbers; of a detector 1 for normal rows and -1 for anomalies, or 0 for
        normal rows and 1 for anomalies (a 0 among them tells), or false and true.
    n_bins : int
        Equal bins of the probability of the predicted class, for the calibration.
    positive : label or None
        The event, of two classes; the model's if None, else the last class.

    Returns
    -------
    dict
        Of classes ``rows``, ``accuracy``, ``log_loss``, ``brier`` (as scikit-learn's: of P(event)
        where there are two classes, else summed over classes), ``calibration_error``,
        ``reliability`` (bins that hold rows: ``low``, ``high``, ``mean_probability``,
        ``share_right``, ``rows``), ``confusion`` (``labels`` and ``counts``, truth by prediction)
        and ``baseline``, the same scores of a model that says the training rows' class shares for
        every row (None if the model was saved without its rows). Two classes have the ``event``
        (``positive``, else the last class), ``auc`` and ``average_precision`` as well, None where
        one class is absent.

        Of numbers ``rows``, ``rmse``, ``mean_absolute_error``, ``r2``, ``coverage`` (share inside
        the interval of ``level``, of ``coverage_rows`` rows at even steps, at most 500),
        ``points`` ([truth, prediction, low, high], at most 300) and ``baseline``, the first two of
        a model that says the training rows' mean for every row.

        Of anomalies ``rows``, ``anomalies``, ``auroc``, ``average_precision``, ``f1`` and
        ``confusion``; None where one kind of row is absent.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact", max_depth=1).fit([[1.0], [2.0]] * 9, [0, 1] * 9)
    >>> evaluate(model, [[1.1], [1.9]], [0, 0])["accuracy"]
    0.5

    """
    check_integer("n_bins", n_bins, 1, 1000)
    truth = read_truth(model, y)
    check_lengths(as_new_table(X), truth)
    if isinstance(model, DTGFNClassifier):
        return _score_classes(model.predict_proba(X), truth, model, n_bins, positive)
    if isinstance(model, DTGFNRegressor):
        return _score_numbers(model, X, truth)
    return _score_anomalies(model, X, truth)


def read_truth(model: Any, y: Any) -> Truth:
    """Read a target [n] for a model: codes of classes, numbers, or whether it is an anomaly.

    Examples
    --------
    >>> from dtgfn import DTGFNClassifier
    >>> model = DTGFNClassifier(inference="exact").fit([[1.0], [2.0]] * 5, ["no", "yes"] * 5)
    >>> read_truth(model, ["yes", "no"])
    array([1, 0])

    """
    readers: dict[type, Callable[..., Truth]] = {
        DTGFNClassifier: _class_codes,
        DTGFNRegressor: lambda _, target: check_numbers(target),
        DTGFNAnomalyDetector: lambda _, target: _anomalous(target),
    }
    reader = next((reader for kind, reader in readers.items() if isinstance(model, kind)), None)
    if reader is None:
        known = ", ".join(kind.__name__ for kind in readers)
        raise TypeError(f"A {type(model).__name__} cannot be scored; give a fitted {known}.")
    check_is_fitted(model)
    if y is None:
        raise ValueError("y is None; give the target of every held-out row.")
    target = as_target(y)
    check_labels(target)
    return reader(model, target)


def check_lengths(table: Table, truth: Truth) -> None:
    """Refuse rows and targets of different numbers."""
    if table.n_rows != len(truth):
        raise ValueError(
            f"X has {table.n_rows} rows and y has {len(truth)} values; give one value per row."
        )


def _class_codes(model: DTGFNClassifier, target: Truth) -> Int64s:
    """Code of each label among the model's classes; 1, 1.0 and "1" are the same."""
    code = {label(known): c for c, known in enumerate(model.classes_.tolist())}
    found = [code.get(label(value), -1) for value in target.tolist()]
    unknown = [label(value) for value, c in zip(target.tolist(), found, strict=True) if c < 0]
    if unknown:
        raise ValueError(
            f"y holds {listing(dict.fromkeys(unknown))}, no class of the model; it knows "
            f"{listing(code)}."
        )
    return np.array(found, dtype=np.int64)


def _anomalous(target: Truth) -> npt.NDArray[np.bool_]:
    """Whether each row is an anomaly, by either way to say so."""
    if target.dtype.kind == "b":
        return np.asarray(target)
    codes = np.array([label(value) for value in target.tolist()])
    for normal, anomaly in (("1", "-1"), ("0", "1")):
        if np.isin(codes, (normal, anomaly)).all():
            return np.asarray(codes == anomaly)
    raise ValueError(
        f"y holds {listing(dict.fromkeys(codes.tolist()))}; give 1 for normal rows and -1 for "
        "anomalies, or 0 for normal rows and 1 for anomalies."
    )


def _score_classes(
    probability: Floats, truth: Int64s, model: DTGFNClassifier, n_bins: int, positive: Any
) -> dict[str, Any]:
    vote, event = probability.argmax(axis=1), event_code(model, positive)
    scores = {**class_scores(probability, truth, n_bins)}
    shares = training_shares(model)
    baseline: dict[str, Any] | None = None
    if shares is not None:
        constant = np.tile(shares, (len(truth), 1))
        baseline = {**class_scores(constant, truth, n_bins)}
        if event is not None:
            baseline |= event_scores(constant[:, event], truth == event)
    if event is not None:
        named = {"event": str(model.classes_[event])}
        scores |= named | event_scores(probability[:, event], truth == event)
    return {
        "rows": len(truth),
        **scores,
        "reliability": reliability(probability.max(axis=1), vote == truth, n_bins),
        "confusion": _confusion([str(c) for c in model.classes_], truth, vote),
        "baseline": baseline,
    }


def event_code(model: DTGFNClassifier, positive: Any) -> int | None:
    """Code of the event among two classes; None where there are more and none was named."""
    named = named_event(model.classes_, model.positive if positive is None else positive)
    return 1 if named is None and len(model.classes_) == 2 else named


def event_scores(probability: Floats, happened: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """AUC, average precision and Brier score of P(event) [n], as scikit-learn's functions.

    >>> event_scores(np.array([0.9, 0.2]), np.array([True, False]))["auc"]
    1.0
    """
    both = bool(happened.any() and not happened.all())
    return {
        "auc": float(roc_auc_score(happened, probability)) if both else None,
        "average_precision": float(average_precision_score(happened, probability))
        if both
        else None,
        "brier": float(((probability - happened) ** 2).mean()),
    }


def seen_share(model: Any, X: Any, y: Any) -> float | None:
    """Share of rows that are like a training row in every column's code and in the target.

    None of a detector, of few rows, without training rows, or where those are alike themselves.

    Parameters
    ----------
    model : DTGFNClassifier, DTGFNRegressor or DTGFNAnomalyDetector
        Fitted.
    X : table
        Rows that are thought to be held out.
    y : array [n]
        Their targets.

    Returns
    -------
    float or None
        The share.

    """
    posterior = getattr(model, "posterior_", None)
    if posterior is None or isinstance(posterior.rows, LeftOutRows):
        return None
    truth, rows = read_truth(model, y), posterior.rows
    if isinstance(model, DTGFNRegressor):
        leaf: Any = leaf_of(posterior)
        truth = (truth - leaf.location) / leaf.scale
    known = {code.tobytes(): float(t) for code, t in zip(rows.codes, rows.target, strict=True)}
    if len(truth) < FEW or len(known) < rows.weight.sum() / 2:
        return None
    codes = posterior.encode(X)
    found = [known.get(code.tobytes()) for code in codes]
    like = [f is not None and abs(f - t) < 1e-9 for f, t in zip(found, truth, strict=True)]
    return float(np.mean(like))


def training_shares(model: DTGFNClassifier) -> Floats | None:
    """Shares of the classes among the training rows [C]; None if those were left out."""
    rows = model.posterior_.rows
    if isinstance(rows, LeftOutRows):
        return None
    counts = np.bincount(rows.target, weights=rows.weight, minlength=len(model.classes_))
    return np.asarray(counts / counts.sum())


def class_scores(probability: Floats, truth: Int64s, n_bins: int = 10) -> dict[str, float]:
    """Accuracy, log loss, Brier score and calibration error of class probabilities.

    Parameters
    ----------
    probability : array [n, classes]
        Probabilities of every class; rows sum to one.
    truth : array [n]
        Codes of the classes that happened.
    n_bins : int
        Equal bins of the probability of the predicted class, for the calibration.

    Returns
    -------
    dict
        ``accuracy``, ``log_loss``, ``brier`` (summed over classes), ``calibration_error``.

    Examples
    --------
    >>> class_scores(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0, 0]))["brier"]
    0.25

    """
    happened = probability[np.arange(len(truth)), truth]
    wanted = np.eye(probability.shape[1])[truth]
    right = probability.argmax(axis=1) == truth
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(-np.log(np.clip(happened, FLOOR, 1.0)).mean()),
        "brier": float(((probability - wanted) ** 2).sum(axis=1).mean()),
        "calibration_error": calibration_error(probability.max(axis=1), right, n_bins),
    }


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_], n_bins: int = 10) -> float:
    """Mean distance of confidence [n] and accuracy over equal bins of the confidence.

    >>> calibration_error(np.full(5, 0.8), np.array([True, True, True, True, False]))
    0.0
    """
    gaps = np.zeros(n_bins)
    np.add.at(gaps, _bins(confidence, n_bins), confidence - right)
    return float(np.round(np.abs(gaps).sum() / len(right), 15))  # sums err in the last digits


def reliability(confidence: Floats, right: npt.NDArray[np.bool_], n_bins: int) -> list[Any]:
    """Hold the probability of what was predicted [n] against how often it was right, by bins.

    >>> reliability(np.array([0.9, 1.0]), np.array([True, False]), 2)
    [{'low': 0.5, 'high': 1.0, 'mean_probability': 0.95, 'share_right': 0.5, 'rows': 2}]
    """
    bins = _bins(confidence, n_bins)
    return [
        {
            "low": int(b) / n_bins,
            "high": (int(b) + 1) / n_bins,
            "mean_probability": float(confidence[bins == b].mean()),
            "share_right": float(right[bins == b].mean()),
            "rows": int((bins == b).sum()),
        }
        for b in np.unique(bins)
    ]


def _bins(confidence: Floats, n_bins: int) -> Int64s:
    return np.clip((confidence * n_bins).astype(np.int64), 0, n_bins - 1)


def _confusion(labels: list[str], truth: Truth, vote: Truth) -> dict[str, Any]:
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (truth, vote), 1)
    return {"labels": labels, "counts": counts.tolist()}


def _score_numbers(model: DTGFNRegressor, X: Any, truth: Floats) -> dict[str, Any]:
    prediction = model.predict(X)
    off = prediction - truth
    some = even_steps(len(truth), MOST_INTERVALS)
    low, high = model.predict_interval(take(as_new_table(X), some), LEVEL).T
    inside = (low <= truth[some]) & (truth[some] <= high)
    points = np.column_stack([truth[some], prediction[some], low, high])
    known = len(truth) > 1 and np.ptp(truth) > 0
    mean = training_mean(model)
    return {
        "rows": len(truth),
        **_sizes_of(off),
        "baseline": None if mean is None else _sizes_of(mean - truth),
        "r2": float(r2_score(truth, prediction)) if known else None,
        "coverage": float(inside.mean()),
        "coverage_rows": len(some),
        "level": LEVEL,
        "points": points[even_steps(len(some), MOST_POINTS)].tolist(),
    }


def _sizes_of(off: Floats) -> dict[str, float]:
    """How large errors [n] are."""
    squared, plain = np.sqrt((off**2).mean()), np.abs(off).mean()
    return {"rmse": float(squared), "mean_absolute_error": float(plain)}


def training_mean(model: DTGFNRegressor) -> float | None:
    """Mean of the training rows' numbers; None if those were left out."""
    posterior = model.posterior_
    if isinstance(posterior.rows, LeftOutRows):
        return None
    leaf: Any = leaf_of(posterior)
    mean = np.average(posterior.rows.target, weights=posterior.rows.weight)
    return float(leaf.location + leaf.scale * mean)


def even_steps(n: int, most: int) -> Int64s:
    """Indices of at most so many of n, at even steps from the first to the last.

    >>> even_steps(5, 3).tolist()
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))


def _score_anomalies(model: DTGFNAnomalyDetector, X: Any, truth: Truth) -> dict[str, Any]:
    score = model.decision_function(X)  # negative for anomalies
    flagged, both = score < 0, bool(truth.any() and not truth.all())
    return {
        "rows": len(truth),
        "anomalies": int(truth.sum()),
        "auroc": float(roc_auc_score(truth, -score)) if both else None,
        "average_precision": float(average_precision_score(truth, -score)) if both else None,
        "f1": float(f1_score(truth, flagged, zero_division=0)) if both else None,
        "confusion": _confusion(
            ["normal", "anomaly"], truth.astype(np.int64), flagged.astype(np.int64)
        ),
    }
