"""The posterior over trees, and what it predicts."""
