"""A training's whole state on disk, so that it goes on from an epoch's end as if never stopped."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from steepest.core.tensor_file import read_tensors, write_tensors
from steepest.errors import DataError, InputError, SlowPathWarning

_SECONDS = 60.0


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
            key: What tells this training from others.
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
