"""Turns cuDNN off where needed: its recurrent layers refuse a backward pass in eval mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from steepest.gradnorm.watch.recurrent import LAYERS

_SCRIPTED = frozenset({"LSTM", "GRU", "RNN"})


class CudnnUse:
    """Whether a model can be measured with cuDNN.

    It is switched off for a model with recurrent layers, wherever their forward pass may come from:
    a checkpoint runs them once more in the backward pass.

    Args:
        layers: All modules of the model.
    """

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        self._recurrent = [layer for layer in layers if _is_recurrent(layer)]
        self._before = True

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Let every function of the model have a backward pass."""
        self._before = torch.backends.cudnn.enabled
        with cudnn_allowed(self._before and not self._recurrent):
            yield

    def beside(self) -> AbstractContextManager[object]:
        """Let convolutions use cuDNN all the same where every recurrent layer is seen.

        ``run`` does without it there. A scripted one is not seen.
        """
        if any(isinstance(layer, torch.jit.ScriptModule) for layer in self._recurrent):
            return nullcontext()
        return cudnn_allowed(self._before)


def run(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Call any torch function, such that its result can be sent back."""
    if func not in LAYERS or not torch.is_grad_enabled():
        return func(*args, **kwargs)
    with cudnn_allowed(False):
        return func(*args, **kwargs)


def _is_recurrent(layer: nn.Module) -> bool:
    if isinstance(layer, torch.jit.ScriptModule):
        return layer.original_name in _SCRIPTED
    return isinstance(layer, nn.RNNBase)


@contextmanager
def cudnn_allowed(allowed: bool) -> Iterator[None]:
    """Allow cuDNN or do without it; the process's setting is restored afterwards."""
    cudnn = torch.backends.cudnn
    before = cudnn.enabled
    cudnn.enabled = allowed
    try:
        yield
    finally:
        cudnn.enabled = before
