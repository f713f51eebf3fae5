"""Chooses the device to compute on and counts the usable cores."""

from __future__ import annotations

import os

import torch

from steepest.errors import ConfigError


def choose_device(name: str | torch.device) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU if available.

    Raises:
        ConfigError: If this machine has no such device.
    """
    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {str(name)!r} is not known: use auto, cpu or cuda") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {str(name)!r}: no such GPU is available here; use 'cpu'")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {str(name)!r} is not supported: use auto, cpu or cuda")
    return device


def usable_cores() -> int:
    """Return how many cores this process may run on, which can be fewer than the machine has."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
