"""Predictions and metrics of a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from steepest.data.base import Images
from steepest.data.sealed import Labels
from steepest.errors import InputError, NonFiniteError
from steepest.modules.batches import call, logits_of
from steepest.modules.preserve import evaluating
from steepest.tasks.base import Metric, Task
from steepest.training.augment import normalise
from steepest.training.batches import read_rows

_MOST = 512
_POSITIONS = {"cpu": 1 << 19, "cuda": 1 << 22}
"""Pixels or voxels in flight at most, by device."""


def samples_at_once(shape: Sequence[int], device: torch.device) -> int:
    """Return how many samples of a column [N, C, ...] to look at together."""
    positions = _POSITIONS.get(device.type, _POSITIONS["cpu"])
    return max(1, min(_MOST, positions // math.prod(shape[2:])))


def normalised_batches(
    images: Images,
    rows: Sequence[int] | Tensor,
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
) -> Iterator[Tensor]:
    """Yield images by rows as models take them, not augmented: float [B, C, ...]."""
    parts = torch.split(torch.as_tensor(rows, dtype=torch.long), size)
    for batch in read_rows(images, parts):
        yield normalise(batch, mean, std)


@torch.no_grad()
def predict_logits(
    model: nn.Module,
    images: Images,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    device: torch.device,
    batch_size: int | None = None,
) -> Tensor:
    """Run the model in eval mode over all images; its mode is restored.

    Args:
        model: Maps images [B, C, ...] to logits [B, K, ...]; it is moved to ``device``.
        images: uint8 or float32 [N, C, ...], on any device or on disk.
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
        device: The device.
        batch_size: Images at a time; by default as many as their size suggests.

    Returns:
        Logits [N, K, ...] on the CPU.

    Raises:
        InputError: If there are no images.
        NonFiniteError: If a logit is NaN or infinite.
    """
    batches = _logits(model, images, mean, std, device, batch_size)
    return torch.cat([logits.cpu() for logits in batches])


@torch.no_grad()
def evaluate(
    model: nn.Module,
    task: Task,
    images: Images,
    labels: Labels,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    device: torch.device,
    batch_size: int | None = None,
) -> dict[str, Metric]:
    """Return the task's metrics on labelled images, a batch at a time.

    Args:
        model: Maps images [B, C, ...] to logits [B, K, ...]; it is moved to ``device``.
        task: Defines the metrics.
        images: uint8 or float32 [N, C, ...].
        labels: The task's targets [N, ...].
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
        device: The device.
        batch_size: Images at a time; by default as many as their size suggests.

    Raises:
        InputError: If there are no images, or labels do not match the model's outputs.
        NonFiniteError: If a logit is NaN or infinite.
    """
    size = samples_at_once(images.shape, device) if batch_size is None else batch_size
    rows = torch.split(torch.arange(len(labels)), max(1, size))
    predicted = _logits(model, images, mean, std, device, size)
    pairs = zip(predicted, read_rows(labels, rows), strict=True)
    return task.metrics((z, y.to(z.device)) for z, y in pairs)


def _logits(
    model: nn.Module,
    images: Images,
    mean: Sequence[float],
    std: Sequence[float],
    device: torch.device,
    batch_size: int | None,
) -> Iterator[Tensor]:
    """Yield float32 logits [B, K, ...] on the device."""
    size = samples_at_once(images.shape, device) if batch_size is None else batch_size
    if len(images) == 0 or size < 1:
        raise InputError(f"{len(images)} images in batches of {size}; give at least 1")
    model.to(device)
    finite = torch.ones((), dtype=torch.bool, device=device)
    with evaluating(model):
        for batch in normalised_batches(images, range(len(images)), size, mean, std):
            logits = logits_of(call(model, batch.to(device))).float()
            # Looked at in the end: asking for each batch would make the device wait.
            finite &= torch.isfinite(logits).all()
            yield logits
    if not bool(finite):
        raise NonFiniteError("the model's logits are NaN or infinite; train it at a lower lr")
