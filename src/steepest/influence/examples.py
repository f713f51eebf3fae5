"""Fixed sets of examples, split or whole, read in batches and always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from steepest.core.seeds import SampleId, keyed_uniform
from steepest.data.base import Images
from steepest.data.sealed import Labels
from steepest.data.streamed import Streamed
from steepest.errors import InputError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.training.evaluate import normalised_batches

Batch = tuple[Inputs, Tensor | None]
"""A batch of inputs, with targets [B, ...] where they are known."""


class Source(Protocol):
    """Examples that can be read again and again; ``Examples`` is one."""

    def __len__(self) -> int:
        """Return the number of examples N."""

    def batches(self, size: int, rows: Tensor | None = None) -> Iterator[Batch]:
        """Yield all examples, or those of some rows, in order and not augmented."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples in memory.

    Attributes:
        inputs: N samples: a tensor, a tuple of positional tensors or a dict of keyword tensors.
        targets: The task's targets [N, ...]; None if it is not known.

    Raises:
        InputError: If there are none, or targets of another number.
    """

    inputs: Inputs
    targets: Tensor | None = None

    def __post_init__(self) -> None:
        _check_number(batches.count(self.inputs), self.targets)
        batches.check_finite(self.inputs)

    def __len__(self) -> int:
        return batches.count(self.inputs)

    def batches(self, size: int, rows: Tensor | None = None) -> Iterator[Batch]:
        """Yield all examples, or those of some rows, in order."""
        for part in _parts(len(self), size, rows):
            inputs = batches.take(self.inputs, part)
            yield inputs, None if self.targets is None else self.targets[part]


@dataclass(frozen=True, eq=False)
class ImageExamples:
    """Images of a data set, in memory or on disk, normalised as they are tested.

    Attributes:
        images: uint8 or float32 [N, C, ...].
        targets: The task's targets [N, ...]; None if it is not known.
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].

    Raises:
        InputError: If there are none, or targets of another number.
    """

    images: Images
    targets: Labels | None
    mean: Sequence[float]
    std: Sequence[float]

    def __post_init__(self) -> None:
        _check_number(len(self.images), self.targets)

    def __len__(self) -> int:
        return len(self.images)

    def batches(self, size: int, rows: Tensor | None = None) -> Iterator[Batch]:
        """Yield all examples, or those of some rows, in order."""
        parts = _parts(len(self), size, rows)
        wanted = torch.cat(parts)
        images = normalised_batches(self.images, wanted, size, self.mean, self.std)
        for part, inputs, targets in zip(parts, images, self._targets(parts), strict=True):
            if len(inputs) != len(part):
                raise InputError(f"{len(inputs)} images were read where {len(part)} were wanted")
            yield inputs, targets

    def _targets(self, parts: Sequence[Tensor]) -> Iterator[Tensor | None]:
        if self.targets is None:
            yield from (None for _ in parts)
        elif isinstance(self.targets, Streamed):
            yield from self.targets.batches(parts)
        else:
            yield from (self.targets[part] for part in parts)


def _parts(total: int, size: int, rows: Tensor | None) -> list[Tensor]:
    wanted = torch.arange(total) if rows is None else rows.cpu()
    return list(torch.split(wanted, size))


def _check_number(count: int, targets: Labels | None) -> None:
    if not count:
        raise InputError("there are no examples: give at least one")
    if targets is not None and len(targets) != count:
        raise InputError(f"{len(targets)} targets for {count} examples: one target each is needed")


def hold_out(
    ids: Sequence[SampleId], *, share: float = 0.2, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Split labelled samples into those to train on and those to hold out.

    A sample's part follows from draws keyed by id: as many as the share says, and at least one on
    either side, whatever the order.

    Args:
        ids: The labelled samples [N].
        share: Of them to hold out.
        seed: Seeds the draws.

    Returns:
        Rows to train on and rows held out, each in ascending order.

    Raises:
        InputError: If there are fewer than two samples, or the share is not between 0 and 1.
    """
    if len(ids) < 2 or not 0 < share < 1:
        raise InputError(
            f"{len(ids)} labelled samples with a share of {share} to hold out: give at least two, "
            "and a share between 0 and 1"
        )
    count = min(len(ids) - 1, max(1, round(share * len(ids))))
    order = np.argsort(keyed_uniform(seed, "hold out", ids)[:, 0], kind="stable")
    held = torch.from_numpy(np.sort(order[:count]))
    return torch.from_numpy(np.sort(order[count:])), held
