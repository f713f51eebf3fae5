"""Weights on disk: written whole or not at all, read without running code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from steepest.errors import InputError, NonFiniteError
from steepest.files import write_atomically

_NAMED = 3
_NESTED = ("state_dict", "model")


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the model's state to a safetensors file, atomically.

    Raises:
        InputError: If the state holds something other than tensors, or cannot be written.
    """
    # Clones, because the format refuses tensors that share memory, as tied weights do.
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if not isinstance(value, Tensor):
            raise InputError(f"{name} is a {type(value).__name__}; only tensors can be saved")
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
    write_atomically(path, safetensors.torch.save(tensors, metadata={"format": "pt"}))


def load_weights(model: nn.Module, path: Path) -> None:
    """Load weights into a model; it stays as it was if anything does not fit.

    Args:
        model: Takes the weights, on whatever device it is.
        path: ``.safetensors``, or ``.pt`` / ``.pth`` with a state dict, which may be nested
            under ``state_dict`` or ``model``.

    Raises:
        InputError: If the file cannot be read, or its keys or shapes are not the model's.
        NonFiniteError: If a weight is NaN or infinite.
    """
    state = _read(path)
    _check_fit(model.state_dict(), state, path)
    for name, value in state.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise NonFiniteError(f"{path}: {name} has NaN or infinite weights; train it again")
    model.load_state_dict(state)


def _read(path: Path) -> dict[str, Tensor]:
    suffix = path.suffix.lower()
    if suffix not in (".safetensors", ".pt", ".pth"):
        raise InputError(f"{path}: weights are read from .safetensors, .pt or .pth files")
    try:
        if suffix == ".safetensors":
            return safetensors.torch.load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except Exception as error:  # damaged bytes make the readers raise almost anything
        remedy = "" if suffix == ".safetensors" else "; save model.state_dict() alone"
        raise InputError(f"{path}: cannot be read as weights{remedy}") from error
    return _find_state(found, path)


def _find_state(found: object, path: Path) -> dict[str, Tensor]:
    for key in _NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise InputError(f"{path}: holds no state dict; save model.state_dict() alone")
    return {str(name): value for name, value in found.items()}


def _check_fit(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    shapes = [
        f"{name} {list(found[name].shape)} instead of {list(wanted[name].shape)}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    problems = {
        "missing": [name for name in wanted if name not in found],
        "unexpected": [name for name in found if name not in wanted],
        "other shape": shapes,
    }
    said = [f"{what} {_list_some(names)}" for what, names in problems.items() if names]
    if said:
        raise InputError(f"{path}: weights of another model ({'; '.join(said)})")


def _list_some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
