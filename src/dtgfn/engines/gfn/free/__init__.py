"""The paper's GFlowNet: leaves are split in any order, one action per tree and network call."""
