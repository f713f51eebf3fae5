"""A training's whole state on disk, and what identifies the training that it belongs to."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from steepest.core.tensor_file import read_tensors, write_tensors
from steepest.data.streamed import Streamed
from steepest.errors import DataError, InputError, SlowPathWarning
from steepest.modules.fingerprint import fingerprint
from steepest.tasks import Task
from steepest.training.batches import LabelledImages
from steepest.training.recipe import Recipe

_SECONDS = 60.0
_LOOKED_AT_BYTES = 1 << 24
"""Of images in memory: all pixels of a few thousand small ones, some pixels of each of more."""

_READ = 4
"""Samples that are read of a column on disk."""

_ROWS_AT_ONCE = 1024
_PLACE = re.compile(r" at 0x[0-9a-fA-F]+")
"""Memory addresses in a repr, which change between processes."""


class Checkpoint:
    """The latest state of one training, written at most so often.

    Args:
        path: The file; what it holds of another training is left alone until it is written over.
        every_seconds: How long a training runs before its state is written again.
    """

    def __init__(self, path: Path, every_seconds: float = _SECONDS) -> None:
        self.path = path
        self._every_seconds = every_seconds
        self._written = time.monotonic()

    def save_if_due(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        epochs: int,
        seconds: float,
        key: str,
    ) -> None:
        """Write the state after so many epochs, if it is time to.

        Args:
            model: With its weights and statistics.
            optimizer: With its momentum.
            epochs: How many are done.
            seconds: How long they took.
            key: The identity of this training.
        """
        if time.monotonic() - self._written < self._every_seconds:
            return
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for number, parameter in enumerate(_parameters(optimizer)):
            for name, value in optimizer.state[parameter].items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{number}.{name}"] = value
        for name, value in _random_states(model).items():
            tensors[f"random.{name}"] = value
        about = {"epochs": epochs, "seconds": seconds, "key": key}
        self._written = time.monotonic()
        try:
            write_tensors(self.path, tensors, about)
        except InputError as error:
            warnings.warn(f"the training goes on without: {error}", SlowPathWarning, stacklevel=3)

    def restore(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, key: str
    ) -> tuple[int, float]:
        """Put the state back if it is this training's.

        Returns:
            The epochs that are done and the seconds they took; 0 if there is nothing to go on from.
        """
        found = _read(self.path, key)
        if found is None:
            return 0, 0.0
        epochs, seconds, tensors = found
        model.load_state_dict(_part(tensors, "model."))
        for number, parameter in enumerate(_parameters(optimizer)):
            for name, value in _part(tensors, f"optimizer.{number}.").items():
                # Laid out as the parameter is, or sums would be taken in another order.
                kept = torch.empty_like(parameter) if value.shape == parameter.shape else value
                optimizer.state[parameter][name] = kept.copy_(value).to(parameter.device)
        _set_random_states(model, _part(tensors, "random."))
        return epochs, seconds


def _read(path: Path, key: str) -> tuple[int, float, dict[str, Tensor]] | None:
    try:
        found = read_tensors(path)
    except DataError as error:
        # A checkpoint saves time and nothing else.
        warnings.warn(f"the training begins anew: {error}", SlowPathWarning, stacklevel=4)
        return None
    if found is None:
        return None
    tensors, about = found
    return (about["epochs"], about["seconds"], tensors) if about["key"] == key else None


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _random_states(model: nn.Module) -> dict[str, Tensor]:
    states = {"cpu": torch.default_generator.get_state()}
    device = next(model.parameters()).device
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_random_states(model: nn.Module, states: dict[str, Tensor]) -> None:
    torch.default_generator.set_state(states["cpu"])
    device = next(model.parameters()).device
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)


def identify_training(
    model: nn.Module,
    task: Task,
    data: LabelledImages,
    recipe: Recipe,
    *,
    augmentation: str,
    seed: int,
) -> str:
    """Return a text that identifies everything that affects the result of a training run.

    Labels in memory count in full. Of images each one counts, by all its pixels or by some; of
    a column on disk, which rows are taken and what a few of them hold.

    Args:
        model: Before the training: the weights that it begins from count.
        task: Its options count as far as it prints them.
        data: The labelled samples, cheapest to look at where they are before they are moved.
        recipe: How to train.
        augmentation: The one that is used.
        seed: Decides order, augmentation and dropout.
    """
    digest = hashlib.sha256()
    for part in (*_look(data.images, _LOOKED_AT_BYTES), *_look(data.labels, None)):
        digest.update(part.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    parts = [
        fingerprint(model),
        f"seed {seed}",
        f"{list(data.images.shape)} {data.images.dtype} samples",
        f"{list(data.labels.shape)} {data.labels.dtype} labels",
        f"content {digest.hexdigest()[:16]}",
        f"{_PLACE.sub('', repr(task))} of {getattr(task, 'classes', None)} classes",
        f"augmentation {augmentation}",
        f"mean {[float(m) for m in data.mean]}",
        f"std {[float(s) for s in data.std]}",
        str(recipe),
    ]
    return ", ".join(parts)


def _look(column: Tensor | Streamed, most_bytes: int | None) -> Iterator[Tensor]:
    """Yield what a column is known by; None looks at all that is in memory."""
    if isinstance(column, Streamed):
        yield column.rows
        places = torch.linspace(0, len(column) - 1, min(_READ, len(column)))
        yield column[places.round().long()]
        return
    values = math.prod(column.shape[1:])
    size = len(column) * values * column.element_size()
    least = 1 if most_bytes is None else max(1, math.ceil(size / most_bytes))
    # Prime to all sides of an image, or it would be known by a margin that all images share.
    step = next(s for s in itertools.count(least) if math.gcd(s, values) == 1)
    for part in torch.split(column, _ROWS_AT_ONCE):
        yield part.reshape(len(part), values)[:, ::step]
