"""Fused batch normalisation as operators of torch, opaque to tracing and graph capture."""

from __future__ import annotations

import importlib.util
import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from steepest.training.fast.kernels import formulas
from steepest.training.fast.kernels.formulas import Gradients, Normed

_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
_NORMED = (
    "normed(Tensor x, Tensor weight, Tensor bias, Tensor(a!) running_mean, "
    "Tensor(b!) running_var, float momentum, float eps, Tensor? residual, bool relu) "
    "-> (Tensor, Tensor, Tensor)"
)
_NORMED_BACKWARD = (
    "normed_backward(Tensor first, Tensor? second, Tensor x, Tensor? result, Tensor mean, "
    "Tensor inverse, Tensor weight, Tensor bias, bool relu, bool keep) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
_FEW = "few_channels(Tensor x, Tensor weight, int stride, int padding) -> Tensor"
_FEW_WEIGHT = (
    "few_channels_weight(Tensor g, Tensor x, int kernel, int stride, int padding) -> Tensor"
)


def available(x: Tensor) -> bool:
    """Say whether the kernels can run on tensors of this kind and layout."""
    return x.dtype in _DTYPES and _channels_are_neighbours(x) and runs_on(x.device)


def runs_on(device: torch.device) -> bool:
    """Say whether kernels can run on a device; on a CPU Triton can interpret them."""
    if not has_triton():
        return False
    if device.type == "cuda":
        return torch.version.hip is None
    return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"


@cache
def has_triton() -> bool:
    """Say whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def _channels_are_neighbours(x: Tensor) -> bool:
    if x.dim() == 4:
        return x.is_contiguous(memory_format=torch.channels_last)
    if x.dim() == 5:
        return x.is_contiguous(memory_format=torch.channels_last_3d)
    return x.dim() == 2 and x.is_contiguous()


def _normed(x: Tensor, *rest: Any) -> Normed:  # noqa: ANN401 - as in the formulas
    if not available(x):
        return formulas.normed(x, *rest)
    from steepest.training.fast.kernels.launch import run_normed

    weight, bias, mean, variance, momentum, eps, residual, relu = rest
    state = (weight, bias, mean, variance)
    with on_device_of(x):
        return run_normed(x, *state, momentum, eps, _like(residual, x), relu)


def _normed_backward(
    first: Tensor,
    second: Tensor | None,
    x: Tensor,
    result: Tensor | None,
    *rest: Any,  # noqa: ANN401 - as in the formulas
) -> Gradients:
    if not available(x):
        return formulas.normed_backward(first, second, x, result, *rest)
    from steepest.training.fast.kernels.launch import run_normed_backward

    laid_out = _like(first, x)
    with on_device_of(x):
        return run_normed_backward(laid_out, _like(second, x), x, _like(result, x), *rest)


def _few_channels(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    if not available(x):
        return formulas.few_channels(x, weight, stride, padding)
    from steepest.training.fast.kernels.few_channels import run_few_channels

    weight = weight.contiguous(memory_format=torch.channels_last)
    with on_device_of(x):
        return run_few_channels(x, weight, stride, padding)


def _few_channels_weight(g: Tensor, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    if not available(x):
        return formulas.few_channels_weight(g, x, kernel, stride, padding)
    from steepest.training.fast.kernels.few_channels import run_few_channels_weight

    g = g.contiguous(memory_format=torch.channels_last)
    with on_device_of(x):
        return run_few_channels_weight(g, x, kernel, stride, padding)


def _few_shapes(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    result = functional.conv2d(x, weight, None, stride, padding)
    return torch.empty_like(result, memory_format=torch.channels_last)


def _few_weight_shapes(g: Tensor, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:  # noqa: ARG001
    shape = (g.shape[1], x.shape[1], kernel, kernel)
    return torch.empty_like(g.new_empty(shape), memory_format=torch.channels_last)


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of a tensor the current one: Triton knows no other."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def _like(tensor: Tensor | None, x: Tensor) -> Any:  # noqa: ANN401 - None stays None
    """Return a tensor in the memory layout of another one."""
    if tensor is None or tensor.stride() == x.stride():
        return tensor
    return torch.empty_like(x, dtype=tensor.dtype).copy_(tensor)


def _normed_shapes(x: Tensor, weight: Tensor, *_: object) -> Normed:
    wide = weight.dtype
    return torch.empty_like(x), torch.empty_like(weight, dtype=wide), torch.empty_like(weight)


def _backward_shapes(
    first: Tensor,
    second: Tensor | None,  # noqa: ARG001
    x: Tensor,
    result: Tensor | None,  # noqa: ARG001
    mean: Tensor,
    inverse: Tensor,  # noqa: ARG001
    weight: Tensor,  # noqa: ARG001
    bias: Tensor,  # noqa: ARG001
    relu: bool,  # noqa: ARG001
    keep: bool,
) -> Gradients:
    kept = torch.empty_like(x, dtype=first.dtype) if keep else first.new_empty(0)
    return torch.empty_like(x), torch.empty_like(mean), torch.empty_like(mean), kept


def _register_all() -> Any:  # noqa: ANN401 - torch leaves it untyped
    library: Any = torch.library.Library("steepest", "FRAGMENT")  # type: ignore[no-untyped-call]
    for signature, function, shapes in (
        (_NORMED, _normed, _normed_shapes),
        (_NORMED_BACKWARD, _normed_backward, _backward_shapes),
        (_FEW, _few_channels, _few_shapes),
        (_FEW_WEIGHT, _few_channels_weight, _few_weight_shapes),
    ):
        name = signature.partition("(")[0]
        library.define(signature)
        library.impl(name, function, "CUDA")
        library.impl(name, function, "CPU")
        torch.library.register_fake(f"steepest::{name}", shapes, lib=library)
    return library


_LIBRARY = _register_all()
"""Kept for as long as the process runs: the operators go when it does."""
