"""Identifies a training run, so that it never resumes from another's state."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from steepest.data.streamed import Streamed
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Task
from steepest.training.batches import LabelledImages
from steepest.training.recipe import Recipe

_LOOKED_AT_BYTES = 1 << 24
"""Of images in memory: all pixels of a few thousand small ones, some pixels of each of more."""

_READ = 4
"""Samples that are read of a column on disk."""

_ROWS_AT_ONCE = 1024

_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
"""Memory addresses in a repr, which change between processes."""


def identify_training(
    model: nn.Module,
    task: Task,
    data: LabelledImages,
    recipe: Recipe,
    *,
    augmentation: str,
    seed: int,
) -> str:
    """Return a text that changes with anything that decides what a training ends with.

    Labels in memory count in full. Of images each one counts, by all its pixels or by some; of
    a column on disk, which rows are taken and what a few of them hold.

    Args:
        model: Before the training: the weights that it begins from count.
        task: Its options count as far as it prints them.
        data: The labelled samples, cheapest to look at where they are before they are moved.
        recipe: How to train.
        augmentation: The one that is used.
        seed: Decides order, augmentation and dropout.
    """
    digest = hashlib.sha256()
    for part in (*_look(data.images, _LOOKED_AT_BYTES), *_look(data.labels, None)):
        digest.update(part.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    parts = [
        fingerprint(model),
        f"seed {seed}",
        f"{list(data.images.shape)} {data.images.dtype} samples",
        f"{list(data.labels.shape)} {data.labels.dtype} labels",
        f"content {digest.hexdigest()[:16]}",
        f"{_PLACE.sub('', repr(task))} of {getattr(task, 'classes', None)} classes",
        f"augmentation {augmentation}",
        f"mean {[float(m) for m in data.mean]}",
        f"std {[float(s) for s in data.std]}",
        str(recipe),
    ]
    return ", ".join(parts)


def _look(column: Tensor | Streamed, most_bytes: int | None) -> Iterator[Tensor]:
    """Yield what a column is known by; None looks at all that is in memory."""
    if isinstance(column, Streamed):
        yield column.rows
        places = torch.linspace(0, len(column) - 1, min(_READ, len(column)))
        yield column[places.round().long()]
        return
    values = math.prod(column.shape[1:])
    size = len(column) * values * column.element_size()
    least = 1 if most_bytes is None else max(1, math.ceil(size / most_bytes))
    # Prime to all sides of an image, or it would be known by a margin that all images share.
    step = next(s for s in itertools.count(least) if math.gcd(s, values) == 1)
    for part in torch.split(column, _ROWS_AT_ONCE):
        yield part.reshape(len(part), values)[:, ::step]
