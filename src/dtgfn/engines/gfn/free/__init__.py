"""The paper's GFlowNet: leaves are split in any order, one action per tree and network call."""

from dtgfn.engines.gfn.free.sampler import FreeSampler

__all__ = ["FreeSampler"]
