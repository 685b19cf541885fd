"""Text for people: what cannot be seen, or would command a terminal, is spelled out."""

from __future__ import annotations

import unicodedata

# Controls, formats (which reverse a line, or are not seen), lone surrogates, separators of lines.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # of letters in Persian, say, and of emojis


def visible(text: str) -> str:
    r"""Spell out in a line, as Python does, the characters that would not be seen.

    >>> print(visible("red\x1b[2J"), visible("a\nb"), visible("é 漢"))
    red\x1b[2J a\nb é 漢
    """
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if _is_hidden(c) else c for c in text)


def visible_lines(text: str) -> str:
    r"""Spell out in lines what would not be seen, but for their ends.

    >>> print(visible_lines("if a\x07\n    yes"))
    if a\x07
        yes
    """
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    r"""Write in JSON, where it means the same, ``\u009b`` for what would not be seen.

    >>> visible_json('{"a": "\x9b"}')
    '{"a": "\\u009b"}'
    """
    if text.isprintable():
        return text
    return "".join(_in_json(c) if c != "\n" and _is_hidden(c) else c for c in text)


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def _in_json(character: str) -> str:
    halves = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[k : k + 4]}" for k in range(0, len(halves), 4))
