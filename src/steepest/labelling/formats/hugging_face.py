"""Hugging Face: the ``metadata.jsonl`` that ``load_dataset("imagefolder")`` reads in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.labelling.formats.base import FORMATS, LabelFormat, LabelSet, Row
from steepest.labelling.formats.jsonl import read_jsonl


@FORMATS.register("hugging-face")
class HuggingFace(LabelFormat):
    """A line for each image: ``file_name`` and ``label``, or ``labels`` where there are several."""

    empty = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file; its place is the folder of the images."""
        entries = (
            {"file_name": str(sample)}
            | ({"labels": list(names)} if labels.multi_label else {"label": names[0]})
            for sample, names in labels.labels.items()
        )
        lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
        write_atomically(path, "".join(lines))

    def read(self, path: Path) -> Iterator[Row]:
        """Read such a file."""
        yield from read_jsonl(path, "file_name")
