"""Checks on projects from elsewhere: links, code that they name, and the folder they belong to."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.project.settings import Settings
from steepest.models.backbones import names_code

_CODE = ("model", "backbone", "strategy", "weak_strategy")


def refuse_links(folder: Path, *, named: bool = False) -> None:
    """Refuse a project with links, pipes or the like anywhere in its folder.

    What is written and removed there would be written and removed wherever they lead, and a pipe
    would be waited for.

    Args:
        folder: The folder of the project, which need not be there yet.
        named: Whether the user has named that folder, which may then be a link itself.

    Raises:
        InputError: Naming one.
    """
    if not named and folder.is_symlink():
        raise InputError(f"{folder} is a link: name the folder that it leads to by --project")
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue  # Who opens it next says why that is not possible.
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                what = "a link" if entry.is_symlink() else "no plain file"
                raise InputError(
                    f"{entry.path} is {what}, and a project keeps to its folder: remove it, or "
                    "choose another folder by --project"
                )


def refuse_code(folder: Path, stored: Settings, named: Collection[str]) -> None:
    """Refuse to run code that only the project names.

    Args:
        folder: The folder of the project.
        stored: Its stored value.
        named: The settings that whoever opens it has given.

    Raises:
        InputError: Naming the code.
    """
    for name in _CODE:
        code = getattr(stored, name)
        is_code = code is not None and ":" in code
        if is_code and name == "backbone":
            is_code = names_code(code)
        if name not in named and is_code:
            raise InputError(
                f"{folder} would have {code!r} run as its {name}, which is code: if it is yours, "
                f"say so by --set {name}={code}, or in Python by settings that name it"
            )


PHOTOS_NAME = "photos.txt"
"""The file of the note."""


def check_photos(folder: Path, photos: Path) -> None:
    """Refuse a project of another folder: the same names there would be other images.

    Raises:
        InputError: Saying whose project it is.
    """
    note = folder / PHOTOS_NAME
    try:
        known = note.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{note} cannot be read: remove it if the images are the same") from error
    if known != str(photos.resolve()):
        raise InputError(
            f"{note.parent} is the project of {known}: choose another project folder, or remove "
            f"{note.name} there if the images were moved"
        )


def note_photos(folder: Path, photos: Path) -> None:
    """Write which folder or table of samples a project that is kept elsewhere belongs to."""
    write_atomically(folder / PHOTOS_NAME, f"{photos.resolve()}\n")
