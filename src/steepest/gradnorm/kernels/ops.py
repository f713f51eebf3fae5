"""The fused kernels as operators of torch, opaque to tracing, compiling and graph capture."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.kernels import tiles
from steepest.gradnorm.kernels.launch import PairRun, Run
from steepest.gradnorm.kernels.shapes import Problem, from_convolution, from_linear, layout

Key = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool]
"""Shape, strides, precision, device and alignment of a tensor: all that a plan depends on."""

Window = tuple[tuple[int, ...], ...]
"""Kernel, stride, padding and dilation; nothing for a linear layer."""

_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
_ALIGNED_BYTES = 16
_NOTHING = nullcontext()


def available(tensor: Tensor) -> bool:
    """Say whether the fused kernels can run on a tensor of this kind."""
    if not tensor.is_cuda and not (tensor.is_cpu and _is_interpreted()):
        return False
    if tensor.dtype not in _DTYPES or not _has_triton():
        return False
    return tensor.is_cpu or _is_recent(tensor.device)


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


@lru_cache(maxsize=1024)
def plan_outer(a: Key, g: Key, window: Window, tf32: bool) -> Run:
    """Plan squared norms by tiles of the gradient."""
    from steepest.gradnorm.kernels import bulk, instantiate, narrow

    problem, precision = _problem(a, g, window), _precision(tf32)
    if problem.is_narrow:
        return narrow.plan_patches(problem, tiles.narrow_tile_for(problem, precision), precision)
    if bulk.fits_bulk_copies(problem, a[3]):
        return bulk.plan_boxes(problem, tiles.box_tile_for(problem))
    return instantiate.plan_rows(problem, tiles.tile_for(problem, precision), precision)


@lru_cache(maxsize=1024)
def plan_gram(a: Key, g: Key, window: Window, tf32: bool) -> PairRun:
    """Plan squared norms by products of pairs of positions."""
    from steepest.gradnorm.kernels import gram

    problem, precision = _problem(a, g, window), _precision(tf32)
    return gram.plan_pairs(problem, tiles.gram_tile_for(problem, precision), precision)


@lru_cache(maxsize=1024)
def plan_sums(x: Key, g: Key) -> PairRun:
    """Plan sums over the positions of [N, C, T]."""
    from steepest.gradnorm.kernels import sums

    left, right = (layout(_like(key)[:, :, None, None]) for key in (x, g))
    return sums.plan_sums(left, right, tiles.sum_tile_for(right, g[2].itemsize))


def _problem(a: Key, g: Key, window: Window) -> Problem:
    sides = _like(a), _like(g)
    problem = from_convolution(*sides, *window) if window else from_linear(*sides)
    return replace(problem, is_aligned=a[4] and g[4])


def _like(key: Key) -> Tensor:
    """Return a tensor of that shape without numbers, to reshape it by torch's own rules."""
    shape, stride, dtype, *_ = key
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def _precision(tf32: bool) -> str:
    return "tf32" if tf32 else "ieee"


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def _is_recent(device: torch.device) -> bool:
    # Tiles are cut for the shared memory and the tensor cores of these.
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


@cache
def _is_interpreted() -> bool:
    # Triton itself asks no second time.
    return os.environ.get("TRITON_INTERPRET") == "1"


def _outer(a: Tensor, g: Tensor, tf32: bool) -> Tensor:
    if _is_strict(a, tf32):
        # Without tensor cores, neighbours in a tile have to be neighbours in memory.
        a, g = a.contiguous(), g.contiguous()
    with _on(a):
        return plan_outer(_key(a), _key(g), (), tf32)(a, g)


def _gram(a: Tensor, g: Tensor, tf32: bool) -> tuple[Tensor, Tensor]:
    if _is_strict(a, tf32):
        a, g = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (a, g))
    with _on(a):
        return plan_gram(_key(a), _key(g), (), tf32)(a, g)


def _convolution_outer(a: Tensor, g: Tensor, *rest: Any) -> Tensor:  # noqa: ANN401
    *window, tf32 = rest
    if _is_strict(a, tf32):
        a, g = (x.movedim(1, -1).contiguous().movedim(-1, 1) for x in (a, g))
    with _on(a):
        return plan_outer(_key(a), _key(g), tuple(map(tuple, window)), tf32)(a, g)


def _convolution_gram(a: Tensor, g: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    *window, tf32 = rest
    if _is_strict(a, tf32):
        a, g = a.contiguous(), g.contiguous()
    with _on(a):
        return plan_gram(_key(a), _key(g), tuple(map(tuple, window)), tf32)(a, g)


def _sums(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    x, g = x.flatten(2), g.flatten(2)
    with _on(x):
        return plan_sums(_key(x), _key(g))(x, g)


def _is_strict(a: Tensor, tf32: bool) -> bool:
    return a.dtype == torch.float32 and not tf32


def _key(x: Tensor) -> Key:
    return x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % _ALIGNED_BYTES == 0


def _on(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of a tensor the current one: Triton knows no other."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return _NOTHING
    return torch.cuda.device(x.device)


def _one_each(a: Tensor, g: Tensor, *_: object) -> Tensor:  # noqa: ARG001
    return g.new_empty(g.shape[:1], dtype=torch.float32)


def _two_each(a: Tensor, g: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return _one_each(a, g), _one_each(a, g)


def _two_by_channel(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    shape = g.shape[:2]
    return g.new_empty(shape, dtype=torch.float32), g.new_empty(shape, dtype=torch.float32)


def _register(
    library: Any,  # noqa: ANN401 - torch leaves it untyped
    signature: str,
    function: Callable[..., Any],
    shapes: Callable[..., Any],
) -> None:
    name = signature.partition("(")[0]
    library.define(signature)
    library.impl(name, function, "CUDA")
    # Triton's interpreter stands in for a GPU in tests.
    library.impl(name, function, "CPU")
    torch.library.register_fake(f"steepest::{name}", shapes, lib=library)


def _register_all() -> Any:  # noqa: ANN401 - torch leaves it untyped
    library: Any = torch.library.Library("steepest", "FRAGMENT")  # type: ignore[no-untyped-call]
    pair = "Tensor a, Tensor g"
    window = "int[] kernel, int[] stride, int[] padding, int[] dilation"
    one, two = "-> Tensor", "-> (Tensor, Tensor)"
    for signature, function, shapes in (
        (f"outer_squares({pair}, bool tf32) {one}", _outer, _one_each),
        (f"gram_squares({pair}, bool tf32) {two}", _gram, _two_each),
        (
            f"convolution_outer_squares({pair}, {window}, bool tf32) {one}",
            _convolution_outer,
            _one_each,
        ),
        (
            f"convolution_gram_squares({pair}, {window}, bool tf32) {two}",
            _convolution_gram,
            _two_each,
        ),
        (f"channel_sums({pair}) {two}", _sums, _two_by_channel),
    ):
        _register(library, signature, function, shapes)
    return library


_LIBRARY = _register_all()
"""Kept for as long as the process runs: the operators go when it does."""
