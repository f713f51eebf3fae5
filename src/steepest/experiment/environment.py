"""Versions and hardware that a result depends on."""

from __future__ import annotations

import platform
from typing import Any

import torch

from steepest.version import __version__


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
