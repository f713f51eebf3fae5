"""NumPy: label maps as arrays ``map_0``, ``map_1``, … beside ``ids``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.errors import InputError
from steepest.labelling.formats.base import FORMATS, LabelFormat, LabelSet, Row


@FORMATS.register("npz")
class Npz(LabelFormat):
    """Arrays: ``ids`` [N], and map n as ``map_n`` [H, W]."""

    maps = True
    labels = False

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one compressed file."""
        found = list(labels.maps)
        arrays: dict[str, npt.NDArray[Any]] = {
            f"map_{row}": pixels for row, (_, pixels) in enumerate(found)
        }
        arrays["ids"] = np.array([sample for sample, _ in found])
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        write_atomically(path, content.getvalue())

    def read(self, path: Path) -> Iterator[Row]:
        """Refuse: label maps come as PNG files."""
        raise InputError(f"{path}: label maps are read as PNG files that a .csv or .jsonl names")
