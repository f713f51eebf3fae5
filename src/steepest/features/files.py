"""Features of files by their relative paths: computed once for each content, and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from steepest.core.progress import Step
from steepest.data.image_decoding import read_picture
from steepest.errors import DataError
from steepest.features.file_notes import FileNotes, Note, Stamp
from steepest.features.passes import Pass, Read, usual_batch_size
from steepest.features.store import FeatureStore
from steepest.models.backbones import Backbone

_DIGEST_BYTES = 16

Opener = Callable[[Path], Any]
"""Returns a sample for the backbone, such as an RGB image of Pillow, or raises a ``DataError``."""


@dataclass(frozen=True)
class File:
    """A file and its stamp, as it was when the folder was looked at.

    Attributes:
        name: Its path relative to the folder.
        stamp: Size and date.
    """

    name: str
    stamp: Stamp


@dataclass(frozen=True, eq=False)
class _ReadFile(Read):
    """A file's content, or the reason why it is left out."""

    reason: str = ""


class FileFeatures:
    """Features of the files of one folder by one backbone.

    Args:
        root: The folder of the files.
        backbone: Computes them.
        place: The folder that features are kept in.
        opener: Reads a file; by default as an image.

    Raises:
        InputError: If the features that are there are damaged, or lead elsewhere.
    """

    def __init__(
        self, root: Path, backbone: Backbone, place: Path, opener: Opener | None = None
    ) -> None:
        self._root = root
        self._place = place
        self._opener = opener or (lambda path: read_picture(path, backbone.needed_side))
        self.backbone = backbone
        self.store = FeatureStore(place, backbone)
        self.notes = FileNotes(place, writing=False)

    def __enter__(self) -> Self:
        """Hold the store, so that features can be added."""
        self.store.__enter__()
        try:
            # Another process may have written some meanwhile.
            self.notes = FileNotes(self._place, writing=True)
        except BaseException:
            self.store.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.store.__exit__()

    def missing(self, files: Iterable[File]) -> list[File]:
        """Return those whose features are not there yet."""
        found = []
        for file in files:
            note = self.notes.find(file.name, file.stamp)
            if note is None or (not note.reason and note.digest not in self.store):
                found.append(file)
        return found

    def compute(
        self,
        files: Sequence[File],
        step: Step,
        *,
        device: torch.device,
        batch_size: int | None = None,
    ) -> int:
        """Compute features within a ``with`` block; each batch is kept before the next one.

        Args:
            files: Those that are missing.
            step: Advanced by each batch.
            device: The device.
            batch_size: Files at once; None suits the device.

        Returns:
            How many rows were computed.
        """
        size = batch_size or usual_batch_size(device)
        work: Pass[File, _ReadFile] = Pass(
            self.backbone, self.store, self._read, self._keep, size, device
        )
        return work.run(files, step)

    def find(self, files: Iterable[File]) -> tuple[list[str], Tensor, list[tuple[str, str]]]:
        """Return the features that are kept.

        Returns:
            Names [R] and features [R, D] of files that have some, and (name, reason) of the others.
        """
        names, digests, skipped = [], [], []
        for file in files:
            note = self.notes.find(file.name, file.stamp)
            if note is None or note.reason or note.digest not in self.store:
                skipped.append((file.name, (note and note.reason) or "cannot be read"))
            else:
                names.append(file.name)
                digests.append(note.digest)
        return names, self.store.rows(digests), skipped

    def _read(self, file: File) -> _ReadFile:
        """Return the prepared sample of a file, unless its content is known."""
        path = self._root / file.name
        try:
            with path.open("rb") as opened:
                digest = hashlib.file_digest(opened, _make_digest).hexdigest()
        except OSError as error:
            return _ReadFile("", reason=error.strerror or str(error))
        if digest in self.store:
            return _ReadFile(digest)
        try:
            sample = self._opener(path)
        except DataError as error:
            return _ReadFile(digest, reason=str(error))
        return _ReadFile(digest, self.backbone.prepare(sample))

    def _keep(self, samples: Sequence[tuple[File, _ReadFile]]) -> None:
        # A file that could not even be opened may be readable the next time.
        made: Mapping[str, Note] = {
            file.name: Note(file.stamp, found.digest, found.reason)
            for file, found in samples
            if found.digest
        }
        self.notes.add(made)


def _make_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)
