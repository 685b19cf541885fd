"""The GFlowNet engine behind the contract of engines, as long as it takes keywords itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dtgfn.engines.contract import Run
from dtgfn.engines.gfn.settings import SETTING_NAMES, Settings, make_settings
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.score import Rows, Score


@dataclass(frozen=True)
class GfnOptions:
    """What only the GFlowNet is told."""

    settings: Settings = field(default_factory=Settings)
    callbacks: Iterable[Any] = ()
    checkpoint: Any = None
    policy: Any = None
    warm_start: TreePosterior | None = None


@dataclass(frozen=True)
class GfnEngine:
    """Trains a policy that draws trees in proportion to their reward."""

    name: str = "gfn"
    option_names: tuple[str, ...] = ("preset", "callbacks", "checkpoint", "policy", *SETTING_NAMES)

    def read_options(self, given: Mapping[str, Any]) -> GfnOptions:
        """Make options of keywords."""
        changed = {name: value for name, value in given.items() if name in SETTING_NAMES}
        settings = make_settings(given.get("preset", "default"), **changed)
        kept = ("callbacks", "checkpoint", "policy")
        return GfnOptions(settings, **{name: given[name] for name in kept if name in given})

    def infer(self, rows: Rows, score: Score, run: Run, options: GfnOptions) -> TreePosterior:
        """Infer the posterior over trees."""
        from dtgfn.engines.gfn.engine import infer_gfn  # which imports torch

        return infer_gfn(
            rows,
            score,
            **{f.name: getattr(run, f.name) for f in fields(run)},
            **{f.name: getattr(options.settings, f.name) for f in fields(Settings)},
            callbacks=options.callbacks,
            checkpoint=options.checkpoint,
            policy=options.policy,
            carry=options.warm_start,
        )


ENGINE = GfnEngine()
