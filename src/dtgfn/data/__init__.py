"""A table and a target in: columns, kinds, thresholds and bin codes."""
