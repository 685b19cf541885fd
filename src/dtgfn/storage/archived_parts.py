"""Parts of a posterior that every kind of model file has, written and read back distrusted."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.archive import StorageError
from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_range
from dtgfn.data.binner_dict import binner_to_dict
from dtgfn.data.binning import Binner
from dtgfn.data.targets import MAX_CLASSES, MAX_WEIGHT
from dtgfn.posterior.of_model import Posterior
from dtgfn.trees.batch import TreeBatch, check_trees, trim
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel, NormalLeaf, check_targets
from dtgfn.trees.left_out_rows import LeftOutRows
from dtgfn.trees.score import DepthPrior, Rows, merge_rows

LEAVES: dict[str, type] = {"dirichlet": DirichletLeaf, "normal": NormalLeaf}
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


def shared_meta(posterior: Posterior) -> dict[str, Any]:
    """Return what JSON can hold of any posterior."""
    assert posterior.binner is not None, "infer always sets it"
    classes = posterior.classes
    return {
        "classes": None if classes is None else classes.tolist(),
        "classes_dtype": None if classes is None else classes.dtype.kind,
        "binner": binner_to_dict(posterior.binner),
        "engine": posterior.engine,
        "diagnostics": plain(posterior.diagnostics),
        "history": plain(posterior.history),
    }


def shared_arrays(posterior: Posterior) -> Arrays:
    """Return the training rows of any posterior, equal ones merged; none that were left out."""
    if isinstance(posterior.rows, LeftOutRows):
        return {}
    rows = merge_rows(posterior.rows)
    return {"rows.codes": rows.codes, "rows.target": rows.target, "rows.weight": rows.weight}


def plain(value: Any) -> Any:
    """Write what is not a number as None: JSON has no nan."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def prior_from_dict(data: dict[str, Any]) -> DepthPrior:
    """Read back the numbers of a prior of one's own."""
    stop, split = ([finite(value) for value in data[f"log_{part}"]] for part in ("stop", "split"))
    return DepthPrior(tuple(stop), tuple(split), bool(data["uniform_rules"]))


def leaf_to_dict(leaf: LeafModel) -> dict[str, Any]:
    """Return a leaf model as JSON can hold it; refuse one that no file can."""
    kind = next((name for name, known in LEAVES.items() if type(leaf) is known), None)
    if kind is None:
        raise StorageError(
            f"A model with leaves of the kind {type(leaf).__name__} cannot be saved; "
            f"only {' and '.join(LEAVES)} leaves can. Pickle it instead."
        )
    return {"kind": kind, **asdict(leaf)}  # type: ignore[call-overload]


def leaf_from_dict(data: dict[str, Any]) -> DirichletLeaf | NormalLeaf:
    """Return a leaf model, checked."""
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


def classes_from(meta: dict[str, Any], leaf: LeafModel) -> npt.NDArray[Any] | None:
    """Return the labels of the classes that leaves hold; None if they hold numbers."""
    if not isinstance(leaf, DirichletLeaf):
        return None
    values, kind = meta["classes"], meta["classes_dtype"]
    if not isinstance(kind, str) or kind not in LABELS:
        raise ValueError(f"its class labels are of an unknown kind, {kind!r}")
    wanted, dtype = LABELS[kind]
    if not isinstance(values, list) or not all(type(value) is wanted for value in values):
        raise ValueError("its class labels are not of one plain kind")
    if not len(values) == len(set(values)) == leaf.n_classes <= MAX_CLASSES:
        raise ValueError("its class labels do not match its leaves")
    return np.array(values, dtype=dtype)


def rows_from(arrays: Arrays, binner: Binner, leaf: LeafModel) -> Rows:
    """Return the training rows, checked."""
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


def dict_of(value: Any) -> dict[str, Any]:
    """Return a dict, of which nothing else is known."""
    if not isinstance(value, dict):
        raise ValueError("its diagnostics or its history are not usable")
    return value


def finite(value: Any) -> float:
    """Return a number of the meta data, where all are finite; nothing else passes for one."""
    if type(value) not in (int, float):
        raise ValueError("it has something else where a number should be")
    return float(value)


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
