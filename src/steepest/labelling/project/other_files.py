"""Says which other files are in a folder of images and are not shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.labelling.project.listing import Kinds, look_beside
from steepest.labelling.project.source import Source, TextTable

_MOST_SAID = 5


def say_refused(names: Sequence[str]) -> str:
    """Name some of what is left out: links that lead elsewhere, pipes, names that are no text."""
    return _first([_plain(name) for name in names])


def say_others(kinds: Kinds) -> str:
    """Count other files by the endings of their names."""
    return _first([f"{count} {_plain(kind) or 'without ending'}" for kind, count in kinds])


def why_no_samples(source: Source, project: Path) -> str:
    """Say what a folder without images holds instead; many are made of links.

    Args:
        source: Where samples were looked for.
        project: The folder of the project, which does not count.
    """
    if source.kind == "text":
        what = "in that table" if isinstance(source, TextTable) else "in .txt files in there"
        return f"no text {what}"
    refused, others = look_beside(source, project)
    if refused:
        return (
            f"no images in there but links that lead elsewhere, or what cannot be opened "
            f"({say_refused(refused)}): name the folder that links lead to, or copy the files"
        )
    if others:
        return f"no images in there but other files ({say_others(others)}): convert them to .jpg"
    return "no images in there"


def _plain(name: str) -> str:
    """Return a name as it may be printed: one may hold a line break, or steer the terminal."""
    return name if name.isprintable() else repr(name)


def _first(words: Sequence[str]) -> str:
    return ", ".join(words[:_MOST_SAID]) + (", …" if len(words) > _MOST_SAID else "")
