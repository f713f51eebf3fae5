"""Notes that stand in place of numbers."""

from __future__ import annotations

STOPPED = "stopped before it was measured"

_LONGEST = 200


def brief(error: Exception) -> str:
    """Return an error's message in one line of a bearable length."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def brief_with_kind(error: Exception) -> str:
    """Return the same after the name of the error's class."""
    return f"{type(error).__name__}: {brief(error)}"


def not_installed(package: str) -> str:
    """Return what is noted of a contender whose package is missing."""
    return f"{package} is not installed: run pip install 'steepest[bench]'"


def last_line(printed: str) -> str:
    """Return the last line of what a process that failed has printed."""
    return (printed.strip().splitlines() or ["no message"])[-1]
