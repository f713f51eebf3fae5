"""Reading weights from files of many origins, without running code from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from steepest.errors import InputError

WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth", ".pth.tar", ".ckpt")
"""Suffixes of weight files, in lower case."""

_NESTED = ("state_dict", "model_state_dict", "model", "net")
_WRAPPERS = ("module.", "model.", "_orig_mod.")
"""Prefixes that wrappers such as DataParallel add to parameter names."""


def read_state(path: Path) -> dict[str, Tensor]:
    """Read a state dict as it is.

    Args:
        path: ``.safetensors``, or a file of ``torch.save`` with a state dict, which may be nested
            under ``state_dict``, ``model_state_dict``, ``model`` or ``net``.

    Raises:
        InputError: If the file is missing, damaged or holds something else.
    """
    name = path.name.lower()
    if not name.endswith(WEIGHT_SUFFIXES):
        known = f"{', '.join(WEIGHT_SUFFIXES[:-1])} and {WEIGHT_SUFFIXES[-1]}"
        raise InputError(f"{path}: weights are read from {known} files")
    safe = name.endswith(".safetensors")
    try:
        if safe:
            return safetensors.torch.load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except Exception as error:  # damaged bytes make the readers raise almost anything
        remedy = "" if safe else "; save model.state_dict() alone"
        raise InputError(f"{path}: cannot be read as weights{remedy}") from error
    return _find_state(found, path)


def unwrap_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state without what wrappers such as DataParallel put in front of every name."""
    outer = len(_find_wrapper(state))
    return {name[outer:]: value for name, value in state.items()}


def rename_for(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return an unwrapped state under the names that the model has for it.

    If the model is wrapped, so are they. A model whose published weights have other names
    translates them by ``rename_weights``, a function from one state dict to another; what it drops
    has no place in the model.
    """
    rename = getattr(model, "rename_weights", dict)
    inner = _find_wrapper(model.state_dict())
    return {inner + name: value for name, value in rename(state).items()}


def _find_state(found: object, path: Path) -> dict[str, Tensor]:
    for key in _NESTED:
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise InputError(f"{path}: holds no state dict; save model.state_dict() alone")
    return {str(name): value for name, value in found.items()}


def _find_wrapper(names: Iterable[str]) -> str:
    names, wrapper = list(names), ""
    while names:
        longer = (wrapper + part for part in _WRAPPERS)
        shared = next((w for w in longer if all(name.startswith(w) for name in names)), None)
        if shared is None:
            break
        wrapper = shared
    return wrapper
