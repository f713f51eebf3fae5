"""Data sets in the features of a pretrained net, computed once and kept."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steepest.core.files import expand_home
from steepest.core.tensor_file import read_tensors, write_tensors
from steepest.data import ImageSet, load
from steepest.data.base import data_root
from steepest.data.sealed import SealedLabels
from steepest.data.texts import TextRows, decode_texts
from steepest.errors import DataError, InputError, SlowPathWarning
from steepest.experiment.config import DataPart
from steepest.features import image_features
from steepest.features.samples import text_features
from steepest.models.backbones import Backbone, find_backbone

FEATURES_VARIABLE = "STEEPEST_FEATURES"
"""The environment variable that names the folder in which features are kept."""

_FORMAT = 1
_PURPOSE = "features in place of images"
_TEXTS = "texts"
_CHANGING = ("folder", "npz", _TEXTS)
"""Data sets whose content is not told by their name and options."""


def features_folder() -> Path:
    """Return where features are kept: beside the data sets if no other place is named."""
    named = os.environ.get(FEATURES_VARIABLE)
    if named:
        return expand_home(named)
    root = data_root()
    return (
        Path.home() / ".cache" / "steepest" if root is None else root / ".steepest"
    ) / "features"


def load_in_feature_space(part: DataPart, backbone: str) -> ImageSet:
    """Load a data set with the features of a net in place of its images.

    Features are centred on the mean of the training samples and scaled by one number, to a mean
    square of 1; with ``dimensions`` they are turned onto the principal components of the training
    samples, of which the first are kept. No label plays a part. They are kept in half precision, so
    that a whole data set is a small file, which later runs read in no time.

    Args:
        part: Names the data set, and how many components.
        backbone: The net.

    Raises:
        DataError: If the data set cannot be loaded, or its images are not in memory.
        InputError: If the net is not there, or has fewer features than are to be kept.
    """
    path = _table_path(part, backbone)
    if path is not None and (found := _read(path)) is not None:
        return found
    source = load(part.name, options=part.options, limit=part.limit)
    net = find_backbone(backbone, "text" if part.name == _TEXTS else "images")
    rows = []
    for images in (source.train_images, source.test_images):
        if not isinstance(images, Tensor):
            raise DataError(f"{source.name} is read from disk: features are for images in memory")
        rows.append(_features(images, net))
    train, test = _project(rows[0], rows[1], part.dimensions)
    width = train.shape[1]
    made = replace(
        source,
        name=f"{source.name}-features",
        train_images=train.float(),
        test_images=test.float(),
        mean=(0.0,) * width,
        std=(1.0,) * width,
        augmentation="none",
    )
    if path is not None:
        _write(path, made, {"backbone": net.name, "identity": net.identity, "part": _key(part)})
    return made


def _features(images: Tensor, net: Backbone) -> Tensor:
    """Return the features of images, or of texts as bytes, [N, D]."""
    store = features_folder()
    if net.kind == "images":
        return image_features(images, net, store=store).rows.double()
    # One row for each sample: without a text there is nothing to compute, but a row all the same.
    said = tuple(text or " " for text in decode_texts(images))
    rows = TextRows(tuple(range(len(said))), said)
    return text_features(rows, net, store=store).rows.double()


def _project(train: Tensor, test: Tensor, dimensions: int | None) -> tuple[Tensor, Tensor]:
    """Centre, turn and scale rows [N, D] and [M, D]; both in half precision."""
    mean = train.mean(0)
    train, test = train - mean, test - mean
    if dimensions is not None:
        most = min(train.shape[1], len(train) - 1)
        if dimensions > most:
            raise InputError(
                f"[data] dimensions = {dimensions}, but {len(train)} samples of {train.shape[1]} "
                f"features have at most {most} components"
            )
        _, axes = torch.linalg.eigh(train.T @ train)
        axes = axes[:, -dimensions:].flip(1)
        # An axis and its opposite are the same to the decomposition, but not to a seed.
        largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
        axes = axes * largest.sign()
        train, test = train @ axes, test @ axes
    scale = train.square().mean().sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    return (train / scale).half(), (test / scale).half()


def _key(part: DataPart) -> list[Any]:
    return [part.name, dict(part.options), part.limit, part.dimensions]


def _table_path(part: DataPart, backbone: str) -> Path | None:
    """Return the file of a data set's features; None where its name does not tell its content."""
    if part.name in _CHANGING or ":" in part.name or ":" in backbone:
        return None
    said = json.dumps([_FORMAT, backbone, *_key(part)], sort_keys=True)
    digits = hashlib.sha256(said.encode()).hexdigest()[:12]
    return features_folder() / f"{part.name}-{backbone}-{digits}.safetensors"


def _read(path: Path) -> ImageSet | None:
    try:
        found = read_tensors(path)
    except DataError as error:
        warnings.warn(f"features are put together anew: {error}", SlowPathWarning, stacklevel=2)
        return None
    if found is None:
        return None
    tensors, about = found
    width = tensors["train"].shape[1]
    return ImageSet(
        name=about["name"],
        classes=tuple(about["classes"]),
        train_images=tensors["train"].float(),
        train_labels=SealedLabels(tensors["train_labels"]),
        test_images=tensors["test"].float(),
        test_labels=tensors["test_labels"],
        mean=(0.0,) * width,
        std=(1.0,) * width,
        task=about["task"],
    )


def _write(path: Path, data: ImageSet, about: dict[str, Any]) -> None:
    labels = data.train_labels.unseal(_PURPOSE)
    if not isinstance(data.test_labels, Tensor) or not isinstance(data.train_images, Tensor):
        return
    tensors = {
        "train": data.train_images.half(),
        "train_labels": labels,
        "test": torch.as_tensor(data.test_images[:]).half(),
        "test_labels": data.test_labels,
    }
    said = {**about, "name": data.name, "classes": list(data.classes), "task": data.task}
    write_tensors(path, tensors, said)
