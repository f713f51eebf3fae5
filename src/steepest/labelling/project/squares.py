"""Samples as models see them: squares of pixels, those that cannot be read left out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.devices import usable_cores
from steepest.core.progress import Progress
from steepest.errors import DataError
from steepest.labelling.project.decoding import read_square
from steepest.labelling.project.failures import note_failure
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import AccessError, SampleFolder, Source
from steepest.labelling.project.store import Store

MOST_BYTES = 2 << 30
"""Pixels that are held in memory at a time, at most."""

_MOST_THREADS = 4


def read_squares(
    store: Store,
    source: Source,
    ids: Sequence[str],
    side: int,
    settings: Settings,
    progress: Progress,
) -> tuple[list[int], Tensor]:
    """Read samples, and mark those that are damaged or gone.

    Those that cannot be read at this moment are left out this time.

    Args:
        store: Where they are marked.
        source: Where the samples are.
        ids: The samples.
        side: The square's side in pixels.
        settings: What holds now.
        progress: Told of every sample.

    Returns:
        The places in ``ids`` of those that could be read [R], and pixels uint8 [R, 3, S, S].

    Raises:
        DataError: If the folder is away, or not one can be read at this moment.
    """

    def read(sample: str) -> npt.NDArray[np.uint8] | DataError:
        try:
            return read_square(folder.locate(sample), side)
        except DataError as error:
            return error

    folder = SampleFolder(source.path)
    pixels = torch.empty(len(ids), 3, side, side, dtype=torch.uint8)
    places: list[int] = []
    refused: AccessError | None = None
    threads = min(_MOST_THREADS, usable_cores())
    with progress.task("reading", len(ids)) as step, ThreadPoolExecutor(threads) as pool:
        for place, square in enumerate(pool.map(read, ids)):
            if isinstance(square, DataError):
                note_failure(store, source, ids[place], square, settings)
                refused = square if isinstance(square, AccessError) else refused
            else:
                pixels[len(places)] = torch.from_numpy(square)
                places.append(place)
            step.advance()
    if refused is not None and not places:
        raise refused
    return places, pixels[: len(places)]


def most_samples(side: int) -> int:
    """Return how many squares of that side fit into memory."""
    return max(1, MOST_BYTES // (3 * side * side))
