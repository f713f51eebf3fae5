"""COCO: one JSON file with categories of whole images, or with masks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.core.seeds import SampleId
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Map,
    Row,
    boxes_refused,
    class_name,
    entries_of,
    read_table,
)

_SHAPES = ("bbox", "segmentation", "keypoints")


@FORMATS.register("coco")
class Coco(LabelFormat):
    """Annotations with a category and no shape; label maps as one mask per image and class.

    Class c has the category id c + 1. Masks are run lengths down the columns, uncompressed.
    """

    maps = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        numbers = {name: number for number, name in enumerate(labels.classes, start=1)}

        def add(sample: SampleId, shapes: list[dict[str, Any]], **size: int) -> None:
            images.append({"id": len(images) + 1, "file_name": str(sample), **size})
            for shape in shapes:
                number = {"id": len(annotations) + 1, "image_id": len(images)}
                annotations.append({**number, **shape})

        for sample, pixels in labels.maps:
            found = (c for c in np.unique(pixels).tolist() if c < len(labels.classes))
            height, width = pixels.shape
            add(sample, [_mask(pixels, c) for c in found], height=height, width=width)
        for sample, names in labels.labels.items():
            add(sample, [{"category_id": numbers[name]} for name in names])
        categories = [{"id": number, "name": name} for name, number in numbers.items()]
        table = {"images": images, "annotations": annotations, "categories": categories}
        write_atomically(path, json.dumps(table, ensure_ascii=False) + "\n")

    def read(self, path: Path) -> Iterator[Row]:
        """Read the categories of images."""
        table = read_table(path, "COCO", ("images", "annotations", "categories"))
        categories = entries_of(table, "categories", path)
        names = {str(entry.get("id")): entry.get("name") for entry in categories}
        found: dict[str, list[str]] = {}
        for place, entry in enumerate(entries_of(table, "annotations", path), start=1):
            where = f"{path}, annotation {entry.get('id', place)}"
            if any(entry.get(key) for key in _SHAPES):
                raise boxes_refused(where, "a box, mask or set of keypoints")
            name = class_name(names, str(entry.get("category_id")), where)
            found.setdefault(str(entry.get("image_id")), []).append(name)
        for place, image in enumerate(entries_of(table, "images", path), start=1):
            where = f"image {image.get('id', place)}"
            yield Row(where, image.get("file_name"), found.get(str(image.get("id"))))


def column_runs(mask: npt.NDArray[np.bool_]) -> list[int]:
    """Return run lengths of 0, 1, 0, … down the columns of a mask [H, W]."""
    flat = mask.reshape(-1, order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs: list[int] = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
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
