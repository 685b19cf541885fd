"""The paper's tables by name: found, or fetched, and checked."""

from dtgfn.datasets.lookup import load_dataset, whereabouts
from dtgfn.datasets.registry import ENTRIES, Entry, find_entry
from dtgfn.datasets.values import Dataset

__all__ = ["ENTRIES", "Dataset", "Entry", "find_entry", "load_dataset", "whereabouts"]
