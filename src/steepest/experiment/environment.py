"""What a result depends on besides its configuration."""

from __future__ import annotations

import platform
from typing import Any

import torch

from steepest.errors import ConfigError
from steepest.version import __version__


def choose_device(name: str) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU if there is one.

    Raises:
        ConfigError: If there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device {name!r} is not known: use auto, cpu or cuda") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device {name!r}: no such GPU is available here; use 'cpu'")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not supported: use auto, cpu or cuda")
    return device


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for a record."""
    on_gpu = device.type == "cuda"
    return {
        "steepest": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "threads": torch.get_num_threads(),
    }
