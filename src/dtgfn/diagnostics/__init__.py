"""When not to trust a sampled posterior: by the exact answer, and without it."""

from dtgfn.diagnostics.comparison import Comparison, compare
from dtgfn.diagnostics.distances import top_trees
from dtgfn.diagnostics.doubts import (
    UntrustworthyFit,
    distinct_share,
    trust,
    warn_if_untrustworthy,
)
from dtgfn.posterior.importance_weights import (
    effective_sample_size,
    evidence_estimate,
    pareto_shape,
)

__all__ = [
    "Comparison",
    "UntrustworthyFit",
    "compare",
    "distinct_share",
    "effective_sample_size",
    "evidence_estimate",
    "pareto_shape",
    "top_trees",
    "trust",
    "warn_if_untrustworthy",
]
