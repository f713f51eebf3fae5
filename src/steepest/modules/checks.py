"""Checks that a model's gradients can be measured, and the wrappers that are looked into."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError, NonFiniteError
from steepest.modules import batches
from steepest.modules.precision import allowed, differ, largest

MIXED = (
    "the model's output for a sample changes with the other samples of its batch, or from call to "
    "call, so a per-sample gradient is not defined: switch off what mixes or draws (model.eval(); "
    "no functional dropout)"
)


def check_mode(layers: Mapping[str, nn.Module]) -> None:
    """Raise if one of a model's modules, by path, trains or looks at the whole batch.

    Raises:
        ModelError: Names the layer.
    """
    for path, module in layers.items():
        if module.training:
            raise ModelError(
                f"{_place(path, module)} is in training mode: {_say_eval(layers, module)}"
            )
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None:  # noqa: SLF001
            raise ModelError(
                f"{_place(path, module)} normalises by batch statistics even in eval mode, so a "
                "per-sample gradient is not defined: build it with track_running_stats=True"
            )


def _say_eval(layers: Mapping[str, nn.Module], module: nn.Module) -> str:
    if "eval" in vars(module):  # An exported program has its own method, which refuses.
        return "give the module that it was made from"
    if (root := layers.get("")) is not None and not root.training:
        return (
            "call model.eval() again, as some layers, such as those of einops, come out of "
            "copy.deepcopy in training mode"
        )
    return "call model.eval() first"


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
        if parameter.is_inference():
            raise ModelError(
                f"the weight {name!r} was made under torch.inference_mode, which takes its "
                "gradients away: make or load the model outside of it, or give copy.deepcopy(model)"
            )
        if not _is_finite(parameter):
            raise NonFiniteError(
                f"the weight {name!r} holds NaN or infinity: train again or load other weights"
            )


def _is_finite(parameter: nn.Parameter) -> bool:
    try:
        return bool(torch.isfinite(parameter.detach()).all())
    except (NotImplementedError, RuntimeError):
        return True  # A kind of number that torch cannot ask; a used one shows in the result.


def check_reached(losses: Sequence[Tensor]) -> None:
    """Raise if no loss leads back to any parameter: every norm would be 0.

    Raises:
        ModelError: Naming the function that detaches the outputs.
    """
    if not any(loss.requires_grad for loss in losses):
        raise ModelError(
            "no trainable parameter takes part in the model's outputs, so that every gradient is "
            "0: take torch.no_grad, inference_mode, detach and rounding out of its forward, or set "
            "requires_grad on what makes the logits; 'margin' and 'entropy' take no gradients"
        )


def check_found(reached: Collection[nn.Parameter], samples: int) -> None:
    """Raise if no parameter got a gradient from any loss, though they lead back to something.

    Raises:
        ModelError: Naming the likely destination of the gradients.
    """
    if samples and not reached:
        raise ModelError(
            "no trainable parameter gets a gradient, though the outputs have one: the model "
            "computes with other tensors than its parameters, such as copies or gathered ones; "
            "give the plain module that holds what it computes with"
        )


def is_unusual(parameter: nn.Parameter) -> bool:
    """Say whether a parameter's gradient is not simply what the functions give it."""
    # A hook on the parameter may change its gradient, as masks do.
    return parameter.is_complex() or bool(parameter._backward_hooks)  # noqa: SLF001


def check_independence(
    small: Any,  # noqa: ANN401
    large: Any,  # noqa: ANN401
    first: int = 0,
    *,
    coarseness: float = 0.0,
) -> None:
    """Raise if the same samples' outputs differ between a small and a large batch.

    Args:
        small: The outputs of some samples.
        large: The outputs of a batch that holds them side by side.
        first: Where they begin in it.
        coarseness: Of the numbers that the model computes with.

    Raises:
        ModelError: If they do, by more than rounding.
    """
    if not agree(small, large, first, coarseness):
        raise ModelError(MIXED)


def agree(small: Any, large: Any, first: int, coarseness: float) -> bool:  # noqa: ANN401
    """Say whether a model says the same of some samples alone and within a batch.

    Args:
        small: The outputs for some samples.
        large: The outputs for a batch.
        first: Where these samples begin in it.
        coarseness: Of the numbers that the model computes with.
    """
    try:
        a = batches.logits_of(small).detach()
        b = batches.logits_of(large).detach()[first : first + len(a)]
    except ModelError:
        return True  # A loss of the user's own reads outputs that we cannot.
    within = allowed(1e-3, coarseness) * largest(a)
    return a.shape != b.shape or not bool(differ(a, b, within).any())


def unspread(model: nn.Module) -> nn.Module:
    """Return the model within a wrapper that spreads training over devices.

    Replicas could not be watched, layers would go by other names, and processes that have another
    number of batches would wait for each other for ever.
    """
    while isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = model.module
    return model


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model itself, of a compiled one or of one that is spread over devices."""
    while True:
        inner = unspread(getattr(model, "_orig_mod", model))
        if inner is model:
            return model
        model = inner


def check_wrappers(model: nn.Module) -> None:
    """Refuse what changes gradients on their way, or has its weights elsewhere.

    Known by name, as none of the packages concerned has to be there.

    Raises:
        ModelError: Says the remedy.
    """
    for module in model.modules():
        names = {kind.__name__ for kind in type(module).__mro__}
        if _has_opacus_hooks(module) or "GradSampleModuleExpandedWeights" in names:
            raise ModelError(
                "the model is wrapped by Opacus, whose own gradient hooks interfere: give "
                "copy.deepcopy(model).to_standard_module(), or call disable_hooks() of the wrapper "
                "before and its enable_hooks() afterwards"
            )
        if names & {"FullyShardedDataParallel", "FSDPModule"} or _is_shared(module):
            raise ModelError(
                f"{type(module).__name__} holds its weights in parts, spread over processes: "
                "collect them with torch.distributed.checkpoint.state_dict.get_model_state_dict "
                "(full_state_dict=True) and load them into the model as it was before"
            )
        own = module._parameters.values()  # noqa: SLF001 - without those of its layers
        if hasattr(module, "_hf_hook") and any(p is not None and p.is_meta for p in own):
            raise ModelError(
                f"the weights of {type(module).__name__} are offloaded, and only come for a moment "
                "when they are needed: load the model without device_map or offloading"
            )


def _has_opacus_hooks(module: nn.Module) -> bool:
    """Say whether hooks of Opacus are at work, which expect training mode."""
    for hook in module._backward_hooks.values():  # noqa: SLF001
        capture = getattr(hook, "func", hook)
        named = getattr(capture, "__name__", "") == "capture_backprops_hook"
        if named and getattr(getattr(capture, "__self__", None), "hooks_enabled", False):
            return True
    return False


def _is_shared(module: nn.Module) -> bool:
    own = module._parameters.values()  # noqa: SLF001 - without those of its layers
    return any(type(p).__name__ == "DTensor" for p in own)


def check_company(alone: Any, rows: Tensor, together: Any, coarseness: float) -> None:  # noqa: ANN401
    """Raise if a model's output for samples differs between one by one and together.

    Args:
        alone: The outputs of a batch whose samples went through the model one by one.
        rows: Some of its samples.
        together: The model's output for these side by side.
        coarseness: Of the numbers that the model computes with.

    Raises:
        ModelError: If they do, by more than rounding.
    """
    try:
        logits = batches.logits_of(alone).detach()
    except ModelError:
        return  # A loss of the user's own reads outputs that we cannot.
    check_independence(logits[rows.to(logits.device)], together, coarseness=coarseness)
