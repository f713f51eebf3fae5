"""Weights on disk: written atomically, read without running code, loaded whole or in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from steepest.core.files import write_atomically
from steepest.core.wording import suggest
from steepest.errors import InputError, NonFiniteError
from steepest.modules.head import declared_layers
from steepest.modules.lazy import check_made

_NAMED = 3
_COUNTER = ".num_batches_tracked"
"""Ends the names of counters that old files lack."""
WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth", ".pth.tar", ".ckpt")
"""Suffixes of weight files, in lower case."""

_NESTED = ("state_dict", "model_state_dict", "model", "net")
_WRAPPERS = ("module.", "model.", "_orig_mod.")
"""Prefixes that wrappers such as DataParallel add to parameter names."""


@dataclass(frozen=True)
class LoadReport:
    """Outcome of loading a file of weights.

    Attributes:
        path: The file.
        loaded: Names in the model that have the file's values now.
        fresh: Names in the model that were left as they were.
        ignored: Names in the file that were not used.
    """

    path: Path
    loaded: tuple[str, ...]
    fresh: tuple[str, ...]
    ignored: tuple[str, ...]

    def __str__(self) -> str:
        said = f"{self.path}: {len(self.loaded)} of {len(self.loaded) + len(self.fresh)} loaded"
        for what, names in (("fresh", self.fresh), ("ignored", self.ignored)):
            said += f"; {what}: {_list_some(names)}" if names else ""
        return said


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


def load_weights(
    model: nn.Module,
    path: Path | str,
    *,
    layers: str | Sequence[str] | None = None,
    skip: str | Sequence[str] = (),
) -> LoadReport:
    """Load weights into a model; it stays as it was if anything does not fit.

    What is loaded must fit exactly: every tensor of the chosen layers is in the file, in the right
    shape, and the file has no others there. Names with what DataParallel and other wrappers put in
    front, and old files without ``num_batches_tracked``, are understood.

    Args:
        model: Takes the weights, on whatever device it is.
        path: ``.safetensors``, or ``.pt``, ``.pth`` or ``.ckpt`` with a state dict, which may be
            nested under ``state_dict``, ``model_state_dict``, ``model`` or ``net``.
        layers: Load these layers alone, such as ``("conv1", "bn1", "layer1")``; ``"backbone"`` is
            all but the model's ``head_layers``. None is all.
        skip: Leave these layers as they are, such as ``"fc"``.

    Raises:
        InputError: If the file cannot be read, its keys, shapes or kinds of numbers are not the
            model's, or the choice of layers leaves nothing.
        NonFiniteError: If a weight is NaN or infinite.
        ModelError: If lazy layers have no weights yet, so that their shapes are not known.
    """
    check_made(model)
    path = Path(path)
    raw = unwrap_names(read_state(path))
    wanted, found = model.state_dict(), rename_for(model, raw)
    choice = _Choice.of(model, layers, skip)
    choice.check(wanted, (*found, *raw), path)
    mine = {name: value for name, value in wanted.items() if choice.takes(name)}
    given = {name: value for name, value in found.items() if choice.takes(name)}
    _reset_counters(mine, given)
    _check_fit(mine, given, path)
    _check_kinds(mine, given, path)
    for name, value in given.items():
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise NonFiniteError(f"{path}: {name} has NaN or infinite weights; train it again")
    model.load_state_dict(given, strict=False)
    used = {id(value) for value in found.values()}
    dropped = [name for name, value in raw.items() if id(value) not in used]
    return LoadReport(
        path=path,
        loaded=tuple(mine),
        fresh=tuple(name for name in wanted if name not in mine),
        ignored=(*(name for name in found if name not in given), *dropped),
    )


@dataclass(frozen=True)
class _Choice:
    """Layers to load; None loads all but those to skip."""

    layers: tuple[str, ...] | None
    skip: tuple[str, ...]

    @classmethod
    def of(
        cls, model: nn.Module, layers: str | Sequence[str] | None, skip: str | Sequence[str]
    ) -> _Choice:
        left = _as_names(skip)
        if layers is None:
            return cls(None, left)
        named, heads = _as_names(layers), declared_layers(model, "head_layers")
        if named == ("backbone",) and heads:
            return cls(None, (*left, *heads))
        if named == ("backbone",) and not hasattr(model, "backbone"):
            raise InputError(
                f"{type(model).__name__} does not say what its backbone is: name its layers, or "
                "those to skip"
            )
        return cls(named, left)

    def takes(self, name: str) -> bool:
        if self.layers is not None and not _is_under(name, self.layers):
            return False
        return not _is_under(name, self.skip)

    def check(self, wanted: Iterable[str], given: Iterable[str], path: Path) -> None:
        """Raise if a layer is not there, or nothing is left."""
        names = list(wanted)
        for layer in self.layers or ():
            _check_layer(layer, names, "")
        for layer in self.skip:
            _check_layer(layer, [*names, *given], " or in the file")
        if names and not any(map(self.takes, names)):
            raise InputError(f"{path}: nothing is left to load: choose more layers or skip fewer")


def _as_names(layers: str | Sequence[str]) -> tuple[str, ...]:
    return (layers,) if isinstance(layers, str) else tuple(layers)


def _is_under(name: str, layers: Iterable[str]) -> bool:
    return any(name == layer or name.startswith(f"{layer}.") for layer in layers)


def _check_layer(layer: str, names: Iterable[str], where: str) -> None:
    known: set[str] = set()
    for name in names:
        parts = name.split(".")
        known.update(".".join(parts[:i]) for i in range(1, len(parts) + 1))
    if layer not in known:
        hint = suggest(layer, sorted(known)) or "name one that is there"
        raise InputError(f"no weights of a layer {layer!r} in the model{where}: {hint}")


def _reset_counters(wanted: Mapping[str, Tensor], found: dict[str, Tensor]) -> None:
    """Reset the counter of statistics that come without one."""
    for name, value in wanted.items():
        layer = name.removesuffix(_COUNTER)
        if layer != name and name not in found and f"{layer}.running_mean" in found:
            found[name] = torch.zeros_like(value)


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
        common = any(name in found and found[name].shape == wanted[name].shape for name in wanted)
        remedy = ": choose layers that fit, or skip those that do not" if common else ""
        raise InputError(f"{path}: weights of another model ({'; '.join(said)}){remedy}")


def _check_kinds(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], path: Path) -> None:
    """Raise on values that are not weights, which torch would convert silently."""
    strange = [
        name
        for name, value in wanted.items()
        if value.is_floating_point() and not found[name].is_floating_point()
    ]
    if strange:
        kinds = sorted({str(found[name].dtype).removeprefix("torch.") for name in strange})
        raise InputError(
            f"{path}: {_list_some(strange)} of type {', '.join(kinds)}, where the model has "
            "floating-point weights; save model.state_dict() as it was trained, not quantised"
        )


def _list_some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


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
    """Return a state without the prefixes of wrappers such as DataParallel."""
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
