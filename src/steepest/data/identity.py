"""Identifies a data set, so that a run never resumes on another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from steepest.data.base import Images, ImageSet
from steepest.data.sealed import Labels
from steepest.data.streamed import Streamed

TEST_CONTENT = "test_content"
"""The field of the test labels, which identities that were written before it lack."""

_LOOKED_AT = 16


def identify(data: ImageSet) -> dict[str, Any]:
    """Return a data set's name, sizes, classes and hashes of its labels and of some images.

    ``content`` is of the training labels and of some images of both splits, ``test_content`` of
    the test labels. Samples that were added, removed or put in another order show in them; a change
    of pixels shows if it is in one of the images that are looked at. Of label maps that stay on
    disk, those for training are left out, and so are those of test images that are not looked at.
    """
    digest = hashlib.sha256()
    for column in (data.train_images, data.test_images):
        _feed_some(digest, column)
    digest.update(data.train_labels.digest())
    return {
        "name": data.name,
        "train": list(data.train_images.shape),
        "test": list(data.test_images.shape),
        "classes": list(data.classes),
        "content": _told(digest),
        TEST_CONTENT: _told(_digest_of(data.test_labels)),
    }


def comparable(data: Mapping[str, Any], stored: object) -> dict[str, Any]:
    """Return an identity without the fields that an earlier version did not store.

    Args:
        data: As ``identify`` returns it.
        stored: What a file holds.
    """
    older = isinstance(stored, Mapping) and TEST_CONTENT not in stored
    return {key: value for key, value in data.items() if not (older and key == TEST_CONTENT)}


def _digest_of(labels: Labels) -> hashlib._Hash:
    digest = hashlib.sha256()
    if isinstance(labels, Streamed):
        _feed_some(digest, labels)
    else:
        _feed(digest, labels)
    return digest


def _feed_some(digest: hashlib._Hash, samples: Images) -> None:
    count = len(samples)
    rows = torch.linspace(0, count - 1, min(_LOOKED_AT, count)).round().long().tolist()
    for row in rows:
        _feed(digest, samples[torch.tensor([row])])


def _feed(digest: hashlib._Hash, values: Tensor) -> None:
    digest.update(values.detach().cpu().contiguous().numpy().tobytes())


def _told(digest: hashlib._Hash) -> str:
    return digest.hexdigest()[:16]
