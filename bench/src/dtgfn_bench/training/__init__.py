"""What the shipped policy learns from: many tables, exact sums on them, and a fit to these."""
