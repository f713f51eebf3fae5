"""Coloured rectangles with label maps, for trials in place of street scenes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.core.seeds import keyed_uniform

SCENES = "{scenes}"
"""Stands in a configuration for the file of scenes."""

Bytes = npt.NDArray[np.uint8]

_TRAIN, _TEST, _SIDE = 24, 8, 32


def scenes_in(work: Path) -> Path:
    """Return the path of the scenes, in the folder of stored analyses."""
    return work / "scenes.npz"


def write_scenes(path: Path) -> None:
    """Write the scenes as an npz file, always the same; one that is there and whole is left."""
    if _whole(path):
        return
    parts: dict[str, npt.NDArray[Any]] = {}
    for split, count in (("train", _TRAIN), ("test", _TEST)):
        draws = keyed_uniform(0, f"{split} scenes", range(count), columns=12)
        images, maps = zip(*(_scene(row) for row in draws), strict=True)
        parts[f"{split}_images"] = np.stack(images)
        parts[f"{split}_labels"] = np.stack(maps)
    buffer = io.BytesIO()
    parts["classes"] = np.array(["ground", "red", "blue"])
    np.savez(buffer, allow_pickle=False, **parts)
    write_atomically(path, buffer.getvalue())


def _whole(path: Path) -> bool:
    try:
        # Opened here: numpy leaves a file open that it cannot read.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return all(len(file[name]) for name in file.files)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return False


def _scene(draws: npt.NDArray[np.float64]) -> tuple[Bytes, Bytes]:
    """Return an image [3, H, W] with two rectangles, and its label map [H, W]."""
    image = np.full((3, _SIDE, _SIDE), 60 + int(60 * draws[0]), dtype=np.uint8)
    labels = np.zeros((_SIDE, _SIDE), dtype=np.uint8)
    for number in (1, 2):
        top, left, height, width = draws[4 * number : 4 * number + 4]
        rows = slice(int(16 * top), int(16 * top) + 6 + int(10 * height))
        columns = slice(int(16 * left), int(16 * left) + 6 + int(10 * width))
        image[:, rows, columns] = 40
        image[0 if number == 1 else 2, rows, columns] = 200 + int(50 * draws[number])
        labels[rows, columns] = number
    return image, labels
