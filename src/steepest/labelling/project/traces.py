"""Finds traces of an earlier project whose file of labels is lost."""

from __future__ import annotations

from pathlib import Path

from steepest.errors import DataError

_MOST_NAMED = 3
_COPIES = "labels*.sqlite*"
_OTHERS = (
    *("models/version-*", "thumbnails/*/*.jpg", "training.log", "token"),
    *("labels.csv", "labels.jsonl", "labelled.zip", "answers.csv"),
)
"""What is made by a project that has a file of labels, and by nobody else."""


def refuse_to_begin_anew(file: Path) -> None:
    """Refuse to begin a project where an earlier one has lost its labels.

    Args:
        file: Where its labels are kept: gone, or without anything in it.

    Raises:
        DataError: Naming what is left of the earlier one.
    """
    folder = file.parent
    own = {file.name, f"{file.name}-shm"}
    if file.exists() and file.stat().st_size:
        own.add(f"{file.name}-wal")  # of the one who asks
    try:
        copies = [path for path in sorted(folder.glob(_COPIES)) if path.name not in own]
        copies = [path for path in copies if path.stat().st_size]
        found = [*copies, *(first for kind in _OTHERS for first in sorted(folder.glob(kind))[:1])]
    except OSError:
        return  # Who opens it next says why that is not possible.
    if not found:
        return
    whole = [path.name for path in copies if path.suffix == ".sqlite"]
    remedy = f"a copy such as {whole[-1]}" if whole else "a copy"
    named = ", ".join(str(path.relative_to(folder)) for path in found[:_MOST_NAMED])
    what = "is empty" if file.exists() else "is gone"
    raise DataError(
        f"{file} {what}, but a project was here ({named}): put {remedy} back as {file.name}, or "
        f"begin anew by removing {folder}"
    )
