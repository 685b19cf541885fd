"""Lazy exports: public names of a package, each imported when it is first asked for (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, Sequence[str]], packages: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    package : str
        Name of the package, its ``__name__``.
    homes : dict
        Public names by the module, without the leading ``dtgfn.``, that defines them.
    packages : sequence of str
        Packages inside of this one that are public, too.

    Returns
    -------
    tuple
        The three, in this order.

    """
    home_of = {name: home for home, names in homes.items() for name in names}
    public = sorted([*home_of, *packages])

    def find(name: str) -> Any:
        if name in packages:
            return importlib.import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"dtgfn.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return find, lambda: public, public
