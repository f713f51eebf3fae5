"""The volumes of one part of a data set: in memory, in a mapped file, or made on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from steepest.core.files import replacing
from steepest.core.progress import LineProgress
from steepest.data.cryoet.simulator import Simulator
from steepest.data.streamed import Streamed
from steepest.errors import DataError, InputError, UnknownNameError

STORAGES = ("memory", "map", "stream")
CACHE_FOLDER = "cache"

_RELEASE = 1
"""Raised when the same settings give other volumes, so that old files are not used."""

_BATCH = 256


class VolumeReader:
    """Simulates one volume at a time; worker processes get copies of it.

    Args:
        simulator: Of one part of a data set.
        classes: The class of each row [N].
    """

    draws = 0

    def __init__(self, simulator: Simulator, classes: Tensor) -> None:
        self._simulator = simulator
        self._classes = classes

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:  # noqa: ARG002 - not augmented
        """Return one volume, float32 [1, S, S, S]."""
        return self._simulator(self._classes[row : row + 1], torch.tensor([row]))


def make_volumes(
    simulator: Simulator, classes: Tensor, storage: str, *, name: str, root: Path | None = None,
    workers: int = 0,
) -> Tensor | Streamed:  # fmt: skip
    """Simulate the volumes of all rows, or promise to.

    The values are the same for every storage and number of workers. They are float32, as models
    take them: half precision would halve the memory, but round volumes differently from those
    simulated on the fly.

    Args:
        simulator: Of one part of a data set.
        classes: The class of each row [N].
        storage: ``"memory"``; ``"map"``, a file under ``root`` that later loads share; or
            ``"stream"``, simulated again each time.
        name: Of the part, for the file and for progress.
        root: The folder of data sets.
        workers: Processes that simulate; 0 does it in this one.

    Returns:
        float32 [N, 1, S, S, S].

    Raises:
        UnknownNameError: If there is no such storage.
        InputError: If worker processes are asked to share a GPU.
        DataError: If a file cannot be written.
    """
    if storage not in STORAGES:
        raise UnknownNameError("storage", storage, STORAGES)
    size = simulator.settings.size_voxels
    on_device = simulator.device.type != "cpu"
    if on_device and (workers or storage == "stream"):
        raise InputError(
            f"worker processes and streams simulate on the CPU, not on {simulator.device.type}; "
            f"use device = 'cpu', or storage = 'memory' or 'map' without workers"
        )
    shape = (1, size, size, size)
    streamed = Streamed(
        VolumeReader(simulator, classes), len(classes), shape, torch.float32, workers=workers
    )
    if storage == "stream":
        return streamed
    parts = _simulate_all(simulator, classes, streamed, name)
    if storage == "map":
        if root is None:
            raise DataError(
                "storage = 'map' needs a data folder to write to; set STEEPEST_DATA, or use "
                "storage = 'memory' or 'stream'"
            )
        path = root / CACHE_FOLDER / f"{name}-{_fingerprint(simulator, classes)}.npy"
        return open_or_make(path, streamed.shape, parts)
    volumes = torch.empty(streamed.shape)
    done = 0
    for part in parts:
        volumes[done : done + len(part)] = part
        done += len(part)
    return volumes


def _simulate_all(
    simulator: Simulator, classes: Tensor, streamed: Streamed, name: str
) -> Iterator[Tensor]:
    """Yield all volumes in order, some rows at a time."""
    rows = torch.split(torch.arange(len(classes)), _BATCH)
    made = (
        streamed.batches(rows)
        if streamed.workers
        else (simulator(classes[part], part)[:, None] for part in rows)
    )
    with LineProgress().task(f"simulating {name}", len(classes)) as step:
        for part in made:
            yield part
            step.advance(len(part))


def _fingerprint(simulator: Simulator, classes: Tensor) -> str:
    """Return a text that is the same for equal volumes alone."""
    # A device rounds in its own way, so its volumes are not quite those of another.
    words = f"{_RELEASE} {simulator.fingerprint()} {simulator.device.type} {classes.tolist()}"
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def open_or_make(path: Path, shape: Sequence[int], parts: Iterable[Tensor]) -> Tensor:
    """Map a file of float32 values into memory; write it first if it is not there.

    It is written under another name and renamed when it is whole. What is changed in memory
    does not reach the file.

    Args:
        path: The file, in numpy's format.
        shape: Of all values [N, ...].
        parts: The values, some rows at a time; asked for only if they have to be written.

    Raises:
        DataError: If the file cannot be written.
    """
    wanted = tuple(shape)
    found = _map(path, wanted)
    if found is None:
        try:
            _write(path, wanted, parts)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be written ({error.strerror or error}); make room there, or use "
                f"storage = 'memory' or 'stream'"
            ) from error
        found = _map(path, wanted)
    if found is None:
        raise DataError(f"{path}: cannot be read after writing; use storage = 'memory'")
    return found


def _map(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Return the file's values, or None if it is not a whole file of that shape."""
    try:
        values = np.load(path, mmap_mode="c")
    except (OSError, EOFError, ValueError):
        return None
    if values.shape != shape or values.dtype != np.float32 or not values.flags.c_contiguous:
        return None
    return torch.from_numpy(values)


def _write(path: Path, shape: tuple[int, ...], parts: Iterable[Tensor]) -> None:
    with replacing(path) as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(part.cpu().contiguous().numpy().tobytes())
