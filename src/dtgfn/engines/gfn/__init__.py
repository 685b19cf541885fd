"""GFlowNet inference: a policy that builds trees split by split, trained to sample them by R."""
