"""Model files: fitted estimators as JSON and arrays, and back, checked."""
