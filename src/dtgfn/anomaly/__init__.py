"""Rows in unusually empty space."""
