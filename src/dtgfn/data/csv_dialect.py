"""How a text file of a table is written: between cells, in bytes, and at the decimal point."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from dtgfn.data.tables import TableError


@dataclass(frozen=True)
class CsvDialect:
    """What stands between cells (None: as the suffix says), the encoding, the decimal mark."""

    separator: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."

    @property
    def codec(self) -> str:
        """Encoding to read with: a mark at the beginning that UTF-8 needs not is no cell."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding


def check_dialect(separator: str | None, encoding: str, decimal: str) -> CsvDialect:
    """Refuse what no text file is written in.

    >>> check_dialect(";", "latin-1", ",").codec
    'latin-1'
    """
    if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
        raise TableError(
            f"separator={separator!r} is not one character; give such as ';' or a tab."
        )
    try:
        codecs.lookup(encoding)
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise TableError(
            f"encoding={encoding!r} is not known; give such as 'utf-8', 'latin-1' or 'cp1252'."
        ) from None
    if decimal not in (".", ",") or (decimal == separator and decimal == ","):
        raise TableError(
            f"decimal={decimal!r} is not usable; give '.' or ',', and not what separates cells."
        )
    return CsvDialect(separator, encoding, decimal)
