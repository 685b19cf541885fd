"""Every method of the benchmark, by family."""
