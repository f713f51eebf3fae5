"""Stochastic gradient descent on many tensors at once, with the copies that the next step reads.

Every program finds its share of a tensor by a table of addresses. Weights, momentum and gradient
are read once, and the weights are written in both precisions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.training.fast.kernels.ops import on_device_of

_BLOCK = 2048
_COLUMNS = 4


@dataclass(frozen=True)
class Update:
    """Hyperparameters of a step of SGD.

    Attributes:
        lr: On the device, read at each step.
        momentum: 0 keeps none.
        weight_decay: Added to the gradient, times the weight.
        nesterov: Whether to look ahead.
    """

    lr: Tensor
    momentum: float
    weight_decay: float
    nesterov: bool


class Addresses:
    """Addresses of parameters and their buffers.

    Args:
        parameters: In single precision, without gaps in memory.
        momenta: Laid out as they are, or None.
        copies: Laid out as they are, in half precision, or None for those without.
    """

    def __init__(
        self,
        parameters: list[Tensor],
        momenta: list[Tensor] | None,
        copies: list[Tensor | None],
    ) -> None:
        device = parameters[0].device
        self._parameters, self._copies = parameters, copies
        self._momenta = momenta or parameters
        self._table = torch.zeros((len(parameters), _COLUMNS), dtype=torch.int64, device=device)
        sizes = torch.tensor([p.numel() for p in parameters])
        blocks = -(-sizes // _BLOCK)
        owner = torch.repeat_interleave(torch.arange(len(parameters)), blocks)
        start = torch.arange(len(owner)) - (blocks.cumsum(0) - blocks)[owner]
        left = sizes[owner] - start * _BLOCK
        places = torch.stack([owner, start * _BLOCK, left.clamp(max=_BLOCK)], dim=1)
        self._places = places.to(torch.int32).to(device)
        self._gradients: list[Tensor] = []

    def look_at(self, gradients: list[Tensor]) -> None:
        """Take the addresses of gradients, laid out as the parameters are."""
        self._gradients = gradients

    def upload(self) -> None:
        """Bring the table to the device; a recording reads it when it is replayed."""
        rows = [
            [p.data_ptr(), m.data_ptr(), g.data_ptr(), 0 if c is None else c.data_ptr()]
            for p, m, g, c in zip(
                self._parameters, self._momenta, self._gradients, self._copies, strict=True
            )
        ]
        self._table.copy_(torch.tensor(rows))

    def launch(self, update: Update) -> None:
        """Move the parameters by the gradients that the table points to."""
        kinds = [t.dtype for t in (*self._copies, *self._gradients) if t is not None]
        half = torch.float16 if torch.float16 in kinds else torch.bfloat16
        with on_device_of(self._table):
            _update[(len(self._places),)](
                *(self._table, self._places, update.lr, update.momentum, update.weight_decay),
                has_momentum=update.momentum != 0,
                nesterov=update.nesterov,
                is_half=self._gradients[0].dtype != torch.float32,
                is_float16=half == torch.float16,
                block=_BLOCK,
                columns=_COLUMNS,
                num_warps=4,
            )


@triton.jit  # type: ignore[untyped-decorator]
def _update(
    table: tl.tensor,
    places: tl.tensor,
    lr: tl.tensor,
    momentum: tl.tensor,
    weight_decay: tl.tensor,
    has_momentum: tl.constexpr,
    nesterov: tl.constexpr,
    is_half: tl.constexpr,
    is_float16: tl.constexpr,
    block: tl.constexpr,
    columns: tl.constexpr,
) -> None:
    place = places + tl.program_id(0) * 3
    entry = table + tl.load(place) * columns
    start, count = tl.load(place + 1), tl.load(place + 2)
    rate = tl.load(lr)
    # Whole blocks are read many numbers at a time, which a mask would forbid.
    if count == block:
        _update_block(
            *(entry, start, count, rate, momentum, weight_decay),
            *(has_momentum, nesterov, is_half, is_float16, block, True),
        )
    else:
        _update_block(
            *(entry, start, count, rate, momentum, weight_decay),
            *(has_momentum, nesterov, is_half, is_float16, block, False),
        )


@triton.jit  # type: ignore[untyped-decorator]
def _update_block(
    entry: tl.tensor,
    start: tl.tensor,
    count: tl.tensor,
    rate: tl.tensor,
    momentum: tl.tensor,
    weight_decay: tl.tensor,
    has_momentum: tl.constexpr,
    nesterov: tl.constexpr,
    is_half: tl.constexpr,
    is_float16: tl.constexpr,
    block: tl.constexpr,
    whole: tl.constexpr,
) -> None:
    half: tl.constexpr = tl.float16 if is_float16 else tl.bfloat16
    kind: tl.constexpr = half if is_half else tl.float32
    at = tl.arange(0, block)
    mask = tl.full((block,), 1, tl.int1) if whole else at < count
    weights = tl.multiple_of(tl.load(entry).to(tl.pointer_type(tl.float32)) + start, 16) + at
    gradients = tl.multiple_of(tl.load(entry + 2).to(tl.pointer_type(kind)) + start, 16) + at
    weight = tl.load(weights, mask=mask, other=0.0)
    change = tl.load(gradients, mask=mask, other=0.0).to(tl.float32) + weight_decay * weight
    if has_momentum:
        speeds = tl.multiple_of(tl.load(entry + 1).to(tl.pointer_type(tl.float32)) + start, 16) + at
        speed = momentum * tl.load(speeds, mask=mask, other=0.0) + change
        tl.store(speeds, speed, mask=mask)
        change = change + momentum * speed if nesterov else speed
    weight -= rate * change
    tl.store(weights, weight, mask=mask)
    copy = tl.load(entry + 3)
    if copy != 0:
        copies = tl.multiple_of(copy.to(tl.pointer_type(half)) + start, 16) + at
        tl.store(copies, weight, mask=mask)
