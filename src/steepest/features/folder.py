"""Features of a folder of images: computed once for each content, kept beside the images."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, as_progress
from steepest.data.folder import check_folder, tell_skipped, walk_images
from steepest.data.pixels import read_picture
from steepest.errors import DataError, InputError
from steepest.features.file_notes import FileNotes, Note, Stamp
from steepest.features.passing import Pass, Read, usual_batch_size
from steepest.features.place import refuse_links, usual_place
from steepest.features.store import FeatureStore
from steepest.features.table import FeatureTable
from steepest.models.backbones import Backbone

_DIGEST_BYTES = 16


def folder_features(
    root: Path | str,
    backbone: Backbone,
    *,
    store: Path | str | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "auto",
    progress: bool | Progress = True,
) -> FeatureTable:
    """Return the features of all images of a folder and its subfolders.

    What was computed before is kept, whoever asked for it: new and changed files alone are read.
    A pass that was stopped, or killed, goes on where it was.

    Args:
        root: The folder. Names that begin with a dot are passed over.
        backbone: Computes them.
        store: Where they are kept; by default ``.steepest/features`` in the folder.
        batch_size: Images at once; by default what suits the device.
        device: Where to compute.
        progress: Whether to show progress.

    Returns:
        A row for each image, by its relative path; files that are none are named and left out.

    Raises:
        DataError: If there is no such folder, or no image in it.
        InputError: If features cannot be kept there, or those that are there are damaged.
    """
    root = Path(root)
    check_folder(root)
    if backbone.kind != "images":
        raise InputError(f"backbone {backbone.name!r} reads {backbone.kind}, not images")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, not {batch_size}")
    place = usual_place(root) if store is None else Path(store)
    if store is None:
        refuse_links(place, root)
    files, refused = _look_at(root)
    kept = FeatureStore(place, backbone)
    notes = FileNotes(place, writing=False)
    missing = _missing(files, notes, kept)
    computed = 0
    if missing:
        _check_writable(place)
        where = choose_device(device)
        with kept, as_progress(progress).task(f"features by {backbone.name}", len(missing)) as step:
            # What another process did meanwhile need not be done again.
            notes = FileNotes(place, writing=True)
            again = _missing(files, notes, kept)
            step.advance(len(missing) - len(again))
            reader = _Reader(root, backbone, kept)
            work: Pass[_File, _ReadFile] = Pass(
                backbone,
                kept,
                reader.read,
                partial(_keep, notes),
                batch_size or usual_batch_size(where),
                where,
            )
            computed = work.run(again, step)
    return _table(root, files, refused, notes, kept, backbone, computed)


@dataclass(frozen=True)
class _File:
    """A file and its stamp, as it was when the folder was looked at."""

    name: str
    stamp: Stamp


@dataclass(frozen=True, eq=False)
class _ReadFile(Read):
    """A file's content, or the reason why it is left out."""

    reason: str = ""


@dataclass(frozen=True)
class _Reader:
    """Reads files, several at once."""

    root: Path
    backbone: Backbone
    store: FeatureStore

    def read(self, file: _File) -> _ReadFile:
        """Return what the backbone takes of a file, unless its content is known."""
        path = self.root / file.name
        try:
            with path.open("rb") as opened:
                digest = hashlib.file_digest(opened, _make_digest).hexdigest()
        except OSError as error:
            return _ReadFile("", reason=error.strerror or str(error))
        if digest in self.store:
            return _ReadFile(digest)
        try:
            picture = read_picture(path, self.backbone.needed_side)
        except DataError as error:
            return _ReadFile(digest, reason=str(error))
        return _ReadFile(digest, self.backbone.prepare(picture))


def _make_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def _look_at(root: Path) -> tuple[list[_File], list[tuple[str, str]]]:
    """Return the images of a folder, sorted, and what is refused unread with the reason."""
    files, refused = [], []
    for name, reason in sorted(walk_images(root)):
        if reason:
            refused.append((name, reason))
            continue
        try:
            files.append(_File(name, Stamp.of(root / name)))
        except OSError as error:
            refused.append((name, error.strerror or str(error)))
    return files, refused


def _missing(files: Sequence[_File], notes: FileNotes, store: FeatureStore) -> list[_File]:
    found = []
    for file in files:
        note = notes.find(file.name, file.stamp)
        if note is None or (not note.reason and note.digest not in store):
            found.append(file)
    return found


def _keep(notes: FileNotes, samples: Sequence[tuple[_File, _ReadFile]]) -> None:
    # A file that could not even be opened may be readable the next time.
    made: Mapping[str, Note] = {
        file.name: Note(file.stamp, found.digest, found.reason)
        for file, found in samples
        if found.digest
    }
    notes.add(made)


def _table(
    root: Path,
    files: Sequence[_File],
    refused: Sequence[tuple[str, str]],
    notes: FileNotes,
    store: FeatureStore,
    backbone: Backbone,
    computed: int,
) -> FeatureTable:
    ids, digests, skipped = [], [], list(refused)
    for file in files:
        note = notes.find(file.name, file.stamp)
        if note is None or note.reason:
            skipped.append((file.name, "cannot be read" if note is None else note.reason))
        else:
            ids.append(file.name)
            digests.append(note.digest)
    tell_skipped(root, skipped, len(ids), stacklevel=4)
    return FeatureTable(
        ids=tuple(ids),
        rows=store.rows(digests),
        backbone=backbone.name,
        identity=backbone.identity,
        skipped=tuple(skipped),
        computed=computed,
    )


def _check_writable(place: Path) -> None:
    folder = place
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(
            f"features cannot be kept in {place}: name a folder that can be written to by "
            "--features, or store= in Python"
        )
