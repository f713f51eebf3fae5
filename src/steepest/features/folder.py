"""Features of a folder of images: computed once for each content, kept beside the images."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, as_progress
from steepest.data.folder import check_folder, tell_skipped, walk_images
from steepest.errors import InputError
from steepest.features.file_notes import Stamp
from steepest.features.files import File, FileFeatures
from steepest.features.store import refuse_links, usual_place
from steepest.features.table import FeatureTable
from steepest.models.backbones import Backbone


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

    Features are kept: only new and changed files are read.
    A pass that was stopped, or killed, resumes where it was.

    Args:
        root: The folder. Names that begin with a dot are passed over.
        backbone: Computes them.
        store: Where they are kept; by default ``.steepest/features`` in the folder.
        batch_size: Images at once; by default suited to the device.
        device: The device.
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
    kept = FileFeatures(root, backbone, place)
    missing = kept.missing(files)
    computed = 0
    if missing:
        _check_writable(place)
        where = choose_device(device)
        with kept, as_progress(progress).task(f"features by {backbone.name}", len(missing)) as step:
            again = kept.missing(missing)
            step.advance(len(missing) - len(again))
            computed = kept.compute(again, step, device=where, batch_size=batch_size)
    names, rows, skipped = kept.find(files)
    tell_skipped(root, [*refused, *skipped], len(names), stacklevel=3)
    return FeatureTable(
        ids=tuple(names),
        rows=rows,
        backbone=backbone.name,
        identity=backbone.identity,
        skipped=(*refused, *skipped),
        computed=computed,
    )


def _look_at(root: Path) -> tuple[list[File], list[tuple[str, str]]]:
    """Return the images of a folder, sorted, and the files refused unread, with the reason."""
    files, refused = [], []
    for name, reason in sorted(walk_images(root)):
        if reason:
            refused.append((name, reason))
            continue
        try:
            files.append(File(name, Stamp.of(root / name)))
        except OSError as error:
            refused.append((name, error.strerror or str(error)))
    return files, refused


def _check_writable(place: Path) -> None:
    folder = place
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(
            f"features cannot be kept in {place}: name a folder that can be written to by "
            "--features, or store= in Python"
        )
