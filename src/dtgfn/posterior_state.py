"""A posterior as JSON meta data and arrays, and back with every check: files may be hostile."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn.bagging import SHARPEST, Bags
from dtgfn.binning_state import binner_from_dict, binner_to_dict
from dtgfn.checks import check_range
from dtgfn.container import StorageError
from dtgfn.engines.exact.engine import ExactSolution
from dtgfn.engines.exact.graph import Edges
from dtgfn.engines.exact.problem import Problem, make_problem
from dtgfn.engines.exact.support import SupportLevel, check_support
from dtgfn.kernels import Floats, Ints
from dtgfn.leaves import DirichletLeaf, LeafModel, NormalLeaf
from dtgfn.posterior import TreePosterior, TreeSource
from dtgfn.score import BranchingPrior, Rows, Score, make_score, merge_rows
from dtgfn.training import MAX_CLASSES
from dtgfn.trees import TreeBatch, check_trees

LEAVES: dict[str, type] = {"dirichlet": DirichletLeaf, "normal": NormalLeaf}
EDGE_ARRAYS = ("start", "feature", "low", "high", "left", "right")
TREE_ARRAYS = {"feature": 2, "cut": 2, "left": 2, "n_nodes": 1}  # and how many axes each has

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
    if isinstance(posterior.solution, Bags):
        arrays["bags.bag"] = posterior.solution.bag
        arrays["bags.sharpness"] = np.array([posterior.solution.sharpness])
    if isinstance(posterior.solution, ExactSolution):
        for i, here in enumerate(posterior.solution.support):
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
    n_features = len(binner.features)
    rows = _rows_from(arrays, n_features, score.leaf)
    trees, best = (trees_from(arrays, name, n_features) for name in ("trees", "best"))
    if len(best) != 1:
        raise ValueError("it has no best tree")
    n_columns = len(binner.columns)
    engine = str(meta["engine"])
    solution: TreeSource | None = None
    if "bags.bag" in arrays:
        solution = _bags_from(arrays, trees, rows, score)
    elif engine == "exact":
        column = np.asarray(binner.feature_column, dtype=np.int32)
        solution = _solution_from(arrays, make_problem(rows, score, column, n_columns))
    size = array_of(arrays, "size_probability", "f", 1)
    return TreePosterior(
        trees=trees,
        log_reward=array_of(arrays, "log_reward", "f", 1, len(trees)),
        log_prob=array_of(arrays, "log_prob", "f", 1, len(trees)),
        log_weight=array_of(arrays, "log_weight", "f", 1, len(trees)),
        log_evidence=_number(meta["log_evidence"]),
        log_evidence_error=_number(meta["log_evidence_error"]),
        best_tree=best,
        best_log_reward=float(meta["best_log_reward"]),
        column_inclusion=array_of(arrays, "column_inclusion", "f", 1, n_columns),
        size_probability=size,
        rows=rows,
        score=score,
        engine=engine,
        solution=solution,
        binner=binner,
        classes=classes,
        diagnostics=dict(meta["diagnostics"]),
        history=list(meta["history"]),
    )


def _number(value: Any) -> float:
    """Read a number back, nan where there was none."""
    return math.nan if value is None else float(value)


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
    leaf = NormalLeaf(**{name: float(value) for name, value in values.items()})
    if not all(map(math.isfinite, asdict(leaf).values())) or leaf.scale <= 0:
        raise ValueError("its leaves have no usable location and scale")
    for name, low in (("strength", 1e-6), ("shape", 1.001), ("spread", 1e-12)):
        check_range(name, getattr(leaf, name), low, 1e12)
    return leaf


def _bags_from(arrays: Arrays, trees: TreeBatch, rows: Rows, score: Score) -> Bags:
    """Bags without the rows in each: they are only needed to choose the sharpness."""
    bag = array_of(arrays, "bags.bag", "i", 1, len(trees)).astype(np.int32)
    sharpness = float(array_of(arrays, "bags.sharpness", "f", 1, 1)[0])
    if (bag < 0).any() or not 0 < sharpness <= SHARPEST:
        raise ValueError("its bags are not usable")
    nothing = np.zeros((int(bag.max(initial=0)) + 1, 0), dtype=np.int16)
    return Bags(trees, rows, score, bag, nothing, sharpness)


def _solution_from(arrays: Arrays, problem: Problem) -> ExactSolution:
    support: list[SupportLevel] = []
    while f"support.{len(support)}.bits" in arrays:
        support.append(_support_from(arrays, f"support.{len(support)}.", problem))
    check_support(problem, support)
    return ExactSolution(problem, support, os.cpu_count() or 1)


def _classes_from(values: Any, kind: str, n_classes: int) -> npt.NDArray[Any]:
    allowed = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}
    wanted = allowed[kind]
    if not isinstance(values, list) or not all(type(value) is wanted for value in values):
        raise ValueError("its class labels are not of one plain kind")
    if not len(values) == len(set(values)) == n_classes <= MAX_CLASSES:
        raise ValueError("its class labels do not match its leaves")
    return np.array(values, dtype=object if kind == "O" else None)


def _rows_from(arrays: Arrays, n_features: int, leaf: LeafModel) -> Rows:
    codes = array_of(arrays, "rows.codes", "u", 2)
    if codes.shape[1] != n_features or codes.shape[0] < 1:
        raise ValueError("its training rows do not match its columns")
    weight = array_of(arrays, "rows.weight", "f", 1, codes.shape[0])
    target: Ints | Floats
    if isinstance(leaf, DirichletLeaf):
        target = array_of(arrays, "rows.target", "i", 1, codes.shape[0]).astype(np.int32)
        if ((target < 0) | (target >= leaf.n_classes)).any():
            raise ValueError("a training row has a class that does not exist")
    else:
        target = array_of(arrays, "rows.target", "f", 1, codes.shape[0])
        if not np.isfinite(target).all():
            raise ValueError("a training row has no usable target")
    if not ((weight > 0) & np.isfinite(weight)).all():
        raise ValueError("a training row has no usable weight")
    return Rows(np.ascontiguousarray(codes, dtype=np.uint16), target, weight)


def trees_to_arrays(name: str, trees: TreeBatch) -> Arrays:
    """Return the arrays of trees under a name."""
    return {f"{name}.{field}": getattr(trees, field) for field in TREE_ARRAYS}


def trees_from(arrays: Arrays, name: str, n_features: int) -> TreeBatch:
    """Return the trees under a name, checked."""
    fields = {
        field: np.ascontiguousarray(
            array_of(arrays, f"{name}.{field}", "i", n_axes), dtype=np.int32
        )
        for field, n_axes in TREE_ARRAYS.items()
    }
    trees = TreeBatch(**fields)
    check_trees(trees, n_features, n_codes=65_536)
    return trees


def _support_from(arrays: Arrays, prefix: str, problem: Problem) -> SupportLevel:
    bits = np.ascontiguousarray(array_of(arrays, prefix + "bits", "u", 2), dtype=np.uint64)
    if bits.shape[1] != problem.n_words or (bits & ~problem.root_bits).any():
        raise ValueError("the support's row sets do not fit the rows")
    edges = Edges(
        np.ascontiguousarray(array_of(arrays, prefix + "start", "i", 1), dtype=np.int64),
        *(
            np.ascontiguousarray(array_of(arrays, prefix + field, "i", 1), dtype=np.int32)
            for field in EDGE_ARRAYS[1:]
        ),
    )
    stop, probability = (
        np.ascontiguousarray(array_of(arrays, prefix + field, "f", 1), dtype=np.float64)
        for field in ("stop", "probability")
    )
    return SupportLevel(bits, stop, edges, probability)


def array_of(
    arrays: Arrays, name: str, kind: str, n_axes: int, length: int | None = None
) -> npt.NDArray[Any]:
    """Return a copy of an array of this kind and shape, or say what is wrong with it."""
    array = arrays[name]
    if array.dtype.kind != kind or array.ndim != n_axes:
        raise ValueError(f"its array {name} is of the wrong type or shape")
    if length is not None and array.shape[0] != length:
        raise ValueError(f"its array {name} is of the wrong length")
    # A copy: the loops are compiled for arrays that may be written to.
    return np.array(array)
