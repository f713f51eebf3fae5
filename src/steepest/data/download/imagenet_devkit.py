"""The development kit of ILSVRC 2012, which knows the classes of the validation images."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from steepest.data.download.unpack import open_archive
from steepest.errors import DataError

_TRUTH = "data/ILSVRC2012_validation_ground_truth.txt"
_CLASSES = "data/meta.mat"
_FOLDER = re.compile(r"n\d{8}")
_IMAGE = "ILSVRC2012_val_{:08d}.JPEG"


def read_validation_folders(path: Path) -> dict[str, str]:
    """Return the class's folder of each validation image by its name.

    Args:
        path: The kit as downloaded.

    Raises:
        DataError: If it is damaged or has another layout.
    """
    found: dict[str, bytes] = {}
    with open_archive(path) as members:
        for member in members:
            for name in (_TRUTH, _CLASSES):
                if member.name.endswith(f"/{name}") and member.kind == "file":
                    with member.open() as file:
                        found[name] = file.read()
    if len(found) != 2:
        raise DataError(f"{path}: {_TRUTH} or {_CLASSES} is not in it; get it again")
    folders = _read_classes(found[_CLASSES], path)
    try:
        numbers = [int(line) for line in found[_TRUTH].split()]
        return {_IMAGE.format(i): folders[n] for i, n in enumerate(numbers, start=1)}
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: {_TRUTH} names an unknown class; get it again") from error


def _read_classes(data: bytes, path: Path) -> dict[int, str]:
    """Return the folder of each class by its number in the kit."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError(f"{path}: scipy is needed to read it (pip install scipy)") from error
    try:
        synsets: Any = loadmat(io.BytesIO(data), squeeze_me=True)["synsets"]
        leaves = synsets[synsets["num_children"] == 0]
        names = [str(name) for name in leaves["WNID"]]
        numbers = [int(number) for number in leaves["ILSVRC2012_ID"]]
    except Exception as error:  # damaged bytes make the reader raise almost anything
        raise DataError(f"{path}: {_CLASSES} cannot be read; get it again") from error
    for name in names:
        if not _FOLDER.fullmatch(name):  # it becomes a path
            raise DataError(f"{path}: {_CLASSES} has a class {name!r}; get it again")
    return dict(zip(numbers, names, strict=True))
