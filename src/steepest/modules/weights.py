"""Weights on disk: written whole or not at all, loaded whole or in chosen parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from steepest.core.files import write_atomically
from steepest.core.nearest_names import suggest
from steepest.errors import InputError, NonFiniteError
from steepest.modules.checkpoint import read_state, rename_for, unwrap_names
from steepest.modules.head import declared_layers
from steepest.modules.lazy import check_made

_NAMED = 3
_COUNTER = ".num_batches_tracked"
"""Ends the names of counters that old files lack."""


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
    """Begin to count anew where statistics come without their counter."""
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
    """Refuse what is no weight where one is due: torch would convert it without a word."""
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
