"""Sequential Monte Carlo: particles that grow trees from the root."""
