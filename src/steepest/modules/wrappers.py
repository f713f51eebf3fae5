"""Modules that people wrap models in: which are looked into, and which cannot be."""

from __future__ import annotations

from torch import nn

from steepest.errors import ModelError


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
                "the model is wrapped by Opacus, whose own gradients get in the way: give "
                "copy.deepcopy(model).to_standard_module(), or call disable_hooks() of the wrapper "
                "before and its enable_hooks() afterwards"
            )
        if names & {"FullyShardedDataParallel", "FSDPModule"} or _is_shared(module):
            raise ModelError(
                f"{type(module).__name__} holds its weights in parts, spread over processes: "
                "collect them by torch.distributed.checkpoint.state_dict.get_model_state_dict "
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
