"""Floating-point operations of a step, and the device's peak rate of matrix products."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from steepest.bench.clock import Clock
from steepest.modules.batches import logits_of

_SIDE_ON_GPU = 8192
_SIDE_ON_CPU = 768
_CALLS = 5
_SAMPLES = 2


def count_flops(model: nn.Module, image_shape: tuple[int, ...]) -> float:
    """Return the operations of all products in one image's forward and backward pass.

    The model is run on the device it is on, in training mode as it is; statistics of batches move.
    """
    device = next(model.parameters()).device
    inputs = torch.zeros((_SAMPLES, *image_shape), device=device)
    targets = torch.zeros(_SAMPLES, dtype=torch.long, device=device)
    with FlopCounterMode(display=False) as counter:
        loss = functional.cross_entropy(logits_of(model(inputs)), targets)
        torch.autograd.backward(loss)
    model.zero_grad()
    return float(counter.get_total_flops()) / _SAMPLES


def measure_peak(device: torch.device, dtype: torch.dtype, clock: Clock, seed: int) -> float:
    """Return the operations a second of a large product of random matrices."""
    side = _SIDE_ON_GPU if device.type == "cuda" else _SIDE_ON_CPU
    random = torch.Generator(device).manual_seed(seed)
    # Random numbers, as products of zeros are faster than any that count.
    a, b = (torch.randn(side, side, device=device, generator=random).to(dtype) for _ in range(2))

    def multiply() -> None:
        torch.mm(a, b)

    clock.seconds_of(multiply, _CALLS)
    seconds = min(clock.seconds_of(multiply, _CALLS) for _ in range(2))
    return 2 * side**3 / seconds
