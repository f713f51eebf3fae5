"""The fused kernels as operators of torch, opaque to tracing, compiling and graph capture."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.kernels.shapes import Problem, arranged, from_convolution, from_linear

_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
_LIBRARY = torch.library.Library("steepest", "FRAGMENT")
_WINDOW = "int[] kernel, int[] stride, int[] padding, int[] dilation"


def available(tensor: Tensor) -> bool:
    """Say whether the fused kernels can run on a tensor of this kind."""
    if tensor.dtype not in _DTYPES or not _has_triton():
        return False
    return tensor.is_cuda or (tensor.device.type == "cpu" and _is_interpreted())


def outer_squares(a: Tensor, g: Tensor, tf32: bool) -> Tensor:
    """Return ‖Σ_t g_t a_tᵀ‖² per sample, tile by tile of the gradient.

    Args:
        a: Inputs [N, T, K].
        g: Gradients at the output [N, T, O].
        tf32: Whether single precision may be multiplied in the TensorFloat-32 format.

    Returns:
        [N], in single precision.
    """
    squares: Tensor = torch.ops.steepest.outer_squares(a, g, tf32)
    return squares


def gram_squares(a: Tensor, g: Tensor, tf32: bool) -> tuple[Tensor, Tensor]:
    """Return the same as ``outer_squares`` from the products of pairs of positions.

    Args:
        a: Inputs [N, T, K].
        g: Gradients at the output [N, T, O].
        tf32: Whether single precision may be multiplied in the TensorFloat-32 format.

    Returns:
        The squares [N], and (Σ_t ‖a_t‖‖g_t‖)² [N]: against it one sees whether terms cancelled.
    """
    total, size = torch.ops.steepest.gram_squares(a, g, tf32)
    return total, size


def convolution_squares(
    a: Tensor,
    g: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    tf32: bool,
    gram: bool,
) -> tuple[Tensor, Tensor]:
    """Return the squared norm of a convolution's weight gradient per sample.

    Args:
        a: Inputs [N, C, *S] of one to three spatial dimensions.
        g: Gradients at the output [N, O, *T].
        kernel: Size of the kernel; one number per spatial dimension, as all that follow.
        stride: Its stride.
        padding: Zeros on both sides of the input.
        dilation: Its dilation.
        tf32: Whether single precision may be multiplied in the TensorFloat-32 format.
        gram: Whether to go by products of pairs of positions rather than by the gradient.

    Returns:
        The squares [N], and what to hold a sum of products against [N]; without ``gram``
        nothing can cancel and it is the squares again.
    """
    window = (list(kernel), list(stride), list(padding), list(dilation))
    if gram:
        total, size = torch.ops.steepest.convolution_gram_squares(a, g, *window, tf32)
        return total, size
    squares = torch.ops.steepest.convolution_outer_squares(a, g, *window, tf32)
    return squares, squares


def channel_sums(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ x·g and Σ g over the positions of [N, C, *S], each [N, C]."""
    products, plain = torch.ops.steepest.channel_sums(x, g)
    return products, plain


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _is_interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _precision(a: Tensor, tf32: bool) -> str:
    return "ieee" if _is_strict(a, tf32) else "tf32"


def _is_strict(a: Tensor, tf32: bool) -> bool:
    return a.dtype == torch.float32 and not tf32


def _by_tiles(problem: Problem, tf32: bool) -> Tensor:
    from steepest.gradnorm.kernels import bulk, instantiate, narrow, tiles

    precision = _precision(problem.a, tf32)
    if problem.is_narrow:
        tile = tiles.narrow_tile_for(problem, precision)
        return narrow.squares_by_patches(problem, tile, precision)
    if bulk.fits_bulk_copies(problem):
        return bulk.squares_by_boxes(problem, tiles.box_tile_for(problem))
    if _is_strict(problem.a, tf32):
        # Without tensor cores, neighbours in a tile have to be neighbours in memory.
        problem = arranged(problem, channels_last=True)
    tile = tiles.tile_for(problem, precision)
    return instantiate.squares_by_rows(problem, tile, precision)


def _by_pairs(problem: Problem, tf32: bool) -> tuple[Tensor, Tensor]:
    from steepest.gradnorm.kernels import gram, tiles

    precision = _precision(problem.a, tf32)
    if _is_strict(problem.a, tf32):
        problem = arranged(problem, channels_last=False)
    return gram.squares_by_pairs(problem, tiles.gram_tile_for(problem, precision), precision)


def _outer(a: Tensor, g: Tensor, tf32: bool) -> Tensor:
    return _by_tiles(from_linear(a, g), tf32)


def _gram(a: Tensor, g: Tensor, tf32: bool) -> tuple[Tensor, Tensor]:
    return _by_pairs(from_linear(a, g), tf32)


def _convolution_outer(a: Tensor, g: Tensor, *window: Any) -> Tensor:
    *sizes, tf32 = window
    return _by_tiles(from_convolution(a, g, *sizes), tf32)


def _convolution_gram(a: Tensor, g: Tensor, *window: Any) -> tuple[Tensor, Tensor]:
    *sizes, tf32 = window
    return _by_pairs(from_convolution(a, g, *sizes), tf32)


def _sums(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    from steepest.gradnorm.kernels.sums import sums_by_channel
    from steepest.gradnorm.kernels.tiles import sum_tile_for

    return sums_by_channel(x, g, sum_tile_for(g))


def _one_each(a: Tensor, g: Tensor, *_: Any) -> Tensor:  # noqa: ARG001
    return g.new_empty(g.shape[:1], dtype=torch.float32)


def _two_each(a: Tensor, g: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _one_each(a, g), _one_each(a, g)


def _two_by_channel(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = g.shape[:2]
    return g.new_empty(shape, dtype=torch.float32), g.new_empty(shape, dtype=torch.float32)


def _register(schema: str, function: Callable[..., Any], shapes: Callable[..., Any]) -> None:
    name = schema.split("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, function, "CUDA")
    # Triton's interpreter stands in for a GPU in tests.
    _LIBRARY.impl(name, function, "CPU")
    torch.library.register_fake(f"steepest::{name}", shapes, lib=_LIBRARY)


_register("outer_squares(Tensor a, Tensor g, bool tf32) -> Tensor", _outer, _one_each)
_register("gram_squares(Tensor a, Tensor g, bool tf32) -> (Tensor, Tensor)", _gram, _two_each)
_register(
    f"convolution_outer_squares(Tensor a, Tensor g, {_WINDOW}, bool tf32) -> Tensor",
    _convolution_outer,
    _one_each,
)
_register(
    f"convolution_gram_squares(Tensor a, Tensor g, {_WINDOW}, bool tf32) -> (Tensor, Tensor)",
    _convolution_gram,
    _two_each,
)
_register("channel_sums(Tensor x, Tensor g) -> (Tensor, Tensor)", _sums, _two_by_channel)
