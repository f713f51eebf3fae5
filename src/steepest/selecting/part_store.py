"""Finished parts of passes over a pool, kept on disk so that a pass resumes after any kill.

A folder has a subfolder for each pass, with a file for each part and ``about.json``, which holds
the settings and conditions of the pass. Each part carries a digest of these, so that parts of
another pass are never taken for its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.core.tensor_file import read_tensors, write_tensors
from steepest.errors import DataError, InputError

_ABOUT = "about.json"
_SUFFIX = ".safetensors"


class PartStore:
    """The parts of one pass.

    Args:
        folder: Of this pass alone.
        about: All settings that determine the numbers, as plain values. If only ``prepared``
            differs, which is not a user's choice, the pass starts over.

    Raises:
        InputError: If the folder holds parts of another pass; the message names the difference.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._folder = folder
        said = json.dumps(about, indent=1)
        self._digest = hashlib.sha256(said.encode()).hexdigest()
        path = folder / _ABOUT
        if path.exists():
            _check_same(path, parse_json(said))
        write_atomically(path, said + "\n")

    def read(self) -> Iterator[tuple[int, int, dict[str, Tensor], Mapping[str, Any]]]:
        """Yield where each part starts and stops, its tensors and facts.

        A part that is damaged is left out: it is computed again.
        """
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found = read_tensors(path)
            except DataError:
                continue
            if found is not None and found[1]["pass"] == self._digest:
                tensors, about = found
                yield about["start"], about["stop"], tensors, about["facts"]

    def write(
        self, start: int, stop: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
    ) -> None:
        """Keep a part, in one step.

        Args:
            start: Its first row.
            stop: The row behind its last.
            tensors: By name.
            facts: Facts about them, as plain values.

        Raises:
            InputError: If it cannot be written.
        """
        about = {"pass": self._digest, "start": start, "stop": stop, "facts": dict(facts)}
        write_tensors(self._folder / f"{start:012d}-{stop:012d}{_SUFFIX}", tensors, about)


def _check_same(path: Path, about: Mapping[str, Any]) -> None:
    try:
        there = parse_json(path.read_bytes())
        names = [n for n in {**about, **there} if n != "prepared"]
        name = next((n for n in names if there.get(n) != about.get(n)), None)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}): delete {path.parent}") from error
    if name is not None:
        raise InputError(
            f"the parts in {path.parent.parent} were made with {name.replace('_', ' ')} "
            f"{there.get(name)!r}, which is {about.get(name)!r} now: do as before, or delete "
            "them"
        )
