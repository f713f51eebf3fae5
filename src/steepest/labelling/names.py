"""Names in cells of files: several classes in one, and accents in either spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Container

BAR, SEMICOLON = "|", ";"
SEPARATORS = (BAR, SEMICOLON)
"""Both are read everywhere; alone, either says that a sample has none of the classes."""


def split_names(text: str, known: Container[str]) -> list[str]:
    """Return the names in a cell such as ``cat|dog`` or ``cat;dog``; none for a lone separator.

    A text that is the name of a class is that class, whatever letters it holds.

    Args:
        text: What is written.
        known: The classes that there are.
    """
    names = _cut(text, SEPARATORS, known)
    if any(name not in known for name in names):
        other = _cut(text, SEPARATORS[::-1], known)
        if all(name in known for name in other):
            return other
    return names


def _cut(text: str, separators: tuple[str, ...], known: Container[str]) -> list[str]:
    text = text.strip()
    if not separators or text in known:
        return [text] if text else []
    parts = text.split(separators[0])
    return [name for part in parts for name in _cut(part, separators[1:], known)]


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it stands, with each letter as one sign, and with accents apart.

    Who copies files from one system to another, or through a spreadsheet, sees no difference.
    """
    composed, apart = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys((name, composed, apart)))
