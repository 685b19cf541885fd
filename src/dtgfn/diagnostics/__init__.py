"""When not to trust a posterior: by the exact answer, and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.diagnostics.exact_distance import Comparison as Comparison
    from dtgfn.diagnostics.exact_distance import compare as compare
    from dtgfn.diagnostics.judgement import UntrustworthyFit as UntrustworthyFit
    from dtgfn.diagnostics.judgement import trust as trust
    from dtgfn.diagnostics.judgement import verdict as verdict
    from dtgfn.diagnostics.judgement import warn_if_untrustworthy as warn_if_untrustworthy
    from dtgfn.diagnostics.sampler_checks import distinct_share as distinct_share
    from dtgfn.posterior.importance_weights import effective_sample_size as effective_sample_size
    from dtgfn.posterior.importance_weights import evidence_estimate as evidence_estimate
    from dtgfn.posterior.importance_weights import pareto_shape as pareto_shape

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "diagnostics.exact_distance": (
            "Comparison",
            "compare",
        ),
        "diagnostics.judgement": (
            "UntrustworthyFit",
            "trust",
            "verdict",
            "warn_if_untrustworthy",
        ),
        "diagnostics.sampler_checks": ("distinct_share",),
        "posterior.importance_weights": (
            "effective_sample_size",
            "evidence_estimate",
            "pareto_shape",
        ),
    },
)
