"""Labelled images, shuffled, augmented and normalised on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.seeds import generator
from steepest.training.augment import CropFlip, normalise

_BATCHES_AT_ONCE = 32
"""Batches that are made together: a GPU would spend its time on starting small operations."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """All that one training sees, on one device.

    Attributes:
        images: uint8 [N, C, H, W].
        labels: [N].
        mean: Per channel, on the 0..1 scale [C].
        std: Per channel, on the 0..1 scale [C].
        augment: What happens to an image before it is seen.
    """

    images: Tensor
    labels: Tensor
    mean: Sequence[float]
    std: Sequence[float]
    augment: CropFlip

    def batches(self, seed: int, epoch: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield one epoch's batches: float images [B, C, H, W] and labels [B].

        Order and augmentation depend on the seed and the epoch, not on the batch size.
        """
        count, device = len(self.images), self.images.device
        draws = self.augment.draw(count, generator(seed, "augment", epoch)).to(device)
        order = torch.randperm(count, generator=generator(seed, "shuffle", epoch)).to(device)
        batches = split_order(order, batch_size)
        for start in range(0, len(batches), _BATCHES_AT_ONCE):
            group = batches[start : start + _BATCHES_AT_ONCE]
            rows = torch.cat(group)
            changed = self.augment.apply(self.images[rows], draws[rows])
            sizes = [len(batch) for batch in group]
            images = torch.split(normalise(changed, self.mean, self.std), sizes)
            yield from zip(images, torch.split(self.labels[rows], sizes), strict=True)


def split_order(order: Tensor, batch_size: int) -> list[Tensor]:
    """Cut an order [N] into batches; a last batch of one joins the one before.

    BatchNorm has no variance to divide by in a batch of one.
    """
    batches = list(torch.split(order, batch_size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
