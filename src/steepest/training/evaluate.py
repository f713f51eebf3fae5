"""What a trained model says about images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from steepest.errors import InputError, NonFiniteError
from steepest.gradnorm.inputs import call, logits_of
from steepest.gradnorm.preserve import evaluating
from steepest.training.augment import normalise


@torch.no_grad()
def predict_logits(
    model: nn.Module,
    images: Tensor,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    device: torch.device,
    batch_size: int = 512,
) -> Tensor:
    """Run the model in eval mode over all images; its mode is restored.

    Args:
        model: Maps images [B, C, H, W] to logits [B, K]; it is moved to ``device``.
        images: uint8 [N, C, H, W], on any device.
        mean: Per channel, on the 0..1 scale [C].
        std: Per channel, on the 0..1 scale [C].
        device: Where to compute.
        batch_size: Images at a time.

    Returns:
        Logits [N, K] on the CPU.

    Raises:
        InputError: If there are no images.
        NonFiniteError: If a logit is NaN or infinite.
    """
    if len(images) == 0 or batch_size < 1:
        raise InputError(f"{len(images)} images in batches of {batch_size}; give at least 1")
    model.to(device)
    with evaluating(model):
        parts = [
            logits_of(call(model, normalise(batch.to(device), mean, std))).float()
            for batch in torch.split(images, batch_size)
        ]
    logits = torch.cat(parts).cpu()
    if not bool(torch.isfinite(logits).all()):
        raise NonFiniteError("the model's logits are NaN or infinite; train it at a lower lr")
    return logits
