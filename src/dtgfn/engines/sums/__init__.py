"""Sums of trees: each tree drawn from its conditional posterior, given the others."""
