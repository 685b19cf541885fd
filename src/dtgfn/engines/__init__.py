"""Engines that turn rows and a score into a posterior over trees, and what they work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.engines.contract import Engine as Engine
    from dtgfn.engines.contract import Run as Run
    from dtgfn.engines.exact.engine import ExactOptions as ExactOptions
    from dtgfn.engines.exact.engine import ExactSolution as ExactSolution
    from dtgfn.engines.exact.engine import infer_exact as infer_exact
    from dtgfn.engines.gfn.callbacks import Callback as Callback
    from dtgfn.engines.gfn.callbacks import MLflowTracker as MLflowTracker
    from dtgfn.engines.gfn.callbacks import TensorBoardTracker as TensorBoardTracker
    from dtgfn.engines.gfn.callbacks import WandbTracker as WandbTracker
    from dtgfn.engines.gfn.engine import GfnOptions as GfnOptions
    from dtgfn.engines.gfn.engine import infer_gfn as infer_gfn
    from dtgfn.engines.gfn.hooks import ActionRule as ActionRule
    from dtgfn.engines.gfn.hooks import ExplorationRule as ExplorationRule
    from dtgfn.engines.gfn.hooks import LeafPaths as LeafPaths
    from dtgfn.engines.gfn.hooks import LossShape as LossShape
    from dtgfn.engines.gfn.hooks import NetworkFactory as NetworkFactory
    from dtgfn.engines.gfn.hooks import NodePaths as NodePaths
    from dtgfn.engines.gfn.hooks import Objective as Objective
    from dtgfn.engines.gfn.hooks import ObjectiveLoss as ObjectiveLoss
    from dtgfn.engines.gfn.hooks import PathNetwork as PathNetwork
    from dtgfn.engines.gfn.hooks import Residuals as Residuals
    from dtgfn.engines.gfn.hooks import RuleNetwork as RuleNetwork
    from dtgfn.engines.gfn.hooks import Sizes as Sizes
    from dtgfn.engines.gfn.hooks import View as View
    from dtgfn.engines.gfn.settings import Checkpoint as Checkpoint
    from dtgfn.engines.gfn.settings import Settings as Settings
    from dtgfn.engines.gfn.shared_policy import MlpPolicy as MlpPolicy
    from dtgfn.engines.gfn.shared_policy import Policy as Policy
    from dtgfn.engines.gfn.shared_policy import load_policy as load_policy
    from dtgfn.engines.gfn.shared_policy import shipped_policy as shipped_policy
    from dtgfn.engines.gfn.shared_policy import view_names as view_names
    from dtgfn.engines.mcmc.engine import McmcOptions as McmcOptions
    from dtgfn.engines.mcmc.engine import infer_mcmc as infer_mcmc
    from dtgfn.engines.registry import find_engine as find_engine
    from dtgfn.engines.smc.engine import SmcOptions as SmcOptions
    from dtgfn.engines.smc.engine import infer_smc as infer_smc
    from dtgfn.posterior.prediction import CountedTrees as CountedTrees
    from dtgfn.trees.batch import TreeBatch as TreeBatch
    from dtgfn.trees.flat_trees import WeightedTrees as WeightedTrees
    from dtgfn.trees.flat_trees import average as average
    from dtgfn.trees.score import Rows as Rows
    from dtgfn.trees.score import Score as Score
    from dtgfn.trees.score import StructurePrior as StructurePrior
    from dtgfn.trees.score import log_reward as log_reward

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "engines.contract": (
            "Engine",
            "Run",
        ),
        "engines.registry": ("find_engine",),
        "engines.exact.engine": (
            "ExactOptions",
            "ExactSolution",
            "infer_exact",
        ),
        "engines.gfn.engine": ("GfnOptions", "infer_gfn"),
        "engines.gfn.shared_policy": (
            "MlpPolicy",
            "Policy",
            "load_policy",
            "shipped_policy",
            "view_names",
        ),
        "engines.gfn.settings": ("Checkpoint", "Settings"),
        "engines.gfn.hooks": (
            "ActionRule",
            "ExplorationRule",
            "LeafPaths",
            "LossShape",
            "NetworkFactory",
            "NodePaths",
            "Objective",
            "ObjectiveLoss",
            "PathNetwork",
            "Residuals",
            "RuleNetwork",
            "Sizes",
            "View",
        ),
        "engines.gfn.callbacks": (
            "Callback",
            "MLflowTracker",
            "TensorBoardTracker",
            "WandbTracker",
        ),
        "engines.mcmc.engine": ("McmcOptions", "infer_mcmc"),
        "engines.smc.engine": ("SmcOptions", "infer_smc"),
        "trees.batch": ("TreeBatch",),
        "trees.score": (
            "Rows",
            "Score",
            "StructurePrior",
            "log_reward",
        ),
        "trees.flat_trees": (
            "WeightedTrees",
            "average",
        ),
        "posterior.prediction": ("CountedTrees",),
    },
)
