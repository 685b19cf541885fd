"""A posterior as the JSON and arrays of an archive, and back, where every value is distrusted."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np

from dtgfn._support.arrays import Floats
from dtgfn._support.checks import check_choice
from dtgfn._support.parallel import count_threads
from dtgfn.data.binner_dict import binner_from_dict
from dtgfn.data.binning import Binner
from dtgfn.engines.exact.engine import ExactSolution
from dtgfn.engines.exact.support_check import check_support
from dtgfn.engines.registry import ENGINE_HOMES
from dtgfn.engines.rowsets.graph import Edges
from dtgfn.engines.rowsets.problem import Problem, make_problem
from dtgfn.engines.rowsets.support import SupportLevel
from dtgfn.inference.bagging import Bags
from dtgfn.inference.outside import SHARPEST
from dtgfn.posterior.tree_posterior import SHARE_OF_BEST, TreePosterior, TreeSource
from dtgfn.storage.archived_parts import (
    ROUNDING,
    Arrays,
    array_of,
    classes_from,
    dict_of,
    finite,
    leaf_from_dict,
    leaf_to_dict,
    plain,
    prior_from_dict,
    rows_from,
    shared_arrays,
    shared_meta,
    trees_from,
    trees_to_arrays,
)
from dtgfn.storage.known_nodes import known_from, known_to_arrays
from dtgfn.storage.limits import affordable_threads, check_exact, check_forest, check_pairs
from dtgfn.trees.batch import TreeBatch
from dtgfn.trees.left_out_rows import LeftOutRows
from dtgfn.trees.score import BranchingPrior, Rows, Score, make_score

RANKED = 100  # most probable trees that are kept of what ranks them
EDGE_ARRAYS = ("start", "feature", "low", "high", "left", "right")


def posterior_to_meta(posterior: TreePosterior, with_rows: bool) -> dict[str, Any]:
    """Return what JSON can hold of a posterior."""
    shared = shared_meta(posterior)
    if posterior.by_share and not with_rows:
        shared["diagnostics"][SHARE_OF_BEST] = posterior.best_probability
    return {
        **shared,
        "score": _score_to_dict(posterior.score),
        "log_evidence": plain(posterior.log_evidence),
        "log_evidence_error": plain(posterior.log_evidence_error),
        "best_log_reward": posterior.best_log_reward,
    }


def posterior_to_arrays(posterior: TreePosterior, with_rows: bool) -> Arrays:
    """Return the arrays of a posterior; equal rows are merged.

    Without rows there are sums at the nodes of its trees instead, and no exact average.
    """
    with_rows = with_rows and not isinstance(posterior.rows, LeftOutRows)
    arrays: Arrays = {
        **(shared_arrays(posterior) if with_rows else known_to_arrays(posterior)),
        "log_reward": posterior.log_reward,
        "log_prob": posterior.log_prob,
        "log_weight": posterior.log_weight,
        "column_inclusion": posterior.column_inclusion,
        "size_probability": posterior.size_probability,
    }
    arrays |= trees_to_arrays("trees", posterior.trees)
    arrays |= trees_to_arrays("best", posterior.best_tree)
    arrays |= trees_to_arrays("paper", posterior.paper_tree)
    ranked = posterior.ranked(RANKED) if with_rows and not posterior.is_exact else None
    if ranked is not None:
        arrays |= trees_to_arrays("ranked", ranked)
    if posterior.is_bagged:
        arrays["bags.bag"] = cast(Bags, posterior.solution).bag
        arrays["bags.sharpness"] = np.array([posterior.sharpness])
    if posterior.is_exact and with_rows:
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
        "leaf": leaf_to_dict(score.leaf),
    }


def posterior_from(meta: dict[str, Any], arrays: Arrays) -> TreePosterior:
    """Put a posterior together again; a ValueError says what is wrong."""
    binner = binner_from_dict(meta["binner"])
    score = _score_from_dict(meta["score"])
    classes = classes_from(meta, score.leaf)
    rows = rows_from(arrays, binner, score.leaf) if "rows.codes" in arrays else None
    trees, best, paper, ranked = _all_trees_from(arrays, binner, rows, score)
    if rows is None:
        rows = known_from(arrays, {"trees": trees, "paper": paper, "best": best}, score.leaf)
    n_columns = len(binner.columns)
    engine = meta["engine"]
    check_choice("engine", engine, tuple(ENGINE_HOMES))
    solution: TreeSource | None = None
    if "bags.bag" in arrays:
        solution = _bags_from(arrays, trees, rows, score)
    elif isinstance(rows, LeftOutRows):
        solution = None
    elif engine == "exact" and "given" not in dict_of(meta["diagnostics"]):
        column = np.asarray(binner.feature_column, dtype=np.int32)
        check_exact(rows, score.leaf)
        solution = _solution_from(arrays, make_problem(rows, score, column, n_columns))
    log_reward, log_weight = (_logs_of(arrays, n, len(trees)) for n in ("log_reward", "log_weight"))
    most_splits = 2**score.max_depth
    if not isinstance(rows, LeftOutRows):
        most_splits = min(most_splits, len(rows.target))
    posterior = TreePosterior(
        trees=trees,
        log_reward=log_reward,
        log_prob=_logs_of(arrays, "log_prob", len(trees), unknown=True),
        log_weight=log_weight,
        log_evidence=_number(meta["log_evidence"]),
        log_evidence_error=_number(meta["log_evidence_error"]),
        best_tree=best,
        best_log_reward=finite(meta["best_log_reward"]),
        paper_tree=paper,
        column_inclusion=_shares_of(arrays, "column_inclusion", n_columns, n_columns),
        size_probability=_shares_of(arrays, "size_probability", 1, most_splits),
        rows=rows,
        score=score,
        engine=engine,
        solution=solution,
        binner=binner,
        classes=classes,
        diagnostics=_diagnostics_from(meta["diagnostics"]),
        history=[dict_of(entry) for entry in meta["history"]],
        ranked_trees=ranked,
    )
    if "paper.feature" in arrays:
        return posterior
    top = posterior.most_probable(1)  # files of format 2 keep the paper's tree as the best
    return replace(posterior, best_tree=top.trees, best_log_reward=float(top.log_reward[0]))


def _all_trees_from(
    arrays: Arrays, binner: Binner, rows: Rows | None, score: Score
) -> tuple[TreeBatch, TreeBatch, TreeBatch, TreeBatch | None]:
    """Return the sampled trees, the most probable one, the paper's, and the ranked ones if any."""
    names = ["trees", "best", "paper" if "paper.feature" in arrays else "best"]
    names += ["ranked"] if "ranked.feature" in arrays else []
    batches = [trees_from(arrays, name, binner.n_cuts, score.max_depth) for name in names]
    trees, best, paper = batches[:3]
    ranked = batches[3] if len(batches) > 3 else None
    if len(best) != 1 or len(paper) != 1:
        raise ValueError("it has no best tree")
    if rows is None:
        return trees, best, paper, None
    widest = max(batch.feature.shape[1] for batch in batches)
    if (widest + 1) // 2 > len(rows.target):  # a leaf has a row
        raise ValueError("a tree has more leaves than there are training rows")
    check_forest(trees, rows, score.leaf, score.max_depth)
    return trees, best, paper, ranked


def _diagnostics_from(value: Any) -> dict[str, Any]:
    diagnostics = dict_of(value)
    if SHARE_OF_BEST in diagnostics:
        finite(diagnostics[SHARE_OF_BEST])
    return diagnostics


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


def _number(value: Any) -> float:
    """Read a number back, nan where there was none."""
    return math.nan if value is None else finite(value)


def _score_from_dict(data: dict[str, Any]) -> Score:
    prior = data["prior"]
    if "log_stop" in prior:
        penalty: Any = prior_from_dict(prior)
    elif prior["branching"]:
        penalty = ("bcart", prior["base"], prior["decay"])
    else:
        penalty = prior["penalty"]
    return make_score(
        leaf_from_dict(data["leaf"]),
        n_features=1,
        n_thresholds=1,
        max_depth=data["max_depth"],
        split_penalty=penalty,
        temperature=data["temperature"],
    )


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
    return ExactSolution(problem, support, affordable_threads(problem, count_threads(None)))


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
