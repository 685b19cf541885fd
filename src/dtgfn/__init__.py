"""The Bayesian posterior over decision trees.

Examples
--------
>>> import dtgfn
>>> model = dtgfn.DTGFNClassifier(inference="exact", max_depth=1, n_thresholds=3)
>>> model.fit([[1.0], [2.0], [8.0], [9.0]] * 5, ["no", "no", "yes", "yes"] * 5).predict([[1.5]])
array(['no'], dtype='<U3')

"""

from __future__ import annotations

from typing import TYPE_CHECKING

# What is to happen at a fork must be known before it.
import dtgfn._support.forks as _forks  # noqa: F401
from dtgfn._support.lazy_exports import lazy_exports
from dtgfn._version import __version__ as __version__

if TYPE_CHECKING:
    from dtgfn import dask as dask
    from dtgfn import datasets as datasets
    from dtgfn import diagnostics as diagnostics
    from dtgfn import engines as engines
    from dtgfn import explain as explain
    from dtgfn import export as export
    from dtgfn import leaves as leaves
    from dtgfn import mlflow as mlflow
    from dtgfn import plots as plots
    from dtgfn import report as report
    from dtgfn._support.archive import StorageError as StorageError
    from dtgfn.data.hints import DataHint as DataHint
    from dtgfn.data.table_files import read_table as read_table
    from dtgfn.engines.contract import BudgetExceeded as BudgetExceeded
    from dtgfn.engines.exact.interval import EvidenceInterval as EvidenceInterval
    from dtgfn.engines.exact.interval import evidence_interval as evidence_interval
    from dtgfn.estimators.anomaly import DTGFNAnomalyDetector as DTGFNAnomalyDetector
    from dtgfn.estimators.classifier import DTGFNClassifier as DTGFNClassifier
    from dtgfn.estimators.labelled import with_labels as with_labels
    from dtgfn.estimators.regressor import DTGFNRegressor as DTGFNRegressor
    from dtgfn.evaluation import evaluate as evaluate
    from dtgfn.explain.text import tree_text as tree_text
    from dtgfn.inference.bagging import infer_bagged as infer_bagged
    from dtgfn.inference.condition import GivenEffect as GivenEffect
    from dtgfn.inference.condition import condition as condition
    from dtgfn.inference.condition import given_effect as given_effect
    from dtgfn.inference.extend import extend_posterior as extend_posterior
    from dtgfn.inference.extend import reweigh as reweigh
    from dtgfn.inference.infer import infer as infer
    from dtgfn.inference.prior_mass import log_prior_mass as log_prior_mass
    from dtgfn.inference.resampling import BagOptions as BagOptions
    from dtgfn.inference.select import Selection as Selection
    from dtgfn.inference.select import select as select
    from dtgfn.inference.temperature import choose_temperature as choose_temperature
    from dtgfn.inference.temperature import leave_one_out as leave_one_out
    from dtgfn.posterior.moments import Variance as Variance
    from dtgfn.posterior.prediction import Predictor as Predictor
    from dtgfn.posterior.prediction import average_outputs as average_outputs
    from dtgfn.posterior.sum_posterior import SumPosterior as SumPosterior
    from dtgfn.posterior.sum_prediction import SumPredictor as SumPredictor
    from dtgfn.posterior.tree_posterior import TreePosterior as TreePosterior
    from dtgfn.posterior.uncertainty import Uncertainty as Uncertainty
    from dtgfn.posterior.uncertainty import credible_interval as credible_interval
    from dtgfn.posterior.uncertainty import uncertainty as uncertainty
    from dtgfn.storage.model_file import load as load
    from dtgfn.storage.model_file import save as save

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "estimators.classifier": ("DTGFNClassifier",),
        "estimators.regressor": ("DTGFNRegressor",),
        "estimators.anomaly": ("DTGFNAnomalyDetector",),
        "estimators.labelled": ("with_labels",),
        "data.hints": ("DataHint",),
        "data.table_files": ("read_table",),
        "inference.infer": ("infer",),
        "inference.bagging": ("infer_bagged",),
        "inference.resampling": ("BagOptions",),
        "inference.condition": (
            "GivenEffect",
            "condition",
            "given_effect",
        ),
        "inference.extend": (
            "extend_posterior",
            "reweigh",
        ),
        "inference.prior_mass": ("log_prior_mass",),
        "inference.select": (
            "Selection",
            "select",
        ),
        "inference.temperature": (
            "choose_temperature",
            "leave_one_out",
        ),
        "posterior.tree_posterior": ("TreePosterior",),
        "posterior.sum_posterior": ("SumPosterior",),
        "posterior.prediction": (
            "Predictor",
            "average_outputs",
        ),
        "posterior.sum_prediction": ("SumPredictor",),
        "posterior.uncertainty": (
            "Uncertainty",
            "credible_interval",
            "uncertainty",
        ),
        "posterior.moments": ("Variance",),
        "evaluation": ("evaluate",),
        "explain.text": ("tree_text",),
        "storage.model_file": (
            "load",
            "save",
        ),
        "_support.archive": ("StorageError",),
        "engines.contract": ("BudgetExceeded",),
        "engines.exact.interval": (
            "EvidenceInterval",
            "evidence_interval",
        ),
    },
    packages=(
        "dask",
        "datasets",
        "diagnostics",
        "engines",
        "explain",
        "export",
        "leaves",
        "mlflow",
        "plots",
        "report",
    ),
)
