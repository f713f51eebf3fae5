"""Scores on disk: arrays in an .npz file, so that millions of them take seconds."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.files import write_atomically
from steepest.core.seeds import SampleId
from steepest.errors import InputError

Columns = dict[str, npt.NDArray[np.float64]]
"""Numbers by name, each [N]."""


def write_scores(
    path: Path, ids: Sequence[SampleId], columns: Columns, facts: Mapping[str, Any]
) -> None:
    """Write ids, columns [N] and what holds for all of them.

    Raises:
        InputError: If the name does not end in .npz, or the file cannot be written.
    """
    check_suffix(path)
    held = io.BytesIO()
    # As JSON, ids keep their kind: 7 is another one than "7".
    np.savez(held, ids=_bytes(list(ids)), facts=_bytes(facts), **columns)  # type: ignore[arg-type]
    write_atomically(path, held.getvalue())


def read_scores(path: Path) -> tuple[tuple[SampleId, ...], Columns, dict[str, Any]]:
    """Read what ``write_scores`` wrote: ids, columns and facts.

    Raises:
        InputError: If it is no such file.
    """
    check_suffix(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            columns = {name: held[name] for name in held.files}
        ids = tuple(json.loads(columns.pop("ids").tobytes()))
        facts: dict[str, Any] = json.loads(columns.pop("facts").tobytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged bytes make zip and numpy raise almost anything
        raise InputError(f"{path} holds no scores saved by steepest ({error})") from error
    return ids, columns, facts


def check_suffix(path: Path) -> None:
    """Refuse a name that says something else.

    Raises:
        InputError: Saying how the name has to end.
    """
    if path.suffix != ".npz":
        raise InputError(f"{path}: scores are saved as .npz")


def _bytes(value: object) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)
