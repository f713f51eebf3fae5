"""Label maps for other programs: one COCO file, or one npz file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.exchange.answers import Map
from steepest.labelling.exchange.folder import LoopFolder
from steepest.labelling.exchange.vocabulary import SEGMENTATION
from steepest.pool import Pool

Counts = list[int]


def write_coco(folder: LoopFolder, pool: Pool, path: Path) -> None:
    """Write all label maps on record as COCO: one mask per image and class.

    Masks are run lengths down the columns, uncompressed. Class c has the category id c + 1.

    Raises:
        InputError: If the loop has no label maps.
    """
    _check(folder)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (sample, pixels) in enumerate(folder.maps.load_all(*pool.labelled()), start=1):
        height, width = pixels.shape
        images.append({"id": number, "file_name": str(sample), "height": height, "width": width})
        for c in (c for c in np.unique(pixels).tolist() if c < len(folder.vocabulary.names)):
            annotations.append({"id": len(annotations) + 1, "image_id": number, **_mask(pixels, c)})
    names = enumerate(folder.vocabulary.names, start=1)
    table = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": number, "name": name} for number, name in names],
    }
    write_atomically(path, json.dumps(table) + "\n")


def write_npz(folder: LoopFolder, pool: Pool, path: Path) -> None:
    """Write all label maps on record: ``ids`` [N], and map n as ``map_n`` [H, W]."""
    _check(folder)
    found = list(folder.maps.load_all(*pool.labelled()))
    arrays: dict[str, npt.NDArray[Any]] = {
        f"map_{row}": pixels for row, (_, pixels) in enumerate(found)
    }
    arrays["ids"] = np.array([sample for sample, _ in found])
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_atomically(path, content.getvalue())


def column_runs(mask: npt.NDArray[np.bool_]) -> Counts:
    """Return run lengths of 0, 1, 0, … down the columns of a mask [H, W]."""
    flat = mask.reshape(-1, order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    return [0, *runs] if flat[0] else runs


def _mask(pixels: Map, c: int) -> dict[str, Any]:
    mask = pixels == c
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    left, top = int(columns[0]), int(rows[0])
    return {
        "category_id": c + 1,
        "segmentation": {"counts": column_runs(mask), "size": list(mask.shape)},
        "area": int(mask.sum()),
        "bbox": [left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1],
        "iscrowd": 0,
    }


def _check(folder: LoopFolder) -> None:
    if folder.vocabulary.task != SEGMENTATION:
        raise InputError(f"{folder.path} is a loop of {folder.vocabulary.task}: it has no maps")
