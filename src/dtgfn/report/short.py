"""What a report says first, in words for everyone: which columns, one tree, how good, how sure."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dtgfn._support.printable import visible
from dtgfn.data.tables import parse_number
from dtgfn.estimators.base import PosteriorEstimator
from dtgfn.estimators.one_tree import one_tree
from dtgfn.explain.rules import condition_text, gather_conditions, paths_to_leaves
from dtgfn.explain.tree_set import TreeSet, number_text, take_trees
from dtgfn.posterior.sum_posterior import SumPosterior
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.left_out_rows import LeftOutRows

MOST_NAMED = 5  # columns
NEEDED, UNNEEDED = 0.5, 0.1  # probability that a column is used
MOST_SPLITS = 8  # of a most probable tree that is told leaf by leaf; else a smaller one is
SMALL = 5  # splits of that one
MOST_SHARE = 0.8  # of the gain, that is named
SURE = 1.96  # standard errors on either side

TRUSTED = {
    "good": "The computation can be relied on: its own checks found nothing wrong.",
    "fair": "The computation is nearly settled: probabilities may still be off by a little.",
    "poor": "Do not rely on these numbers yet: the computation is not done.",
    "unknown": "Nothing tells whether the computation can be relied on.",
}
USELESS = (
    "But what the model says of new rows is no better than the simplest guess: do not act on it."
)
CAUTION = "Columns that decide go together with the target; that they cause it no tree can tell."


class Told(NamedTuple):
    """A tree for the first screen; ``trees`` is None where there is nothing to follow a row by."""

    intro: str
    note: str | None
    trees: TreeSet | None


def in_short(
    model: Any, report: dict[str, Any], held: tuple[Any, Any] | None = None
) -> dict[str, Any]:
    """Write the first screen of a report from the rest of it; values are sentences and lists.

    ``columns``, ``quality`` and ``trust`` are sentences, ``tree`` has an ``intro``, the ``rules``
    of its leaves and a ``note``, or is None. ``held`` are held-out rows and their truth, on which
    the one tree is tried by itself.
    """
    told = _tree(model, report)
    rules = [] if told is None or told.trees is None else _leaves(told.trees, report)
    return {
        "columns": columns_sentence(report),
        "tree": told and {"intro": told.intro, "rules": rules, "note": told.note},
        "quality": f"{quality_sentences(report)}{_tree_alone(told, held)}",
        "trust": _trust(report),
        "caution": CAUTION,
    }


def columns_sentence(report: dict[str, Any]) -> str:
    """Say which columns decide."""
    title = {column["name"]: _title(column) for column in report["columns"]}
    rows, n_columns = report["importances"], report["n_importances"]
    used = [row for row in rows if row.get("inclusion", 0.0) >= NEEDED]
    task, by_share = report["fit"]["task"], "splits" in rows[0]
    if by_share or task == "anomalies" or len(used) > MOST_NAMED:
        return _by_share(rows, n_columns, title, task)
    if not used:
        best = max(rows, key=lambda row: row["inclusion"])
        if best["inclusion"] < UNNEEDED:
            return "No column tells anything that can be relied on."
        chance = _chance(best["inclusion"])
        return f"No column is clearly needed; the likeliest is {title[best['name']]} ({chance})."
    used = sorted(used, key=lambda row: -row["inclusion"])
    named = [f"{title[row['name']]} ({_chance(row['inclusion'])})" for row in used]
    verb = "decides" if len(named) == 1 else "decide"
    said = f"Of {_columns(n_columns)}, {_and(named)} {verb}; in brackets, how probable it is that "
    said += "a tree needs the column."
    unneeded = n_columns - len([row for row in rows if row["inclusion"] >= UNNEEDED])
    between = n_columns - unneeded - len(used)
    if between:
        said += f" {_columns(between, 'other ')} may matter."
    if unneeded:
        said += f" {unneeded:,} {_is(unneeded)} probably not needed."
    return _capital(said)


def _by_share(rows: list[dict[str, Any]], n_columns: int, title: dict[str, str], task: str) -> str:
    """Say which columns make most of the difference."""
    measure = "splits" if "splits" in rows[0] else "share"  # of sums as ``dtgfn show`` tells them
    ordered = sorted(rows, key=lambda row: -row[measure])
    named, total = [], 0.0
    for row in ordered[:MOST_NAMED]:
        if row[measure] <= 0.0 or total >= MOST_SHARE:
            break
        named.append(f"{title[row['name']]} ({_percent(row[measure])})")
        total += row[measure]
    if not named:
        return "No column tells anything that can be relied on."
    what = "what tells ordinary rows from odd ones" if task == "anomalies" else "the difference"
    verb = "makes" if len(named) == 1 else "make"
    less = n_columns - len(named)
    rest = f"; the other {less:,} together {_percent(max(1.0 - total, 0.0))}" if less > 0 else ""
    if measure == "splits":
        said = f"Of {_columns(n_columns)}, most questions are about {_and(named)}{rest}."
        even = ordered[0][measure] < 1.5 / n_columns
        return f"{said} No column stands out." if even else said
    return _capital(f"of {_columns(n_columns)}, {_and(named)} {verb} most of {what}{rest}.")


def _tree(model: Any, report: dict[str, Any]) -> Told | None:
    """One tree, and what it is."""
    if not isinstance(model, PosteriorEstimator):
        return _detector_tree(report)
    posterior = model.posterior_
    single = None if isinstance(posterior, SumPosterior) or posterior.is_bagged else posterior
    if single is not None and single.best_tree.n_splits[0] <= MOST_SPLITS:
        trees = take_trees(model)
        intro = _most_probable_intro(single, report)
        return Told(f"{intro}{_not_asked(trees, report)}", None, trees)
    if isinstance(posterior.rows, LeftOutRows):
        return None
    small = one_tree(model, max_splits=SMALL)
    n_splits = small.n_splits
    fidelity = (
        f"it explains {_percent(small.fidelity)} of how the model's predictions vary"
        if small.tree_set.classes is None
        else f"it says what the model says for {_percent(small.fidelity)} of the training rows"
    )
    whole = "The model is many trees" if single is None else "The most probable tree is large"
    intro = f"{whole}; of the trees with at most {SMALL} questions this one is most like the model"
    return Told(
        f"{intro}: {fidelity}." if n_splits else f"{intro}: it asks nothing.",
        "Predictions, and all other numbers here, are the whole model's.",
        small.tree_set,
    )


def _most_probable_intro(posterior: TreePosterior, report: dict[str, Any]) -> str:
    n_splits, chance = int(posterior.best_tree.n_splits[0]), posterior.best_probability
    asks = "asks nothing" if n_splits == 0 else f"asks {n_splits} question{'s' * (n_splits > 1)}"
    share = "share of the drawn trees" if posterior.by_share else "probability"
    known = "" if posterior.engine == "exact" else " known"  # as the command line says it
    said = f"The most probable tree{known} {asks}; its {share} is {_percent(chance)}."
    half = report["n_holding"][0]
    if half is None or half < 2:
        return said if half == 1 else f"{said} Very many others are about as probable."
    return f"{said} The {half:,} most probable trees together have half of all probability."


def _not_asked(chosen: TreeSet, report: dict[str, Any]) -> str:
    """Name the columns that decide, and that this tree does without."""
    asked = _columns_asked(chosen)
    title = {column["name"]: _title(column) for column in report["columns"]}
    without = [
        title[row["name"]]
        for row in report["importances"]
        if row.get("inclusion", 0.0) >= NEEDED and row["name"] not in asked
    ]
    if not without or len(without) > MOST_NAMED:
        return ""
    return (
        f" It leaves out {_and(without)}, which more than half of all trees, by probability, use."
    )


def _columns_asked(chosen: TreeSet) -> list[str]:
    """Names of the columns that the first tree of a set splits on."""
    features = chosen.trees.feature[0]
    return [chosen.binner.features[feature].name for feature in features[features >= 0].tolist()]


def _leaves(chosen: TreeSet, report: dict[str, Any]) -> list[str]:
    """A sentence for each leaf of the first tree of a set."""
    found, target = [], report["fit"].get("target")
    for node, steps in paths_to_leaves(chosen.trees, 0):
        conditions = gather_conditions(chosen.binner, steps)
        words = " and ".join(condition_text(chosen.binner, each) for each in conditions)
        value, rows = chosen.value[0, node], _rows_text(float(chosen.rows[0, node]))
        if chosen.classes is None:
            says = f"{value[0]:.4g}"
        else:
            told = int(value.argmax()) if chosen.event is None else chosen.event
            says = f"{_class_words(chosen.titles[told], target)} with probability {value[told]:.2f}"
        found.append(f"{_capital(f'if {words}' if words else 'always')}: {says} ({rows})")
    return found


def _class_words(title: str, target: str | None) -> str:
    """Name a class; one that is a number or a truth says nothing without what is predicted."""
    bare = title in ("True", "False") or parse_number(title) is not None
    return f"{target} = {title}" if bare and target else title


def _detector_tree(report: dict[str, Any]) -> Told | None:
    if not report["trees"]:
        return None
    return Told(
        "The tree below tells ordinary rows best; a row is odd where few of the rows it was fitted "
        "to are.",
        "The model is many such trees, each on a few columns.",
        None,
    )


def quality_sentences(report: dict[str, Any]) -> str:
    """Say how good it is on held-out rows, beside the simplest thing one could do."""
    held, task = report["held_out"], report["fit"]["task"]
    if not held:
        return (
            "Not known: nobody has tried it on rows that it has not seen. Give such rows, and what "
            "is true of them, to make this report."
        )
    n_rows = held["rows"]
    tried = f"Tried on {_rows_text(n_rows)} that it had not seen,"
    if task == "numbers":
        return _number_quality(held, tried)
    if task == "anomalies":
        return _anomaly_quality(held, tried)
    right, plain = held["accuracy"], (held.get("baseline") or {}).get("accuracy")
    low, high = _interval(right, n_rows)
    said = f"{tried} the model is right for {_percent(right)}"
    if high - low > 0.02:
        said += (
            f" (with so few rows, anything from {_percent(low)} to {_percent(high)} is possible)"
        )
    if plain is None:
        return f"{said}."
    said += f"; always saying the most frequent class is right for {_percent(plain)}"
    if right <= plain:
        said += ", so its guesses are no better than that"
    elif low <= plain:
        said += ", so that it is any better is not certain"
    return f"{said}.{_surprise(held)}"


def _surprise(held: dict[str, Any]) -> str:
    """What the probabilities are worth."""
    loss, plain = held["log_loss"], held["baseline"]["log_loss"]
    if loss >= plain:
        return " Its probabilities are no better than the class shares alone."
    said = ""
    if held["accuracy"] <= held["baseline"]["accuracy"]:
        said = " Its probabilities tell more than the class shares alone"
        if held.get("auc") is not None:
            said += (
                f": of pairs of rows of different classes they put {_percent(held['auc'])} in the "
                "right order, and guessing would put 50 %"
            )
        said += "."
    off, chance = held["calibration_error"], _chance_alone(held.get("reliability") or [])
    said += f" Its probabilities are off by {_percent(off)} on average"
    if chance > off / 2.0:
        said += f", of which {_percent(min(chance, off))} is what chance makes of so few rows"
    return f"{said}."


def _chance_alone(bins: list[dict[str, Any]]) -> float:
    """Calibration error to be expected of probabilities that are right, on so few rows."""
    rows = np.array([each["rows"] for each in bins])
    p = np.array([each["mean_probability"] for each in bins])
    spread = np.sqrt(2.0 / math.pi * rows * p * (1.0 - p))  # E|rows right - expected| of a bin
    return float(spread.sum() / rows.sum()) if len(bins) else 0.0


def _tree_alone(told: Told | None, held: tuple[Any, Any] | None) -> str:
    """How good the one tree is by itself."""
    if told is None or told.trees is None or held is None:
        return ""
    said, truth = told.trees.average(held[0]), held[1]
    if told.trees.classes is not None:
        right = float((said.argmax(axis=1) == truth).mean())
        return f" The one tree alone is right for {_percent(right)}."
    off = math.sqrt(float(((said[:, 0] - truth) ** 2).mean()))
    return f" The one tree alone is off by {off:.3g}."


def _number_quality(held: dict[str, Any], tried: str) -> str:
    rmse, plain = held["rmse"], (held.get("baseline") or {}).get("rmse")
    said = f"{tried} the model is typically off by {rmse:.3g}"
    if plain is not None:
        said += f"; always saying the mean of the rows it has seen is off by {plain:.3g}"
        said += ", so it is no better than that" if rmse >= plain else ""
    return (
        f"{said}. {_percent(held['coverage'])} of them lie in the interval that was to hold 90 %."
    )


def _anomaly_quality(held: dict[str, Any], tried: str) -> str:
    if held.get("auroc") is None:
        return (
            f"{tried}, of which all or none are anomalies, so how well it tells them is not known."
        )
    return (
        f"{tried}: of an anomaly and an ordinary row it picks the right one in "
        f"{_percent(held['auroc'])} of all pairs; guessing would in 50 %."
    )


def _trust(report: dict[str, Any]) -> dict[str, Any]:
    """Say whether the computation can be relied on, and if predictions cannot."""
    trust = report["trust"]
    if trust is None:
        return {"level": "unknown", "sentence": TRUSTED["unknown"], "doubts": 0}
    level, sentence = trust["level"], TRUSTED[trust["level"]]
    if _is_useless(report["held_out"]):
        level, sentence = ("fair" if level == "good" else level), f"{sentence} {USELESS}"
    return {"level": level, "sentence": sentence, "doubts": len(trust.get("doubts") or [])}


def _is_useless(held: dict[str, Any] | None) -> bool:
    """Whether predictions of held-out rows are in no way better than the simplest ones."""
    plain = (held or {}).get("baseline")
    if not held or not plain:
        return False
    if "rmse" in held:
        return bool(held["rmse"] >= plain["rmse"])
    worse = held["log_loss"] >= plain["log_loss"] and held["accuracy"] <= plain["accuracy"]
    return bool(worse)


def _interval(share: float, n_rows: float) -> tuple[float, float]:
    """Wilson's interval of a share of so many rows."""
    z2 = SURE**2 / n_rows
    middle = (share + z2 / 2.0) / (1.0 + z2)
    half = SURE * math.sqrt(share * (1.0 - share) / n_rows + z2 / (4.0 * n_rows)) / (1.0 + z2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _title(column: dict[str, Any]) -> str:
    return visible(column["label"] or column["name"])


def _chance(p: float) -> str:
    return "certain" if p > 0.9995 else f"{p:.2f}" if p < 0.995 else "> 0.99"


def _percent(share: float) -> str:
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    if 0.995 <= share < 1.0:
        return "more than 99 %"
    digits = 1 if share < 0.0995 else 0
    return f"{100.0 * share:.{digits}f} %"


def _rows_text(n_rows: float) -> str:
    return f"{number_text(n_rows)} row" + ("" if n_rows == 1 else "s")


def _columns(number: int, which: str = "") -> str:
    return f"{number:,} {which}column" + ("" if number == 1 else "s")


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
