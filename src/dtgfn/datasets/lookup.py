"""Where a table is now, and loading it from there."""

from __future__ import annotations

import os
from pathlib import Path

from dtgfn.data.tables import TableError
from dtgfn.datasets.fetch import Tell, cache_folder, fetch, tell_on_stderr
from dtgfn.datasets.registry import Entry, find_entry
from dtgfn.datasets.values import Dataset, make_dataset, read_csv


def load_dataset(name: str, *, tell: Tell = tell_on_stderr) -> Dataset:
    """A table of the paper by name: see ``dtgfn data list``.

    It comes from scikit-learn if that ships it, else from the folder DTGFN_DATA_DIR, else from the
    cache (DTGFN_CACHE_DIR, or the platform's folder), else it is downloaded into the cache, which
    ``tell`` hears of.  Wherever it comes from, its values are checked.

    Parameters
    ----------
    name : str
        Name of the table.
    tell : function
        Told, in a sentence, of a download.

    Returns
    -------
    Dataset
        Its rows, labels and names.

    Examples
    --------
    >>> wine = load_dataset("wine")
    >>> wine.X.shape, wine.class_names
    ((178, 13), ('class_0', 'class_1', 'class_2'))

    """
    entry = find_entry(name)
    if entry.shipped is not None:
        return _from_sklearn(entry)
    given = _given(entry)
    if given is not None:
        return read_csv(entry, given)
    cached = _cached(entry)
    if cached is not None:
        try:
            return read_csv(entry, cached)
        except TableError as error:  # ours to mend: nobody else put it there
            tell(str(error))
    return fetch(entry, cache_folder(), tell)


def whereabouts(name: str) -> str | None:
    """Where `load_dataset` would find a table now; None if it would download it."""
    entry = find_entry(name)
    if entry.shipped is not None:
        return "scikit-learn"
    path = _given(entry) or _cached(entry)
    return None if path is None else str(path)


def _from_sklearn(entry: Entry) -> Dataset:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, str(entry.shipped))(return_X_y=True)
    return make_dataset(entry, X, y, f"scikit-learn's {entry.shipped}")


def _given(entry: Entry) -> Path | None:
    folder = os.environ.get("DTGFN_DATA_DIR")
    return _file_in(Path(folder), entry) if folder else None


def _cached(entry: Entry) -> Path | None:
    return _file_in(cache_folder(), entry)


def _file_in(folder: Path, entry: Entry) -> Path | None:
    path = folder / entry.file
    return path if path.is_file() else None
