"""Trees for other programs, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtgfn._support.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from dtgfn.export.formats import export as export
    from dtgfn.export.json_document import from_json as from_json

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"export.formats": ("export",), "export.json_document": ("from_json",)}
)
