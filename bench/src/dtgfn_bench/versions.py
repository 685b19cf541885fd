"""What code a measurement depends on, as a short digest: results of other code are measured anew.

Comments, docstrings and layout do not count.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any

from dtgfn_bench.contract import Method

_LENGTH = 12
_METHODS = "dtgfn_bench.methods"
_CONTRACT = "dtgfn_bench.contract"  # says what a method is, and measures nothing
# Words of a `Method`; its settings are part of the cell.
_ASIDE = ("note", "label", "quick", "settings")
_PINNED = "dtgfn.datasets"  # tables have checksums: where they come from does not matter


def method_version(method: Method) -> str:
    """Digest of the files that a method's ``fit`` reaches, and of its libraries' versions."""
    files = sorted(_reached_modules(method.fit.__module__))
    parts = [name + _file_digest(name) for name in files]
    return _digest(parts + [f"{module} {library_version(module)}" for module in method.needs])


def function_version(function: Callable[..., Any]) -> str:
    """Digest of a function, and of the package's functions and constants that it names.

    Modules that it imports inside, but for the methods, count as a whole.
    """
    return _digest(sorted(_reached_definitions(function, set())))


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_LENGTH]


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


def library_version(module: str) -> str:
    """Version of the distribution that provides a module ("missing" without one)."""
    for name in _distributions().get(module, [module]):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "missing"


@cache
def _source_file(module: str) -> Path | None:
    """File of a module, found without importing it."""
    top, *inner = module.split(".")
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*inner)
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _file_digest(module: str) -> str:
    path = _source_file(module)
    return _tree_digest(path.read_text(encoding="utf-8")) if path else ""


def _tree_digest(source: str) -> str:
    """Digest of what a text of Python does, whatever its comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            node.body = body[1:]  # type: ignore[attr-defined]
        if isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg not in _ASIDE]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_docstring(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def _reached_modules(start: str) -> set[str]:
    """The package's modules that a module imports, directly or not, also inside functions."""
    reached, waiting = set(), [start]
    while waiting:
        module = waiting.pop()
        if module not in reached and module != _CONTRACT:
            reached.add(module)
            waiting += _imported_modules(module)
    return reached


@cache
def _imported_modules(module: str) -> tuple[str, ...]:
    path = _source_file(module)
    return () if path is None else _imports(path.read_text(encoding="utf-8"))


def _imports(source: str) -> tuple[str, ...]:
    """The package's modules that a text of Python imports, at the top or inside functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if _is_ours(name) and _source_file(name)]
            found += modules or [node.module]
    return tuple(name for name in found if _is_ours(name))


def _is_ours(module: str) -> bool:
    return module == "dtgfn" or module.startswith("dtgfn.")


def _reached_definitions(function: Callable[..., Any], seen: set[str]) -> Iterator[str]:
    name = f"{function.__module__}.{function.__qualname__}"
    if name in seen:
        return
    seen.add(name)
    source = inspect.cleandoc("\n" + inspect.getsource(function))
    yield name + _tree_digest(source)
    for module in _imports(source):
        if module != _METHODS:  # each has a version of its own
            yield from (each + _file_digest(each) for each in _reached_modules(module))
    scope = vars(sys.modules[function.__module__])
    for used in _names(function.__code__) if inspect.isfunction(function) else ():
        value = scope.get(used)
        if inspect.isfunction(value) and value.__module__.startswith(_PINNED):
            continue
        if inspect.isfunction(value) and _is_ours(value.__module__):
            yield from _reached_definitions(value, seen)
        elif isinstance(value, (str, int, float, tuple, list, dict)):
            yield f"{used} = {value!r}"


def _names(code: CodeType) -> set[str]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
