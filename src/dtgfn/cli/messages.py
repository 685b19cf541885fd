"""Errors and warnings as one sentence in the words of the command line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtgfn.cli.console import note
from dtgfn.cli.parameters import FLAGS

# What the functions call it, and what one types.
_FLAGS = {flag.name: flag.typed for flag in FLAGS} | {
    "sample_weight": "--sample-weight",
    "text_columns": "--text-columns",
    "separator": "--separator",
    "encoding": "--encoding",
    "decimal": "--decimal",
    "class_prior": "--class-prior",
    "level": "--interval",
    "tree": "--tree",
    "positive": "--positive",
    "engine": "--inference",
}
_GIVEN = re.compile(r"(?<![\w\[.'])([a-z_]+)=('[^']*'|\"[^\"]*\"|\([^)]*\)|[^\s;,()]*[^\s;,().])")
_PATH = re.compile(r"\b(?:Posix|Windows)Path\(('[^']*'|\"[^\"]*\")\)")
_NAMED = re.compile(r"(?<![\w\[.'-])([a-z]+(?:_[a-z]+)+)\b(?!=)")


def in_flags(sentence: str) -> str:
    """Name the flags that were typed instead of the parameters behind them.

    >>> in_flags("max_depth=-1 is out of range; give a whole number from 0 to 30.")
    '--max-depth -1 is out of range; give a whole number from 0 to 30.'
    >>> in_flags("inference='exat' is not known; allow a larger time_budget.")
    '--inference exat is not known; allow a larger --time-budget.'
    """

    def given(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in _FLAGS:
            return match[0]
        bare = value[1:-1] if re.fullmatch(r"'[\w.:/-]+'", value) else value
        return f"{_FLAGS[name]} {bare}"

    sentence = _GIVEN.sub(given, _PATH.sub(r"\1", sentence))
    return _NAMED.sub(lambda match: _FLAGS.get(match[1], match[1]), sentence)


def sentence_of(error: BaseException) -> str | None:
    """What to tell of an error that a user can do something about; None if it is a bug."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return text or "There is not enough memory for this; give fewer rows or --n-thresholds."
    if isinstance(error, OSError):
        named = f"{str(error.filename)!r}: " if error.filename else ""
        return f"{named}{(error.strerror or text).rstrip('.')}."
    of_dtgfn = type(error).__module__.startswith("dtgfn.")  # BudgetExceeded, for one
    ours = of_dtgfn or isinstance(error, ValueError | TypeError | ImportError)
    # Python's and numpy's own messages end without a stop.
    return in_flags(text) if ours and text.endswith((".", "?", ":")) else None


def sentence_of_misuse(error: Any) -> str:
    """What typer says in a box, as a sentence with the way out."""
    typed = getattr(error, "option_name", None)
    near = getattr(error, "possibilities", None)
    context = getattr(error, "ctx", None)
    way_out = f"see {context.command_path if context else 'dtgfn'} --help"
    if typed == "--engine":
        near = ["--inference"]
    if typed and type(error).__name__ == "NoSuchOption":
        meant = f"did you mean {' or '.join(sorted(near))}?" if near else f"{way_out}."
        return f"There is no option {typed}; {meant}"
    text = " ".join(error.format_message().split()).rstrip(".")
    if "Did you mean" in text:
        return text.replace(". Did you mean", "; did you mean")
    return f"{text}; {way_out}."


@contextmanager
def noted_warnings() -> Iterator[None]:
    """Turn the warnings of a piece of work into notes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for sentence in dict.fromkeys(str(warning.message) for warning in caught):
        note(in_flags(sentence))
