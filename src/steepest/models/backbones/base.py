"""A net that turns samples into features, the preparation of a sample, and weights of one's own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from steepest.errors import InputError, ModelError, NonFiniteError
from steepest.modules.fingerprint import fingerprint
from steepest.modules.weights import WEIGHT_SUFFIXES, read_state, rename_for, unwrap_names

Kind = Literal["images", "text"]
"""Kinds of input that a backbone takes."""

_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
_IDENTITY_DIGITS = 16
_COUNTER = "num_batches_tracked"
_SEPARATOR = "@"
"""Stands between a net's name and a file of its weights."""


def _stacked(samples: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(samples))


@dataclass(frozen=True, eq=False)
class Backbone:
    """A pretrained net, by its name.

    Attributes:
        name: As users type it.
        model: In eval mode; called with a batch, it returns features [N, D].
        prepare: Turns one sample, an RGB image of Pillow or a text, into what ``collate`` takes.
        preprocessing: What ``prepare`` and ``collate`` do, in words that change with it.
        kind: The net's input.
        collate: Makes a batch of prepared samples; by default they are stacked.
        quick: The same net in a form that computes faster, if there is one.
        needed_side: An image may be decoded smaller, as long as no side gets shorter than this;
            0 if it must be decoded as it is.
    """

    name: str
    model: nn.Module
    prepare: Callable[[Any], Any]
    preprocessing: str
    kind: Kind = "images"
    collate: Callable[[Sequence[Any]], Any] = _stacked
    quick: nn.Module | None = None
    needed_side: int = 0

    @cached_property
    def weights(self) -> str:
        """Hex digits that change with any weight or layer of the net."""
        return fingerprint(self.model)

    @cached_property
    def identity(self) -> str:
        """Hex digits that change with whatever decides the features of a sample."""
        parts = (self.name, self.kind, self.weights, _PLACE.sub("", self.preprocessing))
        digest = hashlib.blake2b("\x1f".join(parts).encode())
        return digest.hexdigest()[:_IDENTITY_DIGITS]

    @torch.inference_mode()
    def features(self, samples: Sequence[Any], device: torch.device | str = "cpu") -> Tensor:
        """Return the features of prepared samples [N, D], as float32 on the CPU.

        Raises:
            ModelError: If the net does not return a row for each sample.
            NonFiniteError: If a feature is NaN or infinite.
        """
        model = (self.model if self.quick is None else self.quick).to(device).eval()
        batch = self.collate(samples)
        if isinstance(batch, Tensor):
            form = torch.channels_last if batch.ndim == 4 else torch.preserve_format
            rows = model(batch.to(device, memory_format=form))
        else:
            rows = model(**{name: value.to(device) for name, value in batch.items()})
        return _checked(rows, len(samples), self.name)


def _checked(rows: object, count: int, name: str) -> Tensor:
    if not isinstance(rows, Tensor) or rows.ndim < 2 or len(rows) != count:
        found = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise ModelError(
            f"backbone {name!r} returned {found} for {count} samples: it must return features "
            f"[{count}, D]"
        )
    # Of maps [N, D, H, W] the mean over their positions.
    rows = rows.flatten(2).mean(2) if rows.ndim > 2 else rows
    rows = rows.float().cpu()
    if not bool(rows.isfinite().all()):
        raise NonFiniteError(f"backbone {name!r} returned NaN or infinity: look at its weights")
    return rows


def missing_library(name: str, library: str, command: str) -> InputError:
    """Return the error of a library that a backbone needs and that is not installed.

    Args:
        name: Of the backbone.
        library: Its name.
        command: Installs it.
    """
    return InputError(f"backbone {name!r} needs {library}, which is not installed: run {command}")


def split_file(name: str) -> tuple[str, Path | None]:
    """Return the name of a net and the file of its weights, if one is given.

    ``timm:resnet18@mine.safetensors`` has both, and ``mine.safetensors`` a file alone.
    """
    if not name.lower().endswith(WEIGHT_SUFFIXES):
        return name, None
    net, _, file = name.rpartition(_SEPARATOR)
    return net, Path(file).expanduser()


def load_own_weights(model: nn.Module, path: Path, name: str) -> None:
    """Load a file into a net without its head; weights of a head are skipped.

    Raises:
        InputError: If the file cannot be read, or is of another net.
    """
    found = rename_for(model, unwrap_names(read_state(path)))
    wanted = model.state_dict()
    missing = [key for key in wanted if key not in found and not key.endswith(_COUNTER)]
    odd = [key for key in wanted if key in found and found[key].shape != wanted[key].shape]
    if missing or odd:
        first = (missing or odd)[0]
        what = "has no" if missing else "has another shape of"
        raise InputError(
            f"{path} is not of the net {name!r}: it {what} {first}; name its net, as in "
            f"timm:resnet50{_SEPARATOR}{path.name}"
        )
    model.load_state_dict({key: found[key] for key in wanted if key in found}, strict=False)
