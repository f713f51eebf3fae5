"""Keep a wrong gradient of torch's own from what is measured.

On a CPU, torch 2.13 misreads the gradient of an evaluating batch normalisation of one sample, and
of an instance normalisation of any number, if its strides are those of a permuted tensor in all
but the first dimension, as behind ``x.flatten(2).transpose(1, 2).flatten(1)``. A copy has others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_OF_ONE = {F.batch_norm, torch.batch_norm}
_OF_ANY = {F.instance_norm, torch.instance_norm}


def plain_strides(samples: Tensor) -> AbstractContextManager[object]:
    """Let normalisations of samples [N, ...] get gradients with plain strides where it matters."""
    concerned = samples.device.type == "cpu" and torch.is_grad_enabled()
    return _PlainStrides() if concerned else nullcontext()


def straighten(func: Callable[..., Any], result: Any) -> None:  # noqa: ANN401 - of any function
    """Let the result of a normalisation get a gradient with plain strides where it matters."""
    concerned = func in _OF_ANY or (func in _OF_ONE and len(result) == 1)
    # A leaf is a normalised weight that is watched: no gradient goes on from there.
    if concerned and result.is_cpu and result.requires_grad and not result.is_leaf:
        result.register_hook(_plain)


class _PlainStrides(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        straighten(func, result)
        return result


def _plain(gradient: Tensor) -> Tensor:
    plain = torch.empty(gradient.shape, dtype=gradient.dtype, device=gradient.device)
    return gradient if gradient.stride() == plain.stride() else plain.copy_(gradient)
