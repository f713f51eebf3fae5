"""Location of the feature store, and checks on its path."""

from __future__ import annotations

from pathlib import Path

from steepest.errors import InputError

_HIDDEN = ".steepest"
_NAME = "features"


def usual_place(photos: Path) -> Path:
    """Return where the features of a folder of images are kept: within it, out of sight."""
    return photos / _HIDDEN / _NAME


def refuse_links(path: Path, inside: Path) -> None:
    """Refuse a place that leads elsewhere: in a folder of somebody else's it may lead anywhere.

    Args:
        path: What will be written.
        inside: Parts of the path below this folder are looked at.

    Raises:
        InputError: Naming the link.
    """
    steps = [path, *path.parents]
    for step in steps[: steps.index(inside)]:
        if step.is_symlink():
            raise InputError(
                f"{step} is a link, and features are not written through one: delete it, or name "
                "another folder by --features"
            )
