"""Layers whose gradient is a product of what goes in and what comes back: linear, convolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.errors import ModelError
from steepest.gradnorm.measure.patches import Geometry, patches
from steepest.influence.vectors import Vector
from steepest.modules.preserve import removing

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, eq=False)
class Block:
    """A linear layer or a convolution, each group of channels for itself.

    The gradient of one sample is Σ_t δ_t a_tᵀ for each group, over positions t. A bias is one more
    input that is always 1.

    Attributes:
        module: The layer.
        weight: The name of its weight.
        bias: The name of its bias; None without one that takes part.
    """

    module: nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
    weight: str
    bias: str | None

    @property
    def groups(self) -> int:
        """Into how many separate layers the channels fall."""
        return 1 if isinstance(self.module, nn.Linear) else self.module.groups

    def cut_inputs(self, x: Tensor, out: torch.Size) -> Tensor:
        """Return the inputs of each output position [G, N, T, I]."""
        if isinstance(self.module, nn.Linear):
            rows = x.reshape(len(x), -1, x.shape[-1])[None]
        else:
            layer = self.module
            mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
            sides = layer._reversed_padding_repeated_twice  # noqa: SLF001 - knows "same" as well
            padded = F.pad(x, sides, mode=mode) if any(sides) else x
            none = tuple((0, 0) for _ in layer.kernel_size)
            geometry = Geometry(layer.kernel_size, layer.stride, layer.dilation, none, layer.groups)
            rows = patches(geometry, padded, out[2:]).permute(1, 0, 3, 2)
        if self.bias is None:
            return rows
        return torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1)

    def cut_slopes(self, slope: Tensor) -> Tensor:
        """Return the gradient of the output at each position [G, N, T, O]."""
        if isinstance(self.module, nn.Linear):
            return slope.reshape(len(slope), -1, slope.shape[-1])[None]
        parts = slope.reshape(len(slope), self.groups, slope.shape[1] // self.groups, -1)
        return parts.permute(1, 0, 3, 2)

    def to_matrix(self, vector: Vector) -> Tensor:
        """Return a vector's entries for this layer [G, O, I]."""
        weight = vector[self.weight]
        matrix = weight.reshape(self.groups, len(weight) // self.groups, -1)
        if self.bias is None:
            return matrix
        return torch.cat([matrix, vector[self.bias].reshape(*matrix.shape[:2], 1)], dim=-1)

    def from_matrix(self, matrix: Tensor, like: Vector) -> Vector:
        """Return a matrix [G, O, I] as entries of a vector."""
        weight = matrix if self.bias is None else matrix[..., :-1]
        found = {self.weight: weight.reshape(like[self.weight].shape).to(like[self.weight])}
        if self.bias is not None:
            found[self.bias] = matrix[..., -1].reshape(-1).to(like[self.bias])
        return found


def find_blocks(model: nn.Module, parameters: Vector) -> list[Block]:
    """Return the layers that the factors can describe, of those whose weight takes part.

    Subclasses with their own forward, and weights that several layers share, are none.
    """
    uses: Counter[Tensor] = Counter(
        p
        for module in model.modules()
        for p in module._parameters.values()  # noqa: SLF001 - shared ones are listed again
        if p is not None
    )
    found: list[Block] = []
    for path, module in model.named_modules():
        if not isinstance(module, (nn.Linear, *_CONVOLUTIONS)) or not _is_plain(module):
            continue
        prefix = f"{path}." if path else ""
        weight, bias = f"{prefix}weight", f"{prefix}bias"
        if weight not in parameters or uses[module.weight] > 1:
            continue
        alone = module.bias is not None and uses[module.bias] == 1
        found.append(Block(module, weight, bias if bias in parameters and alone else None))
    return found


def _is_plain(module: nn.Module) -> bool:
    kinds = (nn.Linear, *_CONVOLUTIONS)
    return any(isinstance(module, k) and type(module).forward is k.forward for k in kinds)


@dataclass(frozen=True, eq=False)
class Record:
    """Inputs and outputs of layers in one forward pass, one entry per use."""

    uses: list[tuple[Block, Tensor, int, Tensor]] = field(default_factory=list)

    def slopes(self, loss: Tensor) -> list[tuple[Block, Tensor, Tensor]]:
        """Return blocks with inputs [G, N, T, I] and gradients [G, N, T, O], use by use.

        Raises:
            ModelError: If an input was changed in place behind its layer.
        """
        outputs = [output for *_, output in self.uses]
        found = torch.autograd.grad(loss, outputs, allow_unused=True, materialize_grads=True)
        cut: list[tuple[Block, Tensor, Tensor]] = []
        for (block, x, version, output), slope in zip(self.uses, found, strict=True):
            if x._version != version:  # noqa: SLF001 - nothing else reveals changes
                raise ModelError(
                    f"what the layer of {block.weight!r} reads is changed in place behind it: set "
                    "inplace=False there"
                )
            cut.append((block, block.cut_inputs(x.detach(), output.shape), block.cut_slopes(slope)))
        return cut


@contextmanager
def recording(blocks: list[Block]) -> Iterator[Record]:
    """Record the inputs and outputs of the blocks in a forward pass."""
    record = Record()

    def note_as(block: Block) -> Any:  # noqa: ANN401 - a hook
        def note(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            record.uses.append((block, args[0], args[0]._version, output))  # noqa: SLF001
            # A copy goes on: what follows may change it in place.
            return output.clone()

        return note

    handles = [block.module.register_forward_hook(note_as(block)) for block in blocks]
    with removing(handles):
        yield record
