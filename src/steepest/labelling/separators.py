"""Several classes in one cell: what stands between them, in every file that people fill in."""

from __future__ import annotations

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
