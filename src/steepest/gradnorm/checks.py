"""What a model must be before its gradients can be measured."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from steepest.errors import ModelError, NonFiniteError
from steepest.gradnorm import inputs as batches


def check_mode(model: nn.Module) -> None:
    """Raise if a layer trains, or looks at the whole batch.

    Raises:
        ModelError: Names the layer.
    """
    for path, module in model.named_modules():
        if module.training:
            raise ModelError(f"{_place(path, module)} is in training mode: call model.eval() first")
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:  # noqa: SLF001
            raise ModelError(
                f"{_place(path, module)} normalises by batch statistics even in eval mode, so a "
                "per-sample gradient is not defined: build it with track_running_stats=True"
            )


def _place(path: str, module: nn.Module) -> str:
    return f"layer {path!r} ({type(module).__name__})" if path else "the model"


def check_weights(parameters: dict[str, nn.Parameter]) -> None:
    """Raise if a weight cannot be computed with.

    Raises:
        ModelError: If one has no shape yet.
        NonFiniteError: If one holds NaN or infinity.
    """
    for name, parameter in parameters.items():
        if nn.parameter.is_lazy(parameter):
            raise ModelError(f"the weight {name!r} has no shape yet: run the model once first")
        if not _is_finite(parameter):
            raise NonFiniteError(
                f"the weight {name!r} holds NaN or infinity: train again or load other weights"
            )


def _is_finite(parameter: nn.Parameter) -> bool:
    try:
        return bool(torch.isfinite(parameter.detach()).all())
    except (NotImplementedError, RuntimeError):
        return True  # A kind of number that torch cannot ask; a used one shows in the result.


def is_unusual(parameter: nn.Parameter) -> bool:
    """Say whether a parameter's gradient is not simply what the functions give it."""
    # A hook on the parameter may change its gradient, as masks do.
    return parameter.is_complex() or bool(parameter._backward_hooks)  # noqa: SLF001


def check_independence(small: Any, large: Any) -> None:  # noqa: ANN401
    """Raise if the first samples' outputs differ between a small and a large batch.

    Raises:
        ModelError: If they do, by more than rounding.
    """
    try:
        a = batches.logits_of(small).detach()
        b = batches.logits_of(large).detach()[: len(a)]
    except ModelError:
        return  # A loss of the user's own reads outputs that we cannot.
    if a.shape != b.shape or not bool(torch.isfinite(a).all()):
        return
    scale = a.abs().max().clamp_min(1e-6)
    if bool(((a - b).abs() > 1e-3 * scale).any()):
        raise ModelError(
            "the model's output for a sample changes with the other samples of its batch, or from "
            "call to call, so a per-sample gradient is not defined: switch off what mixes or "
            "draws (model.eval(); no functional dropout)"
        )
