"""The verdict on a posterior: one level and sentence, no better than its worst number."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dtgfn.diagnostics.doubts import MORE, trust
from dtgfn.diagnostics.items import Level, TrustItem, trust_items
from dtgfn.posterior.tree_posterior import TreePosterior

ORDER: tuple[Level, ...] = ("good", "fair", "poor")
# Of the engine and its answer, not only of the draws.
TELLING = ("evidence", "exact_gap", "exact_prediction", "r_hat", "bounds", "referee")


def verdict(posterior: TreePosterior, exact: TreePosterior | None = None) -> dict[str, Any]:
    """Return the overall level, its sentence, all doubts and all items as plain JSON values.

    Examples
    --------
    >>> from dtgfn import infer
    >>> posterior = infer([[1.0], [2.0]] * 9, [0, 1] * 9, engine="exact", max_depth=1)
    >>> verdict(posterior)["level"]
    'good'

    """
    items, doubts = trust_items(posterior, exact), trust(posterior)
    level, sentence = _overall(posterior, items, doubts, exact)
    return {
        "level": level,
        "sentence": sentence,
        "doubts": doubts,
        "items": [asdict(item) for item in items],
    }


def _overall(
    posterior: TreePosterior,
    items: list[TrustItem],
    doubts: list[str],
    exact: TreePosterior | None,
) -> tuple[Level, str]:
    """Level and sentence of everything together: no better than its worst part."""
    if posterior.is_exact:
        return "good", "This is the exact answer: a sum over all trees, nothing is approximated."
    if posterior.is_bagged:
        return "unknown", (
            "An average over bags has no evidence to be judged by, and the fit of each bag was not "
            "checked; judge it by held-out rows."
        )
    level = _worst(items)
    if doubts or level == "poor":
        way_out = f"allow a larger time_budget{MORE.get(posterior.engine, '')}"
        return "poor", (
            "Do not rely on this fit yet; " + way_out + ", or fewer n_thresholds or a smaller "
            "max_depth."
        )
    if exact is not None or posterior.diagnostics.get("exact") is True:
        close = "what it should be" if level == "good" else "close, with room for doubt (see below)"
        return level, f"Held against the exact answer, this fit is {close}."
    if level == "unknown":
        return (
            level,
            "Too little is known to judge this fit; run it longer, or judge by held-out rows.",
        )
    unseen = (
        "all of it is seen from trees that were drawn, so a group of trees that never was drawn "
        "would not show."
    )
    if level == "fair":
        return level, f"Usable, with room for doubt (see below); {unseen}"
    return level, f"Nothing speaks against this fit; {unseen}"


def _worst(items: list[TrustItem]) -> Level:
    """Return the worst known level; without a number that can tell, good ones prove nothing."""
    told: list[Level] = [item.level for item in items if item.level != "unknown"]
    worst: Level = max(told, key=ORDER.index, default="unknown")
    telling = any(item.key in TELLING and item.level != "unknown" for item in items)
    return worst if telling or worst != "good" else "unknown"
