"""Work around a wrong gradient of torch.

On a CPU, torch 2.13 misreads the gradient of an evaluating batch normalisation where some size is
1, as for one sample, if its strides are not those of the input, as behind
``x.flatten(2).transpose(1, 2).flatten(1)``; and that of an instance normalisation if its strides
are not plain. A copy has the right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_AS_INPUT = {F.batch_norm, torch.batch_norm}
_ALWAYS_READ = 3
"""Inputs of so many dimensions at most are read as they are."""
_PLAIN = {F.instance_norm, torch.instance_norm}
CONCERNED = frozenset(_AS_INPUT | _PLAIN)
"""Functions whose gradient may be wrong."""


def plain_strides(samples: Tensor) -> AbstractContextManager[object]:
    """Let normalisations of samples [N, ...] get gradients with the right strides."""
    concerned = samples.device.type == "cpu" and torch.is_grad_enabled()
    return _PlainStrides() if concerned else nullcontext()


def straighten(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    result: Any,  # noqa: ANN401 - of any function
) -> None:
    """Let the result of a normalisation get a gradient with the right strides where it matters.

    Args:
        func: Any function.
        args: Its positional arguments.
        kwargs: Its named arguments.
        result: Its return value.
    """
    if func in _PLAIN:
        like = torch.empty(result.shape, device="meta")
    elif func in _AS_INPUT and 1 in result.shape and result.ndim > _ALWAYS_READ:
        like = torch.empty_like(args[0] if args else kwargs["input"], device="meta")
    else:
        return
    # A leaf is a normalised weight that is watched: no gradient is passed on from there.
    if result.is_cpu and result.requires_grad and not result.is_leaf:
        wanted = like.stride()
        result.register_hook(lambda gradient: _laid_out(gradient, wanted))


class _PlainStrides(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        straighten(func, args, kwargs, result)
        return result


def _laid_out(gradient: Tensor, strides: tuple[int, ...]) -> Tensor:
    if gradient.stride() == strides:
        return gradient
    copy = torch.empty_strided(
        gradient.shape, strides, dtype=gradient.dtype, device=gradient.device
    )
    return copy.copy_(gradient)
