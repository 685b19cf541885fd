"""Estimators: the posterior over trees behind scikit-learn's interfaces."""

from dtgfn.estimators.anomaly import DTGFNAnomalyDetector
from dtgfn.estimators.classifier import DTGFNClassifier
from dtgfn.estimators.regressor import DTGFNRegressor

__all__ = ["DTGFNAnomalyDetector", "DTGFNClassifier", "DTGFNRegressor"]
