"""Words in messages: counted things, and the known names closest to an unknown one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_NEAR = 0.5
"""A likeness from which on a name is worth suggesting."""

_SAME_WORD = 0.75
"""A likeness from which on two words are spellings of one."""

_PART = 0.9
"""Weight of a match with part of a name, relative to a match with the whole name."""

_MOST = 6


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with its noun.

    Args:
        count: How many.
        one: The singular.
        several: The plural; by default with an s appended.
    """
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'a' or 'b'?"``; nothing if no name is near."""
    near = [repr(found) for found in nearest_names(name, known)]
    if not near:
        return ""
    return f"did you mean {' or '.join(filter(None, [', '.join(near[:-1]), near[-1]]))}?"


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like a name, all that are equally so, in their order.

    A name whose words are all words of a longer one is a part of it: ``gradnorm`` is nearer to
    ``entropy-gradnorm`` than to ``random``, with which it has more letters in common.
    """
    likeness = {found: _likeness(name.lower(), found.lower()) for found in known}
    best = max(likeness.values(), default=0.0)
    if best < _NEAR:
        return []
    equal = [found for found in likeness if likeness[found] == best]
    return equal[:_MOST]


def _likeness(name: str, known: str) -> float:
    whole = _ratio(name, known)
    words, others = _words(name), _words(known)
    if not words or len(others) < 2:
        return whole
    part = min(max(_ratio(word, other) for other in others) for word in words)
    return max(whole, _PART * part) if part >= _SAME_WORD else whole


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name)


def _ratio(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second).ratio()
