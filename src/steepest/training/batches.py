"""Labelled images, shuffled, augmented and normalised on the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from steepest.core.seeds import generator
from steepest.data.base import Images
from steepest.data.sealed import Labels, fits
from steepest.data.streamed import Streamed
from steepest.errors import DataError, InputError
from steepest.training.augment import CropFlip, normalise

_BATCHES_AT_ONCE = 32
"""Batches that are made together: a GPU would spend its time on starting small operations."""

_POSITIONS_AT_ONCE = 1 << 22
"""Pixels or voxels that are made together, so that large images take no more memory."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """All that one training sees, on one device or on disk.

    Attributes:
        images: uint8 or float32 [N, C, ...].
        labels: The task's targets [N, ...].
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
        augment: What happens to an image before it is seen; None leaves it to its reader.
        classes: What label maps from disk may say; None believes them.

    Raises:
        InputError: If images in memory are left to their reader.
    """

    images: Images
    labels: Labels
    mean: Sequence[float]
    std: Sequence[float]
    augment: CropFlip | None
    classes: int | None = None

    def __post_init__(self) -> None:
        read = isinstance(self.images, Streamed) and self.images.draws
        if self.augment is None and not read:
            raise InputError(
                "augmentation 'own' is for data sets that augment while they are read: name another"
            )
        if self.augment not in (None, CropFlip()) and len(self.images.shape) != 4:
            raise InputError(
                "augmentations by crops and mirrors are for images, not for volumes or features: "
                "set training.augmentation=none"
            )

    def to(self, device: torch.device) -> LabelledImages:
        """Return the same, with all that is in memory on the device."""
        return replace(self, images=_move(self.images, device), labels=_move(self.labels, device))

    def batches(
        self, seed: int, epoch: int, batch_size: int, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield one epoch's batches: float images [B, C, ...] and labels [B, ...].

        Order and augmentation depend on the seed and the epoch, not on the batch size.
        """
        count, random = len(self.images), generator(seed, "augment", epoch)
        draws = None if self.augment is None else self.augment.draw(count, random).to(device)
        numbers = self._numbers(random) if draws is None else None
        order = torch.randperm(count, generator=generator(seed, "shuffle", epoch))
        groups = self._group(split_order(order, batch_size))
        rows = [torch.cat(group) for group in groups]
        columns = (read_rows(self.images, rows, numbers), read_rows(self.labels, rows, numbers))
        for group, here, images, labels in zip(groups, rows, *columns, strict=True):
            if isinstance(self.labels, Streamed):
                self._check_maps(images, labels)
            x, y = images.to(device), labels.to(device)
            if self.augment is not None and draws is not None:
                changes = draws[here.to(device)]
                x, y = self.augment.apply(x, changes), self.augment.apply_to_labels(y, changes)
            sizes = [len(batch) for batch in group]
            ready = torch.split(normalise(x, self.mean, self.std), sizes)
            yield from zip(ready, torch.split(y, sizes), strict=True)

    def _check_maps(self, images: Tensor, maps: Tensor) -> None:
        """Refuse maps that their loss would stumble over, while they are on the CPU."""
        if maps.shape[1:] != images.shape[2:]:
            raise DataError(
                f"label maps are {list(maps.shape[1:])} for images of {list(images.shape[2:])}: "
                "they must be of one size"
            )
        if self.classes is not None and not fits(maps, self.classes):
            raise DataError(
                f"a label map has a class outside 0..{self.classes - 1} that is not 255"
            )

    def _numbers(self, random: torch.Generator) -> Tensor:
        width = self.images.draws if isinstance(self.images, Streamed) else 0
        return torch.rand(len(self.images), width, generator=random, dtype=torch.float64)

    def _group(self, batches: list[Tensor]) -> list[list[Tensor]]:
        positions = len(batches[0]) * math.prod(self.images.shape[2:])
        size = max(1, min(_BATCHES_AT_ONCE, _POSITIONS_AT_ONCE // positions))
        return [batches[i : i + size] for i in range(0, len(batches), size)]


def split_order(order: Tensor, batch_size: int) -> list[Tensor]:
    """Cut an order [N] into batches; a last batch of one joins the one before.

    BatchNorm has no variance to divide by in a batch of one.
    """
    batches = list(torch.split(order, batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _move(data: Tensor | Streamed, device: torch.device) -> Tensor | Streamed:
    return data if isinstance(data, Streamed) else data.to(device)


def read_rows(
    data: Tensor | Streamed, rows: Sequence[Tensor], numbers: Tensor | None = None
) -> Iterator[Tensor]:
    """Yield a column's samples for each list of rows, those on disk read ahead.

    Args:
        data: The column [N, ...].
        rows: Lists of rows.
        numbers: What a reader's random changes go by [N, D]; None is without such changes.
    """
    if isinstance(data, Streamed):
        return data.batches(rows, numbers)
    return (data[here.to(data.device)] for here in rows)
