"""What a project may not do: its folder may have come with the images, from anybody."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.project.settings import Settings

_CODE = ("model", "strategy", "weak_strategy")


def refuse_links(folder: Path) -> None:
    """Refuse a project with links in its folder.

    What is written and removed there would be written and removed wherever they lead.

    Args:
        folder: The folder of the project, which need not be there yet.

    Raises:
        InputError: Naming a link.
    """
    try:
        with os.scandir(folder) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
    except OSError:
        return  # Who opens it next says why that is not possible.
    if links:
        raise InputError(
            f"{folder / links[0]} is a link, and a project keeps to its folder: remove the link, "
            "or choose another folder by --project"
        )


def refuse_code(folder: Path, stored: Settings, named: Collection[str]) -> None:
    """Refuse to run code that nobody but the project itself names.

    Args:
        folder: The folder of the project.
        stored: What it is set to.
        named: The settings that whoever opens it has given.

    Raises:
        InputError: Naming the code.
    """
    for name in _CODE:
        code = getattr(stored, name)
        if name not in named and code is not None and ":" in code:
            raise InputError(
                f"{folder} would have {code!r} run as its {name}, which is code: if it is yours, "
                f"say so by --set {name}={code}, or in Python by settings that name it"
            )
