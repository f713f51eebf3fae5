"""Inputs of models: cached features of samples, or squares of pixels."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.devices import choose_device, usable_cores
from steepest.core.lock import InUseError
from steepest.core.progress import Progress, Step
from steepest.data.image_decoding import read_picture as read_photo
from steepest.errors import DataError
from steepest.features.file_notes import Stamp
from steepest.features.files import File, FileFeatures
from steepest.features.passes import Pass, Read
from steepest.features.store import FeatureStore
from steepest.labelling.project.decoding import read_picture, read_square
from steepest.labelling.project.pictures import note_failure
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import (
    VOLUME_SUFFIXES,
    AccessError,
    SampleFolder,
    Source,
    TextTable,
    read_text,
)
from steepest.labelling.project.store import Store
from steepest.models.backbones import Backbone, find_backbone

FOLDER = "features"
"""Name of the folder in the project's own that features are kept in."""

_BATCH = 16
"""Few at once on a CPU: whoever waits for a training waits for a batch at most."""

_WAIT_SECONDS = 0.5
_NO_STAMP = Stamp(-1, -1)
_LOOKED_AT_SIDE = 64


class SampleFeatures:
    """Rows of one backbone for the samples of a project.

    Args:
        store: The project's file, in which damaged samples are marked.
        source: The location of the samples.
        settings: The current settings.
        backbone: Computes the rows.

    Attributes:
        backbone: Computes the rows.
    """

    def __init__(
        self, store: Store, source: Source, settings: Settings, backbone: Backbone
    ) -> None:
        self._store = store
        self._source = source
        self._settings = settings
        self._device = choose_device(settings.device)
        place = store.path.parent / FOLDER
        # Below the link that a user may have named, not through it.
        self._files: FileFeatures | _RowFeatures
        if isinstance(source, TextTable):
            self._files = _RowFeatures(source, backbone, place)
        else:
            self._files = FileFeatures(source.path, backbone, place, self._open)
        self.backbone = backbone

    def missing(self, samples: Sequence[str]) -> list[str]:
        """Return the samples that have no features yet."""
        return [file.name for file in self._files.missing(self._stamped(samples))]

    def compute(self, samples: Sequence[str], step: Step) -> None:
        """Compute the features of samples that have none; each batch is kept before the next.

        Args:
            samples: Those that are missing.
            step: Advanced by each batch; its exceptions end the pass.
        """
        size = None if self._device.type == "cuda" else _BATCH
        check_home(self._store)
        while True:
            try:
                with self._files:
                    again = self._files.missing(self._stamped(samples))
                    step.advance(len(samples) - len(again))
                    if self._source.kind == "text":  # Long ones together need less padding.
                        again.sort(key=lambda file: -file.stamp.size)
                    self._files.compute(again, step, device=self._device, batch_size=size)
            except InUseError:
                # Another command computes features of the same folder; what it keeps is found here.
                step.advance(0)
                time.sleep(_WAIT_SECONDS)
            else:
                return

    def known(self, samples: Sequence[str]) -> tuple[list[str], Tensor]:
        """Return the samples that have features already [R], and these [R, D]."""
        names, rows, _ = self._files.find(self._stamped(samples))
        return names, rows

    def read(self, samples: Sequence[str], progress: Progress) -> tuple[list[int], Tensor]:
        """Return the features of samples, computed where they are missing.

        Those that are damaged or gone are marked; those that cannot be read at this moment are
        left out this time.

        Returns:
            The places in ``samples`` of those that have features [R], and the features [R, D].

        Raises:
            DataError: If the folder is away, or not one can be read at this moment.
        """
        missing = self.missing(samples)
        if missing:
            with progress.task("features", len(missing)) as step:
                self.compute(missing, step)
        files = self._stamped(samples)
        names, rows, _ = self._files.find(files)
        found = set(names)
        place_of = {sample: place for place, sample in enumerate(samples)}
        refused: AccessError | None = None
        for sample in samples:
            if sample not in found:
                refused = self._note(sample) or refused
        if refused is not None and not found:
            raise refused
        return [place_of[name] for name in names], rows

    def _stamped(self, samples: Sequence[str]) -> list[File]:
        files = []
        for sample in samples:
            try:
                if isinstance(self._source, TextTable):
                    stamp = Stamp(self._source.stamp(sample).size_bytes, 0)
                else:
                    stamp = Stamp.of(self._source.path / sample)
                files.append(File(sample, stamp))
            except (OSError, DataError):
                files.append(File(sample, _NO_STAMP))  # found by nobody, and noted on reading
        return files

    def _open(self, path: Path) -> Any:  # noqa: ANN401 - an image of Pillow, or a text
        sample = path.relative_to(self._source.path).as_posix()
        if self._source.kind == "text":
            return read_text(self._source, sample)
        inside = SampleFolder(self._source.path).locate(sample)
        if path.suffix.lower() in VOLUME_SUFFIXES:
            return read_picture(inside, 2 * self.backbone.needed_side or 1024)
        return read_photo(inside, self.backbone.needed_side)

    def _note(self, sample: str) -> AccessError | None:
        """Mark a sample without features; return the error if it may pass."""
        try:
            if self._source.kind == "text":
                read_text(self._source, sample)
            else:
                folder = SampleFolder(self._source.path)
                read_picture(folder.locate(sample), _LOOKED_AT_SIDE)
        except AccessError as error:
            return error
        except DataError as error:
            note_failure(self._store, self._source, sample, error, self._settings)
        return None


class _RowFeatures:
    """Features of a table's rows by the digests of their texts, with the methods of FileFeatures.

    Args:
        table: The rows.
        backbone: Computes their features.
        place: The folder that features are kept in.
    """

    def __init__(self, table: TextTable, backbone: Backbone, place: Path) -> None:
        self._table = table
        self._backbone = backbone
        self._store = FeatureStore(place, backbone)

    def __enter__(self) -> Self:
        self._store.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._store.__exit__()

    def missing(self, files: Iterable[File]) -> list[File]:
        """Return rows that have no features yet; those that are gone are not among them."""
        digests = ((file, self._table.mark(file.name)) for file in files)
        return [
            file for file, digest in digests if digest is not None and digest not in self._store
        ]

    def compute(
        self,
        files: Sequence[File],
        step: Step,
        *,
        device: torch.device,
        batch_size: int | None = None,
    ) -> int:
        """Compute features within a ``with`` block; return how many rows were computed."""
        size = batch_size or _BATCH
        work: Pass[File, Read] = Pass(
            self._backbone, self._store, self._read, lambda _: None, size, device
        )
        return work.run(files, step)

    def find(self, files: Iterable[File]) -> tuple[list[str], Tensor, list[tuple[str, str]]]:
        """Return names and features [R, D] of the rows that have some; and of none, why not."""
        digests = {file.name: self._table.mark(file.name) for file in files}
        found = {name: d for name, d in digests.items() if d is not None and d in self._store}
        return list(found), self._store.rows(list(found.values())), []

    def _read(self, file: File) -> Read:
        digest = self._table.mark(file.name) or ""
        if not digest or digest in self._store:
            return Read(digest)
        try:
            text = read_text(self._table, file.name)
        except DataError:
            return Read(digest)
        # Another text under this digest would stay there for good.
        same = self._table.mark(file.name) == digest
        return Read(digest, self._backbone.prepare(text) if same else None)


def check_home(store: Store) -> None:
    """Refuse to write where the project's folder was moved away: it could not come back.

    Raises:
        DataError: If it is not there.
    """
    if not store.path.is_file():
        raise DataError(f"{store.path.parent}: the project's folder is away; bring it back")


WANTED = """SELECT id FROM images WHERE missing = 0 AND unreadable IS NULL AND copy_of IS NULL
    ORDER BY held_out, shuffle"""
"""Samples in the order in which their features are computed ahead."""


class FeatureFinder:
    """Keeps the backbone and the list of its features between one use and the next.

    Args:
        store: The project's file.
        source: The location of the samples.
    """

    def __init__(self, store: Store, source: Source) -> None:
        self._store = store
        self._source = source
        self._found: tuple[tuple[str, str], SampleFeatures] | None = None

    def find(self, settings: Settings) -> SampleFeatures:
        """Return the features by the backbone that the settings name.

        Raises:
            InputError: If there is no such backbone, what it needs is not installed, or the
                features that are there are damaged.
        """
        key = (settings.backbone, settings.device)
        if self._found is None or self._found[0] != key:
            backbone = find_backbone(settings.backbone, settings.kind)
            made = SampleFeatures(self._store, self._source, settings, backbone)
            self._found = (key, made)
        return self._found[1]

    def compute_all(self, settings: Settings, progress: Progress) -> None:
        """Compute the features of all samples, where a probe learns from them."""
        if settings.way != "probe":
            return
        with self._store.reading() as connection:
            samples = [row["id"] for row in connection.execute(WANTED)]
        self.find(settings).read(samples, progress)


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
        source: The location of the samples.
        ids: The samples.
        side: The square's side in pixels.
        settings: The current settings.
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
