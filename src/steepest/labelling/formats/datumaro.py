"""Datumaro: one JSON file of its own format, with labels of whole images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    boxes_refused,
    class_name,
    entries_of,
    read_table,
)

_IMAGE = 2
"""Datumaro's number for media that are images."""


@FORMATS.register("datumaro")
class Datumaro(LabelFormat):
    """Items with annotations of the type ``label``; Datumaro reads it from ``annotations/``."""

    stems = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        numbers = {name: number for number, name in enumerate(labels.classes)}
        known = [{"name": name, "parent": "", "attributes": []} for name in labels.classes]
        table = {
            "dm_format_version": "1.0",
            "media_type": _IMAGE,
            "infos": {},
            "categories": {"label": {"labels": known, "label_groups": [], "attributes": []}},
            "items": [
                {
                    "id": str(Path(str(sample)).with_suffix("")),
                    "annotations": [_label(numbers[name]) for name in names],
                    "image": {"path": str(sample)},
                }
                for sample, names in labels.labels.items()
            ],
        }
        write_atomically(path, json.dumps(table, ensure_ascii=False) + "\n")

    def read(self, path: Path) -> Iterator[Row]:
        """Read the labels of items."""
        table = read_table(path, "Datumaro", ("categories", "items"))
        names = dict(enumerate(_names(table, path)))
        for place, item in enumerate(entries_of(table, "items", path), start=1):
            where = f"item {place}"
            found: list[str] = []
            for note in entries_of({"annotations": [], **item}, "annotations", path):
                if note.get("type") == "caption":
                    continue
                if note.get("type") != "label":
                    raise boxes_refused(f"{path}, {where}", f"a {note.get('type')}")
                found.append(class_name(names, note.get("label_id"), f"{path}, {where}"))
            yield Row(where, item.get("id"), found or None)


def _label(number: int) -> dict[str, Any]:
    return {"id": 0, "type": "label", "attributes": {}, "group": 0, "label_id": number}


def _names(table: dict[str, Any], path: Path) -> list[object]:
    try:
        return [entry["name"] for entry in table["categories"]["label"]["labels"]]
    except (KeyError, TypeError):
        raise InputError(f"{path}: has no list of classes; export it from Datumaro again") from None
