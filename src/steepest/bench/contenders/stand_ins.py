"""Layers that peers can measure in place of layers that they refuse, with the same function.

Opacus refuses any BatchNorm, since in training it mixes samples, and nn.MultiheadAttention, since
it uses its weights directly. In eval mode the first is a scale and a shift per channel, and the
second is four linear layers; the norm over all their parameters is unchanged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm


class FrozenNorm(nn.Module):
    """A BatchNorm in eval mode whose statistics are constants rather than buffers.

    Args:
        norm: The layer whose values are copied.
    """

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        if norm.running_mean is None or norm.running_var is None or not norm.affine:
            raise NotImplementedError("a norm layer without statistics or without weights")
        self.weight = nn.Parameter(norm.weight.detach().clone())
        self.bias = nn.Parameter(norm.bias.detach().clone())
        self.mean = norm.running_mean.clone()
        self.variance = norm.running_var.clone()
        self.eps = norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift the channels of x [N, C, ...]."""
        return F.batch_norm(
            x, self.mean, self.variance, self.weight, self.bias, training=False, eps=self.eps
        )

    def sample_gradients(self, x: Tensor, gradient: Tensor) -> dict[nn.Parameter, Tensor]:
        """Return each sample's gradient [N, C] of the weight and the bias."""
        x, gradient = x.flatten(2), gradient.flatten(2)
        wide = torch.promote_types(x.dtype, torch.float32)
        shift = gradient.sum(2, dtype=wide)
        scale = (x * gradient).sum(2, dtype=wide) - self.mean * shift
        return {self.weight: scale * (self.variance + self.eps).rsqrt(), self.bias: shift}


class SplitAttention(nn.Module):
    """Self-attention whose four projections are linear layers of their own.

    Args:
        attention: The layer whose weights are copied.
    """

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        # The weights of unused forms are None, whatever their type says.
        joint: Tensor | None = getattr(attention, "in_proj_weight", None)
        shift: Tensor | None = getattr(attention, "in_proj_bias", None)
        if joint is None or shift is None or not attention.batch_first:
            raise NotImplementedError("attention of several widths, or not with samples first")
        self.heads = attention.num_heads
        self.batch_first = True
        parts = zip(joint.detach().chunk(3), shift.detach().chunk(3), strict=True)
        self.query, self.key, self.value = [_make_linear(w, b) for w, b in parts]
        out = attention.out_proj
        self.out = _make_linear(out.weight.detach(), out.bias.detach())

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, **_: object
    ) -> tuple[Tensor, None]:
        """Attend, all [N, T, width]; masks and dropout are not for measurements."""
        q, k, v = [
            project(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for project, x in ((self.query, query), (self.key, key), (self.value, value))
        ]
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2)), None


def with_stand_ins(model: nn.Module) -> tuple[nn.Module, str]:
    """Return a copy of the model with stand-ins, and which layers they are for.

    The copy is in training mode, without which Opacus measures nothing; nothing in it depends on
    the mode any more.

    Raises:
        NotImplementedError: If a layer has none.
    """
    adapted = out_of_place(model)
    replaced: dict[str, None] = {}
    for parent in list(adapted.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.dropout._DropoutNd):  # noqa: SLF001
                setattr(parent, name, nn.Identity())
            for kind, stand_in in _STAND_INS:
                if isinstance(child, kind):
                    setattr(parent, name, stand_in(child))
                    replaced[type(child).__name__] = None
    return adapted.train(), ", ".join(replaced)


def out_of_place(model: nn.Module) -> nn.Module:
    """Return a copy of the model whose activations overwrite nothing, as backward hooks need."""
    copied = copy.deepcopy(model)
    for module in copied.modules():
        if getattr(module, "inplace", False) is True:
            module.inplace = False  # type: ignore[assignment]
    return copied


def check_same_function(model: nn.Module, adapted: nn.Module, inputs: Tensor) -> None:
    """Raise if a changed model does not compute what the original does.

    Raises:
        NotImplementedError: Then its norms would be those of another function.
    """
    with torch.no_grad():
        wanted, found = model(inputs), adapted(inputs)
    scale = float(wanted.abs().max())
    if not float((wanted - found).abs().max()) <= 1e-2 * scale:
        raise NotImplementedError("with stand-ins for its layers the model computes something else")


_STAND_INS: tuple[tuple[type[nn.Module], Callable[[Any], nn.Module]], ...] = (
    (_BatchNorm, FrozenNorm),
    (nn.MultiheadAttention, SplitAttention),
)


def _make_linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight = nn.Parameter(weight.clone())
    layer.bias = nn.Parameter(bias.clone())
    return layer
