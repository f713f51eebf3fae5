"""A number and what it counts, in words: one sample, two samples."""

from __future__ import annotations


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with what it counts.

    Args:
        count: How many.
        one: What one of them is called.
        several: What others are called; by default with an s behind.
    """
    return f"{count} {one if count == 1 else several or f'{one}s'}"
