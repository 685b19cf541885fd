"""A posterior as the JSON and arrays of an archive, and back, where every value is distrusted."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dtgfn._support.archive import StorageError
from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_choice, check_range
from dtgfn.data.binner_dict import binner_from_dict, binner_to_dict
from dtgfn.data.binning import Binner
from dtgfn.data.targets import MAX_CLASSES, MAX_WEIGHT
from dtgfn.engines.exact.engine import ExactSolution
from dtgfn.engines.exact.inside_outside import SupportLevel
from dtgfn.engines.exact.support_check import check_support
from dtgfn.engines.registry import ENGINE_HOMES
from dtgfn.engines.rowsets.graph import Edges
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.inference.bagging import Bags
from dtgfn.inference.outside import SHARPEST
from dtgfn.posterior.tree_posterior import TreePosterior, TreeSource
from dtgfn.storage.limits import affordable_threads, check_exact, check_forest, check_pairs
from dtgfn.trees.batch import TreeBatch, check_trees, trim
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, check_targets
from dtgfn.trees.score import BranchingPrior, Rows, Score, make_score, merge_rows

LEAVES: dict[str, type] = {"dirichlet": DirichletLeaf, "normal": NormalLeaf}
EDGE_ARRAYS = ("start", "feature", "low", "high", "left", "right")
TREE_ARRAYS = {"feature": 2, "cut": 2, "left": 2, "n_nodes": 1}  # and how many axes each has

LABELS: dict[str, tuple[type, type]] = {  # by the kind of their array: their type, and its own
    "b": (bool, np.bool_),
    "i": (int, np.int64),
    "u": (int, np.uint64),
    "f": (float, np.float64),
    "U": (str, np.str_),
    "O": (str, object),
}
LARGEST_TOTAL = 1e150  # of targets in a leaf, whose square must be a number
ROUNDING = 1e-6

Arrays = dict[str, npt.NDArray[Any]]


def posterior_to_meta(posterior: TreePosterior) -> dict[str, Any]:
    """Return what JSON can hold of a posterior."""
    assert posterior.binner is not None, "infer always sets it"
    classes = posterior.classes
    return {
        "classes": None if classes is None else classes.tolist(),
        "classes_dtype": None if classes is None else classes.dtype.kind,
        "binner": binner_to_dict(posterior.binner),
        "score": _score_to_dict(posterior.score),
        "engine": posterior.engine,
        "log_evidence": plain(posterior.log_evidence),
        "log_evidence_error": plain(posterior.log_evidence_error),
        "best_log_reward": posterior.best_log_reward,
        "diagnostics": plain(posterior.diagnostics),
        "history": plain(posterior.history),
    }


def posterior_to_arrays(posterior: TreePosterior) -> Arrays:
    """Return the arrays of a posterior; equal rows are merged."""
    rows = merge_rows(posterior.rows)
    arrays: Arrays = {
        "rows.codes": rows.codes,
        "rows.target": rows.target,
        "rows.weight": rows.weight,
        "log_reward": posterior.log_reward,
        "log_prob": posterior.log_prob,
        "log_weight": posterior.log_weight,
        "column_inclusion": posterior.column_inclusion,
        "size_probability": posterior.size_probability,
    }
    arrays |= trees_to_arrays("trees", posterior.trees)
    arrays |= trees_to_arrays("best", posterior.best_tree)
    if posterior.is_bagged:
        arrays["bags.bag"] = cast(Bags, posterior.solution).bag
        arrays["bags.sharpness"] = np.array([posterior.sharpness])
    if posterior.is_exact:
        for i, here in enumerate(cast(ExactSolution, posterior.solution).support):
            arrays[f"support.{i}.bits"] = here.bits
            arrays[f"support.{i}.stop"] = here.stop
            arrays[f"support.{i}.probability"] = here.probability
            for field in EDGE_ARRAYS:
                arrays[f"support.{i}.{field}"] = getattr(here.edges, field)
    return arrays


def _score_to_dict(score: Score) -> dict[str, Any]:
    branching = isinstance(score.prior, BranchingPrior)
    return {
        "max_depth": score.max_depth,
        "temperature": score.temperature,
        "prior": {"branching": branching, **asdict(score.prior)},
        "leaf": _leaf_to_dict(score.leaf),
    }


def _leaf_to_dict(leaf: LeafModel) -> dict[str, Any]:
    kind = next((name for name, known in LEAVES.items() if type(leaf) is known), None)
    if kind is None:
        raise StorageError(
            f"A model with leaves of the kind {type(leaf).__name__} cannot be saved; "
            f"only {' and '.join(LEAVES)} leaves can. Pickle it instead."
        )
    return {"kind": kind, **asdict(leaf)}  # type: ignore[call-overload]


def plain(value: Any) -> Any:
    """Write what is not a number as None: JSON has no nan."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def posterior_from(meta: dict[str, Any], arrays: Arrays) -> TreePosterior:
    """Put a posterior together again; a ValueError says what is wrong."""
    binner = binner_from_dict(meta["binner"])
    score = _score_from_dict(meta["score"])
    classes = None
    if isinstance(score.leaf, DirichletLeaf):
        n_classes = score.leaf.n_classes
        classes = _classes_from(meta["classes"], meta["classes_dtype"], n_classes)
    rows = _rows_from(arrays, binner, score.leaf)
    trees, best = _all_trees_from(arrays, binner, rows, score)
    n_columns = len(binner.columns)
    engine = meta["engine"]
    check_choice("engine", engine, tuple(ENGINE_HOMES))
    solution: TreeSource | None = None
    if "bags.bag" in arrays:
        solution = _bags_from(arrays, trees, rows, score)
    elif engine == "exact":
        column = np.asarray(binner.feature_column, dtype=np.int32)
        check_exact(rows, score.leaf)
        solution = _solution_from(arrays, make_problem(rows, score, column, n_columns))
    log_reward, log_weight = (_logs_of(arrays, n, len(trees)) for n in ("log_reward", "log_weight"))
    most_splits = min(2**score.max_depth, len(rows.target))
    return TreePosterior(
        trees=trees,
        log_reward=log_reward,
        log_prob=_logs_of(arrays, "log_prob", len(trees), unknown=True),
        log_weight=log_weight,
        log_evidence=_number(meta["log_evidence"]),
        log_evidence_error=_number(meta["log_evidence_error"]),
        best_tree=best,
        best_log_reward=finite(meta["best_log_reward"]),
        column_inclusion=_shares_of(arrays, "column_inclusion", n_columns, n_columns),
        size_probability=_shares_of(arrays, "size_probability", 1, most_splits),
        rows=rows,
        score=score,
        engine=engine,
        solution=solution,
        binner=binner,
        classes=classes,
        diagnostics=_dict_of(meta["diagnostics"]),
        history=[_dict_of(entry) for entry in meta["history"]],
    )


def _all_trees_from(
    arrays: Arrays, binner: Binner, rows: Rows, score: Score
) -> tuple[TreeBatch, TreeBatch]:
    """Return the sampled trees and the best one."""
    trees, best = (
        trees_from(arrays, name, binner.n_cuts, score.max_depth) for name in ("trees", "best")
    )
    if len(best) != 1:
        raise ValueError("it has no best tree")
    widest = max(batch.feature.shape[1] for batch in (trees, best))
    if (widest + 1) // 2 > len(rows.target):  # a leaf has a row
        raise ValueError("a tree has more leaves than there are training rows")
    check_forest(trees, rows, score.leaf, score.max_depth)
    return trees, best


def _logs_of(arrays: Arrays, name: str, n_trees: int, unknown: bool = False) -> Floats:
    """Return a log per tree: a number, -inf for what weighs nothing, nan if that may be."""
    logs = array_of(arrays, name, "f8", 1, n_trees)
    if unknown:
        return logs
    if not (logs < np.inf).all() or not np.isfinite(logs.max()):
        raise ValueError(f"its array {name} holds no usable numbers")
    return logs


def _shares_of(arrays: Arrays, name: str, least: int, most: int) -> Floats:
    shares = array_of(arrays, name, "f8", 1)
    if not least <= len(shares) <= most:
        raise ValueError(f"its array {name} is of the wrong length")
    if not ((shares >= -ROUNDING) & (shares <= 1 + ROUNDING)).all():
        raise ValueError(f"its array {name} holds no probabilities")
    return shares


def _dict_of(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("its diagnostics or its history are not usable")
    return value


def finite(value: Any) -> float:
    """Return a number of the meta data, where all are finite; nothing else passes for one."""
    if type(value) not in (int, float):
        raise ValueError("it has something else where a number should be")
    return float(value)


def _number(value: Any) -> float:
    """Read a number back, nan where there was none."""
    return math.nan if value is None else finite(value)


def _score_from_dict(data: dict[str, Any]) -> Score:
    prior = data["prior"]
    penalty: Any = prior["penalty"] if not prior["branching"] else None
    return make_score(
        _leaf_from_dict(data["leaf"]),
        n_features=1,
        n_thresholds=1,
        max_depth=data["max_depth"],
        split_penalty=("bcart", prior["base"], prior["decay"]) if penalty is None else penalty,
        temperature=data["temperature"],
    )


def _leaf_from_dict(data: dict[str, Any]) -> LeafModel:
    kind = data["kind"]
    if kind not in LEAVES:
        raise ValueError(f"it has leaves of an unknown kind, {kind!r}")
    values = {name: value for name, value in data.items() if name != "kind"}
    if kind == "dirichlet":
        check_range("n_classes", values["n_classes"], 1, MAX_CLASSES)
        check_range("concentration", values["concentration"], 1e-6, 1e6)
        return DirichletLeaf(int(values["n_classes"]), float(values["concentration"]))
    leaf = NormalLeaf(**{name: finite(value) for name, value in values.items()})
    if leaf.scale <= 0:
        raise ValueError("its leaves have no usable scale")
    for name, low in (("strength", 1e-6), ("shape", 1.001), ("spread", 1e-12)):
        check_range(name, getattr(leaf, name), low, 1e12)
    return leaf


def _bags_from(arrays: Arrays, trees: TreeBatch, rows: Rows, score: Score) -> Bags:
    """Bags without the rows in each: they are only needed to choose the sharpness."""
    bag = array_of(arrays, "bags.bag", "i4", 1, len(trees))
    sharpness = float(array_of(arrays, "bags.sharpness", "f8", 1, 1)[0])
    if ((bag < 0) | (bag >= len(trees))).any() or not 0 < sharpness <= SHARPEST:
        raise ValueError("its bags are not usable")
    nothing = np.zeros((int(bag.max()) + 1, 0), dtype=np.int16)
    return Bags(trees, rows, score, bag, nothing, sharpness)


def _solution_from(arrays: Arrays, problem: Problem) -> ExactSolution:
    support: list[SupportLevel] = []
    while f"support.{len(support)}.bits" in arrays:
        support.append(_support_from(arrays, f"support.{len(support)}.", problem))
    check_support(problem, support)
    check_pairs(problem, support[-1].bits, problem.score.max_depth - (len(support) - 1))
    return ExactSolution(problem, support, affordable_threads(problem, os.cpu_count() or 1))


def _classes_from(values: Any, kind: Any, n_classes: int) -> npt.NDArray[Any]:
    if not isinstance(kind, str) or kind not in LABELS:
        raise ValueError(f"its class labels are of an unknown kind, {kind!r}")
    wanted, dtype = LABELS[kind]
    if not isinstance(values, list) or not all(type(value) is wanted for value in values):
        raise ValueError("its class labels are not of one plain kind")
    if not len(values) == len(set(values)) == n_classes <= MAX_CLASSES:
        raise ValueError("its class labels do not match its leaves")
    return np.array(values, dtype=dtype)


def _rows_from(arrays: Arrays, binner: Binner, leaf: LeafModel) -> Rows:
    codes = array_of(arrays, "rows.codes", "u2", 2)
    if codes.shape[1] != len(binner.features) or codes.shape[0] < 1:
        raise ValueError("its training rows do not match its columns")
    if (codes.max(axis=0) > binner.n_cuts).any():
        raise ValueError("a training row has a code that its column has not")
    weight = array_of(arrays, "rows.weight", "f8", 1, codes.shape[0])
    if not (weight > 0).all() or not weight.sum() <= MAX_WEIGHT * (1 + ROUNDING):
        raise ValueError("a training row has no usable weight")
    of_classes = isinstance(leaf, DirichletLeaf)
    target = array_of(arrays, "rows.target", "i4" if of_classes else "f8", 1, codes.shape[0])
    if of_classes:
        check_targets(target, leaf)
    elif not weight @ np.abs(target) <= LARGEST_TOTAL or not _has_units(target, leaf):
        raise ValueError("a training row has no usable target")
    rows = Rows(codes, target, weight)
    if len(merge_rows(rows).target) != len(target):
        raise ValueError("it has the same training row twice")
    return rows


def _has_units(target: Floats, leaf: LeafModel) -> bool:
    """Whether means of these targets, which a leaf draws towards 0, are numbers in user's units."""
    assert isinstance(leaf, NormalLeaf), "the only other one in a file"
    ends = (min(target.min(), 0.0), max(target.max(), 0.0))
    return all(math.isfinite(leaf.location + leaf.scale * float(end)) for end in ends)


def trees_to_arrays(name: str, trees: TreeBatch) -> Arrays:
    """Return the arrays of trees under a name, without the room that none of them uses."""
    return {f"{name}.{field}": getattr(trim(trees), field) for field in TREE_ARRAYS}


def trees_from(
    arrays: Arrays, name: str, n_cuts: npt.NDArray[np.integer[Any]], max_depth: int
) -> TreeBatch:
    """Return the trees under a name, one at least, checked; each feature has ``n_cuts`` [d]."""
    trees = TreeBatch(
        **{
            field: array_of(arrays, f"{name}.{field}", "i4", n_axes)
            for field, n_axes in TREE_ARRAYS.items()
        }
    )
    if len(trees) == 0:
        raise ValueError("it has no trees")
    check_trees(trees, n_cuts, max_depth)
    trees = trim(trees)
    return TreeBatch(*(np.ascontiguousarray(getattr(trees, field)) for field in TREE_ARRAYS))


def _support_from(arrays: Arrays, prefix: str, problem: Problem) -> SupportLevel:
    bits = array_of(arrays, prefix + "bits", "u8", 2)
    if bits.shape[1] != problem.n_words:
        raise ValueError("the support's row sets do not fit the rows")
    edges = Edges(
        array_of(arrays, prefix + "start", "i8", 1),
        *(array_of(arrays, prefix + field, "i4", 1) for field in EDGE_ARRAYS[1:]),
    )
    stop, probability = (
        array_of(arrays, prefix + field, "f8", 1) for field in ("stop", "probability")
    )
    return SupportLevel(bits, stop, edges, probability)


def array_of(
    arrays: Arrays, name: str, kind: str, n_axes: int, length: int | None = None
) -> npt.NDArray[Any]:
    """Return an array of just this type and shape, or say what is wrong with it.

    No type is widened: an array is as large in memory as the file says.
    """
    array = arrays[name]
    if array.dtype != np.dtype(kind) or array.ndim != n_axes:
        raise ValueError(f"its array {name} is of the wrong type or shape")
    if length is not None and array.shape[0] != length:
        raise ValueError(f"its array {name} is of the wrong length")
    return array
