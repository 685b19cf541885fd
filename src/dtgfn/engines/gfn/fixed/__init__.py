"""Fixed order: all open leaves of all trees decide at once, level by level."""
