"""Exact inference: the sum over all trees, by a recursion over row sets."""
