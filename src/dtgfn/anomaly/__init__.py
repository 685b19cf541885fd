"""Anomalies: rows where the density of normal rows is low."""
