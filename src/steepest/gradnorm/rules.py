"""One rule per layer type: squared per-sample gradient norms from what passes through it.

A rule takes the layer, its input ``a`` and the gradient ``g`` of the loss with respect to its
output, both with the samples first, and returns the squared norm [N] of each of the layer's
parameters by name. Rules are exact; they never build more than a few samples' gradients at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.gradnorm.patches import Convolution, padded, patch_gram, patch_rows, patches

Squares = dict[str, Tensor]
Rule = Callable[[Any, Tensor, Tensor], Squares]

RULES: dict[type[nn.Module], Rule] = {}

_CHUNK_FLOATS = 2**24
"""Scratch space of a rule, in numbers: 64 MiB in single precision."""


Route = Literal["pixels", "rows", "patches"]

_WIDE_ROW = 64
_CANCELLED = 0.02
"""Below this share of what unrelated terms would add up to, a sum counts as cancelled."""


def rule(*layers: type[nn.Module]) -> Callable[[Rule], Rule]:
    """Register a rule for layer types; a second rule for the same type is an error."""

    def file(function: Rule) -> Rule:
        for layer in layers:
            if layer in RULES:
                raise ValueError(f"two rules for {layer.__name__}")
            RULES[layer] = function
        return function

    return file


def rule_for(layer: nn.Module) -> Rule | None:
    """Return the rule that is exact for this very layer, or None.

    A subclass may compute something else, so only the type itself counts; so does a layer whose
    forward was replaced, that carries hooks, or that owns parameters the rule does not know.
    """
    found = RULES.get(type(layer))
    if found is None or "forward" in vars(layer):
        return None
    if layer._forward_hooks or layer._forward_pre_hooks:  # noqa: SLF001 - no public question for it
        return None
    own = dict(layer.named_parameters(recurse=False))
    if not own.keys() <= {"weight", "bias"} or any(map(_is_unusual, own.values())):
        return None
    return None if _changes_its_gradient(layer) else found


@rule(nn.Linear)
def linear(layer: nn.Linear, a: Tensor, g: Tensor) -> Squares:  # noqa: ARG001
    """Linear on [N, ..., I]: the weight's gradient is Σ_t g_t a_tᵀ."""
    if a.ndim == 2:
        return {
            "weight": g.square().sum(1) * a.square().sum(1),
            "bias": g.square().sum(1),
        }
    a, g = a.flatten(1, -2), g.flatten(1, -2)
    return {
        "weight": _outer_sum_squares(a.transpose(1, 2)[:, None], g.transpose(1, 2)[:, None]),
        "bias": g.sum(1).square().sum(1),
    }


@rule(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def convolution(layer: Convolution, a: Tensor, g: Tensor) -> Squares:
    """Convolution: a linear layer on the patches under the kernel, group by group."""
    out = g.shape[2:]
    route = _route(layer, padded(layer, a[:1]).shape[2:].numel(), out.numel())
    grouped = g.reshape(len(g), layer.groups, -1, out.numel())
    weight = []
    for rows in _chunks(len(a), layer.weight[0].numel() * layer.groups * out.numel()):
        x, y = padded(layer, a[rows]), grouped[rows]
        if route == "pixels":
            weight.append(_pixel_squares(layer, x, y, out))
        elif route == "rows":
            parts = [(y[:, 0] @ row.transpose(1, 2)) for row in patch_rows(layer, x, out)]
            weight.append(torch.stack([p.square().sum((1, 2)) for p in parts]).sum(0))
        else:
            weight.append(_outer_sum_squares(patches(layer, x), y))
    return {"weight": torch.cat(weight), "bias": g.flatten(2).sum(2).square().sum(1)}


def _pixel_squares(layer: Convolution, x: Tensor, g: Tensor, out: torch.Size) -> Tensor:
    """Return the weight's squares [N] from products of pixels; g is [N, 1, O, T]."""

    def grams(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return patch_gram(layer, x, out)[:, None], g.transpose(2, 3) @ g

    return _gram_total(grams, x, g)


def _route(layer: Convolution, pixels: int, positions: int) -> Route:
    """Return the cheapest exact way, counted in multiplications.

    Copies count tenfold: they are bound by memory.

    Args:
        layer: The convolution.
        pixels: Positions of its padded input.
        positions: Positions of its output T.
    """
    if layer.groups != 1:
        return "patches"
    fan_in, fan_out = layer.weight[0].numel(), layer.out_channels
    taps = fan_in // layer.in_channels
    gradient, gram = positions * fan_in * fan_out, positions**2 * (fan_in + fan_out)
    by_pixels = pixels**2 * layer.in_channels + positions**2 * (fan_out + 10 * taps)
    if by_pixels < 10 * fan_in * positions + min(gradient, gram):
        return "pixels"
    # A row has to be wide enough to make a good product.
    wide = layer.in_channels * layer.kernel_size[-1] >= _WIDE_ROW
    return "rows" if wide and gradient < gram else "patches"


@rule(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
def batch_norm(layer: nn.BatchNorm2d, a: Tensor, g: Tensor) -> Squares:
    """Batch normalisation in eval mode: a fixed scale and shift of each channel."""
    mean, var = layer.running_mean, layer.running_var
    x = F.batch_norm(a, _as(mean, a), _as(var, a), None, None, training=False, eps=layer.eps)
    return _affine_squares(_sum_positions(x * g), _sum_positions(g))


@rule(nn.GroupNorm)
def group_norm(layer: nn.GroupNorm, a: Tensor, g: Tensor) -> Squares:
    """Group normalisation: one scale and shift per channel, summed over positions."""
    x = F.group_norm(a, layer.num_groups, None, None, layer.eps)
    return _affine_squares(_sum_positions(x * g), _sum_positions(g))


@rule(nn.LayerNorm)
def layer_norm(layer: nn.LayerNorm, a: Tensor, g: Tensor) -> Squares:
    """Layer normalisation: one scale and shift per normalised element, summed over the rest."""
    x = F.layer_norm(a, layer.normalized_shape, None, None, layer.eps)
    elements = a[0].numel() // layer.weight.numel()
    scale = (x * g).reshape(len(a), elements, -1).sum(1)
    return _affine_squares(scale, g.reshape(len(a), elements, -1).sum(1))


@rule(nn.Embedding)
def embedding(layer: nn.Embedding, a: Tensor, g: Tensor) -> Squares:
    """Embedding: rows used twice by a sample add up, ‖Σ‖² = Σ_{s,t} [a_s = a_t] g_s·g_t."""
    ids, rows = a.reshape(len(a), -1), g.reshape(len(a), -1, g.shape[-1])
    if layer.padding_idx is not None:
        rows = rows * (ids != layer.padding_idx)[..., None]

    def grams(ids: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        same = ids[:, None, :, None] == ids[:, None, None, :]
        return same.to(rows.dtype), (rows @ rows.transpose(1, 2))[:, None]

    parts = _chunks(len(a), ids.shape[1] ** 2)
    return {"weight": torch.cat([_gram_total(grams, ids[part], rows[part]) for part in parts])}


def _outer_sum_squares(a: Tensor, g: Tensor) -> Tensor:
    """Return ‖Σ_t g_t a_tᵀ‖² per sample by the cheaper of two exact routes.

    Args:
        a: [N, G, K, T].
        g: [N, G, O, T].

    Returns:
        [N], summed over the groups G.
    """
    fan_in, fan_out, positions = a.shape[2], g.shape[2], a.shape[3]
    gram = positions**2 * (fan_in + fan_out) < positions * fan_in * fan_out
    floats_per_sample = a.shape[1] * (positions**2 if gram else fan_in * fan_out)
    squares = []
    for rows in _chunks(len(a), floats_per_sample):
        x, y = a[rows], g[rows]
        if gram:
            squares.append(_gram_total(_grams, x, y))
        else:
            squares.append((y @ x.transpose(2, 3)).square().sum((1, 2, 3)))
    return torch.cat(squares)


def _grams(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return a.transpose(2, 3) @ a, g.transpose(2, 3) @ g


def _gram_total(
    grams: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], a: Tensor, g: Tensor
) -> Tensor:
    """Return Σ_{s,t} A_st G_st per sample, for the Gram matrices of inputs and gradients.

    Where the terms cancel, rounding would show in the sum: those samples are summed up again in
    double precision.

    Args:
        grams: Makes both matrices [N, G, T, T] from ``a`` and ``g``.
        a: What the inputs' matrix is made of [N, ...].
        g: What the gradients' matrix is made of [N, ...].

    Returns:
        [N].
    """
    left, right = grams(a, g)
    total = (left * right).sum((1, 2, 3))
    if g.dtype == torch.float64:
        return total.clamp_min(0)
    diagonals = (left.diagonal(dim1=2, dim2=3) * right.diagonal(dim1=2, dim2=3)).clamp_min(0)
    size = diagonals.sqrt().sum((1, 2)).square()
    doubtful = total * left.shape[-1] < _CANCELLED * size
    if bool(doubtful.any()):
        again = a[doubtful].double() if a.is_floating_point() else a[doubtful]
        total[doubtful] = _gram_total(grams, again, g[doubtful].double()).to(total.dtype)
    return total.clamp_min(0)


def _sum_positions(x: Tensor) -> Tensor:
    """Sum [N, C, ...] over what follows the channels."""
    return x.reshape(*x.shape[:2], -1).sum(2)


def _affine_squares(scale: Tensor, shift: Tensor) -> Squares:
    return {"weight": scale.square().sum(1), "bias": shift.square().sum(1)}


def _chunks(samples: int, floats_per_sample: int) -> Iterator[slice]:
    """Split the samples so that scratch tensors stay within the budget."""
    step = max(1, _CHUNK_FLOATS // max(1, floats_per_sample))
    for start in range(0, samples, step):
        yield slice(start, start + step)


def _as(buffer: Tensor | None, like: Tensor) -> Tensor | None:
    return None if buffer is None else buffer.to(like.dtype)


def _is_unusual(parameter: nn.Parameter) -> bool:
    # A hook on the parameter may change its gradient, as masks do.
    return parameter.is_complex() or bool(parameter._backward_hooks)  # noqa: SLF001


def _changes_its_gradient(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Embedding) and (
        layer.max_norm is not None or layer.scale_grad_by_freq
    )
