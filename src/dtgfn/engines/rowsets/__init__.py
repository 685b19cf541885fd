"""Row sets and the sums over their trees: what the exact engine and the GFlowNet share."""
