"""A note in a project that is kept elsewhere: of which folder of images it is."""

from __future__ import annotations

from pathlib import Path

from steepest.errors import InputError

PHOTOS_NAME = "photos.txt"
"""The file of the note."""


def check_photos(note: Path, photos: Path) -> None:
    """Refuse a project of another folder: the same names there would be other images.

    Raises:
        InputError: Saying whose project it is.
    """
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
