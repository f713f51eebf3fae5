"""Keep a wrong gradient of torch's own from samples that are alone.

On a CPU, torch 2.13 misreads the gradient of an evaluating batch normalisation, or of an instance
normalisation, if there is one sample and the strides are those of a permuted tensor in all but the
first dimension, as behind ``x.flatten(2).transpose(1, 2).flatten(1)``. A copy has plain strides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_MISREAD = {F.batch_norm, torch.batch_norm, F.instance_norm, torch.instance_norm}


def plain_strides(samples: Tensor) -> AbstractContextManager[object]:
    """Let normalisations get gradients with plain strides while a sample is alone [1, ...]."""
    concerned = len(samples) == 1 and samples.device.type == "cpu" and torch.is_grad_enabled()
    return _PlainStrides() if concerned else nullcontext()


class _PlainStrides(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        if func in _MISREAD and result.requires_grad:
            result.register_hook(_copied)
        return result


def _copied(gradient: Tensor) -> Tensor:
    return torch.empty(gradient.shape, dtype=gradient.dtype, device=gradient.device).copy_(gradient)
